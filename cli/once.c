#include "once.h"

#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT_EACH = ONCE_WINDOW / 2, TTL_MS = 120000 };

int once_open(struct once *once, struct lkv *db, size_t in_flight) {
    size_t count = (in_flight + IN_FLIGHT_EACH - 1) / IN_FLIGHT_EACH;
    *once = (struct once){.db = db};
    once->sessions = must_realloc(NULL, count * sizeof(*once->sessions));
    memset(once->sessions, 0, count * sizeof(*once->sessions));
    while (once->count < count) {
        struct once_session *session = &once->sessions[once->count];
        int rc = lkv_session_open(db, 0, TTL_MS, &session->session);
        if (rc < 0) {
            return rc;
        }
        session->base = session->next = 1;
        once->count++;
    }
    return 0;
}

void once_close(struct once *once, int64_t timeout_ms) {
    for (size_t i = 0; i < once->count; i++) {
        int rc = lkv_session_close(once->sessions[i].session, timeout_ms);
        (void)rc; /* it ends by itself */
    }
    free(once->sessions);
    *once = (struct once){0};
}

bool once_take(struct once *once, struct once_number *out) {
    for (size_t tried = 0; tried < once->count; tried++) {
        size_t at = once->rotation++ % once->count;
        struct once_session *session = &once->sessions[at];
        if (session->next - session->base < ONCE_WINDOW) {
            *out = (struct once_number){
                .session = at, .generation = session->generation, .seq = session->next};
            session->done[session->next++ % ONCE_WINDOW] = false;
            return true;
        }
    }
    return false;
}

void once_done(struct once *once, struct once_number number) {
    struct once_session *session = &once->sessions[number.session];
    if (!once_valid(once, number) || number.seq < session->base) {
        return;
    }
    session->done[number.seq % ONCE_WINDOW] = true;
    while (session->base < session->next && session->done[session->base % ONCE_WINDOW]) {
        session->base++;
    }
}

struct lkv_session *once_session(const struct once *once, struct once_number number) {
    return once->sessions[number.session].session;
}

bool once_valid(const struct once *once, struct once_number number) {
    return number.seq != 0 && once->sessions[number.session].generation == number.generation;
}

int once_reopen(struct once *once, struct once_number number) {
    struct once_session *session = &once->sessions[number.session];
    struct lkv_session *fresh;
    if (!once_valid(once, number)) {
        return 0;
    }
    int rc = lkv_session_open(once->db, 0, TTL_MS, &fresh);
    if (rc < 0) {
        return rc;
    }
    rc = lkv_session_close(session->session, 0);
    *session = (struct once_session){
        .session = fresh, .generation = number.generation + 1, .base = 1, .next = 1};
    once->reopened++;
    return rc;
}
