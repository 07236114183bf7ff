/* Clients, and what is checked of each answer: index order against real time, values against the
 * model, one final message each. */
#include "tests/sim/world_call.h"
#include "tests/sim/world_watch.h"

#include "base/assert.h"
#include "base/crc.h"
#include "lib/write_command.h"

#include <inttypes.h>
#include <stdlib.h>

enum { LATE_MS = 3000 };

static void next_in(struct sim_client *client, uint64_t mean_ns) {
    struct sim_world *world = client->world;
    uint64_t ns = prng_below(&world->prng_load, 2 * mean_ns + 1);
    if (!sim_event_planned(&client->next)) {
        sim_event_in(&world->time, &client->next, ns);
    }
}

static const char *const kind_names[] = {[SIM_PUT] = "put",
                                         [SIM_GET] = "get",
                                         [SIM_GET_LOCAL] = "get-local",
                                         [SIM_DELETE] = "delete",
                                         [SIM_DELETE_RANGE] = "delete-range",
                                         [SIM_RANGE] = "range",
                                         [SIM_SESSION_OPEN] = "session-open",
                                         [SIM_SESSION_KEEP] = "keep-alive",
                                         [SIM_SESSION_CLOSE] = "session-close",
                                         [SIM_STATUS] = "status",
                                         [SIM_DIGEST] = "digest",
                                         [SIM_VIEW_OPEN] = "view-open",
                                         [SIM_VIEW_PAGE] = "view-page",
                                         [SIM_LEASE_GRANT] = "lease-grant",
                                         [SIM_LEASE_KEEP] = "lease-keep",
                                         [SIM_LEASE_REVOKE] = "lease-revoke",
                                         [SIM_LEASE_TTL] = "lease-ttl",
                                         [SIM_LEASE_LIST] = "lease-list",
                                         [SIM_LEASE_PUT] = "lease-put",
                                         [SIM_CHANGE] = "write",
                                         [SIM_APPEND] = "append",
                                         [SIM_LOG_READ] = "read",
                                         [SIM_LOG_SPAN] = "span",
                                         [SIM_HOLD] = "hold"};

const char *sim_call_name(enum sim_call_kind kind) {
    return kind_names[kind];
}

/* ------------------------------------------------------------------ judging an answer */

static bool same_write(const struct sim_call *op, const struct sim_entry *entry) {
    if (op->kind == SIM_PUT) {
        return entry->is_put && entry->value == op->value && entry->key == op->key;
    }
    return entry->is_delete && entry->key == op->key && entry->end == op->end;
}

static void judge_write(struct sim_world *world, const struct sim_call *op, uint64_t index,
                        const struct lkv_msg *reply) {
    struct sim_model *model = &world->model;
    if (index > model->commit) {
        sim_world_fail(world, "a write is done at %" PRIu64 ", committed is %" PRIu64, index,
                       model->commit);
        return;
    }
    struct sim_entry *entry = model->committed[index];
    uint64_t rev = 0, count = 0;
    (void)lkv_msg_u64(reply, "rev", &rev);
    (void)lkv_msg_u64(reply, "count", &count);
    bool again = op->seq != 0 && entry->command.session == op->session &&
                 entry->command.seq == op->seq && entry->first == index;
    if (!same_write(op, entry) || (entry->claimed && !again)) {
        sim_world_fail(world, "a write of key %u is done at %" PRIu64 ", where another stands",
                       op->key, index);
    } else if (rev != entry->revision || count != entry->count) {
        sim_world_fail(world,
                       "the write at %" PRIu64 " has revision %" PRIu64 ", count %" PRIu64
                       ", not %" PRIu64 ", %" PRIu64,
                       index, entry->revision, entry->count, rev, count);
    } else if (index <= op->floor) {
        sim_world_fail(
            world, "a write takes effect at %" PRIu64 ", but began after %" PRIu64 " was answered",
            index, op->floor);
    }
    entry->claimed = true;
}

