/* One operation on its way through a node or a client, from submit to its single final message.
 *
 * Whoever holds a request owes exactly one request_finish(). The reply is allocated together with
 * the request, so finishing cannot fail.
 */
#ifndef LIB_REQUEST_H
#define LIB_REQUEST_H

#include "lib/msg.h"
#include "lib/once.h"
#include "lib/select.h"

#include <stdatomic.h>

enum request_op {
    REQUEST_WRITE, /* a command of the state machine, encoded: `command` */
    REQUEST_GET,
    REQUEST_RANGE,
    REQUEST_VIEW_OPEN, /* of the revision in `select` */
    REQUEST_VIEW_CLOSE,
    REQUEST_STATUS,
    REQUEST_DIGEST,
    REQUEST_APPEND, /* records of the log itself: `records` */
    REQUEST_LOG_READ,
    REQUEST_LOG_SPAN,
    REQUEST_LOG_HOLD,     /* a node's own; key: the name */
    REQUEST_WATCH,        /* the first events of [key, end) from a place on */
    REQUEST_IMAGE,        /* a node's own: what node->own has written is its state at `from` */
    REQUEST_SESSION_KEEP, /* the leader is to know that `session` lives on */
    REQUEST_LEASE_KEEP,   /* the same of `lease` */
    REQUEST_LEASE_TTL, /* what is left of `lease`; at most `limit` of its keys, from behind `key` on */
    REQUEST_LEASE_LIST /* at most `limit` leases, from behind `lease` on */
};

/* Where the appends of one connection are that are not answered yet: in this node's log of one term, or on
 * the way to one leader. There each is behind the one before it; from two places they come in any order. */
struct append_place {
    size_t under_way;
    uint64_t at; /* valid while under_way > 0 */
};

struct request {
    struct list_link link;      /* the list of its present holder */
    struct list_link expiry;    /* of its holder's struct deadlines */
    struct request *inbox_next; /* of the inbox */
    enum request_op op;
    bool forwarded;   /* came from a follower: answered here or refused, never passed on */
    bool no_park;     /* LKV_ENOLEADER at once instead of waiting for a leader */
    uint8_t level;    /* REQUEST_WRITE: the feature level that the cluster must have; 0: any */
    bool placed;      /* counted in `place` */
    uint8_t write_op; /* REQUEST_WRITE: enum kv_op */
    bool answers;     /* REQUEST_WRITE: its answer has more than numbers */
    enum lkv_read how;
    int range_flags; /* enum lkv_range_flags */
    size_t limit;
    struct read_select select; /* REQUEST_GET: of its numbers the revision only; REQUEST_RANGE */
    uint64_t view_age_ms;      /* REQUEST_VIEW_OPEN */
    uint64_t view;             /* REQUEST_VIEW_CLOSE */
    uint64_t connection;       /* REQUEST_VIEW_OPEN: that asks for it; 0: this handle's own */
    struct blob *bytes;        /* owned; what key and end point into (reads) */
    struct slice key, end;     /* REQUEST_GET: key; REQUEST_RANGE, REQUEST_WATCH: [key, end) */
    struct blob *command;      /* owned; REQUEST_WRITE */
    uint64_t session; /* writes, appends, REQUEST_SESSION_KEEP: that it belongs to; 0: none */

    int64_t lease; /* REQUEST_LEASE_*; REQUEST_WRITE: 0, or that it ends */

    /* However often it is sent, it takes effect once (rule 26): so it is sent again when nobody knows
     * what became of it, until its deadline. */
    bool repeatable;
    bool maybe_done; /* an earlier attempt may have taken effect: no refusal is definite any more */
    bool was_in_doubt; /* so did an earlier request with its number, which ended as unknown */
    struct lkv_session *in_session; /* owned reference, or NULL: is told the answer */
    uint64_t seq;                   /* in there */

