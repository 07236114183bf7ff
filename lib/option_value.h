/* The texts of option values: numbers with units, switches, names, addresses and lists of them.
 * Each parser is strict and says in `why` what it expected; its caller adds the option's name and
 * what came. LKV_EOPTION. Any thread. */
#ifndef LIB_OPTION_VALUE_H
#define LIB_OPTION_VALUE_H

#include "base/slice.h"
#include "lib/options.h"

enum option_unit {
    UNIT_NONE,
    UNIT_BYTES, /* KiB, MiB, GiB */
    UNIT_MS     /* ms, s */
};

/* Digits and an optional unit, nothing else; `*out` within [min, max]. */
MUST_USE int option_number(const char *text, enum option_unit unit, uint64_t min, uint64_t max,
                           uint64_t *out, struct reason *why);
MUST_USE int option_switch(const char *text, bool *out, struct reason *why); /* on, off */

/* 1 to 63 of [A-Za-z0-9._-]. */
MUST_USE int option_name(struct slice text, char out[static NAME_SIZE], struct reason *why);

/* HOST:PORT, [V6]:PORT or unix:PATH; port 0 only with `any_port`. */
MUST_USE int option_address(struct slice text, bool any_port, char out[static ADDRESS_SIZE],
                            struct reason *why);

/* ID=ADDRESS,... and ADDRESS,...; empty: none. On failure the outputs are as they were. */
MUST_USE int option_peers(const char *text, struct option_peer out[static OPTION_PEERS_MAX],
                          size_t *count, struct reason *why);
MUST_USE int option_endpoints(const char *text, char out[static OPTION_ENDPOINTS_MAX][ADDRESS_SIZE],
                              size_t *count, struct reason *why);

#endif
