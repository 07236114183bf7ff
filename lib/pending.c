#include "lib/pending.h"

#include "base/assert.h"
#include "base/mem.h"

void pending_init(struct pending *pending) {
    *pending = (struct pending){0};
    list_init(&pending->orphans);
}

void pending_fini(struct pending *pending) {
    ASSERT(pending->waiting == 0);
    mem_free(pending->ring);
    pending->ring = NULL;
}

static struct request **slot(const struct pending *pending, uint64_t index) {
    return &pending->ring[index & (pending->capacity - 1)];
}

static int grow(struct pending *pending, size_t needed) {
    size_t capacity = pending->capacity > 0 ? pending->capacity : 256;
    while (capacity < needed) {
        capacity *= 2;
    }
    struct request **ring = mem_calloc(capacity, sizeof(struct request *));
    if (ring == NULL) {
        return LKV_ENOMEM;
    }
    for (size_t i = 0; i < pending->count; i++) {
        uint64_t index = pending->first + i;
        ring[index & (capacity - 1)] = *slot(pending, index);
    }
    mem_free(pending->ring);
    pending->ring = ring;
    pending->capacity = capacity;
    return 0;
}

int pending_reserve(struct pending *pending, size_t more) {
    /* + 1: the leader's own no-op may lie between two terms of one ring. */
    size_t needed = pending->count + more + 1;
    return needed > pending->capacity ? grow(pending, needed) : 0;
}

void pending_add(struct pending *pending, struct request *request, uint64_t index, uint64_t term) {
    if (pending->count == 0) {
        pending->first = index;
        pending->term = term;
    }
    ASSERT(term == pending->term && index >= pending->first + pending->count);
    /* Own entries without a waiter (no-op) leave holes. */
    while (pending->first + pending->count < index) {
        ASSERT(pending->count < pending->capacity);
        *slot(pending, pending->first + pending->count++) = NULL;
    }
    ASSERT(pending->count < pending->capacity);
    request->index = index;
    request->term = term;
    *slot(pending, index) = request;
    pending->count++;
    pending->waiting++;
}

static uint64_t first_index(const struct request *request) {
    return request->record_count > 1 ? request->index + 1 - request->record_count : request->index;
}

/* Orphans stay ascending by index, so that each applied entry looks at the front only. */
static void insert_orphan(struct pending *pending, struct request *request) {
    struct list_link *before = pending->orphans.prev;
    while (before != &pending->orphans &&
           LIST_ITEM(before, struct request, link)->index > request->index) {
        before = before->prev;
    }
    list_push_back(before->next, &request->link);
}

void pending_orphan(struct pending *pending) {
    for (; pending->count > 0; pending->first++, pending->count--) {
        struct request *request = *slot(pending, pending->first);
        if (request != NULL) {
            /* A quorum may have had its first records while the rest was on its way: they stay in the log,
             * whatever takes the next index (rule 28). */
            uint64_t first = first_index(request);
            request->survived = pending->taken >= first ? pending->taken + 1 - first : 0;
            insert_orphan(pending, request);
        }
    }
}

/* It may be sent again, and what to send was kept. */
static bool may_go_again(const struct pending *pending, const struct request *request) {
    bool kept = request->op == REQUEST_APPEND
                    ? request->records != NULL && request->records[0] != NULL
                    : request->command != NULL;
    return pending->on_again != NULL && request->repeatable && kept;
}

bool pending_owes(const struct pending *pending, uint64_t order) {
    for (const struct list_link *at = pending->orphans.next; at != &pending->orphans;
         at = at->next) {
        const struct request *request = LIST_ITEM(at, struct request, link);
        if (request->op == REQUEST_APPEND && request->order < order &&
            may_go_again(pending, request)) {
            return true;
        }
    }
    return false;
}

static bool try_again(struct pending *pending, struct request *request) {
    if (!may_go_again(pending, request)) {
        return false;
    }
    pending->on_again(pending->arg, request);
    return true;
}

