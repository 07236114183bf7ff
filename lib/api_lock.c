/* Locks and elections: a queue of keys with leases, of which the oldest holds (Burrows, "The Chubby lock service",
 * OSDI 2006, has its sequencers; Hunt et al., "ZooKeeper", ATC 2010, its queue).
 *
 *     NAME//00000000000005af  create_rev 41   <- holds the lock; 41 is its fencing token
 *     NAME//0000000000001c02  create_rev 44   <- waits
 *     NAME//00000000000000e7  create_rev 52   <- waits
 *
 * Who is in the queue, and where, is told by revisions alone, at one revision: there is nothing to be
 * agreed on but the keys. Whoever's lease ends leaves it. Everything here is made of other verbs. */
#include "lib/api.h"

#include "base/buffer.h"
#include "base/loop.h"

#include <stdio.h>

enum {
    POLL_FIRST_MS = 10,
    POLL_MAX_MS = 250,
    LEAVE_MS = 1000, /* for giving up a place in the queue */
    HEX_DIGITS = 16
};

static const char separator[] = "//";

/* A place in a lock's queue, and how long there is time for it. */
struct place {
    struct lkv *db;
    struct buffer key, first, end; /* own key; the keys of the queue are [first, end) */
    int64_t lease;
    uint64_t deadline_ns;
};

static struct lkv_bytes bytes_of(const struct buffer *buffer) {
    return (struct lkv_bytes){.data = buffer->data, .size = buffer->size};
}

static bool has_separator(struct lkv_bytes name) {
    const char *bytes = name.data;
    for (size_t i = 0; i + 1 < name.size; i++) {
        if (bytes[i] == '/' && bytes[i + 1] == '/') {
            return true;
        }
    }
    return name.size > 0 && bytes[name.size - 1] == '/';
}

/* So that no queue's keys lie in the range of another one's. */
static int check_name(struct lkv_bytes name) {
    struct slice slice;
    int rc = api_slice(name, &slice);
    if (rc == 0 && (name.size == 0 || has_separator(name))) {
        rc = api_fail(LKV_EINVAL, "the name of a lock is not empty, has no // and no / at its end");
    }
    return rc;
}

static void place_fini(struct place *place) {
    buffer_fini(&place->key);
    buffer_fini(&place->first);
    buffer_fini(&place->end);
}

static int place_init(struct place *place, struct lkv *db, struct lkv_bytes name, int64_t lease,
                      int64_t timeout_ms) {
    *place = (struct place){.db = db, .lease = lease};
    if (db == NULL) {
        return api_fail(LKV_EINVAL, "the handle is NULL");
    }
    if (timeout_ms < LKV_DEFAULT || lease < 0) {
        return api_fail(LKV_EINVAL, "a timeout of %lld ms, a lease %lld", (long long)timeout_ms,
                        (long long)lease);
    }
    int rc = check_name(name);
    if (rc != 0) {
        return rc;
    }
    uint64_t timeout = timeout_ms == LKV_DEFAULT ? db->timeout_ms : (uint64_t)timeout_ms;
    uint64_t now_ns = db->ops->now_ns(db);
    bool endless = timeout > (UINT64_MAX - now_ns) / MS_NS;
    place->deadline_ns = endless ? UINT64_MAX : now_ns + timeout * MS_NS;
    buffer_init(&place->key);
    buffer_init(&place->first);
    buffer_init(&place->end);
    buffer_append(&place->first, name.data, name.size);
    buffer_printf(&place->first, "%s", separator);
    buffer_append(&place->end, name.data, name.size);
    buffer_printf(&place->end, "/0"); /* '0' follows '/' */
    buffer_append(&place->key, name.data, name.size);
    buffer_printf(&place->key, "%s%0*llx", separator, (int)HEX_DIGITS, (unsigned long long)lease);
    if (place->key.failed || place->first.failed || place->end.failed) {
        place_fini(place);
        return api_fail(LKV_ENOMEM, "out of memory for a lock's name");
    }
    return 0;
}

static int64_t left_ms(const struct place *place) {
    uint64_t now_ns = place->db->ops->now_ns(place->db);
    uint64_t left_ns = place->deadline_ns > now_ns ? place->deadline_ns - now_ns : 0;
    return left_ns / MS_NS > INT64_MAX ? INT64_MAX : (int64_t)(left_ns / MS_NS);
}

