/*     CONNECTING ──> UP ──> DOWN        (DOWN also straight from CONNECTING)
 *
 * A request that was taken lies in three places until it is answered, lost or expired: a list in the
 * order of sending (`unsent` until it is written, then `in_flight`), a slot by its number, and the
 * deadlines. A number is a sequence number above a slot's index, so a late or doubled reply finds the
 * slot, but not itself in it.
 */
#include "lib/remote.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/client_wire.h"
#include "lib/deadlines.h"
#include "lib/wire_input.h"

enum {
    SLOT_BITS = 20,
    SLOTS_MAX = 1 << SLOT_BITS,
    PING_NUMBER = 0, /* no request's: sequence numbers begin at 1 */
    OUTPUT_BYTES_MAX = 32 * 1024 * 1024,
    SCRATCH_BYTES_MAX = 64 * 1024, /* kept between requests */
    CONNECT_MS = 2000,
    PING_AFTER_MS = 500,
    DEAD_AFTER_MS = 2500,
    MARGIN_MS_MAX = 100
};

enum remote_state { REMOTE_CONNECTING, REMOTE_UP, REMOTE_DOWN };

struct slot {
    struct request *request; /* NULL: free */
    uint32_t next_free;
};

struct remote {
    struct loop *loop;
    struct remote_events events;
    enum remote_state state;
    struct net_conn *conn; /* NULL when DOWN */
    struct wire_decoder *decoder;
    struct wire_input input;
    struct buffer scratch; /* the request being encoded */
    struct slice *records; /* owned: of the append being encoded */
    size_t record_capacity;
    uint64_t refused_appends;   /* as the node told: docs/formats/client-rpc.md says why */
    struct list_link unsent;    /* waits for the connection: nothing of it was written */
    struct list_link in_flight; /* written */
    struct slot *slots;         /* owned */
    size_t slot_count;
    uint32_t first_free; /* SLOTS_MAX: none */
    uint64_t sequence;
    size_t count;        /* in both lists */
    size_t appends;      /* of them */
    uint64_t last_order; /* the greatest of an append in both lists, or of one that was */
    size_t unsent_bytes; /* cost of those in `unsent`, while CONNECTING */
    struct deadlines deadlines;
    uint64_t opened_ns;
    uint64_t silent_since_ns; /* nothing heard although something is owed */
    size_t queued_then;       /* bytes not yet sent then */
    bool pinged;
    bool unanswered; /* a deadline passed in this silence: it goes on with nothing in flight */
    uint64_t answers, strays;
    bool untouched; /* it was refused, and nothing that was sent on it was looked at */
    struct reason refusal;
    unsigned calls; /* of the owner, on the stack below */
    bool closed;    /* by the owner: freed when `calls` is 0 */
};

/* ------------------------------------------------------------------ numbers */

