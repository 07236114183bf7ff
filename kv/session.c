#include "kv/session.h"

#include "base/assert.h"
#include "base/mem.h"

enum { REPLIES_FIRST = 4 };

/* ---------------------------------------------------------------------------- one session */

struct session *session_new(uint64_t span) {
    size_t capacity = REPLIES_FIRST;
    while (capacity < span) {
        capacity *= 2;
    }
    struct session *session =
        mem_calloc(1, sizeof(*session) + capacity * sizeof(session->replies[0]));
    if (session != NULL) {
        atomic_init(&session->refs, 1);
        session->capacity = capacity;
        session->acked_below = 1;
    }
    return session;
}

void session_unref(struct session *session) {
    if (session != NULL &&
        atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) == 1) {
        mem_free(session);
    }
}

static struct session_reply *place(struct session *session, uint64_t seq) {
    return &session->replies[seq & (session->capacity - 1)];
}

/* The reply that is kept for `seq`, or NULL. */
static const struct session_reply *kept(const struct session *session, uint64_t seq) {
    const struct session_reply *reply = &session->replies[seq & (session->capacity - 1)];
    bool known = reply->index != 0 && reply->seq == seq && seq >= session->acked_below;
    return known ? reply : NULL;
}

/* The same session with room for numbers below acked_below + span; all replies fit. */
static struct session *copy_of(const struct session *from, uint64_t span) {
    struct session *session = session_new(span);
    if (session == NULL) {
        return NULL;
    }
    session->id = from->id;
    session->ttl_ms = from->ttl_ms;
    session->acked_below = from->acked_below;
    session->last_seq = from->last_seq;
    for (size_t i = 0; i < from->capacity; i++) {
        if (from->replies[i].index != 0) {
            *place(session, from->replies[i].seq) = from->replies[i];
        }
    }
    return session;
}

/* The client has heard the answers below: their places are free. */
static void forget_below(struct session *session, uint64_t acked_below) {
    for (size_t i = 0; i < session->capacity; i++) {
        if (session->replies[i].seq < acked_below) {
            session->replies[i] = (struct session_reply){0};
        }
    }
    session->acked_below = acked_below;
}

/* ---------------------------------------------------------------------------- the table */

void sessions_fini(struct sessions *sessions) {
    for (size_t i = 0; i < sessions->count; i++) {
        session_unref(sessions->slots[i].session);
    }
    mem_free(sessions->slots);
    *sessions = (struct sessions){0};
}

