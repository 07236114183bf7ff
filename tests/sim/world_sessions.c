#include "tests/sim/world_sessions.h"

#include "base/assert.h"

#include <stdlib.h>

void sim_sessions_fini(struct sim_sessions *sessions) {
    for (size_t i = 0; i < sessions->count; i++) {
        free(sessions->items[i].first);
    }
    free(sessions->items);
}

struct sim_session *sim_session_find(const struct sim_sessions *sessions, uint64_t id) {
    for (size_t i = sessions->count; i-- > 0;) {
        if (sessions->items[i].id == id) {
            return &sessions->items[i];
        }
    }
    return NULL;
}

static void add(struct sim_sessions *sessions, uint64_t id, uint64_t ttl_ms) {
    if (sessions->count == sessions->capacity) {
        sessions->capacity = sessions->capacity * 2 + 16;
        sessions->items = realloc(sessions->items, sessions->capacity * sizeof(*sessions->items));
        ASSERT(sessions->items != NULL);
    }
    sessions->items[sessions->count++] =
        (struct sim_session){.id = id, .ttl_ms = ttl_ms, .acked_below = 1, .open = true};
}

static uint64_t *place(struct sim_session *session, uint64_t seq) {
    if (seq >= session->capacity) {
        size_t capacity = (size_t)seq * 2 + 64;
        session->first = realloc(session->first, capacity * sizeof(*session->first));
        ASSERT(session->first != NULL);
        memset(session->first + session->capacity, 0,
               (capacity - session->capacity) * sizeof(*session->first));
        session->capacity = capacity;
    }
    return &session->first[seq];
}

static int commit_write(struct sim_session *session, const struct kv_command *command,
                        uint64_t index, uint64_t *first) {
    uint64_t floor =
        session->acked_below > command->acked_below ? session->acked_below : command->acked_below;
    if (command->seq < floor) {
        return LKV_EANSWERED;
    }
    if (command->seq - floor >= KV_SESSION_WINDOW) {
        return LKV_EBUSY;
    }
    uint64_t *at = place(session, command->seq);
    if (*at == 0) {
        *at = index;
        session->acked_below = floor;
    }
    *first = *at;
    return 0;
}

static size_t count_open(const struct sim_sessions *sessions) {
    size_t count = 0;
    for (size_t i = 0; i < sessions->count; i++) {
        count += sessions->items[i].open;
    }
    return count;
}

int sim_sessions_commit(struct sim_sessions *sessions, const struct kv_command *command,
                        uint64_t index, uint64_t *first) {
    *first = index;
    if (command->op == KV_SESSION_OPEN && command->session == 0) {
        if (count_open(sessions) >= command->limit) {
            return LKV_EBUSY;
        }
        add(sessions, index, command->ttl_ms);
        return 0;
    }
    struct sim_session *session = sim_session_find(sessions, command->session);
    if (session == NULL || !session->open) {
        return LKV_ESESSION;
    }
    switch (command->op) {
    case KV_SESSION_OPEN: session->ttl_ms = command->ttl_ms; return 0;
    case KV_SESSION_CLOSE:
    case KV_SESSION_EXPIRE: session->open = false; return 0;
    case KV_PUT:
    case KV_DELETE:
    case KV_TXN:
    case KV_COMPACT:
    case KV_ADD:
    case KV_LEASE_GRANT:
    case KV_LEASE_REVOKE:
    case KV_LEASE_CHECKPOINT:
    case KV_RANGE: break;
    }
    return commit_write(session, command, index, first);
}
