#include "lib/session.h"

#include "base/assert.h"
#include "base/loop.h"
#include "base/mem.h"
#include "lib/api.h"

enum { RENEWALS_PER_TTL = 3, RETRIES_PER_TTL = 20 };

/* ------------------------------------------------------------------ life */

static struct lkv_session *session_ref(struct lkv_session *session) {
    (void)atomic_fetch_add_explicit(&session->refs, 1, memory_order_relaxed);
    return session;
}

static void session_release(struct lkv_session *session) {
    if (atomic_fetch_sub_explicit(&session->refs, 1, memory_order_acq_rel) == 1) {
        (void)pthread_mutex_destroy(&session->mutex);
        mem_free(session);
    }
}

static struct lkv_session *session_make(struct lkv *db, uint64_t id, uint64_t ttl_ms) {
    struct lkv_session *session = mem_calloc(1, sizeof(*session));
    if (session == NULL) {
        return NULL;
    }
    atomic_init(&session->refs, 1);
    (void)pthread_mutex_init(&session->mutex, NULL);
    session->db = db;
    session->id = id;
    session->ttl_ms = ttl_ms;
    session->base = 1;
    session->renew_at_ns = UINT64_MAX;
    return session;
}

static void list_add(struct lkv *db, struct lkv_session *session) {
    (void)pthread_mutex_lock(&db->sessions.mutex);
    session->next = db->sessions.first;
    db->sessions.first = session_ref(session);
    (void)atomic_fetch_add(&db->sessions.count, 1);
    (void)pthread_mutex_unlock(&db->sessions.mutex);
}

static void list_take(struct lkv *db, struct lkv_session *session) {
    (void)pthread_mutex_lock(&db->sessions.mutex);
    struct lkv_session **at = &db->sessions.first;
    while (*at != NULL && *at != session) {
        at = &(*at)->next;
    }
    bool found = *at != NULL;
    if (found) {
        *at = session->next;
        (void)atomic_fetch_sub(&db->sessions.count, 1);
    }
    (void)pthread_mutex_unlock(&db->sessions.mutex);
    if (found) {
        session_release(session);
    }
}

struct lkv_session *session_new_handle(struct lkv *db, uint64_t id, uint64_t ttl_ms) {
    struct lkv_session *session = session_make(db, id, ttl_ms);
    if (session != NULL) {
        list_add(db, session); /* before its first answer can come */
    }
    return session;
}

struct session_numbers session_numbers(struct lkv_session *session) {
    (void)pthread_mutex_lock(&session->mutex);
    struct session_numbers numbers = {
        .db = session->db, .id = session->id, .last_seq = session->last_seq};
    (void)pthread_mutex_unlock(&session->mutex);
    return numbers;
}

void session_free_handle(struct lkv_session *session) {
    (void)pthread_mutex_lock(&session->mutex);
    struct lkv *db = session->db;
    session->db = NULL;
    session->renew_at_ns = UINT64_MAX;
    (void)pthread_mutex_unlock(&session->mutex);
    if (db != NULL) {
        list_take(db, session);
    }
    session_release(session);
}

void sessions_detach(struct lkv *db) {
    struct lkv_session *session;
    do {
        (void)pthread_mutex_lock(&db->sessions.mutex);
        session = db->sessions.first;
        (void)pthread_mutex_unlock(&db->sessions.mutex);
        if (session != NULL) {
            (void)pthread_mutex_lock(&session->mutex);
            session->db = NULL;
            session->renew_at_ns = UINT64_MAX;
            (void)pthread_mutex_unlock(&session->mutex);
            list_take(db, session);
        }
    } while (session != NULL);
}

/* ------------------------------------------------------------------ numbers */

static bool bit(const uint64_t *words, uint64_t seq) {
    uint64_t at = seq % KV_SESSION_WINDOW;
    return (words[at / 64] >> at % 64 & 1) != 0;
}

static void set_bit(uint64_t *words, uint64_t seq, bool value) {
    uint64_t at = seq % KV_SESSION_WINDOW;
    uint64_t mask = UINT64_C(1) << at % 64;
    words[at / 64] = value ? words[at / 64] | mask : words[at / 64] & ~mask;
}

/* Over all that is answered. */
static void advance(struct lkv_session *session) {
    while (bit(session->answered, session->base)) {
        set_bit(session->answered, session->base, false);
        set_bit(session->in_doubt, session->base, false);
        session->base++;
    }
}