static void complete(struct sim_world *world, uint64_t index) {
    if (index <= world->completed_index) {
        return;
    }
    world->completed_index = index;
    if (world->completed_count == world->completed_capacity) {
        world->completed_capacity = 2 * world->completed_capacity + 256;
        world->completed =
            realloc(world->completed, world->completed_capacity * sizeof(*world->completed));
        ASSERT(world->completed != NULL);
    }
    world->completed[world->completed_count++] =
        (struct sim_completed){.at_ns = world->time.now_ns, .index = index};
}

uint64_t sim_completed_by(const struct sim_world *world, uint64_t at_ns) {
    size_t i = world->completed_count;
    while (i > 0 && world->completed[i - 1].at_ns > at_ns) {
        i--;
    }
    return i > 0 ? world->completed[i - 1].index : 0;
}

/* What was answered longer before it than the bound, by the node's clock, must be there. */
static void judge_bounded(struct sim_world *world, const struct sim_call *op, uint64_t index) {
    uint64_t bound_ns = world->plan.bounded_ms * MS_NS;
    bound_ns += world->plan.bounded_ms * (uint64_t)world->plan.drift_ppm + MS_NS;
    uint64_t from_ns = op->submitted_ns > bound_ns ? op->submitted_ns - bound_ns : 0;
    uint64_t floor = op->select.rev == 0 ? sim_completed_by(world, from_ns) : 0;
    world->counts.bounded++;
    world->counts.bounded_old += index < op->floor;
    if (index < floor) {
        sim_world_fail(world,
                       "a bounded read shows %" PRIu64 ", but %" PRIu64 " was answered %" PRIu64
                       " ms before it",
                       index, floor, bound_ns / MS_NS);
    }
}

static void judge_read(struct sim_world *world, const struct sim_call *op, uint64_t index,
                       const struct lkv_msg *reply) {
    /* As of a revision it shows what was applied, and does not change. */
    bool may_be_old = op->kind == SIM_GET_LOCAL || !sim_call_is_newest(op) || op->select.rev != 0;
    if (index > world->model.commit) {
        sim_world_fail(world, "a read shows %" PRIu64 ", committed is %" PRIu64, index,
                       world->model.commit);
    } else {
        sim_read_judge(op, index, reply);
    }
    world->counts.leased += op->how == LKV_LEASED;
    if (op->how == LKV_BOUNDED) {
        judge_bounded(world, op, index);
    }
    if (!may_be_old && index < op->floor) {
        sim_world_fail(world, "a read shows %" PRIu64 ", but began after %" PRIu64 " was answered",
                       index, op->floor);
    }
}

static void judge_not_done(struct sim_world *world, const struct sim_call *op) {
    if (op->kind != SIM_PUT || op->seq != 0) {
        return; /* in a session: of this attempt only, another one may be done */
    }
    struct sim_value *value = sim_model_value(&world->model, op->value);
    value->not_done = true;
    if (value->committed != 0) {
        sim_world_fail(world, "value %" PRIu64 " is reported as not done, it is at %" PRIu64,
                       op->value, value->committed);
    }
}

/* Of a read nothing is in doubt, and nothing but a key can be missing. */
static void judge_outcome(const struct sim_call *op, int rc) {
    enum lkv_outcome outcome = error_outcome(rc);
    bool changes = sim_call_is_write(op) || op->kind == SIM_SESSION_OPEN ||
                   op->kind == SIM_LEASE_GRANT || op->kind == SIM_LEASE_REVOKE ||
                   op->kind == SIM_LEASE_PUT || op->kind == SIM_SESSION_CLOSE ||
                   op->kind == SIM_HOLD;
    bool gets = op->kind == SIM_GET || op->kind == SIM_GET_LOCAL;
    if ((outcome == LKV_UNKNOWN && !changes) || (outcome == LKV_NEGATIVE && !gets)) {
        sim_world_fail(op->world, "%s: a %s ends as %s", sim_call_place(op),
                       sim_call_name(op->kind), error_name(rc));
    }
}