size_t sessions_find(const struct sessions *sessions, uint64_t id) {
    size_t low = 0, high = sessions->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sessions->slots[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < sessions->count && sessions->slots[low].id == id ? low : sessions->count;
}

static int make_room(struct sessions *sessions) {
    struct session_slot *grown =
        mem_array_grow(sessions->slots, &sessions->capacity, sessions->count + 1, sizeof(*grown));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    sessions->slots = grown;
    return 0;
}

int sessions_add(struct sessions *sessions, struct session *session) {
    if (sessions->count > 0 && sessions->slots[sessions->count - 1].id >= session->id) {
        return LKV_EDAMAGED;
    }
    if (make_room(sessions) != 0) {
        return LKV_ENOMEM;
    }
    sessions->slots[sessions->count++] =
        (struct session_slot){.id = session->id, .session = session};
    return 0;
}

int sessions_open(struct sessions *sessions, uint64_t id, uint64_t ttl_ms, uint64_t limit) {
    if (sessions->count >= limit) {
        return LKV_EBUSY;
    }
    struct session *session = session_new(0);
    if (session == NULL) {
        return LKV_ENOMEM;
    }
    session->id = id;
    session->ttl_ms = ttl_ms;
    int rc = sessions_add(sessions, session);
    if (rc != 0) {
        session_unref(session);
        ASSERT(rc == LKV_ENOMEM); /* log indices rise */
    }
    return rc;
}

/* Makes the session in this slot ours alone, with room for so many numbers: a frozen copy goes on
 * showing it as it was. */
static int make_own(struct session_slot *slot, uint64_t span) {
    const struct session *shared = slot->session;
    bool own = atomic_load_explicit(&shared->refs, memory_order_acquire) == 1;
    if (own && shared->capacity >= span) {
        return 0;
    }
    struct session *copy = copy_of(shared, span > shared->capacity ? span : shared->capacity);
    if (copy == NULL) {
        return LKV_ENOMEM;
    }
    session_unref(slot->session);
    slot->session = copy;
    return 0;
}

int sessions_renew(struct sessions *sessions, uint64_t id, uint64_t ttl_ms) {
    size_t at = sessions_find(sessions, id);
    if (at == sessions->count) {
        return LKV_ESESSION;
    }
    struct session_slot *slot = &sessions->slots[at];
    if (slot->session->ttl_ms == ttl_ms) {
        return 0;
    }
    int rc = make_own(slot, 0);
    if (rc == 0) {
        slot->session->ttl_ms = ttl_ms;
    }
    return rc;
}

int sessions_remove(struct sessions *sessions, uint64_t id) {
    size_t at = sessions_find(sessions, id);
    if (at == sessions->count) {
        return LKV_ESESSION;
    }
    session_unref(sessions->slots[at].session);
    sessions->count--;
    memmove(&sessions->slots[at], &sessions->slots[at + 1],
            (sessions->count - at) * sizeof(sessions->slots[0]));
    return 0;
}

/* ---------------------------------------------------------------------------- commands */

/* Only want of memory stops the applier; everything else is the entry's outcome. */
static int outcome(int rc, struct kv_result *result) {
    result->rc = rc != LKV_ENOMEM ? rc : 0;
    return rc == LKV_ENOMEM ? rc : 0;
}

static int command_open(struct sessions *sessions, const struct kv_command *command,
                        struct kv_result *result) {
    if (command->session == 0) {
        int rc = sessions_open(sessions, result->index, command->ttl_ms, command->limit);
        result->session = rc == 0 ? result->index : 0;
        return outcome(rc, result);
    }
    int rc = sessions_renew(sessions, command->session, command->ttl_ms);
    if (rc == 0) {
        size_t at = sessions_find(sessions, command->session);
        result->count = sessions->slots[at].session->last_seq;
    }
    return outcome(rc, result);
}

int sessions_command(struct sessions *sessions, const struct kv_command *command,
                     struct kv_result *result) {
    if (command->op == KV_SESSION_OPEN) {
        return command_open(sessions, command, result);
    }
    ASSERT(!kv_command_has_keys(command));
    result->ended = true; /* also when it was before */
    return outcome(sessions_remove(sessions, command->session), result);
}

/* ---------------------------------------------------------------------------- one call */

static uint64_t floor_of(const struct session *session, const struct session_call *call) {
    return session->acked_below > call->acked_below ? session->acked_below : call->acked_below;
}

int sessions_judge(const struct sessions *sessions, const struct session_call *call,
                   struct session_reply *first) {
    size_t at = sessions_find(sessions, call->id);
    if (at == sessions->count) {
        return LKV_ESESSION;
    }
    const struct session *session = sessions->slots[at].session;
    uint64_t floor = floor_of(session, call);
    if (call->seq < floor) {
        return LKV_EANSWERED;
    }
    if (call->seq - floor >= KV_SESSION_WINDOW) {
        return LKV_EBUSY;
    }
    const struct session_reply *reply = kept(session, call->seq);
    if (reply == NULL) {
        return SESSION_EXECUTE;
    }
    *first = *reply;
    return SESSION_REPEATED;
}

int sessions_reserve(struct sessions *sessions, const struct session_call *call) {
    size_t at = sessions_find(sessions, call->id);
    ASSERT(at < sessions->count);
    struct session_slot *slot = &sessions->slots[at];
    uint64_t span = call->seq - floor_of(slot->session, call) + 1;
    ASSERT(span <= KV_SESSION_WINDOW);
    return make_own(slot, span);
}

void sessions_record(struct sessions *sessions, const struct session_call *call,
                     const struct session_reply *reply) {
    size_t at = sessions_find(sessions, call->id);
    ASSERT(at < sessions->count && reply->index != 0 && reply->seq == call->seq);
    struct session *session = sessions->slots[at].session;
    uint64_t floor = floor_of(session, call);
    if (floor > session->acked_below) {
        forget_below(session, floor);
    }
    struct session_reply *into = place(session, call->seq);
    ASSERT(into->index == 0);
    *into = *reply;
    session->last_seq = call->seq > session->last_seq ? call->seq : session->last_seq;
}

void sessions_unrecord(struct sessions *sessions, const struct session_call *call) {
    size_t at = sessions_find(sessions, call->id);
    if (at == sessions->count) {
        return;
    }
    struct session *session = sessions->slots[at].session;
    ASSERT(atomic_load_explicit(&session->refs, memory_order_acquire) == 1);
    struct session_reply *reply = place(session, call->seq);
    if (reply->index != 0 && reply->seq == call->seq) {
        *reply = (struct session_reply){0};
    }
}

/* ---------------------------------------------------------------------------- freezing */

int sessions_freeze(const struct sessions *sessions, struct sessions *out) {
    *out = (struct sessions){0};
    if (sessions->count == 0) {
        return 0;
    }
    struct session_slot *slots = mem_alloc(sessions->count * sizeof(*slots));
    if (slots == NULL) {
        return LKV_ENOMEM;
    }
    memcpy(slots, sessions->slots, sessions->count * sizeof(*slots));
    for (size_t i = 0; i < sessions->count; i++) {
        (void)atomic_fetch_add_explicit(&slots[i].session->refs, 1, memory_order_relaxed);
    }
    *out = (struct sessions){.slots = slots, .count = sessions->count, .capacity = sessions->count};
    return 0;
}
