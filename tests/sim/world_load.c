/* Clients, and what is checked of each answer: index order against real time, values against the
 * model, one final message each. */
#include "tests/sim/world_call.h"

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

static bool same_item(const struct sim_model *model, uint32_t key, uint64_t index,
                      const struct lkv_kv *item) {
    const struct sim_version *version = sim_model_at(model, key, index);
    if (version == NULL || item == NULL) {
        return version == NULL && item == NULL;
    }
    return crc32c(0, slice_of(item->value.data, item->value.size)) == version->print &&
           item->mod_rev == version->mod_rev && item->create_rev == version->create_rev &&
           item->version == version->version;
}

static void judge_range(struct sim_world *world, const struct sim_call *op, uint64_t index,
                        const struct lkv_msg *reply) {
    size_t at = 0;
    for (uint32_t key = op->key; key < op->end; key++) {
        struct lkv_kv item;
        uint32_t number = UINT32_MAX;
        bool have = lkv_msg_kv(reply, at, &item) &&
                    sim_key_number(slice_of(item.key.data, item.key.size), &number);
        have = have && number == key;
        if (!same_item(&world->model, key, index, have ? &item : NULL)) {
            sim_world_fail(world, "a range read at %" PRIu64 " has not the key %u of then", index,
                           key);
            return;
        }
        at += have;
    }
    if (at != lkv_msg_count(reply)) {
        sim_world_fail(world, "a range read has %zu keys, %zu are right", lkv_msg_count(reply), at);
    }
}