/* Moves the window up to `base`, over what ended without an answer. False: something is under way. */
static bool slide(struct lkv_session *session, uint64_t base) {
    uint64_t span = base - session->base;
    uint64_t end = span < KV_SESSION_WINDOW ? base : session->base + KV_SESSION_WINDOW;
    for (uint64_t seq = session->base; seq < end; seq++) {
        if (bit(session->under_way, seq)) {
            return false;
        }
    }
    for (uint64_t seq = session->base; seq < end; seq++) {
        set_bit(session->answered, seq, false);
        set_bit(session->in_doubt, seq, false);
    }
    session->base = base;
    advance(session);
    return true;
}

static int use_number(struct lkv_session *session, uint64_t seq, struct reason *why) {
    if (seq == 0 || seq == UINT64_MAX) {
        return reason_set(why, LKV_EINVAL, "number %llu of a session, expected 1 to %llu",
                          (unsigned long long)seq, (unsigned long long)UINT64_MAX - 1);
    }
    if (seq < session->base ||
        (seq - session->base < KV_SESSION_WINDOW && bit(session->answered, seq))) {
        return reason_set(why, LKV_EANSWERED,
                          "number %llu was answered, or 256 later ones were used since",
                          (unsigned long long)seq);
    }
    if (seq - session->base >= KV_SESSION_WINDOW && !slide(session, seq - KV_SESSION_WINDOW + 1)) {
        return reason_set(why, LKV_EBUSY, "number %llu while one that is 256 below is under way",
                          (unsigned long long)seq);
    }
    if (bit(session->under_way, seq)) {
        return reason_set(why, LKV_EBUSY, "number %llu is under way", (unsigned long long)seq);
    }
    set_bit(session->under_way, seq, true);
    session->last_seq = seq > session->last_seq ? seq : session->last_seq;
    return 0;
}

/* Under the mutex. */
static bool is_in_doubt(const struct lkv_session *session, uint64_t seq) {
    return seq >= session->base && seq - session->base < KV_SESSION_WINDOW &&
           bit(session->in_doubt, seq);
}

/* Rules 26, 28: that this attempt was not made says nothing of the one that is in doubt. */
static int refusal(const struct lkv_session *session, uint64_t seq, int rc, struct reason *why) {
    if (rc == 0 || error_outcome(rc) != LKV_NOT_DONE || !is_in_doubt(session, seq)) {
        return rc;
    }
    struct reason last = *why;
    return reason_set(why, request_doubtful(rc),
                      "an earlier attempt of number %llu may have been applied; this one: %s",
                      (unsigned long long)seq, last.text[0] != '\0' ? last.text : error_text(rc));
}

int session_refusal(struct lkv_session *session, uint64_t seq, int rc, struct reason *why) {
    (void)pthread_mutex_lock(&session->mutex);
    rc = refusal(session, seq, rc, why);
    (void)pthread_mutex_unlock(&session->mutex);
    return rc;
}

int session_use(struct lkv_session *session, uint64_t seq, uint64_t *acked_below,
                struct reason *why) {
    (void)pthread_mutex_lock(&session->mutex);
    struct reason own = {{0}};
    why = why != NULL ? why : &own;
    int rc = refusal(session, seq, use_number(session, seq, why), why);
    *acked_below = session->base;
    (void)pthread_mutex_unlock(&session->mutex);
    return rc;
}

void session_give_back(struct lkv_session *session, uint64_t seq) {
    (void)pthread_mutex_lock(&session->mutex);
    set_bit(session->under_way, seq, false);
    (void)pthread_mutex_unlock(&session->mutex);
}

/* ------------------------------------------------------------------ requests */

void session_attach(struct lkv_session *session, struct request *request, uint64_t seq) {
    request->in_session = session_ref(session);
    request->seq = seq;
    request->repeatable = true;
    if (seq != 0) {
        (void)pthread_mutex_lock(&session->mutex);
        request->maybe_done = request->was_in_doubt = is_in_doubt(session, seq);
        (void)pthread_mutex_unlock(&session->mutex);
    }
}

/* Every answer of the state machine shows that the session lives, and was active. */
static void plan_renewal(struct lkv_session *session) {
    if (session->db != NULL) {
        session->renew_at_ns =
            session->db->ops->now_ns(session->db) + session->ttl_ms * MS_NS / RENEWALS_PER_TTL;
    }
}

/* The greatest number so far, of one that is taken up again: what lies a window behind it is known. Each
 * of the others may have been done for the handle before this one. */
static void take_over(struct lkv_session *session, uint64_t last_seq) {
    session->last_seq = last_seq;
    session->base = last_seq >= KV_SESSION_WINDOW ? last_seq - KV_SESSION_WINDOW + 1 : 1;
    for (uint64_t seq = session->base; seq <= last_seq; seq++) {
        set_bit(session->in_doubt, seq, true);
    }
}

