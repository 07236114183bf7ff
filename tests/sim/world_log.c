/* Log mode under load: appends alone, in batches, in sessions and fenced by a term; reads from any index
 * on any node; spans, holds; and clients that follow the log. */
#include "tests/sim/world_call.h"

#include "base/assert.h"
#include "base/crc.h"
#include "lib/client.h"
#include "lib/tail.h"

#include <inttypes.h>

enum { RECORD_BYTES_MAX = 4096 };

/* ------------------------------------------------------------------ making one */

/* A client's program has it from elsewhere. */
static uint64_t known_term(const struct sim_call *op) {
    const struct sim_node *node = op->node != NULL ? op->node : sim_world_leader(op->world);
    return node != NULL ? node->node->term : 0;
}

static void draw_append(struct sim_call *op, struct prng *prng) {
    struct sim_world *world = op->world;
    uint64_t way = prng_below(prng, 4);
    op->kind = SIM_APPEND;
    op->count = way < 2 ? 1 : 1 + (uint32_t)prng_below(prng, SIM_BATCH_MAX);
    op->value = world->next_value + 1;
    world->next_value += op->count;
    op->order = ++sim_call_appends(op)->count;
    if (prng_below(prng, 8) == 0) { /* as a leader that may have been replaced */
        uint64_t term = known_term(op);
        op->in_term = term > 0 ? term - prng_below(prng, 2) : 0;
    }
}

/* Mostly near the end of the log, sometimes anywhere. */
static uint64_t draw_index(const struct sim_world *world, struct prng *prng) {
    uint64_t last = world->model.commit + 2, near = prng_below(prng, 20);
    return prng_below(prng, 4) == 0 ? prng_below(prng, last + 1) : last > near ? last - near : 0;
}

void sim_log_draw(struct sim_call *op) {
    struct sim_world *world = op->world;
    struct prng *prng = &world->prng_load;
    uint64_t way = prng_below(prng, 16);
    if (way < 9) {
        draw_append(op, prng);
    } else if (way < 13) {
        op->kind = SIM_LOG_READ;
        op->from = draw_index(world, prng);
    } else if (way < 15 || op->node == NULL) { /* holds are a node's own */
        op->kind = SIM_LOG_SPAN;
    } else {
        op->kind = SIM_HOLD;
        op->from = prng_below(prng, 3) == 0 ? 0 : draw_index(world, prng);
        op->node->holds[op->client->number] = 0; /* until it is done nobody can rely on either */
        op->order = ++op->node->hold_calls[op->client->number];
    }
}

void sim_log_records(const struct sim_call *op, struct slice records[static SIM_BATCH_MAX]) {
    static uint8_t bytes[SIM_BATCH_MAX][RECORD_BYTES_MAX];
    size_t max = op->world->plan.value_bytes_max;
    ASSERT(op->count <= SIM_BATCH_MAX && max <= RECORD_BYTES_MAX);
    for (uint32_t i = 0; i < op->count; i++) {
        /* By its number, so that it is the same each time it is sent. */
        size_t size = 8 + (size_t)((op->value + i) * 7919 % (max > 8 ? max - 7 : 1));
        sim_value_fill(op->value + i, bytes[i], size);
        records[i] = slice_of(bytes[i], size);
    }
}

static struct request *append_request(const struct sim_call *op, const struct session_call *call) {
    struct slice records[SIM_BATCH_MAX];
    struct request *request = request_new(REQUEST_APPEND);
    ASSERT(request != NULL);
    sim_log_records(op, records);
    int rc = call->seq != 0 ? request_set_records_once(request, records, op->count, call)
                            : request_set_records(request, records, op->count);
    ASSERT(rc == 0);
    request->in_term = op->in_term;
    request->cost = request_records_cost(request);
    return request;
}