static void judge(struct sim_world *world, const struct sim_call *op, const struct lkv_msg *reply) {
    uint64_t index = 0;
    if (sim_call_is_log(op)) {
        judge_outcome(op, lkv_msg_rc(reply));
        sim_log_judge(op, reply);
        return;
    }
    if (sim_call_is_lease(op)) {
        judge_outcome(op, lkv_msg_rc(reply));
        sim_lease_judge(op, reply);
        return;
    }
    if (op->kind == SIM_CHANGE) {
        sim_write_judge(op, reply);
        return;
    }
    enum lkv_outcome outcome = error_outcome(lkv_msg_rc(reply));
    bool shown = outcome == LKV_DONE || outcome == LKV_NEGATIVE;
    judge_outcome(op, lkv_msg_rc(reply));
    if (sim_call_is_view(op)) {
        world->counts.done += outcome == LKV_DONE;
        world->counts.not_done += outcome == LKV_NOT_DONE;
        return; /* what it shows is judged as it is used */
    }
    if (lkv_msg_rc(reply) == LKV_ECOMPACTED || lkv_msg_rc(reply) == LKV_EFUTURE) {
        sim_read_judge_refusal(op, reply);
    }
    if (!shown) {
        world->counts.not_done += outcome == LKV_NOT_DONE;
        world->counts.unknown += outcome == LKV_UNKNOWN;
        if (outcome == LKV_NOT_DONE && sim_call_is_write(op)) {
            judge_not_done(world, op);
        }
        return;
    }
    world->counts.done += outcome == LKV_DONE;
    world->counts.negative += outcome == LKV_NEGATIVE;
    if (op->kind == SIM_SESSION_KEEP) {
        return;
    }
    if (op->kind == SIM_STATUS) {
        sim_more_judge_status(op, reply);
        return;
    }
    if (op->kind == SIM_DIGEST) {
        sim_more_judge_digest(op, reply);
        return;
    }
    if (!lkv_msg_u64(reply, "index", &index)) {
        sim_world_fail(world, "an answer (%s) says no index", error_name(lkv_msg_rc(reply)));
    } else if (sim_call_is_write(op)) {
        judge_write(world, op, index, reply);
    } else if (op->kind != SIM_SESSION_OPEN && op->kind != SIM_SESSION_CLOSE) {
        judge_read(world, op, index, reply);
    }
    if (op->kind != SIM_GET_LOCAL && sim_call_is_newest(op)) {
        complete(world, index);
    }
}

/* ------------------------------------------------------------------ final messages */

static void tell_answer(const struct sim_call *op, const struct lkv_msg *reply, bool heard) {
    uint64_t index = 0;
    (void)lkv_msg_u64(reply, "index", &index);
    sim_world_tell(op->world, "%s: %s key %u value %" PRIu64 " -> %s at %" PRIu64 " (%s)%s",
                   sim_call_place(op), kind_names[op->kind], op->key, op->value,
                   error_name(lkv_msg_rc(reply)), index, lkv_msg_text(reply),
                   heard ? "" : ", while dying");
}

bool sim_call_finish(struct sim_call *op, struct lkv_msg *reply, bool heard) {
    struct sim_world *world = op->world;
    bool taken = false;
    int rc = lkv_msg_rc(reply);
    if (world->story != NULL) {
        tell_answer(op, reply, heard);
    }
    sim_time_note(&world->time, (uint64_t)(uint32_t)rc);
    world->counts.unknown += !heard;
    if (heard) {
        judge(world, op, reply);
        world->counts.remote_done += op->remote != NULL && rc == 0;
    }
    sim_history_end(op, heard ? reply : NULL);
    if (sim_call_is_view(op)) {
        taken = sim_view_answered(op, reply, heard);
    }
    if (op->done != NULL) {
        *op->done = 1 + (int)(heard ? error_outcome(rc) : LKV_UNKNOWN);
    }
    if (op->client != NULL) {
        sim_session_answered(op, reply, heard ? rc : LKV_EUNKNOWN);
        op->client->in_flight--;
        if (world->load_on) {
            next_in(op->client, world->plan.op_pause_ns);
        }
    }
    list_remove(&op->link);
    world->op_count--;
    free(op);
    return taken;
}