static void judge_read(struct sim_world *world, const struct sim_call *op, uint64_t index,
                       const struct lkv_msg *reply) {
    struct lkv_kv item;
    bool have = lkv_msg_kv(reply, 0, &item);
    if (index > world->model.commit) {
        sim_world_fail(world, "a read shows %" PRIu64 ", committed is %" PRIu64, index,
                       world->model.commit);
    } else if (op->kind == SIM_RANGE) {
        judge_range(world, op, index, reply);
    } else if (!same_item(&world->model, op->key, index, have ? &item : NULL)) {
        sim_world_fail(world, "a read of key %u at %" PRIu64 " is not what was written", op->key,
                       index);
    }
    if (op->kind != SIM_GET_LOCAL && index < op->floor) {
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

static void judge(struct sim_world *world, const struct sim_call *op, const struct lkv_msg *reply) {
    uint64_t index = 0;
    if (sim_call_is_log(op)) {
        sim_log_judge(op, reply);
        return;
    }
    enum lkv_outcome outcome = error_outcome(lkv_msg_rc(reply));
    bool shown = outcome == LKV_DONE || outcome == LKV_NEGATIVE;
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
    if (!lkv_msg_u64(reply, "index", &index)) {
        sim_world_fail(world, "an answer (%s) says no index", error_name(lkv_msg_rc(reply)));
    } else if (sim_call_is_write(op)) {
        judge_write(world, op, index, reply);
    } else if (op->kind != SIM_SESSION_OPEN) {
        judge_read(world, op, index, reply);
    }
    if (op->kind != SIM_GET_LOCAL && index > world->completed_index) {
        world->completed_index = index;
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
                                         [SIM_APPEND] = "append",
                                         [SIM_LOG_READ] = "read",
                                         [SIM_LOG_SPAN] = "span",
                                         [SIM_HOLD] = "hold"};

static void tell_answer(const struct sim_call *op, const struct lkv_msg *reply) {
    uint64_t index = 0;
    (void)lkv_msg_u64(reply, "index", &index);
    sim_world_tell(op->node->world, "%s: %s key %u value %" PRIu64 " -> %s at %" PRIu64 " (%s)%s",
                   op->node->name, kind_names[op->kind], op->key, op->value,
                   error_name(lkv_msg_rc(reply)), index, lkv_msg_text(reply),
                   op->node->dying ? ", while dying" : "");
}

/* ------------------------------------------------------------------ sessions */

/* It says nothing of any write. */
static void kept_alive(struct sim_call *op, int rc) {
    struct sim_world *world = op->node->world;
    struct sim_session *session = sim_session_find(&world->model.sessions, op->session);
    if (rc == 0 && op->submitted_ns > session->active_ns) {
        session->active_ns = op->submitted_ns;
    }
    world->counts.kept += rc == 0;
    if (rc == LKV_ESESSION && session->open) {
        sim_world_fail(world, "session %" PRIu64 " is said to have ended", op->session);
    }
}

static void session_answered(struct sim_call *op, const struct lkv_msg *reply, int rc) {
    struct sim_client *client = op->client;
    struct sim_world *world = op->node->world;
    uint64_t id = 0;
    if (op->kind == SIM_SESSION_KEEP) {
        kept_alive(op, rc);
        return;
    }
    if (op->kind == SIM_SESSION_OPEN) {
        client->opening = false;
        if (rc == 0 && lkv_msg_u64(reply, "session", &id)) {
            client->session = id;
            client->next_seq = 1;
            world->counts.sessions++;
        }
    }
    if (op->seq == 0 || op->session != client->session) {
        return;
    }
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        if (client->doubts[i].seq == op->seq) {
            client->doubts[i].under_way = false;
            client->doubts[i].seq = rc == 0 ? 0 : op->seq;
        }
    }
    struct sim_session *session = sim_session_find(&world->model.sessions, op->session);
    if (rc == 0 && session != NULL && op->submitted_ns > session->active_ns) {
        session->active_ns = op->submitted_ns;
    }
    if (rc == LKV_EANSWERED || (rc == LKV_ESESSION && session->open)) {
        sim_world_fail(world, "number %" PRIu64 " of session %" PRIu64 " is refused: %s", op->seq,
                       op->session, error_name(rc));
    }
    if (rc == LKV_ESESSION) {
        client->session = 0;
        memset(client->doubts, 0, sizeof(client->doubts));
    }
}

void sim_check_session(struct sim_world *world, const struct sim_entry *entry) {
    world->counts.repeated += entry->first != entry->index;
    if (entry->rc == LKV_EBUSY && entry->command.seq != 0) { /* 0: an open, beyond their limit */
        sim_world_fail(world,
                       "entry %" PRIu64 ": number %" PRIu64 " of session %" PRIu64
                       " is beyond its window, acknowledged below %" PRIu64,
                       entry->index, entry->command.seq, entry->command.session,
                       entry->command.acked_below);
    }
    bool may_end = entry->type == ENTRY_COMMAND || entry->type == ENTRY_SESSION;
    if (!may_end || entry->command.op != KV_SESSION_EXPIRE || entry->rc != 0) {
        return;
    }
    const struct sim_session *session =
        sim_session_find(&world->model.sessions, entry->command.session);
    uint64_t drift_ns = session->ttl_ms * (uint64_t)world->plan.drift_ppm + MS_NS;
    world->counts.expired++;
    if (world->time.now_ns + drift_ns < session->active_ns + session->ttl_ms * MS_NS) {
        sim_world_fail(world, "session %" PRIu64 " ends %" PRIu64 " ms after it was active",
                       session->id, (world->time.now_ns - session->active_ns) / MS_NS);
    }
}

static void on_finish(struct request *request) {
    struct sim_call *op = request->owner;
    struct sim_world *world = op->node->world;
    int rc = lkv_msg_rc(request->reply);
    if (world->story != NULL) {
        tell_answer(op, request->reply);
    }
    sim_time_note(&world->time, (uint64_t)(uint32_t)rc);
    /* What a dying node says reaches nobody: its callers are gone with it. The model learns of
     * commits after each callback, so the node is looked at before its answer is judged. */
    if (op->node->dying) {
        world->counts.unknown++;
    } else {
        sim_check_commit(op->node);
        judge(world, op, request->reply);
    }
    sim_history_end(op, op->node->dying ? NULL : request->reply);
    if (op->done != NULL) {
        *op->done = 1 + (int)(op->node->dying ? LKV_UNKNOWN : error_outcome(rc));
    }
    if (op->client != NULL) {
        session_answered(op, request->reply, op->node->dying ? LKV_EUNKNOWN : rc);
        op->client->in_flight--;
        if (world->load_on) {
            next_in(op->client, world->plan.op_pause_ns);
        }
    }
    list_remove(&op->link);
    world->op_count--;
    free(op);
}

/* ------------------------------------------------------------------ making one */

static uint64_t acked_below(const struct sim_client *client) {
    uint64_t below = client->next_seq;
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        uint64_t seq = client->doubts[i].seq;
        below = seq != 0 && seq < below ? seq : below;
    }
    return below;
}

static struct request *write_request(const struct sim_call *op, struct kv_command *command) {
    struct request *request = request_new(REQUEST_WRITE);
    ASSERT(request != NULL);
    if (op->seq != 0) {
        command->session = request->session = op->session;
        command->seq = op->seq;
        command->acked_below = acked_below(op->client);
    }
    request->repeatable = op->seq != 0 || op->kind == SIM_SESSION_OPEN;
    request->command = kv_command_encode(command);
    ASSERT(request->command != NULL);
    request->cost = request->command->size;
    return request;
}

static struct request *make_open(const struct sim_world *world, const struct sim_call *op) {
    struct kv_command command = {
        .op = KV_SESSION_OPEN, .ttl_ms = world->plan.session_ttl_ms, .limit = 1000};
    return write_request(op, &command);
}

static struct request *make_keep(const struct sim_call *op) {
    struct request *request = request_new(REQUEST_SESSION_KEEP);
    ASSERT(request != NULL);
    request->session = op->session;
    request->cost = 64;
    return request;
}

static struct request *make_write(struct sim_world *world, const struct sim_call *op) {
    static const struct limits limits = {.key_bytes_max = 8192, .value_bytes_max = 1 << 20};
    char from[SIM_KEY_SIZE], to[SIM_KEY_SIZE];
    uint8_t value[8192];
    struct kv_command command;
    struct reason why = {{0}};
    sim_key_text(op->key, from);
    sim_key_text(op->end, to);
    int rc;
    if (op->kind == SIM_PUT) {
        size_t more = world->plan.value_bytes_max > 8 ? world->plan.value_bytes_max - 8 : 0;
        size_t size = 8 + (size_t)prng_below(&world->prng_load, more + 1);
        ASSERT(size <= sizeof(value));
        sim_value_fill(op->value, value, size);
        rc = write_command_put(&limits, slice_text(from), slice_of(value, size), &command, &why);
    } else if (op->kind == SIM_DELETE) {
        rc = write_command_delete(&limits, slice_text(from), &command, &why);
    } else {
        rc = write_command_delete_range(&limits, slice_text(from), slice_text(to), &command, &why);
    }
    ASSERT(rc == 0);
    return write_request(op, &command);
}

static struct request *make_read(const struct sim_call *op) {
    char from[SIM_KEY_SIZE], to[SIM_KEY_SIZE];
    sim_key_text(op->key, from);
    sim_key_text(op->end, to);
    struct request *request = request_new(op->kind == SIM_RANGE ? REQUEST_RANGE : REQUEST_GET);
    ASSERT(request != NULL);
    request->how = op->kind == SIM_GET_LOCAL ? LKV_LOCAL : LKV_LINEARIZABLE;
    struct slice end = op->kind == SIM_RANGE ? slice_text(to) : (struct slice){0};
    int rc = request_set_keys(request, slice_text(from), end);
    ASSERT(rc == 0);
    request->cost = 64;
    return request;
}

static struct sim_call *make_op(struct sim_node *node, enum sim_call_kind kind, uint32_t key) {
    struct sim_world *world = node->world;
    struct sim_call *op = calloc(1, sizeof(*op));
    ASSERT(op != NULL);
    op->node = node;
    op->life = node->lives;
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
        op->order = ++node->appends;
    }
    return op;
}

