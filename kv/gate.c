#define _GNU_SOURCE /* sched_getcpu, and the kind of lock that lets writers in */

#include "kv/gate.h"

#include "base/assert.h"
#include "base/mem.h"

#include <sched.h>
#include <stdint.h>
#include <string.h>

static int lane_init(struct gate_lane *lane) {
    pthread_rwlockattr_t attributes;
    if (pthread_rwlockattr_init(&attributes) != 0) {
        return LKV_ENOMEM;
    }
    /* By default a stream of overlapping readers keeps a writer out for ever. */
    (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    int rc = pthread_rwlock_init(&lane->lock, &attributes) == 0 ? 0 : LKV_ENOMEM;
    (void)pthread_rwlockattr_destroy(&attributes);
    return rc;
}

struct gate *gate_open(void) {
    /* The allocator aligns to 16 bytes: the lanes start at the next cache line. */
    enum { ALIGNMENT = _Alignof(struct gate) };
    char *raw = mem_calloc(1, sizeof(struct gate) + ALIGNMENT + sizeof(void *));
    if (raw == NULL) {
        return NULL;
    }
    uintptr_t start = ((uintptr_t)raw + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    struct gate *gate = (struct gate *)start;
    memcpy((char *)(gate + 1), &raw, sizeof(raw)); /* what gate_close frees */
    for (int i = 0; i < GATE_LANES; i++) {
        if (lane_init(&gate->lanes[i]) != 0) {
            while (i-- > 0) {
                (void)pthread_rwlock_destroy(&gate->lanes[i].lock);
            }
            mem_free(raw);
            return NULL;
        }
    }
    return gate;
}

void gate_close(struct gate *gate) {
    if (gate == NULL) {
        return;
    }
    for (int i = 0; i < GATE_LANES; i++) {
        (void)pthread_rwlock_destroy(&gate->lanes[i].lock);
    }
    char *raw;
    memcpy(&raw, (char *)(gate + 1), sizeof(raw));
    mem_free(raw);
}

unsigned gate_enter(struct gate *gate) {
    /* Only a hint: a thread that is moved to another processor keeps the lane it entered by. */
    int processor = sched_getcpu();
    unsigned lane = processor < 0 ? 0 : (unsigned)processor % GATE_LANES;
    int rc = pthread_rwlock_rdlock(&gate->lanes[lane].lock);
    ASSERT(rc == 0);
    return lane;
}

void gate_leave(struct gate *gate, unsigned lane) {
    int rc = pthread_rwlock_unlock(&gate->lanes[lane].lock);
    ASSERT(rc == 0);
}

/* Always in the same order, so that two writers cannot wait for each other. */
void gate_enter_alone(struct gate *gate) {
    for (int i = 0; i < GATE_LANES; i++) {
        int rc = pthread_rwlock_wrlock(&gate->lanes[i].lock);
        ASSERT(rc == 0);
    }
}

void gate_leave_alone(struct gate *gate) {
    for (int i = GATE_LANES - 1; i >= 0; i--) {
        int rc = pthread_rwlock_unlock(&gate->lanes[i].lock);
        ASSERT(rc == 0);
    }
}
