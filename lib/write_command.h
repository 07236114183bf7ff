/* The writes that a caller or a client may ask for, as commands: limits and the meaning of ranges,
 * the same at both ends of a connection. */
#ifndef LIB_WRITE_COMMAND_H
#define LIB_WRITE_COMMAND_H

#include "kv/command.h"
#include "lib/limits.h"

/* Slices of `out` point into the arguments. LKV_EINVAL, LKV_ETOOLARGE, with the reason. */
MUST_USE int write_command_put(const struct limits *limits, struct slice key, struct slice value,
                               struct kv_command *out, struct reason *why);
MUST_USE int write_command_delete(const struct limits *limits, struct slice key,
                                  struct kv_command *out, struct reason *why);

/* Keys in [from, to); empty: from the first key, up to the last key. */
MUST_USE int write_command_delete_range(const struct limits *limits, struct slice from,
                                        struct slice to, struct kv_command *out,
                                        struct reason *why);

/* The same ends as a command has them. The slices point into the arguments, or are static. */
void write_command_span(struct slice from, struct slice to, struct slice *key, struct slice *end);

/* A decoded command of somebody else's. */
MUST_USE int write_command_check(const struct limits *limits, const struct kv_command *command,
                                 struct reason *why);

#endif
