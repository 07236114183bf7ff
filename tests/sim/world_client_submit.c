/* Operations of a simulated client by the verbs of ledgerkv.h, and which bytes of a client may come
 * twice. */
#include "base/assert.h"
#include "kv/command.h"
#include "lib/api.h"
#include "lib/client.h"
#include "lib/client_wire.h"
#include "lib/wire_input.h"
#include "tests/sim/world_call.h"

static struct lkv_bytes bytes_of(struct slice slice) {
    return (struct lkv_bytes){.data = slice.data, .size = slice.size};
}

/* Where an answer goes. */
struct answer {
    struct lkv *db;
    struct lkv_queue *queue;
    void *tag;
    int64_t timeout_ms;
};

/* ------------------------------------------------------------------ writes */

static int put(const struct sim_call *op, const struct answer *to) {
    char text[SIM_KEY_SIZE];
    uint8_t value[SIM_VALUE_BYTES_MAX];
    sim_key_text(op->key, text);
    struct lkv_bytes key = bytes_of(slice_text(text));
    struct lkv_bytes bytes = {.data = value, .size = sim_call_value(op, value)};
    return op->seq != 0 ? lkv_put_once_submit(op->client->held, op->seq, key, bytes, to->timeout_ms,
                                              to->queue, to->tag)
                        : lkv_put_submit(to->db, key, bytes, to->timeout_ms, to->queue, to->tag);
}

static int delete_keys(const struct sim_call *op, const struct answer *to) {
    char text[SIM_KEY_SIZE], end[SIM_KEY_SIZE];
    sim_key_text(op->key, text);
    struct lkv_bytes key = bytes_of(slice_text(text));
    struct lkv_bytes last = bytes_of(sim_call_end(op, end));
    bool range = op->kind == SIM_DELETE_RANGE;
    return op->seq != 0
               ? lkv_delete_once_submit(op->client->held, op->seq, key, last, range, to->timeout_ms,
                                        to->queue, to->tag)
               : lkv_delete_submit(to->db, key, last, range, to->timeout_ms, to->queue, to->tag);
}

static int append(const struct sim_call *op, const struct answer *to) {
    struct slice slices[SIM_BATCH_MAX];
    struct lkv_bytes records[SIM_BATCH_MAX];
    sim_log_records(op, slices);
    for (size_t i = 0; i < op->count; i++) {
        records[i] = bytes_of(slices[i]);
    }
    return op->seq != 0 ? lkv_append_once_submit(op->client->held, op->seq, records, op->count,
                                                 op->in_term, to->timeout_ms, to->queue, to->tag)
                        : lkv_append_submit(to->db, records, op->count, op->in_term, to->timeout_ms,
                                            to->queue, to->tag);
}

/* ------------------------------------------------------------------ sessions */

static int open_session(struct sim_call *op, const struct answer *to) {
    struct request *request;
    int rc = api_session_open(to->db, op->session, (int64_t)op->world->plan.session_ttl_ms,
                              &op->opened, &request);
    return rc == 0 ? api_submit(to->db, request, to->queue, to->tag) : rc;
}

static int close_session(struct sim_call *op, const struct answer *to) {
    struct request *request;
    struct lkv *db;
    int rc = api_session_close(op->opened, to->timeout_ms, &db, &request);
    ASSERT(rc != 0 || db == to->db);
    op->opened = NULL;
    return rc == 0 ? api_submit(db, request, to->queue, to->tag) : rc;
}

/* ------------------------------------------------------------------ reads */

static int get(const struct sim_call *op, const struct answer *to) {
    char text[SIM_KEY_SIZE];
    sim_key_text(op->key, text);
    enum lkv_read how = op->kind == SIM_GET_LOCAL ? LKV_LOCAL : op->how;
    struct lkv_bytes key = bytes_of(slice_text(text));
    return op->select.rev != 0
               ? lkv_get_at_submit(to->db, key, op->select.rev, how, to->timeout_ms, to->queue,
                                   to->tag)
               : lkv_get_submit(to->db, key, how, to->timeout_ms, to->queue, to->tag);
}

static int range(const struct sim_call *op, const struct answer *to) {
    char from[SIM_KEY_SIZE], end[SIM_KEY_SIZE];
    sim_key_text(op->key, from);
    const struct read_select *select = &op->select;
    if (select->rev != 0 || select_picks(select)) {
        const struct lkv_query query = {.from = bytes_of(slice_text(from)),
                                        .to = bytes_of(sim_call_end(op, end)),
                                        .rev = select->rev,
                                        .limit = op->limit,
                                        .flags = op->flags,
                                        .order = select->order,
                                        .how = op->how,
                                        .mod_rev_min = select->mod_rev_min,
                                        .mod_rev_max = select->mod_rev_max,
                                        .create_rev_min = select->create_rev_min,
                                        .create_rev_max = select->create_rev_max};
        return lkv_find_submit(to->db, &query, to->timeout_ms, to->queue, to->tag);
    }
    return lkv_range_submit(to->db, bytes_of(slice_text(from)), bytes_of(sim_call_end(op, end)),
                            op->limit, op->flags, op->how, to->timeout_ms, to->queue, to->tag);
}