/* On the caller's thread, for who has to ask again. LKV_ETIMEOUT when there is no time left. */
static int pause_for(const struct place *place, struct lkv_queue *nothing, int64_t *ms) {
    int64_t left = left_ms(place);
    if (left == 0) {
        return api_fail(LKV_ETIMEOUT, "the lock was not free in time");
    }
    lkv_msg_free(lkv_queue_next(nothing, *ms < left ? *ms : left));
    *ms = *ms * 2 < POLL_MAX_MS ? *ms * 2 : POLL_MAX_MS;
    return 0;
}

/* ------------------------------------------------------------------ entering and leaving the queue */

/* One attempt. Once more of one that had been done finds the place taken by itself. */
static int enter_once(const struct place *place, struct lkv_bytes value, uint64_t *token) {
    const struct lkv_change write = {.op = LKV_OP_PUT,
                                     .key = bytes_of(&place->key),
                                     .value = value,
                                     .lease = place->lease,
                                     .flags = LKV_IF_ABSENT | LKV_PREVIOUS};
    struct lkv_msg *msg = NULL;
    struct lkv_kv item;
    int rc = lkv_write(place->db, &write, left_ms(place), &msg);
    if (rc == 0) {
        (void)lkv_msg_u64(msg, "rev", token);
    } else if (rc == LKV_ECOMPARE && lkv_msg_kv(msg, 0, &item)) {
        *token = item.create_rev;
        rc = 0;
    }
    lkv_msg_free(msg);
    return rc;
}

static int enter(const struct place *place, struct lkv_queue *nothing, struct lkv_bytes value,
                 uint64_t *token) {
    int64_t pause_ms = POLL_FIRST_MS;
    for (;;) {
        int rc = enter_once(place, value, token);
        if (rc == 0 || !lkv_retryable(rc) || left_ms(place) == 0) {
            return rc;
        }
        if (pause_for(place, nothing, &pause_ms) != 0) {
            return rc;
        }
    }
}

static int leave(const struct place *place, int64_t timeout_ms, uint64_t *count) {
    const struct lkv_change write = {.op = LKV_OP_DELETE, .key = bytes_of(&place->key)};
    struct lkv_msg *msg = NULL;
    int rc = lkv_write(place->db, &write, timeout_ms, &msg);
    if (rc == 0 && !lkv_msg_u64(msg, "count", count)) {
        *count = 0;
    }
    lkv_msg_free(msg);
    return rc;
}

/* ------------------------------------------------------------------ waiting */

/* The oldest of the queue up to `token`; LKV_ENOTFOUND: there is none. */
static int find_oldest(const struct place *place, uint64_t token, struct lkv_msg **out,
                       struct lkv_kv *item) {
    const struct lkv_query query = {.from = bytes_of(&place->first),
                                    .to = bytes_of(&place->end),
                                    .limit = 1,
                                    .order = LKV_BY_CREATE_REV,
                                    .how = LKV_LINEARIZABLE,
                                    .create_rev_max = token};
    int rc = lkv_find(place->db, &query, left_ms(place), out);
    return rc == 0 && !lkv_msg_kv(*out, 0, item) ? LKV_ENOTFOUND : rc;
}

/* Until nobody is before us any more. */
static int wait_turn(const struct place *place, struct lkv_queue *nothing, uint64_t token) {
    int64_t pause_ms = POLL_FIRST_MS;
    int rc = 0;
    while (rc == 0) {
        struct lkv_msg *msg = NULL;
        struct lkv_kv item;
        rc = find_oldest(place, token, &msg, &item);
        bool ours = rc == 0 && item.create_rev == token;
        lkv_msg_free(msg);
        if (ours) {
            return 0;
        }
        if (rc == LKV_ENOTFOUND) {
            return api_fail(LKV_ELEASE, "the lease ended before it was our turn");
        }
        rc = rc == 0 || lkv_retryable(rc) ? pause_for(place, nothing, &pause_ms) : rc;
    }
    return rc;
}

/* What waits no longer leaves the queue; if that cannot be told, it may yet come to hold the lock. */
static int give_up(const struct place *place, int rc) {
    uint64_t count;
    bool left = leave(place, LEAVE_MS, &count) == 0 || rc == LKV_ELEASE;
    return left ? api_fail(rc, "%s", error_text(rc))
                : api_fail(LKV_EUNKNOWN, "not in time, and the cluster could not be told: it is in "
                                         "the queue until its lease ends");
}

