/* A lock for many readers and one writer at a time ("big reader"): each processor has a lock of its
 * own on a cache line of its own. A reader takes that of the processor it runs on and so shares
 * nothing with readers on others; a writer takes all of them. Sections must be short on both sides.
 */
#ifndef KV_GATE_H
#define KV_GATE_H

#include "base/error.h"

#include <pthread.h>

enum { GATE_LANES = 8 };

struct gate {
    struct gate_lane {
        _Alignas(64) pthread_rwlock_t lock;
    } lanes[GATE_LANES];
};

/* Returns owned, or NULL when out of memory. */
struct gate *gate_open(void);
void gate_close(struct gate *gate); /* NULL is fine */

/* Returns what gate_leave needs. Not to be nested: a writer between the two would wait for ever. */
MUST_USE unsigned gate_enter(struct gate *gate);
void gate_leave(struct gate *gate, unsigned lane);

void gate_enter_alone(struct gate *gate);
void gate_leave_alone(struct gate *gate);

#endif