static bool grow_slots(struct remote *remote) {
    size_t capacity = remote->slot_count;
    if (capacity == SLOTS_MAX) {
        return false;
    }
    struct slot *grown =
        mem_array_grow(remote->slots, &capacity, remote->slot_count + 1, sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    remote->slots = grown;
    for (size_t i = capacity; i-- > remote->slot_count;) {
        grown[i] = (struct slot){.request = NULL, .next_free = remote->first_free};
        remote->first_free = (uint32_t)i;
    }
    remote->slot_count = capacity;
    return true;
}

static uint32_t slot_of(uint64_t number) {
    return (uint32_t)(number & (SLOTS_MAX - 1));
}

/* The request of a number, or NULL. */
static struct request *find(const struct remote *remote, uint64_t number) {
    uint32_t i = slot_of(number);
    struct request *request = i < remote->slot_count ? remote->slots[i].request : NULL;
    return request != NULL && request->number == number ? request : NULL;
}

static uint64_t next_number(const struct remote *remote) {
    return ((remote->sequence + 1) << SLOT_BITS) | remote->first_free;
}

static void enlist(struct remote *remote, struct request *request) {
    struct slot *slot = &remote->slots[remote->first_free];
    remote->first_free = slot->next_free;
    slot->request = request;
    remote->sequence++;
    remote->count++;
    if (request->op == REQUEST_APPEND) {
        remote->last_order = remote->appends == 0 || request->order > remote->last_order
                                 ? request->order
                                 : remote->last_order;
        remote->appends++;
    }
    list_push_back(remote->state == REMOTE_UP ? &remote->in_flight : &remote->unsent,
                   &request->link);
    deadlines_add(&remote->deadlines, request);
}

static void delist(struct remote *remote, struct request *request) {
    uint32_t i = slot_of(request->number);
    ASSERT(remote->slots[i].request == request);
    remote->slots[i] = (struct slot){.request = NULL, .next_free = remote->first_free};
    remote->first_free = i;
    remote->count--;
    remote->appends -= request->op == REQUEST_APPEND;
    if (remote->state == REMOTE_CONNECTING) {
        remote->unsent_bytes -= request->cost;
    }
    list_remove(&request->link);
    deadlines_remove(&remote->deadlines, request);
}

/* ------------------------------------------------------------------ calls of the owner */

/* The owner may close us from inside: nothing is freed before the last call has returned. */
static void begin_call(struct remote *remote) {
    remote->calls++;
}

static void end_call(struct remote *remote) {
    remote->calls--;
    if (remote->calls > 0 || !remote->closed) {
        return;
    }
    ASSERT(list_empty(&remote->in_flight) && list_empty(&remote->unsent));
    wire_decoder_free(remote->decoder);
    wire_input_fini(&remote->input);
    buffer_fini(&remote->scratch);
    mem_free(remote->slots);
    mem_free(remote->records);
    mem_free(remote);
}

static void lose(struct remote *remote, struct request *request, bool sent, int rc) {
    delist(remote, request);
    remote->events.on_lost(remote->events.arg, request, sent, rc);
}

static void lose_all(struct remote *remote, struct list_link *list, bool sent, int rc) {
    while (!list_empty(list)) {
        lose(remote, LIST_ITEM(list->next, struct request, link), sent, rc);
    }
}

/* The connection itself is closed already. */
static void go_down(struct remote *remote, int rc) {
    remote->state = REMOTE_DOWN;
    remote->conn = NULL;
    /* Rule 28: what nobody has looked at is as good as not sent. */
    lose_all(remote, &remote->in_flight, !remote->untouched, rc);
    lose_all(remote, &remote->unsent, false, rc);
    if (!remote->closed) {
        remote->events.on_down(remote->events.arg, rc);
    }
}

static void break_off(struct remote *remote, int rc) {
    if (remote->conn != NULL) {
        net_close(remote->conn);
        go_down(remote, rc);
    }
}

/* ------------------------------------------------------------------ replies */

/* The node does not know what became of a write that takes effect once: somebody else will, or the next
 * attempt makes it known. */
static bool is_doubt(struct request *request) {
    bool doubt = request->repeatable && request->reply->rc == LKV_EUNKNOWN;
    request->maybe_done = request->maybe_done || doubt;
    return doubt;
}

/* The node has answered, but the answer found no room here. */
static void answer_lost(struct request *request) {
    bool read = request_is_read(request);
    request_fail(request, read ? LKV_ENOMEM : LKV_EUNKNOWN, "out of memory for the answer");
}

/* Told, not counted: the answer to one that has timed out here may not be seen. */
static void hear_refusals(struct remote *remote, const struct lkv_msg *reply) {
    (void)lkv_msg_u64(reply, "refusals", &remote->refused_appends);
}

static int take_reply(struct remote *remote, struct request *request, struct slice frame) {
    struct reason why = {{0}};
    int rc = wire_read_reply(remote->decoder, frame, request->reply, &why);
    if (rc != 0 && rc != LKV_ENOMEM) {
        return rc; /* it is lost with the connection */
    }
    delist(remote, request);
    hear_refusals(remote, request->reply);
    if (rc == LKV_ENOMEM) {
        msg_clear(request->reply);
        answer_lost(request);
    } else if (remote_is_refusal(request->reply->rc) || is_doubt(request)) {
        remote->events.on_refused(remote->events.arg, request);
    } else {
        remote->answers++;
        request_finish(request);
    }
    return 0;
}

/* Of one that has timed out here, mostly. What it says of refusals holds for the next one that is sent. */
static void take_stray(struct remote *remote, struct slice frame) {
    struct lkv_msg *reply = msg_new(LKV_REPLY, NULL);
    struct reason why = {{0}};
    if (reply != NULL && wire_read_reply(remote->decoder, frame, reply, &why) == 0) {
        hear_refusals(remote, reply);
    }
    lkv_msg_free(reply);
    remote->strays++;
}

static int take_frame(void *arg, struct slice frame) {
    struct remote *remote = arg;
    struct reason why = {{0}};
    uint64_t number;
    int rc = wire_open_reply(remote->decoder, frame, &number, &why);
    if (rc != 0) { /* what the node says of the connection, or nonsense */
        remote->untouched = wire_is_untouched(remote->decoder, frame);
        remote->refusal = why;
        return rc;
    }
    struct request *request = find(remote, number);
    if (request != NULL) {
        rc = take_reply(remote, request, frame);
    } else if (number != PING_NUMBER) {
        take_stray(remote, frame);
    }
    return remote->conn != NULL ? rc : LKV_ECLOSED;
}

static void hear(struct remote *remote) {
    remote->silent_since_ns = loop_now_ns(remote->loop);
    remote->pinged = remote->unanswered = false;
}

static void on_data(void *arg, struct slice bytes) {
    struct remote *remote = arg;
    struct reason why = {{0}};
    begin_call(remote);
    hear(remote);
    int rc = wire_input_feed(&remote->input, bytes, &wire_reply_limits, take_frame, remote, &why);
    if (rc < 0) {
        break_off(remote, rc);
    }
    end_call(remote);
}

/* ------------------------------------------------------------------ requests */

/* The node is told less than what is left, so that its answer, which may be more definite than our
 * "unknown", comes before we stop waiting. */
static uint64_t timeout_for_node(uint64_t left_ns) {
    uint64_t left_ms = left_ns / MS_NS;
    uint64_t margin_ms = left_ms / 16;
    return left_ms - (margin_ms < MARGIN_MS_MAX ? margin_ms : MARGIN_MS_MAX);
}

static enum wire_method method_of(enum request_op op) {
    switch (op) {
    case REQUEST_WRITE: return WIRE_PROPOSE;
    case REQUEST_GET: return WIRE_GET;
    case REQUEST_RANGE: return WIRE_RANGE;
    case REQUEST_STATUS: return WIRE_STATUS;
    case REQUEST_DIGEST: return WIRE_DIGEST;
    case REQUEST_APPEND: return WIRE_APPEND;
    case REQUEST_LOG_READ: return WIRE_LOG_READ;
    case REQUEST_LOG_SPAN: return WIRE_LOG_SPAN;
    case REQUEST_SESSION_KEEP: return WIRE_SESSION_KEEP;
    case REQUEST_VIEW_OPEN: return WIRE_VIEW_OPEN;
    case REQUEST_VIEW_CLOSE: return WIRE_VIEW_CLOSE;
    case REQUEST_LEASE_KEEP: return WIRE_LEASE_KEEP;
    case REQUEST_LEASE_TTL: return WIRE_LEASE_TTL;
    case REQUEST_LEASE_LIST: return WIRE_LEASE_LIST;
    case REQUEST_WATCH: return WIRE_WATCH;
    case REQUEST_LOG_HOLD:
    case REQUEST_IMAGE: break; /* a node's own */
    }
    return WIRE_PING;
}

static struct wire_call call_of(const struct remote *remote, const struct request *request,
                                uint64_t now_ns) {
    unsigned flags = (remote->events.may_pass_on ? 0 : (unsigned)WIRE_HERE) |
                     (request->no_park ? (unsigned)WIRE_NO_WAIT : 0);
    return (struct wire_call){.number = request->number,
                              .method = method_of(request->op),
                              .key = request->key,
                              .end = request->end,
                              .command = blob_slice(request->command),
                              .records = remote->records,
                              .record_count = request->record_count,
                              .in_term = request->in_term,
                              .session = request->op != REQUEST_WRITE ? request->session : 0,
                              .lease = request->lease,
                              .seq = request->seq,
                              .acked_below = request->acked_below,
                              .refusals = remote->refused_appends,
                              .from = request->from,
                              .from_sub = request->from_sub,
                              .watch_flags = request->watch_flags,
                              .bytes_max = request->bytes_max,
                              .wait = request->wait,
                              .limit = request->limit,
                              .range_flags = request->range_flags,
                              .select = request->select,
                              .view_age_ms = request->view_age_ms,
                              .view = request->view,
                              .how = request->how,
                              .has_timeout = request->deadline_ns != UINT64_MAX,
                              .timeout_ms = timeout_for_node(request->deadline_ns - now_ns),
                              .flags = flags};
}

/* The records of an append as the codec wants them. LKV_ENOMEM. */
static int gather_records(struct remote *remote, const struct request *request) {
    if (request->op != REQUEST_APPEND) {
        return 0;
    }
    struct slice *records = mem_array_grow(remote->records, &remote->record_capacity,
                                           request->record_count, sizeof(*records));
    if (records == NULL) {
        return LKV_ENOMEM;
    }
    remote->records = records;
    for (size_t i = 0; i < request->record_count; i++) {
        records[i] = request_record(request, i);
    }
    return 0;
}

static int write_call(struct remote *remote, const struct wire_call *call) {
    struct buffer *scratch = &remote->scratch;
    buffer_clear(scratch);
    wire_encode_call(scratch, call);
    int rc = LKV_ENOMEM;
    if (!scratch->failed) {
        /* All of a frame or nothing: half of one would spoil the stream. */
        rc = net_queued(remote->conn) + scratch->size > OUTPUT_BYTES_MAX
                 ? LKV_EBUSY
                 : net_write(remote->conn, buffer_slice(scratch));
    }
    if (scratch->capacity > SCRATCH_BYTES_MAX) {
        buffer_fini(scratch);
    }
    return rc;
}

static int write_request(struct remote *remote, const struct request *request, uint64_t now_ns) {
    int rc = gather_records(remote, request);
    if (rc != 0) {
        return rc;
    }
    struct wire_call call = call_of(remote, request, now_ns);
    return write_call(remote, &call);
}

/* Until the connection stands nothing is written, so that a request which expires by then has
 * definitely not been sent: bytes in the connection's queue could not be taken back. */
static int write_or_wait(struct remote *remote, const struct request *request, uint64_t now_ns) {
    if (remote->state == REMOTE_UP) {
        return write_request(remote, request, now_ns);
    }
    if (remote->unsent_bytes + request->cost > OUTPUT_BYTES_MAX) {
        return LKV_EBUSY;
    }
    remote->unsent_bytes += request->cost;
    return 0;
}

/* After an error those that were not written are still in `unsent`. */
static int write_unsent(struct remote *remote) {
    uint64_t now_ns = loop_now_ns(remote->loop);
    int rc = 0;
    remote->unsent_bytes = 0;
    while (rc == 0 && !list_empty(&remote->unsent)) {
        struct request *request = LIST_ITEM(remote->unsent.next, struct request, link);
        if (request->deadline_ns <= now_ns) {
            lose(remote, request, false, LKV_ETIMEOUT);
            continue;
        }
        rc = write_request(remote, request, now_ns);
        if (rc == 0) {
            list_remove(&request->link);
            list_push_back(&remote->in_flight, &request->link);
        }
    }
    return rc;
}

int remote_submit(struct remote *remote, struct request *request) {
    uint64_t now_ns = loop_now_ns(remote->loop);
    if (remote->conn == NULL) {
        return LKV_EUNREACHABLE;
    }
    if (request->deadline_ns <= now_ns) {
        return LKV_ETIMEOUT;
    }
    if (remote->first_free == SLOTS_MAX && !grow_slots(remote)) {
        return remote->slot_count == SLOTS_MAX ? LKV_EBUSY : LKV_ENOMEM;
    }
    request->number = next_number(remote);
    int rc = write_or_wait(remote, request, now_ns);
    if (rc != 0) {
        return rc;
    }
    msg_clear(request->reply);
    if (remote->count == 0 && !remote->unanswered) {
        remote->silent_since_ns = now_ns; /* nothing was owed until now */
        remote->pinged = false;
    }
    enlist(remote, request);
    return 0;
}

/* ------------------------------------------------------------------ time */

static void expire_requests(struct remote *remote, uint64_t now_ns) {
    struct list_link due;
    list_init(&due);
    deadlines_expire(&remote->deadlines, now_ns, &due);
    while (!list_empty(&due)) {
        struct request *request = LIST_ITEM(due.next, struct request, expiry);
        remote->unanswered = true;
        lose(remote, request, remote->state == REMOTE_UP, LKV_ETIMEOUT);
    }
}

static void send_ping(struct remote *remote) {
    struct wire_call call = {.number = PING_NUMBER, .method = WIRE_PING};
    int rc = write_call(remote, &call);
    (void)rc; /* the silence goes on, and is judged all the same */
    remote->pinged = true;
}

/* When the present silence has to be looked at; UINT64_MAX: it means nothing. */
static uint64_t silence_ends(const struct remote *remote) {
    switch (remote->state) {
    case REMOTE_CONNECTING: return remote->opened_ns + CONNECT_MS * MS_NS;
    case REMOTE_UP:
        if (remote->count == 0 && !remote->unanswered) {
            return UINT64_MAX;
        }
        return remote->silent_since_ns + (remote->pinged ? DEAD_AFTER_MS : PING_AFTER_MS) * MS_NS;
    case REMOTE_DOWN: break;
    }
    return UINT64_MAX;
}

/* A node that takes what we send is busy with a large request, not gone. */
static bool output_moves(struct remote *remote, uint64_t now_ns) {
    size_t queued = net_queued(remote->conn);
    bool moves = remote->pinged && queued > 0 && queued < remote->queued_then;
    if (moves) {
        remote->silent_since_ns = now_ns - PING_AFTER_MS * MS_NS;
    }
    remote->queued_then = queued;
    return moves;
}

static void judge_silence(struct remote *remote, uint64_t now_ns) {
    if (now_ns < silence_ends(remote)) {
        return;
    }
    if (remote->state == REMOTE_UP && !remote->pinged) {
        send_ping(remote);
        remote->queued_then = net_queued(remote->conn);
    } else if (remote->state == REMOTE_CONNECTING || !output_moves(remote, now_ns)) {
        break_off(remote, LKV_EUNREACHABLE);
    }
}

uint64_t remote_expire(struct remote *remote, uint64_t now_ns) {
    begin_call(remote);
    expire_requests(remote, now_ns);
    judge_silence(remote, now_ns);
    uint64_t next_ns = UINT64_MAX;
    if (!remote->closed) {
        uint64_t silence_ns = silence_ends(remote);
        uint64_t deadline_ns = deadlines_next(&remote->deadlines);
        next_ns = silence_ns < deadline_ns ? silence_ns : deadline_ns;
    }
    end_call(remote);
    return next_ns;
}

/* ------------------------------------------------------------------ life */

static void on_open(void *arg) {
    struct remote *remote = arg;
    begin_call(remote);
    remote->state = REMOTE_UP;
    hear(remote);
    int rc = write_unsent(remote);
    if (rc != 0) {
        break_off(remote, rc);
    } else if (!remote->closed) { /* by on_lost */
        remote->events.on_up(remote->events.arg);
    }
    end_call(remote);
}

static void on_close(void *arg, int rc) {
    struct remote *remote = arg;
    begin_call(remote);
    go_down(remote, rc != 0 ? rc : LKV_EUNREACHABLE);
    end_call(remote);
}

static const struct net_conn_events conn_events = {
    .on_open = on_open, .on_data = on_data, .on_close = on_close};

static struct remote *remote_new(struct loop *loop, const struct remote_events *events) {
    struct remote *remote = mem_calloc(1, sizeof(*remote));
    if (remote == NULL) {
        return NULL;
    }
    remote->decoder = wire_decoder_new();
    if (remote->decoder == NULL) {
        mem_free(remote);
        return NULL;
    }
    remote->loop = loop;
    remote->events = *events;
    wire_input_init(&remote->input);
    buffer_init(&remote->scratch);
    list_init(&remote->unsent);
    list_init(&remote->in_flight);
    remote->first_free = SLOTS_MAX;
    remote->opened_ns = loop_now_ns(loop);
    deadlines_init(&remote->deadlines, remote->opened_ns);
    return remote;
}

int remote_open(struct remote **out, struct loop *loop, struct net *net, const char *address,
                const struct remote_events *events) {
    *out = NULL;
    struct remote *remote = remote_new(loop, events);
    if (remote == NULL) {
        return LKV_ENOMEM;
    }
    int rc = net_connect(net, address, &conn_events, remote, &remote->conn);
    if (rc != 0) {
        begin_call(remote);
        remote->closed = true;
        end_call(remote);
        return rc;
    }
    *out = remote;
    return 0;
}

void remote_close(struct remote *remote) {
    if (remote == NULL || remote->closed) {
        return;
    }
    begin_call(remote);
    remote->closed = true;
    break_off(remote, LKV_ECLOSED);
    end_call(remote);
}

const char *remote_refusal(const struct remote *remote) {
    return remote->untouched ? remote->refusal.text : NULL;
}

bool remote_up(const struct remote *remote) {
    return remote->state == REMOTE_UP;
}

size_t remote_in_flight(const struct remote *remote) {
    return remote->count;
}

size_t remote_appends_in_flight(const struct remote *remote) {
    return remote->appends;
}

bool remote_would_overtake(const struct remote *remote, const struct request *request) {
    return request->op == REQUEST_APPEND && remote->appends > 0 &&
           request->order < remote->last_order;
}

uint64_t remote_answers(const struct remote *remote) {
    return remote->answers;
}

bool remote_suspect(const struct remote *remote) {
    return remote->pinged;
}

uint64_t remote_strays(const struct remote *remote) {
    return remote->strays;
}
