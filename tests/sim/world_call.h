/* One operation of a simulated client, from its submit to its final message: what the files of the
 * workload share. */
#ifndef TESTS_SIM_WORLD_CALL_H
#define TESTS_SIM_WORLD_CALL_H

#include "lib/select.h"
#include "tests/sim/world.h"

enum {
    SIM_VALUE_BYTES_MAX = 8192,
    SIM_BATCH_MAX = 12,
    SIM_PREFIX_END = 100, /* the first key behind those that begin with "k0" */
    SIM_OWN_KEYS = 128    /* from here on: of writes with conditions, counters, transactions; the
                             black-box judge does not look at them */
};

/* What a SIM_CHANGE does; the keys follow from the call's. */
enum sim_shape {
    SIM_IF_ABSENT,
    SIM_IF_REV,
    SIM_KEEP,
    SIM_DROP,       /* a delete that tells what was there */
    SIM_DROP_RANGE, /* likewise */
    SIM_ADD,
    SIM_TXN,
    SIM_TXN_BAD, /* one operation of it cannot be carried out, most of the time */
    SIM_COMPACT,
    SIM_SHAPES
};

struct sim_call {
    struct list_link link; /* of the world */
    struct sim_world *world;
    struct sim_client *client;
    /* Where it was submitted: at one of the two. */
    struct sim_node *node;
    struct sim_remote *remote;
    unsigned life; /* of that one */
    uint64_t id;
    enum sim_call_kind kind;
    uint32_t key, end;
    bool to_last;              /* a range: without an end */
    int flags;                 /* of a range */
    size_t limit;              /* of a range */
    enum lkv_read how;         /* of a get, a range, a span */
    struct read_select select; /* of a get, a range */
    struct request *request;   /* of a view: as the library has made it; the submit takes it */
    bool pages;                /* a range that goes on where the client's last page has ended */
    enum sim_shape shape;      /* of SIM_CHANGE */
    uint64_t rev;              /* SIM_CHANGE: that it compares with, or compacts to */
    uint64_t value;            /* of an append: of its first record, the others follow */
    uint64_t floor; /* greatest index of an operation that had finished before this one began */
    uint64_t deadline_ns, submitted_ns;
    uint64_t session, seq;      /* 0: of none */
    int64_t lease;              /* of an operation on leases */
    struct lkv_session *opened; /* owned: a handle that waits for its session */
    int *done;
    size_t history; /* position of its first key in the history + 1; 0: not in it */

    /* Log mode. */
    uint32_t count;   /* records of an append */
    uint64_t in_term; /* of an append; 0: any */
    uint64_t from;    /* of a read, a hold */
    uint64_t order;   /* of an append among those of its handle's life; 0: it was sent before */
};

static inline bool sim_call_is_write(const struct sim_call *op) {
    return op->kind == SIM_PUT || op->kind == SIM_DELETE || op->kind == SIM_DELETE_RANGE ||
           op->kind == SIM_APPEND || op->kind == SIM_CHANGE;
}
static inline const char *sim_call_place(const struct sim_call *op) {
    return op->node != NULL ? op->node->name : op->remote->name;
}
static inline struct sim_appends *sim_call_appends(const struct sim_call *op) {
    return op->node != NULL ? &op->node->appends : &op->remote->appends;
}

/* --- world_load.c --- */
/* At the remote, or if it is NULL at the node. Operations on ranges draw their end. */
struct sim_call *sim_call_new(struct sim_world *world, struct sim_node *node,
                              struct sim_remote *remote, enum sim_call_kind kind, uint32_t key);
/* The greatest index that an operation stands for which had finished by then. */
uint64_t sim_completed_by(const struct sim_world *world, uint64_t at_ns);
const char *sim_call_name(enum sim_call_kind kind);
/* It has its final message: judged if anybody hears it. Frees the operation. True: the message is taken. */
bool sim_call_finish(struct sim_call *op, struct lkv_msg *reply, bool heard);
/* The bytes of a put's value, of a size drawn now. */
size_t sim_call_value(const struct sim_call *op, uint8_t bytes[static SIM_VALUE_BYTES_MAX]);

/* --- world_load_session.c: sessions as a simulated client uses them --- */
uint64_t sim_session_acked_below(const struct sim_client *client);
/* Before anything else: a session, and an answer to what is in doubt. NULL: nothing of the kind. */
struct sim_call *sim_session_op(struct sim_client *client, struct sim_node *node,
                                struct sim_remote *remote);
/* A write that is to be in the client's session is in doubt until it is answered. */
void sim_session_put_in(struct sim_client *client, struct sim_call *op);
/* NULL: none, or writes of it are under way. The client has no session from now on. */
struct sim_call *sim_session_end(struct sim_client *client, struct sim_node *node,
                                 struct sim_remote *remote);