/* What a dying node says reaches nobody: its callers are gone with it. The model learns of commits
 * after each callback, so the node is looked at before its answer is judged. */
static void on_finish(struct request *request) {
    struct sim_call *op = request->owner;
    bool heard = !op->node->dying;
    if (heard) {
        sim_check_commit(op->node);
    }
    if (sim_call_finish(op, request->reply, heard)) {
        request->reply = NULL;
    }
}

/* ------------------------------------------------------------------ making one */

static struct request *write_request(const struct sim_call *op, struct kv_command *command) {
    struct request *request = request_new(REQUEST_WRITE);
    ASSERT(request != NULL);
    if (op->seq != 0) {
        command->session = request->session = op->session;
        command->seq = op->seq;
        command->acked_below = sim_session_acked_below(op->client);
    }
    request->repeatable =
        op->seq != 0 || op->kind == SIM_SESSION_OPEN || op->kind == SIM_SESSION_CLOSE;
    request->command = kv_command_encode(command);
    ASSERT(request->command != NULL);
    request->cost = request->command->size;
    return request;
}

static struct request *make_open(const struct sim_world *world, const struct sim_call *op) {
    struct kv_command command = {.op = KV_SESSION_OPEN,
                                 .session = op->session,
                                 .ttl_ms = world->plan.session_ttl_ms,
                                 .limit = 1000};
    struct request *request = write_request(op, &command);
    request->session = op->session;
    return request;
}

static struct request *make_close(const struct sim_call *op) {
    struct kv_command command = {.op = KV_SESSION_CLOSE, .session = op->session};
    struct request *request = write_request(op, &command);
    request->session = op->session;
    return request;
}

static struct request *make_plain(enum request_op what) {
    struct request *request = request_new(what);
    ASSERT(request != NULL);
    request->cost = 64;
    return request;
}

static struct request *make_keep(const struct sim_call *op) {
    struct request *request = make_plain(REQUEST_SESSION_KEEP);
    request->session = op->session;
    return request;
}

size_t sim_call_value(const struct sim_call *op, uint8_t bytes[static SIM_VALUE_BYTES_MAX]) {
    struct sim_world *world = op->world;
    size_t more = world->plan.value_bytes_max > 8 ? world->plan.value_bytes_max - 8 : 0;
    size_t size = 8 + (size_t)prng_below(&world->prng_load, more + 1);
    ASSERT(size <= SIM_VALUE_BYTES_MAX);
    sim_value_fill(op->value, bytes, size);
    return size;
}

static struct request *make_write(const struct sim_call *op) {
    static const struct limits limits = {.key_bytes_max = 8192, .value_bytes_max = 1 << 20};
    char from[SIM_KEY_SIZE], to[SIM_KEY_SIZE];
    uint8_t value[SIM_VALUE_BYTES_MAX];
    struct kv_command command;
    struct reason why = {{0}};
    struct slice end = sim_call_end(op, to);
    sim_key_text(op->key, from);
    int rc;
    if (op->kind == SIM_PUT) {
        size_t size = sim_call_value(op, value);
        rc = write_command_put(&limits, slice_text(from), slice_of(value, size), &command, &why);
    } else if (op->kind == SIM_DELETE) {
        rc = write_command_delete(&limits, slice_text(from), &command, &why);
    } else {
        rc = write_command_delete_range(&limits, slice_text(from), end, &command, &why);
    }
    ASSERT(rc == 0);
    return write_request(op, &command);
}