struct request *sim_log_request(const struct sim_call *op, const struct session_call *call) {
    if (op->kind == SIM_APPEND) {
        return append_request(op, call);
    }
    enum request_op what = op->kind == SIM_LOG_READ   ? REQUEST_LOG_READ
                           : op->kind == SIM_LOG_SPAN ? REQUEST_LOG_SPAN
                                                      : REQUEST_LOG_HOLD;
    struct request *request = request_new(what);
    ASSERT(request != NULL);
    request->from = op->from;
    request->bytes_max = op->floor % 3 == 0 ? 1 : 0;
    request->how = op->how;
    request->cost = 64;
    if (what == REQUEST_LOG_HOLD) {
        char name[2] = {(char)('a' + op->client->number), '\0'};
        int rc = request_set_keys(request, slice_text(name), (struct slice){0});
        ASSERT(rc == 0);
    }
    return request;
}

/* ------------------------------------------------------------------ judging an answer */

/* Of the calls on one handle, what was submitted later stands later. */
static void judge_order(const struct sim_call *op, uint64_t index) {
    struct sim_appends *appends = sim_call_appends(op);
    if (op->order == 0 || op->life != (op->node != NULL ? op->node->lives : op->remote->lives)) {
        return;
    }
    for (size_t i = 0; i < SIM_APPENDED_KEPT; i++) {
        const struct sim_appended *other = &appends->done[i];
        if (other->order != 0 && (other->order < op->order) != (other->index < index)) {
            sim_world_fail(op->world,
                           "%s: append %" PRIu64 " stands at %" PRIu64 ", append %" PRIu64
                           " at %" PRIu64,
                           sim_call_place(op), op->order, index, other->order, other->index);
        }
    }
    appends->done[appends->at++ % SIM_APPENDED_KEPT] =
        (struct sim_appended){.order = op->order, .index = index};
}

static void judge_append(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    const struct sim_model *model = &world->model;
    uint64_t index = 0, count = 0, term = 0;
    (void)lkv_msg_u64(reply, "index", &index);
    (void)lkv_msg_u64(reply, "count", &count);
    (void)lkv_msg_u64(reply, "term", &term);
    if (index == 0 || count != op->count || index + count - 1 > model->commit) {
        sim_world_fail(world,
                       "an append of %u is done at %" PRIu64 ", %" PRIu64
                       " records, committed is %" PRIu64,
                       op->count, index, count, model->commit);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct sim_entry *entry = model->committed[index + i];
        if (!entry->shown || entry->value != op->value + i || entry->term != term ||
            (op->in_term != 0 && entry->term != op->in_term)) {
            sim_world_fail(world, "a record %" PRIu64 " is done at %" PRIu64 ", where %s stands",
                           op->value + i, index + i, entry->shown ? "another" : "none");
        }
        entry->claimed = true;
    }
    if (index <= op->floor) {
        sim_world_fail(world,
                       "an append takes effect at %" PRIu64 ", but began after %" PRIu64
                       " was answered",
                       index, op->floor);
    }
    judge_order(op, index);
    world->counts.records += count;
    world->counts.repeated += op->order == 0;
    uint64_t last = index + count - 1;
    world->completed_index = last > world->completed_index ? last : world->completed_index;
}

static void judge_read(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    uint64_t next = 0, first = 0, commit = 0;
    (void)lkv_msg_u64(reply, "next", &next);
    (void)lkv_msg_u64(reply, "first", &first);
    (void)lkv_msg_u64(reply, "commit", &commit);
    uint64_t from = op->from != 0 ? op->from : first;
    if (op->from == 0 && next > 0 && lkv_msg_count(reply) == 0) {
        from = next; /* the log's beginning has moved since */
    }
    if (commit > world->model.commit) {
        sim_world_fail(world, "%s shows %" PRIu64 ", committed is %" PRIu64, sim_call_place(op),
                       commit, world->model.commit);
        return;
    }
    if (op->from == 0 && lkv_msg_count(reply) > 0) {
        struct lkv_record record;
        (void)lkv_msg_record(reply, 0, &record);
        from = record.index;
    }
    sim_log_check_records(world, sim_call_place(op), from, next, reply);
}

static void judge_span(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    uint64_t first = 0, commit = 0;
    (void)lkv_msg_u64(reply, "first", &first);
    (void)lkv_msg_u64(reply, "commit", &commit);
    uint64_t floor = sim_call_is_newest(op) ? op->floor : 0;
    if (commit > world->model.commit || commit < floor) {
        sim_world_fail(world,
                       "a span up to %" PRIu64 ", committed is %" PRIu64 "; it began after %" PRIu64
                       " was answered",
                       commit, world->model.commit, op->floor);
    }
}