static void submit(struct sim_call *op, uint64_t timeout_ms) {
    struct sim_world *world = op->node->world;
    const struct session_call call = {.id = op->session,
                                      .seq = op->seq,
                                      .acked_below = op->seq != 0 ? acked_below(op->client) : 0};
    struct request *request = op->kind == SIM_SESSION_OPEN   ? make_open(world, op)
                              : op->kind == SIM_SESSION_KEEP ? make_keep(op)
                              : sim_call_is_log(op)          ? sim_log_request(op, &call)
                              : sim_call_is_write(op)        ? make_write(world, op)
                                                             : make_read(op);
    op->submitted_ns = world->time.now_ns;
    sim_history_begin(op);
    request->on_finish = on_finish;
    request->owner = op;
    request->deadline_ns = loop_now_ns(&op->node->loop.base) + timeout_ms * MS_NS;
    op->deadline_ns = world->time.now_ns + (timeout_ms + LATE_MS) * MS_NS;
    sim_world_tell(world, "%s: asked for %s, key %u value %" PRIu64 " session %" PRIu64 ":%" PRIu64,
                   op->node->name, kind_names[op->kind], op->key, op->value, op->session, op->seq);
    list_push_back(&world->ops, &op->link);
    world->op_count++;
    world->counts.ops++;
    int rc = node_submit(&op->node->node->handle, request);
    if (rc != 0) {
        request_fail(request, rc, "refused at once");
    }
}