static struct request *make_read(const struct sim_call *op) {
    char from[SIM_KEY_SIZE], to[SIM_KEY_SIZE];
    sim_key_text(op->key, from);
    struct request *request = request_new(op->kind == SIM_RANGE ? REQUEST_RANGE : REQUEST_GET);
    ASSERT(request != NULL);
    request->how = op->kind == SIM_GET_LOCAL ? LKV_LOCAL : op->how;
    request->range_flags = op->flags;
    request->limit = op->limit;
    request->select = op->select;
    struct slice end = op->kind == SIM_RANGE ? sim_call_end(op, to) : (struct slice){0};
    int rc = request_set_keys(request, slice_text(from), end);
    ASSERT(rc == 0);
    request->cost = 64;
    return request;
}

struct sim_call *sim_call_new(struct sim_world *world, struct sim_node *node,
                              struct sim_remote *remote, enum sim_call_kind kind, uint32_t key) {
    struct sim_call *op = calloc(1, sizeof(*op));
    ASSERT(op != NULL);
    op->world = world;
    op->node = remote == NULL ? node : NULL;
    op->remote = remote;
    op->life = remote == NULL ? node->lives : remote->lives;
    op->id = ++world->next_op;
    op->kind = kind;
    op->key = key;
    op->end = key + 1;
    if (kind == SIM_RANGE || kind == SIM_DELETE_RANGE) {
        op->end = key + 1 + (uint32_t)prng_below(&world->prng_load, 6);
    }
    op->value = kind == SIM_PUT ? ++world->next_value : 0;
    op->floor = world->completed_index;
    if (kind == SIM_APPEND) {
        op->count = 1;
        op->value = ++world->next_value;
        op->order = ++sim_call_appends(op)->count;
    }
    return op;
}

static struct request *make_request(struct sim_call *op) {
    const struct session_call call = {.id = op->session,
                                      .seq = op->seq,
                                      .acked_below =
                                          op->seq != 0 ? sim_session_acked_below(op->client) : 0};
    switch (op->kind) {
    case SIM_PUT:
    case SIM_DELETE:
    case SIM_DELETE_RANGE: return make_write(op);
    case SIM_CHANGE: return sim_write_request(op);
    case SIM_GET:
    case SIM_GET_LOCAL:
    case SIM_RANGE: return make_read(op);
    case SIM_SESSION_OPEN: return make_open(op->world, op);
    case SIM_SESSION_KEEP: return make_keep(op);
    case SIM_SESSION_CLOSE: return make_close(op);
    case SIM_STATUS: return make_plain(REQUEST_STATUS);
    case SIM_DIGEST: return make_plain(REQUEST_DIGEST);
    case SIM_VIEW_OPEN:
    case SIM_VIEW_PAGE: return op->request;
    case SIM_LEASE_GRANT:
    case SIM_LEASE_KEEP:
    case SIM_LEASE_REVOKE:
    case SIM_LEASE_TTL:
    case SIM_LEASE_LIST:
    case SIM_LEASE_PUT: return sim_lease_request(op);
    case SIM_APPEND:
    case SIM_LOG_READ:
    case SIM_LOG_SPAN:
    case SIM_HOLD: break;
    }
    return sim_log_request(op, &call);
}

static void submit_to_node(struct sim_call *op, uint64_t timeout_ms) {
    struct request *request = make_request(op);
    request->on_finish = on_finish;
    request->owner = op;
    request->deadline_ns = loop_now_ns(&op->node->loop.base) + timeout_ms * MS_NS;
    struct lkv *handle = &op->node->node->handle;
    bool leased = request->op == REQUEST_GET && request->how == LKV_LEASED;
    if (leased && node_get_leased(handle, request)) { /* as api.c does it, on the caller's thread */
        op->world->counts.leased_here++;
        request_finish(request);
        return;
    }
    int rc = node_submit(handle, request);
    if (rc != 0) {
        request_fail(request, rc, "refused at once");
    }
}