static void opened(struct lkv_session *session, const struct lkv_msg *reply) {
    uint64_t last_seq = 0;
    if (session->db != NULL) {
        atomic_store_explicit(&session->db->sessions.sooner, true, memory_order_release);
    }
    if (session->id == 0) {
        (void)lkv_msg_u64(reply, "session", &session->id);
    } else if (lkv_msg_u64(reply, "count", &last_seq)) {
        take_over(session, last_seq);
    }
    plan_renewal(session);
}

void session_answer(struct request *request) {
    struct lkv_session *session = request->in_session;
    const struct lkv_msg *reply = request->reply;
    request->in_session = NULL;
    (void)pthread_mutex_lock(&session->mutex);
    if (request->seq != 0) {
        set_bit(session->under_way, request->seq, false);
        /* What is definite here is that also of the attempts before: request_finish has seen to it. */
        set_bit(session->in_doubt, request->seq, error_outcome(reply->rc) == LKV_UNKNOWN);
    }
    if (reply->rc == 0 && request->seq == 0) {
        opened(session, reply);
    } else if (reply->rc == 0) {
        set_bit(session->answered, request->seq, true);
        advance(session);
        plan_renewal(session);
    } else if (reply->rc == LKV_ESESSION) {
        session->renew_at_ns = UINT64_MAX;
    }
    (void)pthread_mutex_unlock(&session->mutex);
    session_release(session);
}

void session_drop(struct request *request) {
    struct lkv_session *session = request->in_session;
    request->in_session = NULL;
    if (request->seq != 0) {
        session_give_back(session, request->seq);
    }
    session_release(session);
}

/* ------------------------------------------------------------------ keep-alives */

static void on_renewed(struct request *request) {
    struct lkv_session *session = request->owner;
    int rc = request->reply->rc;
    (void)pthread_mutex_lock(&session->mutex);
    session->renewing = false;
    if (session->db != NULL) {
        atomic_store_explicit(&session->db->sessions.sooner, true, memory_order_release);
    }
    if (rc == 0) {
        plan_renewal(session);
    } else if (rc == LKV_ESESSION) {
        session->renew_at_ns = UINT64_MAX;
    } else if (session->db != NULL) {
        session->renew_at_ns =
            session->db->ops->now_ns(session->db) + session->ttl_ms * MS_NS / RETRIES_PER_TTL;
    }
    (void)pthread_mutex_unlock(&session->mutex);
    session_release(session);
}

static struct request *renewal(struct lkv_session *session, uint64_t now_ns) {
    struct request *request = request_new(REQUEST_SESSION_KEEP);
    if (request == NULL) {
        return NULL;
    }
    request->cost = sizeof(*request) + sizeof(*request->reply);
    request->deadline_ns = now_ns + session->ttl_ms * MS_NS / RENEWALS_PER_TTL;
    request->session = session->id;
    request->on_finish = on_renewed;
    request->owner = session;
    return request;
}

/* Returns when this one is due again. Under its mutex. */
static uint64_t renew(struct lkv_session *session, uint64_t now_ns) {
    if (session->renewing || session->id == 0 || session->renew_at_ns > now_ns) {
        return session->renewing || session->id == 0 ? UINT64_MAX : session->renew_at_ns;
    }
    struct request *request = renewal(session, now_ns);
    if (request != NULL && session->db->ops->submit(session->db, request) == 0) {
        (void)session_ref(session);
        session->renewing = true;
        return UINT64_MAX;
    }
    request_free(request);
    session->renew_at_ns = now_ns + session->ttl_ms * MS_NS / RETRIES_PER_TTL;
    return session->renew_at_ns;
}

uint64_t sessions_turn(struct lkv *db, uint64_t now_ns) {
    struct session_list *list = &db->sessions;
    uint64_t next_ns = UINT64_MAX;
    if (atomic_load_explicit(&list->count, memory_order_acquire) == 0) {
        return next_ns;
    }
    /* Writes make a session due later: until the earliest one is due nothing needs to be looked at. */
    if (!atomic_exchange_explicit(&list->sooner, false, memory_order_acq_rel) &&
        now_ns < list->due_ns) {
        return list->due_ns;
    }
    (void)pthread_mutex_lock(&db->sessions.mutex);
    for (struct lkv_session *at = db->sessions.first; at != NULL; at = at->next) {
        (void)pthread_mutex_lock(&at->mutex);
        uint64_t due_ns = at->db != NULL ? renew(at, now_ns) : UINT64_MAX;
        (void)pthread_mutex_unlock(&at->mutex);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
    }
    (void)pthread_mutex_unlock(&db->sessions.mutex);
    list->due_ns = next_ns;
    return next_ns;
}