static int ask(const struct sim_call *op, enum request_op what, const struct answer *to) {
    struct request *request;
    int rc = api_begin(to->db, what, to->timeout_ms, &request);
    if (rc != 0) {
        return rc;
    }
    request->how = op->how;
    return api_submit(to->db, request, to->queue, to->tag);
}

int sim_remote_submit(struct sim_call *op, int64_t timeout_ms) {
    const struct answer to = {.db = client_handle(op->remote->client),
                              .queue = op->remote->queue,
                              .tag = (void *)(uintptr_t)op->id,
                              .timeout_ms = timeout_ms};
    switch (op->kind) {
    case SIM_PUT: return put(op, &to);
    case SIM_DELETE:
    case SIM_DELETE_RANGE: return delete_keys(op, &to);
    case SIM_GET:
    case SIM_GET_LOCAL: return get(op, &to);
    case SIM_RANGE: return range(op, &to);
    case SIM_CHANGE: return sim_write_submit(op, to.db, timeout_ms, to.queue, to.tag);
    case SIM_SESSION_OPEN: return open_session(op, &to);
    case SIM_SESSION_CLOSE: return close_session(op, &to);
    case SIM_LEASE_GRANT:
    case SIM_LEASE_KEEP:
    case SIM_LEASE_REVOKE:
    case SIM_LEASE_TTL:
    case SIM_LEASE_LIST:
    case SIM_LEASE_PUT: return sim_lease_submit(op, to.db, timeout_ms, to.queue, to.tag);
    case SIM_STATUS: return ask(op, REQUEST_STATUS, &to);
    case SIM_DIGEST: return ask(op, REQUEST_DIGEST, &to);
    case SIM_LOG_SPAN: return ask(op, REQUEST_LOG_SPAN, &to);
    case SIM_VIEW_OPEN:
    case SIM_VIEW_PAGE:
        op->request->deadline_ns = to.db->ops->now_ns(to.db) + (uint64_t)timeout_ms * MS_NS;
        return api_submit(to.db, op->request, to.queue, to.tag);
    case SIM_APPEND: return append(op, &to);
    case SIM_LOG_READ:
        return lkv_log_read_submit(to.db, op->from, op->floor % 3 == 0 ? 1 : 0, timeout_ms,
                                   to.queue, to.tag);
    case SIM_SESSION_KEEP: /* the handle's own */
    case SIM_HOLD: break;  /* a node's own */
    }
    return LKV_EUNSUPPORTED;
}

/* ------------------------------------------------------------------ what may come twice */

struct prefix {
    struct wire_decoder *decoder;
    size_t size; /* of whole calls that may be repeated */
    bool over;
};

static bool command_may(struct slice bytes) {
    struct kv_command command;
    struct reason why = {{0}};
    return kv_command_decode(bytes, &command, &why) == 0 &&
           (command.session != 0 || !kv_command_has_keys(&command));
}

static bool call_may(const struct wire_call *call) {
    switch (call->method) {
    case WIRE_PROPOSE: return command_may(call->command);
    case WIRE_LEASE_GRANT:
    case WIRE_LEASE_REVOKE: return false;
    case WIRE_PUT:
    case WIRE_DELETE:
    case WIRE_APPEND: return call->session != 0;
    case WIRE_PING:
    case WIRE_GET:
    case WIRE_RANGE:
    case WIRE_STATUS:
    case WIRE_DIGEST:
    case WIRE_SESSION_OPEN:
    case WIRE_SESSION_CLOSE:
    case WIRE_SESSION_KEEP:
    case WIRE_VIEW_OPEN: /* one more, which ends by itself */
    case WIRE_VIEW_CLOSE:
    case WIRE_LEASE_KEEP:
    case WIRE_LEASE_TTL:
    case WIRE_LEASE_LIST:
    case WIRE_WATCH:
    case WIRE_LOG_READ:
    case WIRE_LOG_SPAN: break;
    }
    return true;
}

static int take_frame(void *arg, struct slice frame) {
    struct prefix *prefix = arg;
    struct wire_call call;
    struct reason why = {{0}};
    bool numbered = false;
    int rc = wire_decode_call(prefix->decoder, frame, &call, &numbered, &why);
    ASSERT(rc == 0);
    prefix->over = prefix->over || !call_may(&call);
    prefix->size += prefix->over ? 0 : frame.size;
    return WIRE_MORE;
}

size_t sim_remote_repeatable(struct slice bytes) {
    struct prefix prefix = {.decoder = wire_decoder_new()};
    struct wire_input input;
    struct reason why = {{0}};
    ASSERT(prefix.decoder != NULL);
    wire_input_init(&input);
    int rc = wire_input_feed(&input, bytes, &wire_call_limits, take_frame, &prefix, &why);
    ASSERT(rc == 0);
    wire_input_fini(&input);
    wire_decoder_free(prefix.decoder);
    return prefix.size;
}