/* Not done: it must never appear; in a session only this attempt was refused. */
static void judge_refused(const struct sim_call *op) {
    struct sim_world *world = op->world;
    for (uint64_t i = 0; op->seq == 0 && i < op->count; i++) {
        struct sim_value *value = sim_model_value(&world->model, op->value + i);
        value->not_done = true;
        if (value->committed != 0) {
            sim_world_fail(world, "record %" PRIu64 " is reported as not done, it is at %" PRIu64,
                           op->value + i, value->committed);
        }
    }
}

void sim_log_judge(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    int rc = lkv_msg_rc(reply);
    enum lkv_outcome outcome = error_outcome(rc);
    world->counts.done += outcome == LKV_DONE;
    world->counts.negative += outcome == LKV_NEGATIVE;
    world->counts.not_done += outcome == LKV_NOT_DONE;
    world->counts.unknown += outcome == LKV_UNKNOWN;
    world->counts.truncated += rc == LKV_ETRUNCATED;
    if (rc == LKV_EINVAL) {
        sim_world_fail(world, "a number was used for other records: %s", lkv_msg_text(reply));
    }
    if (outcome == LKV_NOT_DONE && op->kind == SIM_APPEND) {
        judge_refused(op);
    }
    if (outcome != LKV_DONE) {
        if (op->kind == SIM_HOLD && op->client != NULL) {
            op->node->holds[op->client->number] = 0; /* it may have replaced one that was done */
        }
        return;
    }
    if (op->kind == SIM_APPEND) {
        judge_append(op, reply);
    } else if (op->kind == SIM_LOG_READ) {
        judge_read(op, reply);
    } else if (op->kind == SIM_LOG_SPAN) {
        judge_span(op, reply);
    } else if (op->client != NULL && op->order == op->node->hold_calls[op->client->number]) {
        op->node->holds[op->client->number] = op->from;
        world->counts.held += op->from != 0;
    }
}

/* ------------------------------------------------------------------ following */

static void take_tail(struct sim_client *client, struct lkv_msg *msg) {
    struct sim_world *world = client->world;
    struct sim_tail *tail = &client->tail;
    uint64_t number = 0;
    if (lkv_msg_kind(msg) == LKV_END) {
        int rc = lkv_msg_rc(msg);
        tail->open = false;
        if (rc == LKV_ETRUNCATED) {
            (void)lkv_msg_u64(msg, "first", &number);
            if (number <= tail->next) {
                sim_world_fail(world,
                               "a tail at %" PRIu64 " is told that the log begins at %" PRIu64,
                               tail->next, number);
            }
            tail->next = number;
            world->counts.truncated++;
        }
        lkv_msg_free(msg);
        return;
    }
    (void)lkv_msg_u64(msg, "next", &number);
    struct lkv_record record;
    bool some = lkv_msg_record(msg, 0, &record);
    if (tail->next == 0 && some) {
        tail->next = record.index; /* it asked for the first that is kept */
    }
    sim_log_check_records(world, "a tail", tail->next, number, msg);
    world->counts.tailed += lkv_msg_count(msg);
    tail->next = number;
    size_t slot = (size_t)prng_below(&world->prng_load, SIM_TAIL_KEPT);
    lkv_msg_free(tail->kept[slot]);
    tail->kept[slot] = msg;
    tail->kept_of[slot] = tail->opened;
}

static void free_kept(struct sim_tail *tail) {
    for (size_t i = 0; i < SIM_TAIL_KEPT; i++) {
        lkv_msg_free(tail->kept[i]);
        tail->kept[i] = NULL;
    }
}

/* The handle that it is to be opened on, or NULL. */
static struct lkv *handle_for(struct sim_client *client, const struct sim_remote *remote) {
    struct sim_node *node = &client->world->nodes[client->node];
    if (remote != NULL) {
        return remote->client != NULL ? client_handle(remote->client) : NULL;
    }
    return node->state == SIM_UP && !node->dying ? &node->node->handle : NULL;
}

