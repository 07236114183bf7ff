#include "lib/deadlines.h"

#include "base/assert.h"

static size_t bucket_of(uint64_t tick) {
    return (size_t)(tick % DEADLINES_BUCKETS);
}

static uint64_t tick_of(uint64_t at_ns) {
    return at_ns >> DEADLINES_TICK_SHIFT;
}

static bool is_used(const struct deadlines *deadlines, size_t bucket) {
    return (deadlines->used[bucket / 64] >> (bucket % 64) & 1) != 0;
}

void deadlines_init(struct deadlines *deadlines, uint64_t now_ns) {
    *deadlines = (struct deadlines){.tick = tick_of(now_ns)};
    for (size_t i = 0; i < DEADLINES_BUCKETS; i++) {
        list_init(&deadlines->buckets[i]);
    }
}

void deadlines_add(struct deadlines *deadlines, struct request *request) {
    ASSERT(list_empty(&request->expiry));
    if (request->deadline_ns == UINT64_MAX) {
        return;
    }
    uint64_t tick = tick_of(request->deadline_ns);
    size_t bucket = bucket_of(tick > deadlines->tick ? tick : deadlines->tick);
    list_push_back(&deadlines->buckets[bucket], &request->expiry);
    deadlines->used[bucket / 64] |= UINT64_C(1) << (bucket % 64);
    deadlines->count++;
}

void deadlines_remove(struct deadlines *deadlines, struct request *request) {
    if (!list_empty(&request->expiry)) {
        list_remove(&request->expiry);
        ASSERT(deadlines->count > 0);
        deadlines->count--; /* the bucket's bit goes when somebody looks */
    }
}

static void expire_bucket(struct list_link *bucket, uint64_t now_ns, struct list_link *due) {
    struct list_link *next;
    for (struct list_link *link = bucket->next; link != bucket; link = next) {
        next = link->next;
        if (LIST_ITEM(link, struct request, expiry)->deadline_ns <= now_ns) {
            list_remove(link);
            list_push_back(due, link);
        }
    }
}

void deadlines_expire(struct deadlines *deadlines, uint64_t now_ns, struct list_link *due) {
    uint64_t end = tick_of(now_ns); /* this tick itself is not over */
    if (end <= deadlines->tick) {
        return;
    }
    uint64_t rounds = end - deadlines->tick;
    rounds = rounds < DEADLINES_BUCKETS ? rounds : DEADLINES_BUCKETS;
    for (uint64_t tick = end - rounds; tick < end; tick++) {
        size_t bucket = bucket_of(tick);
        if (is_used(deadlines, bucket)) {
            expire_bucket(&deadlines->buckets[bucket], now_ns, due);
        }
    }
    deadlines->tick = end;
}

uint64_t deadlines_next(struct deadlines *deadlines) {
    if (deadlines->count == 0) {
        return UINT64_MAX;
    }
    for (uint64_t tick = deadlines->tick; tick < deadlines->tick + DEADLINES_BUCKETS; tick++) {
        size_t bucket = bucket_of(tick);
        if (deadlines->used[bucket / 64] == 0) {
            tick |= 63; /* nothing up to the end of this word */
            continue;
        }
        if (!is_used(deadlines, bucket)) {
            continue;
        }
        if (!list_empty(&deadlines->buckets[bucket])) {
            return (tick + 1) << DEADLINES_TICK_SHIFT;
        }
        deadlines->used[bucket / 64] &= ~(UINT64_C(1) << (bucket % 64));
    }
    return (deadlines->tick + DEADLINES_BUCKETS) << DEADLINES_TICK_SHIFT;
}
