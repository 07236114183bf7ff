/* One write with conditions: what is asked for, and what is told of its answer. */
#ifndef CLI_CHANGE_H
#define CLI_CHANGE_H

#include "store.h"

/* --if-rev and --prev, as far as the command has them; 0, or the exit code, having said why. */
int change_take_flags(struct cli *cli, struct lkv_change *change);

/* Carries it out and tells; the exit code. `what` for messages: "put k". */
int change_run(struct store *store, const struct lkv_change *change, const char *what);

#endif