void sim_submit(struct sim_node *node, enum sim_call_kind kind, uint32_t key, uint64_t timeout_ms,
                int *done) {
    if (node->state != SIM_UP || node->dying) {
        if (done != NULL) {
            *done = 1 + (int)LKV_NOT_DONE;
        }
        return;
    }
    bool appends = node->world->plan.log_mode && kind == SIM_PUT;
    struct sim_call *op = make_op(node, appends ? SIM_APPEND : kind, key);
    op->done = done;
    submit(op, timeout_ms);
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

/* Before anything else: a session, and an answer to what is in doubt. */
static struct sim_call *session_op(struct sim_client *client, struct sim_node *node) {
    struct sim_world *world = client->world;
    if (world->plan.session_permille == 0 || client->opening) {
        return NULL;
    }
    if (client->session == 0) {
        client->opening = true;
        return make_op(node, SIM_SESSION_OPEN, 0);
    }
    if (world->plan.keep_permille > 0 &&
        prng_below(&world->prng_load, 1000) < world->plan.keep_permille) {
        struct sim_call *op = make_op(node, SIM_SESSION_KEEP, 0);
        op->session = client->session;
        return op;
    }
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        struct sim_doubt *doubt = &client->doubts[i];
        if (doubt->seq != 0 && !doubt->under_way && prng_below(&world->prng_load, 2) == 0) {
            struct sim_call *op = make_op(node, (enum sim_call_kind)doubt->kind, doubt->key);
            op->end = doubt->end;
            op->count = doubt->count;
            op->order = 0;
            op->value = doubt->value;
            op->floor = doubt->floor;
            op->session = client->session;
            op->seq = doubt->seq;
            doubt->under_way = true;
            return op;
        }
    }
    return NULL;
}

/* A write that is to be in the client's session is in doubt until it is answered. */
static void put_in_session(struct sim_client *client, struct sim_call *op) {
    struct sim_world *world = client->world;
    if (client->session == 0 || !sim_call_is_write(op) ||
        prng_below(&world->prng_load, 1000) >= world->plan.session_permille) {
        return;
    }
    if (client->next_seq - acked_below(client) >= KV_SESSION_WINDOW) {
        return; /* one old doubt holds the window: what is beyond it would rightly be refused */
    }
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        if (client->doubts[i].seq == 0) {
            op->session = client->session;
            op->seq = client->next_seq++;
            client->doubts[i] = (struct sim_doubt){.seq = op->seq,
                                                   .under_way = true,
                                                   .kind = (int)op->kind,
                                                   .key = op->key,
                                                   .end = op->end,
                                                   .value = op->value,
                                                   .count = op->count,
                                                   .floor = op->floor};
            return;
        }
    }
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
    if (world->plan.log_mode) {
        sim_log_follow(client);
    }
    if (node->state == SIM_UP && !node->dying && client->in_flight < world->plan.depth) {
        bool hot = prng_below(prng, 1000) < world->plan.hot_permille;
        uint32_t key = (uint32_t)prng_below(prng, hot ? 2 : world->plan.keys);
        struct sim_call *op = session_op(client, node);
        if (op == NULL) {
            op = make_op(node, world->plan.log_mode ? SIM_LOG_READ : draw_kind(prng), key);
            if (world->plan.log_mode) {
                op->client = client;
                sim_log_draw(op);
            }
            put_in_session(client, op);
        }
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
}

void sim_load_stop(struct sim_world *world) {
    world->load_on = false;
    for (size_t i = 0; i < world->plan.clients; i++) {
        sim_event_cancel(&world->time, &world->clients[i].next);
    }
}

/* ------------------------------------------------------------------ silence */

void sim_check_silence(struct sim_world *world) {
    for (struct list_link *at = world->ops.next; at != &world->ops; at = at->next) {
        const struct sim_call *op = LIST_ITEM(at, struct sim_call, link);
        bool excused = world->time.now_ns < op->node->loop.paused_until_ns + LATE_MS * MS_NS;
        if (op->node->lives != op->life || op->node->state == SIM_DOWN) {
            sim_world_fail(world, "%s is gone and still owes an answer", op->node->name);
        } else if (world->time.now_ns > op->deadline_ns && !excused) {
            sim_world_fail(world, "%s owes the answer to an operation that timed out %d ms ago",
                           op->node->name, LATE_MS);
        }
    }
}
