/* What a load asked and was answered, for checkers of consistency: one flushed line an event,
 *
 *   t_ns  process  invoke|ok|fail|info  put|get  key  value  rev    index  session:seq  node
 *   t_ns  process  invoke|ok|fail|info  append   -    first  count  index  session:seq  node
 *
 * separated by tabs. `fail` is definitely not done; `info` is unknown and stays open for ever, so its
 * process number is not used again. `rev` is of an ok: the put's, or that of the value read. `-` is
 * none; bytes are percent-encoded; of an append `first` is the number that its first record begins with,
 * the others count on from it, and `index` is that of its first record. Lines that begin with
 * # say what was run. */
#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include "bytes.h"

#include <stdint.h>
#include <stdio.h>

struct history_op {
    uint64_t process;
    bool is_get;
    struct lkv_bytes key, value; /* value of a put */
    uint64_t session, seq;       /* session 0: none */
    uint64_t records;            /* of an append, whose value is `first`; 0: none */
};

void history_head(FILE *file, const char *command, uint64_t seed);
void history_invoke(FILE *file, const struct history_op *op);
/* `rc` negative: nothing was submitted or this is the final message's. `answer` may be NULL. */
void history_return(FILE *file, const struct history_op *op, int rc, const struct lkv_msg *answer);

#endif