static void open_tail(struct sim_client *client, struct lkv *db) {
    struct sim_world *world = client->world;
    struct sim_tail *tail = &client->tail;
    bool may_gate = tail->remote == NULL && world->plan.more_permille > 0;
    tail->gates = may_gate && prng_below(&world->prng_more, 4) == 0;
    const struct tail_options options = {.from = tail->next,
                                         .credit_bytes = 1 + prng_below(&world->prng_load, 8192),
                                         .gates_ready = tail->gates,
                                         .queue = tail->queue,
                                         .tag = client};
    int rc = tail_open(db, &options);
    ASSERT(rc == 0);
    tail->open = true;
    tail->opened++;
}

static void take_all(struct sim_client *client) {
    for (struct lkv_msg *msg; !sim_world_failed(client->world) &&
                              (msg = lkv_queue_next(client->tail.queue, 0)) != NULL;) {
        take_tail(client, msg);
    }
}

void sim_log_follow(struct sim_client *client, struct sim_remote *remote) {
    struct sim_world *world = client->world;
    struct sim_tail *tail = &client->tail;
    if (tail->queue == NULL) {
        int rc = lkv_queue_new(&tail->queue);
        ASSERT(rc == 0);
    }
    take_all(client);
    if (prng_below(&world->prng_load, 4) == 0) {
        free_kept(tail);
    }
    struct lkv *db = handle_for(client, remote);
    if (!tail->open && db != NULL) {
        tail->node = client->node;
        tail->remote = remote;
        open_tail(client, db);
    }
}

/* What the tail had sent before is taken first, so that it is known whether it has ended by itself. */
void sim_log_cancel(struct sim_client *client) {
    struct sim_world *world = client->world;
    struct sim_tail *tail = &client->tail;
    if (tail->queue == NULL) {
        return;
    }
    take_all(client);
    const struct sim_node *node = &world->nodes[tail->node];
    bool here = tail->remote != NULL ? tail->remote->client != NULL
                                     : node->state != SIM_DOWN && !node->dying;
    if (!tail->open || !here || sim_world_failed(world)) {
        return;
    }
    struct lkv *db =
        tail->remote != NULL ? client_handle(tail->remote->client) : &node->node->handle;
    int rc = lkv_cancel(db, client);
    take_all(client);
    world->counts.canceled++;
    if (rc != 0 || tail->open) {
        sim_world_fail(world, "a tail is canceled: %s, and has %s", error_name(rc),
                       tail->open ? "no end" : "ended");
    }
}

void sim_log_let_lead(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.clients; i++) {
        if (world->clients[i].tail.gates) {
            sim_log_cancel(&world->clients[i]);
        }
    }
}

/* The index of the first record that a reader from `from` on will see, or UINT64_MAX. */
static uint64_t next_shown(const struct sim_model *model, uint64_t from) {
    for (uint64_t i = from > 0 ? from : 1; i <= model->commit; i++) {
        if (model->committed[i]->shown) {
            return i;
        }
    }
    return UINT64_MAX;
}

void sim_log_check_ready(struct sim_node *node, uint64_t index) {
    struct sim_world *world = node->world;
    for (size_t i = 0; i < world->plan.clients; i++) {
        struct sim_client *client = &world->clients[i];
        const struct sim_tail *tail = &client->tail;
        if (!tail->gates || !tail->open || tail->node != node->number) {
            continue;
        }
        take_all(client);
        uint64_t owed = tail->open ? next_shown(&world->model, tail->next) : UINT64_MAX;
        for (size_t k = 0; tail->open && k < SIM_TAIL_KEPT; k++) {
            struct lkv_record record;
            bool some = tail->kept[k] != NULL && tail->kept_of[k] == tail->opened &&
                        lkv_msg_record(tail->kept[k], 0, &record);
            owed = some && record.index < owed ? record.index : owed;
        }
        if (owed < index) {
            sim_world_fail(world,
                           "%s is ready at %" PRIu64 ", a tail still has to consume %" PRIu64,
                           node->name, index, owed);
        }
    }
}

void sim_log_fini(struct sim_client *client) {
    free_kept(&client->tail);
    lkv_queue_free(client->tail.queue);
    client->tail.queue = NULL;
}