/* An error at once is all that its caller hears. */
static void submit_to_remote(struct sim_call *op, uint64_t timeout_ms) {
    op->world->counts.remote_ops++;
    int rc = sim_remote_submit(op, (int64_t)timeout_ms);
    if (rc != 0) {
        struct lkv_msg *reply = msg_new(LKV_REPLY, NULL);
        ASSERT(reply != NULL);
        msg_set_rc(reply, rc, "refused at once");
        bool taken = sim_call_finish(op, reply, true);
        ASSERT(!taken); /* it is a refusal */
        lkv_msg_free(reply);
    }
}

static void submit(struct sim_call *op, uint64_t timeout_ms) {
    struct sim_world *world = op->world;
    op->submitted_ns = world->time.now_ns;
    op->deadline_ns = world->time.now_ns + (timeout_ms + LATE_MS) * MS_NS;
    sim_history_begin(op);
    sim_world_tell(world, "%s: asked for %s, key %u value %" PRIu64 " session %" PRIu64 ":%" PRIu64,
                   sim_call_place(op), kind_names[op->kind], op->key, op->value, op->session,
                   op->seq);
    list_push_back(&world->ops, &op->link);
    world->op_count++;
    world->counts.ops++;
    if (op->remote != NULL) {
        submit_to_remote(op, timeout_ms);
    } else {
        submit_to_node(op, timeout_ms);
    }
}

static void submit_here(struct sim_node *node, enum sim_call_kind kind, enum lkv_read how,
                        uint32_t key, uint64_t timeout_ms, int *done) {
    if (node->state != SIM_UP || node->dying) {
        if (done != NULL) {
            *done = 1 + (int)LKV_NOT_DONE;
        }
        return;
    }
    bool appends = node->world->plan.log_mode && kind == SIM_PUT;
    struct sim_call *op = sim_call_new(node->world, node, NULL, appends ? SIM_APPEND : kind, key);
    op->done = done;
    op->how = how;
    submit(op, timeout_ms);
}

void sim_submit(struct sim_node *node, enum sim_call_kind kind, uint32_t key, uint64_t timeout_ms,
                int *done) {
    submit_here(node, kind, LKV_LINEARIZABLE, key, timeout_ms, done);
}

void sim_submit_read(struct sim_node *node, uint32_t key, enum lkv_read how, uint64_t timeout_ms,
                     int *done) {
    submit_here(node, SIM_GET, how, key, timeout_ms, done);
}