void sim_session_answered(struct sim_call *op, const struct lkv_msg *reply, int rc);
/* The handle is gone; the session may be taken up again. */
void sim_session_let_go(struct sim_client *client);

/* --- world_lease.c: leases as a simulated client uses them --- */
static inline bool sim_call_is_lease(const struct sim_call *op) {
    return op->kind >= SIM_LEASE_GRANT && op->kind <= SIM_LEASE_PUT;
}
struct sim_call *sim_lease_op(struct sim_client *client, struct sim_node *node,
                              struct sim_remote *remote); /* NULL: nothing of the kind */
struct request *sim_lease_request(const struct sim_call *op);
int sim_lease_submit(const struct sim_call *op, struct lkv *db, int64_t timeout_ms,
                     struct lkv_queue *queue, void *tag);
void sim_lease_judge(const struct sim_call *op, const struct lkv_msg *reply);

/* --- world_load_more.c: status, digests, ranges with flags, reads on the caller's thread --- */
struct sim_call *sim_more_draw(struct sim_client *client, struct sim_node *node,
                               struct sim_remote *remote, uint32_t key);
/* The end of a range, empty when it has none. */
struct slice sim_call_end(const struct sim_call *op, char text[static SIM_KEY_SIZE]);
void sim_more_judge_status(const struct sim_call *op, const struct lkv_msg *reply);
void sim_more_judge_digest(const struct sim_call *op, const struct lkv_msg *reply);

/* --- world_load_read.c: reads of older revisions, in any order, filtered, in pages --- */
/* NULL: no such read now. */
struct sim_call *sim_read_draw(struct sim_client *client, struct sim_node *node,
                               struct sim_remote *remote, uint32_t key);
bool sim_same_item(const struct sim_model *model, uint32_t key, uint64_t index,
                   const struct lkv_kv *item, bool with_value);
/* A get or a range was answered by a state machine at `index`, or refused with LKV_ECOMPACTED or
 * LKV_EFUTURE. */
void sim_read_judge(const struct sim_call *op, uint64_t index, const struct lkv_msg *reply);
void sim_read_judge_refusal(const struct sim_call *op, const struct lkv_msg *reply);
/* The entry whose state was to be read, when that was answered at `index`; false: it cannot have been. */
bool sim_read_index(const struct sim_call *op, uint64_t index, uint64_t *of);
uint64_t sim_read_draw_rev(struct sim_world *world);
enum lkv_read sim_read_draw_how(struct sim_world *world);
enum lkv_read sim_read_draw_leased(struct sim_world *world); /* LKV_LINEARIZABLE or LKV_LEASED */

/* What promises the newest state. */
static inline bool sim_call_is_newest(const struct sim_call *op) {
    return op->how == LKV_LINEARIZABLE || op->how == LKV_LEASED;
}

/* --- world_load_view.c: views and iterators --- */
static inline bool sim_call_is_view(const struct sim_call *op) {
    return op->kind == SIM_VIEW_OPEN || op->kind == SIM_VIEW_PAGE;
}
/* The client's next step with its view; NULL: there is nothing to ask for. */
struct sim_call *sim_view_draw(struct sim_client *client, struct sim_node *node,
                               struct sim_remote *remote);
void sim_view_fini(struct sim_client *client);
/* True: the iterator has taken the message. */
bool sim_view_answered(const struct sim_call *op, struct lkv_msg *reply, bool heard);

/* --- world_load_write.c: conditions, counters, transactions, compaction --- */
struct sim_call *sim_write_draw(struct sim_client *client, struct sim_node *node,
                                struct sim_remote *remote, uint32_t key);
struct request *sim_write_request(const struct sim_call *op); /* at a node */
int sim_write_submit(const struct sim_call *op, struct lkv *db, int64_t timeout_ms,
                     struct lkv_queue *queue, void *tag); /* at a remote */
void sim_write_judge(const struct sim_call *op, const struct lkv_msg *reply);

/* --- world_log.c: the operations of log mode --- */
static inline bool sim_call_is_log(const struct sim_call *op) {
    return op->kind >= SIM_APPEND;
}
void sim_log_draw(struct sim_call *op); /* what a client does next */
/* Without deadline and owner. `call` is that of an append in a session, or all 0. */
struct request *sim_log_request(const struct sim_call *op, const struct session_call *call);
/* The records of an append, valid until the next call. */
void sim_log_records(const struct sim_call *op, struct slice records[static SIM_BATCH_MAX]);
/* It has its final message. */
void sim_log_judge(const struct sim_call *op, const struct lkv_msg *reply);
/* Follows the log: at the remote, or on some node. */
void sim_log_follow(struct sim_client *client, struct sim_remote *remote);
/* Ends the client's tail, if it has one. */
void sim_log_cancel(struct sim_client *client);
void sim_log_let_lead(struct sim_world *world); /* no tail gates anybody any more */
void sim_log_fini(struct sim_client *client);

#endif