    /* Of the connection that an append came from; NULL: this handle's own. */
    struct append_place *place;
    struct blob **records; /* owned, with references; REQUEST_APPEND; in a session behind headers */
    size_t record_count;   /* also when the log has taken the references */
    uint64_t acked_below;  /* REQUEST_APPEND in a session */
    uint32_t records_crc;  /* REQUEST_APPEND in a session: once_crc */
    uint64_t order;   /* REQUEST_APPEND: rises with the submits of one node or client; 0: not yet */
    uint64_t in_term; /* REQUEST_APPEND: 0, or the only term in which it may be appended */
    uint64_t
        from; /* REQUEST_LOG_READ, REQUEST_LOG_HOLD, REQUEST_IMAGE: index; REQUEST_WATCH: revision, 0: the next */
    uint32_t from_sub; /* REQUEST_WATCH: number of the change within that revision */
    int watch_flags;   /* REQUEST_WATCH: enum lkv_watch_flags */
    const atomic_bool
        *unwanted; /* REQUEST_WATCH: NULL, or whether nobody wants the answer any more */
    struct node_watch *watching; /* REQUEST_WATCH: the node's, that waits for it */
    size_t bytes_max;            /* REQUEST_LOG_READ, REQUEST_WATCH */
    /* REQUEST_LOG_READ, REQUEST_WATCH: answered when there is a record or an event, or at the deadline */
    bool wait;
    size_t cost;           /* bytes that count against queue limits */
    atomic_size_t *held;   /* NULL, or where the cost is counted until the request finishes */
    uint64_t deadline_ns;  /* of the loop's clock; UINT64_MAX: none */
    struct lkv_msg *reply; /* owned until finish */

    /* Called once with the finished reply in request->reply (take it by setting that to NULL); the
     * request is freed after it returns. Loop thread. */
    void (*on_finish)(struct request *request);
    void *owner, *tag; /* of on_finish */

    /* The holder's own: index (of a batch: the last one's) and term of the log entry, or a wire
     * number. */
    uint64_t index, term, number;
    size_t survived; /* records of a batch that are known to be in the log, from its first on */
};

/* Returns owned with an empty reply, or NULL. */
struct request *request_new(enum request_op op);

/* Copies key and end into one blob. LKV_ENOMEM. */
MUST_USE int request_set_keys(struct request *request, struct slice key, struct slice end);

/* Copies the records, each into a blob with its checksum. LKV_ENOMEM. */
MUST_USE int request_set_records(struct request *request, const struct slice *records,
                                 size_t count);

/* The same for an append in a session, whose numbers `call` says: each behind its header. */
MUST_USE int request_set_records_once(struct request *request, const struct slice *records,
                                      size_t count, const struct session_call *call);

/* The i-th of them as its caller gave it. */
struct slice request_record(const struct request *request, size_t i);

/* True: an append of the same connection, or this one itself before, is at another place than `at`, from
 * which it may yet come back: this one must not go there now. */
bool request_is_apart(const struct request *request, uint64_t at);
void request_place(struct request *request, uint64_t at);
void request_unplace(struct request *request); /* finishing does it too */

/* What they hold in memory; 0 for other operations. */
size_t request_records_cost(const struct request *request);

/* Calls on_finish and frees. request_fail fills the reply first, as msg_set_rc does. The request is on
 * no list any more. A refusal after an attempt that may have taken effect becomes LKV_EUNKNOWN. */
void request_finish(struct request *request);
void request_fail(struct request *request, int rc, const char *format, ...) PRINTF_LIKE(3, 4);

/* What a refusal is called when an earlier attempt is in doubt. LKV_EUNKNOWN: to be asked again. Of a
 * refusal that stays (its session, its handle or its node has ended) LKV_EANSWERED: no answer will come any
 * more, and whoever asks until there is one may stop. */
static inline int request_doubtful(int rc) {
    return error_retryable(rc) ? LKV_EUNKNOWN : LKV_EANSWERED;
}

/* Frees without a final message: only before a submit has succeeded. NULL is fine. */
void request_free(struct request *request);

/* Answered by the leader, which knows how long they live. */
static inline bool request_is_of_lease(const struct request *request) {
    return request->op == REQUEST_LEASE_KEEP || request->op == REQUEST_LEASE_TTL ||
           request->op == REQUEST_LEASE_LIST;
}

/* True for operations that change nothing. */
static inline bool request_is_read(const struct request *request) {
    return request->op != REQUEST_WRITE && request->op != REQUEST_APPEND &&
           request->op != REQUEST_LOG_HOLD && request->op != REQUEST_IMAGE;
}

/* True for those that may be tried again whatever happened. */
static inline bool request_may_repeat(const struct request *request) {
    return request_is_read(request) || request->repeatable;
}

#endif