bool sim_put_ok(struct sim_world *world, uint32_t key) {
    uint64_t end_ns = world->time.now_ns + 5000 * MS_NS;
    while (!sim_world_failed(world) && world->time.now_ns < end_ns) {
        struct sim_node *leader = sim_world_leader(world);
        int done = 0;
        if (leader == NULL) {
            sim_world_run_ms(world, 10);
            continue;
        }
        sim_submit(leader, SIM_PUT, key, 1000, &done);
        while (done == 0 && !sim_world_failed(world)) {
            sim_world_run_ms(world, 1);
        }
        if (done == 1 + (int)LKV_DONE) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ clients */

static enum sim_call_kind draw_kind(struct prng *prng) {
    static const enum sim_call_kind kinds[] = {SIM_PUT,    SIM_PUT,    SIM_PUT,          SIM_PUT,
                                               SIM_PUT,    SIM_GET,    SIM_GET,          SIM_GET,
                                               SIM_DELETE, SIM_RANGE,  SIM_GET_LOCAL,    SIM_GET,
                                               SIM_PUT,    SIM_DELETE, SIM_DELETE_RANGE, SIM_PUT};
    return kinds[prng_below(prng, sizeof(kinds) / sizeof(kinds[0]))];
}

static struct sim_call *draw_op(struct sim_client *client, struct sim_node *node,
                                struct sim_remote *remote) {
    struct sim_world *world = client->world;
    struct prng *prng = &world->prng_load;
    bool hot = prng_below(prng, 1000) < world->plan.hot_permille;
    uint32_t key = (uint32_t)prng_below(prng, hot ? 2 : world->plan.keys);
    struct sim_call *op = sim_session_op(client, node, remote);
    op = op == NULL ? sim_more_draw(client, node, remote, key) : op;
    op = op == NULL ? sim_read_draw(client, node, remote, key) : op;
    op = op == NULL ? sim_lease_op(client, node, remote) : op;
    op = op == NULL ? sim_write_draw(client, node, remote, key) : op;
    if (op != NULL) {
        return op;
    }
    bool log = world->plan.log_mode;
    op = sim_call_new(world, node, remote, log ? SIM_LOG_READ : draw_kind(prng), key);
    op->client = client;
    if (log) {
        sim_log_draw(op);
    }
    if (op->kind == SIM_GET || op->kind == SIM_RANGE ||
        (op->kind == SIM_LOG_SPAN && sim_call_is_newest(op))) {
        op->how = sim_read_draw_leased(world);
    }
    sim_session_put_in(client, op);
    return op;
}

static void fire_client(struct sim_event *event) {
    struct sim_client *client = LIST_ITEM(event, struct sim_client, next);
    struct sim_world *world = client->world;
    struct prng *prng = &world->prng_load;
    if (!world->load_on) {
        return;
    }
    if (prng_below(prng, 8) == 0 || world->nodes[client->node].state != SIM_UP) {
        client->node = (unsigned)prng_below(prng, world->plan.nodes);
    }
    struct sim_node *node = &world->nodes[client->node];
    struct sim_remote *remote = sim_remote_draw(client);
    if (world->plan.log_mode) {
        sim_log_follow(client, remote);
    } else {
        sim_watch_follow(client, remote);
    }
    bool runs = remote != NULL ? remote->client != NULL : node->state == SIM_UP && !node->dying;
    if (runs && client->in_flight < world->plan.depth) {
        struct sim_call *op = draw_op(client, node, remote);
        op->client = client;
        client->in_flight++;
        submit(op, 1 + prng_below(prng, 2 * world->plan.timeout_ms));
    }
    next_in(client, world->plan.op_pause_ns);
}

void sim_load_start(struct sim_world *world) {
    world->load_on = true;
    for (unsigned i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        client->world = world;
        client->number = i;
        client->node = i % (unsigned)world->plan.nodes;
        client->next.fire = fire_client;
        next_in(client, world->plan.op_pause_ns);
    }
    sim_remotes_start(world);
}

void sim_load_stop(struct sim_world *world) {
    world->load_on = false;
    for (size_t i = 0; i < world->plan.clients; i++) {
        sim_event_cancel(&world->time, &world->clients[i].next);
    }
    sim_log_let_lead(world);
}

/* ------------------------------------------------------------------ silence */

void sim_check_silence(struct sim_world *world) {
    for (struct list_link *at = world->ops.next; at != &world->ops; at = at->next) {
        const struct sim_call *op = LIST_ITEM(at, struct sim_call, link);
        const struct sim_loop *loop = op->node != NULL ? &op->node->loop : &op->remote->loop;
        bool gone = op->node != NULL ? op->node->lives != op->life || op->node->state == SIM_DOWN
                                     : op->remote->lives != op->life || op->remote->client == NULL;
        bool excused = world->time.now_ns < loop->paused_until_ns + LATE_MS * MS_NS;
        if (gone) {
            sim_world_fail(world, "%s is gone and still owes an answer", sim_call_place(op));
        } else if (world->time.now_ns > op->deadline_ns && !excused) {
            sim_world_fail(world, "%s owes the answer to an operation that timed out %d ms ago",
                           sim_call_place(op), LATE_MS);
        }
    }
}