static int hold(struct lkv *db, struct lkv_bytes name, int64_t lease, struct lkv_bytes value,
                int64_t timeout_ms, uint64_t *token) {
    struct place place;
    struct lkv_queue *nothing = NULL;
    uint64_t own = 0;
    int rc = lease > 0 ? place_init(&place, db, name, lease, timeout_ms)
                       : api_fail(LKV_EINVAL, "a lock needs a lease");
    if (rc != 0) {
        return rc;
    }
    rc = lkv_queue_new(&nothing);
    rc = rc == 0 ? enter(&place, nothing, value, &own) : rc;
    if (rc == 0 && (rc = wait_turn(&place, nothing, own)) != 0) {
        rc = give_up(&place, rc);
    }
    if (token != NULL) {
        *token = rc == 0 ? own : 0;
    }
    lkv_queue_free(nothing);
    place_fini(&place);
    return rc;
}

/* ------------------------------------------------------------------ the verbs */

int lkv_lock(struct lkv *db, struct lkv_bytes name, int64_t lease, int64_t timeout_ms,
             uint64_t *token) {
    return hold(db, name, lease, (struct lkv_bytes){0}, timeout_ms, token);
}

int lkv_unlock(struct lkv *db, struct lkv_bytes name, int64_t lease, int64_t timeout_ms) {
    struct place place;
    uint64_t count = 0;
    int rc = place_init(&place, db, name, lease, timeout_ms);
    if (rc != 0) {
        return rc;
    }
    rc = leave(&place, timeout_ms, &count);
    place_fini(&place);
    return rc == 0 && count == 0 ? api_fail(LKV_ENOTFOUND, "the lock was not held") : rc;
}

int lkv_campaign(struct lkv *db, struct lkv_bytes name, int64_t lease, struct lkv_bytes value,
                 int64_t timeout_ms, uint64_t *token) {
    return hold(db, name, lease, value, timeout_ms, token);
}

int lkv_observe(struct lkv *db, struct lkv_bytes name, uint64_t known, int64_t timeout_ms,
                struct lkv_msg **out) {
    struct place place;
    struct lkv_queue *nothing = NULL;
    *out = NULL;
    int rc = place_init(&place, db, name, 0, timeout_ms);
    if (rc != 0) {
        return rc;
    }
    int64_t pause_ms = POLL_FIRST_MS;
    rc = lkv_queue_new(&nothing);
    while (rc == 0) {
        struct lkv_kv item;
        rc = find_oldest(&place, 0, out, &item);
        if (rc == 0 && item.create_rev != known) {
            break;
        }
        bool again = rc == 0 || rc == LKV_ENOTFOUND || lkv_retryable(rc);
        rc = again ? pause_for(&place, nothing, &pause_ms) : rc;
        if (again) {
            lkv_msg_free(*out);
            *out = NULL;
        }
    }
    lkv_queue_free(nothing);
    place_fini(&place);
    return rc;
}

void lkv_txn_if_locked(struct lkv_txn *txn, struct lkv_bytes name, int64_t lease, uint64_t token) {
    /* A token is never 0: that is the create_rev of a key that is not there, of a lock that nobody holds. */
    int rc = check_name(name);
    if (rc == 0 && (lease <= 0 || token == 0)) {
        rc = api_fail(LKV_EINVAL,
                      "a lock held by lease %lld with token %llu, expected both from 1 on",
                      (long long)lease, (unsigned long long)token);
    }
    if (rc != 0) {
        api_txn_fault(txn, rc, lkv_last_text());
        return;
    }
    struct buffer key;
    buffer_init(&key);
    buffer_append(&key, name.data, name.size);
    buffer_printf(&key, "%s%0*llx", separator, (int)HEX_DIGITS, (unsigned long long)lease);
    /* Without its memory it is a compare that is refused: an empty key. */
    struct lkv_bytes bytes = key.failed ? (struct lkv_bytes){0} : bytes_of(&key);
    lkv_txn_if(txn, bytes, LKV_FIELD_CREATE_REV, '=', token, (struct lkv_bytes){0});
    buffer_fini(&key);
}
