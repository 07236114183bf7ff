/* What clients asked, were answered, and when, for the judge that believes no index (tests/support/linearizable.h).
 *
 * An operation on several keys is one operation on each: what must hold of each key must hold of them all
 * together, and more, which the checks by index see (ranges with flags are left to them). Attempts of one write in a session are one operation, from the
 * first one on. Local reads promise nothing and are not in it. */
#ifndef TESTS_SIM_WORLD_HISTORY_H
#define TESTS_SIM_WORLD_HISTORY_H

#include "tests/support/linearizable.h"

struct sim_world;
struct sim_call;
struct lkv_msg;

struct sim_history {
    struct lin_op *ops; /* owned */
    size_t count, capacity;
};

void sim_history_fini(struct sim_history *history);
/* It is being submitted; in a session perhaps not for the first time. */
void sim_history_begin(struct sim_call *call);
/* A reply of NULL: nobody hears it. */
void sim_history_end(const struct sim_call *call, const struct lkv_msg *reply);
/* Fails the world when some key has no order of operations that explains the answers. */
void sim_history_check(struct sim_world *world);

#endif