static void fail_unknown(struct request *request, const char *why) {
    request_fail(request, LKV_EUNKNOWN, "%s; entry %llu of term %llu may still take effect", why,
                 (unsigned long long)request->index, (unsigned long long)request->term);
}

/* Its time is not over, but here nobody will learn its fate. */
static void lose(struct pending *pending, struct request *request, const char *why) {
    request->maybe_done = true;
    if (!try_again(pending, request)) {
        fail_unknown(request, why);
    }
}

/* Of an append in a session the first records are nothing without the rest. */
static void replaced(struct pending *pending, struct request *request, uint64_t index) {
    if (request->survived > 0 && request->session == 0) {
        request_fail(request, LKV_EUNKNOWN,
                     "leadership was lost: of %zu records from index %llu on, those below %llu are "
                     "in the log, or some of them, and the others are not",
                     request->record_count, (unsigned long long)first_index(request),
                     (unsigned long long)index);
    } else if (!try_again(pending, request)) {
        request_fail(request, LKV_ENOTLEADER,
                     "leadership was lost, and another entry took index %llu: not done",
                     (unsigned long long)index);
    }
}

/* A batch is decided by the first of its indices that another term takes, or else by its last. */
static void decide_orphans(struct pending *pending, uint64_t index, uint64_t term,
                           struct request **found) {
    struct list_link *next;
    for (struct list_link *at = pending->orphans.next; at != &pending->orphans; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->index >= index + LKV_APPEND_RECORDS_MAX) {
            break;
        }
        if (first_index(request) > index) {
            continue;
        }
        bool same = request->term == term && *found == NULL;
        if (same && request->index > index) {
            request->survived++;
            continue;
        }
        list_remove(at);
        pending->waiting--;
        if (request->index < index) {
            lose(pending, request, "passed over while this node did not lead");
        } else if (same) {
            *found = request;
        } else {
            replaced(pending, request, index);
        }
    }
}

/* The oldest slot's waiter, removed with its slot. */
static struct request *shift(struct pending *pending) {
    struct request *request = *slot(pending, pending->first);
    pending->first++;
    pending->count--;
    if (request != NULL) {
        pending->waiting--;
    }
    return request;
}

struct request *pending_take(struct pending *pending, uint64_t index, uint64_t term) {
    struct request *found = NULL;
    pending->taken = index;
    if (!list_empty(&pending->orphans)) {
        decide_orphans(pending, index, term, &found);
    }
    while (pending->count > 0 && pending->first < index) {
        struct request *passed = shift(pending);
        if (passed != NULL) {
            lose(pending, passed, "passed over");
        }
    }
    if (pending->count > 0 && pending->first == index && pending->term == term) {
        found = shift(pending);
    }
    return found;
}

void pending_skip(struct pending *pending, uint64_t index) {
    pending_orphan(pending);
    struct list_link *next;
    for (struct list_link *at = pending->orphans.next; at != &pending->orphans; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->index <= index) {
            list_remove(at);
            pending->waiting--;
            lose(pending, request, "covered by an image from another node");
        } else if (first_index(request) <= index) {
            request->survived = 1; /* at least as far as anybody knows */
        }
    }
}

uint64_t pending_expire(struct pending *pending, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    for (size_t i = 0; i < pending->count; i++) {
        struct request **at = slot(pending, pending->first + i);
        if (*at == NULL) {
            continue;
        }
        struct request *request = *at;
        if (request->deadline_ns <= now_ns) {
            *at = NULL;
            pending->waiting--;
            fail_unknown(request, "no quorum acknowledged it in time");
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    struct list_link *next;
    for (struct list_link *at = pending->orphans.next; at != &pending->orphans; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            pending->waiting--;
            fail_unknown(request, "leadership was lost");
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

void pending_fail_all(struct pending *pending, const char *why) {
    pending_orphan(pending);
    struct list_link *link;
    while ((link = list_pop_front(&pending->orphans)) != NULL) {
        pending->waiting--;
        fail_unknown(LIST_ITEM(link, struct request, link), why);
    }
}
