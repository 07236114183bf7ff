/* Leases in the model, and as a simulated client uses them. */
#include "tests/sim/world_lease.h"

#include "base/assert.h"
#include "lib/api.h"
#include "tests/sim/world_call.h"

#include <inttypes.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ the model */

void sim_leases_fini(struct sim_leases *leases) {
    free(leases->items);
}

struct sim_lease *sim_lease_at(struct sim_leases *leases, int64_t id) {
    size_t at = (size_t)id;
    if (at >= leases->capacity) {
        size_t capacity = at * 2 + 16;
        leases->items = realloc(leases->items, capacity * sizeof(*leases->items));
        ASSERT(leases->items != NULL);
        memset(leases->items + leases->capacity, 0,
               (capacity - leases->capacity) * sizeof(*leases->items));
        leases->capacity = capacity;
    }
    leases->items[at].id = id;
    return &leases->items[at];
}

static void revoke(struct sim_model *model, struct sim_entry *entry, struct sim_lease *lease) {
    const struct kv_command *command = &entry->command;
    if (!lease->open || (command->granted != 0 && command->granted != lease->granted)) {
        entry->rc = LKV_ELEASE;
        return;
    }
    lease->open = false;
    entry->count = sim_model_drop_lease(model, lease->id, entry->index);
}

static void checkpoint(struct sim_model *model, const struct sim_entry *entry) {
    for (size_t i = 0; i < entry->checkpoint_count; i++) {
        const struct kv_checkpoint *at = &entry->checkpoints[i];
        struct sim_lease *lease = sim_lease_at(&model->leases, at->id);
        if (lease->open && lease->granted == at->granted) {
            lease->remaining_ms = at->remaining_ms;
        }
    }
}

void sim_lease_commit(struct sim_model *model, struct sim_entry *entry, uint64_t now_ns) {
    const struct kv_command *command = &entry->command;
    if (command->in_term != 0 && command->in_term != entry->term) {
        entry->rc = LKV_ETERM;
        return;
    }
    if (command->op == KV_LEASE_CHECKPOINT) {
        checkpoint(model, entry);
        return;
    }
    struct sim_lease *lease = sim_lease_at(&model->leases, command->lease);
    if (command->op == KV_LEASE_REVOKE) {
        revoke(model, entry, lease);
    } else if (lease->open) {
        entry->rc = LKV_EEXIST;
    } else {
        *lease = (struct sim_lease){.id = command->lease,
                                    .granted = entry->index,
                                    .ttl_ms = command->ttl_ms,
                                    .remaining_ms = command->ttl_ms,
                                    .open = true,
                                    .active_ns = now_ns};
        entry->count = (uint64_t)command->lease;
    }
}

/* What a clock that runs too fast may take away. */
static uint64_t drift_ns(const struct sim_world *world, const struct sim_lease *lease) {
    return lease->ttl_ms * (uint64_t)world->plan.drift_ppm * 2 + MS_NS;
}

static void check_checkpoint(struct sim_world *world, const struct kv_checkpoint *at) {
    const struct sim_lease *lease = sim_lease_at(&world->model.leases, at->id);
    uint64_t end_ns = lease->active_ns + lease->ttl_ms * MS_NS;
    uint64_t said_ns = world->time.now_ns + at->remaining_ms * MS_NS + drift_ns(world, lease);
    if (lease->open && lease->granted == at->granted && said_ns < end_ns) {
        sim_world_fail(world, "lease %" PRId64 " has %" PRIu64 " ms more than its checkpoint says",
                       at->id, (end_ns - said_ns) / MS_NS);
    }
}

void sim_lease_check(struct sim_world *world, const struct sim_entry *entry) {
    if (entry->type != ENTRY_COMMAND || !kv_command_is_lease(&entry->command) || entry->rc != 0) {
        return;
    }
    for (size_t i = 0; i < entry->checkpoint_count; i++) {
        check_checkpoint(world, &entry->checkpoints[i]);
    }
    if (entry->command.op != KV_LEASE_REVOKE || entry->command.granted == 0) {
        return;
    }
    const struct sim_lease *lease = sim_lease_at(&world->model.leases, entry->command.lease);
    world->counts.lapsed++;
    if (world->time.now_ns + drift_ns(world, lease) < lease->active_ns + lease->ttl_ms * MS_NS) {
        sim_world_fail(world, "lease %" PRId64 " ends %" PRIu64 " ms after it was kept alive",
                       lease->id, (world->time.now_ns - lease->active_ns) / MS_NS);
    }
}

void sim_lease_check_end(struct sim_node *node) {
    struct sim_leases *leases = &node->world->model.leases;
    struct kv_lease found;
    size_t at = 0;
    for (size_t i = 0; i < leases->capacity && node->node->kv != NULL; i++) {
        const struct sim_lease *lease = &leases->items[i];
        if (!lease->open) {
            continue;
        }
        if (!kv_lease_at(node->node->kv, at++, &found) || found.id != lease->id ||
            found.granted != lease->granted || found.ttl_ms != lease->ttl_ms ||
            found.remaining_ms != lease->remaining_ms) {
            sim_world_fail(node->world, "%s has no lease %" PRId64 " as it should be", node->name,
                           lease->id);
            return;
        }
    }
    if (node->node->kv != NULL && kv_lease_at(node->node->kv, at, &found)) {
        sim_world_fail(node->world, "%s has a lease %" PRId64 " that has ended", node->name,
                       found.id);
    }
}

/* ------------------------------------------------------------------ what a client does */

struct sim_call *sim_lease_op(struct sim_client *client, struct sim_node *node,
                              struct sim_remote *remote) {
    static const enum sim_call_kind kinds[] = {SIM_LEASE_KEEP, SIM_LEASE_KEEP, SIM_LEASE_KEEP,
                                               SIM_LEASE_PUT,  SIM_LEASE_PUT,  SIM_LEASE_PUT,
                                               SIM_LEASE_TTL,  SIM_LEASE_LIST, SIM_LEASE_REVOKE};
    struct sim_world *world = client->world;
    struct prng *prng = &world->prng_lease;
    if (world->plan.lease_permille == 0 || world->plan.log_mode ||
        prng_below(prng, 1000) >= world->plan.lease_permille) {
        return NULL;
    }
    enum sim_call_kind kind = kinds[prng_below(prng, sizeof(kinds) / sizeof(kinds[0]))];
    bool fresh = client->lease == 0;
    struct sim_call *op =
        sim_call_new(world, node, remote, fresh ? SIM_LEASE_GRANT : kind,
                     SIM_LEASED_FROM + (uint32_t)prng_below(prng, SIM_KEYS_MAX - SIM_LEASED_FROM));
    if (fresh) {
        client->lease = ++world->next_lease;
    }
    /* Mostly its own: that of somebody else may end at any time. */
    op->lease = prng_below(prng, 8) > 0
                    ? client->lease
                    : 1 + (int64_t)prng_below(prng, (uint64_t)world->next_lease);
    op->lease = fresh ? client->lease : op->lease;
    op->value = kind == SIM_LEASE_PUT && !fresh ? ++world->next_value : op->value;
    return op;
}

static struct request *made(int rc, struct request *request) {
    ASSERT(rc == 0);
    return request;
}

/* By the verbs of a handle, a node's or a client's. */
static int make(const struct sim_call *op, struct lkv *db, int64_t timeout_ms,
                struct request **request) {
    char text[SIM_KEY_SIZE];
    uint8_t bytes[SIM_VALUE_BYTES_MAX];
    int64_t id = op->lease;
    if (op->kind == SIM_LEASE_GRANT) {
        return api_lease_grant(db, &id, (int64_t)op->world->plan.lease_ttl_ms, timeout_ms, request);
    }
    if (op->kind == SIM_LEASE_REVOKE) {
        return api_lease_revoke(db, id, timeout_ms, request);
    }
    if (op->kind == SIM_LEASE_KEEP) {
        return api_lease_keep(db, id, timeout_ms, request);
    }
    if (op->kind == SIM_LEASE_TTL) {
        return api_lease_ttl(db, id, (struct lkv_bytes){0}, 5, timeout_ms, request);
    }
    if (op->kind == SIM_LEASE_LIST) {
        return api_lease_list(db, id - 1, 3, timeout_ms, request);
    }
    sim_key_text(op->key, text);
    return api_put_leased(db, (struct lkv_bytes){text, strlen(text)},
                          (struct lkv_bytes){bytes, sim_call_value(op, bytes)}, id, timeout_ms,
                          request);
}

struct request *sim_lease_request(const struct sim_call *op) {
    struct request *request = NULL;
    int rc = make(op, &op->node->node->handle, LKV_DEFAULT, &request);
    request = made(rc, request);
    request->cost = 64;
    return request;
}

int sim_lease_submit(const struct sim_call *op, struct lkv *db, int64_t timeout_ms,
                     struct lkv_queue *queue, void *tag) {
    struct request *request;
    int rc = make(op, db, timeout_ms, &request);
    return rc == 0 ? api_submit(db, request, queue, tag) : rc;
}

/* ------------------------------------------------------------------ what an answer means */

static void kept(struct sim_world *world, const struct sim_call *op, struct sim_lease *lease,
                 const struct lkv_msg *reply) {
    uint64_t ttl_ms = 0;
    world->counts.lease_kept++;
    if (!lkv_msg_u64(reply, "ttl_ms", &ttl_ms) || ttl_ms != lease->ttl_ms) { /* X-I7 */
        sim_world_fail(world, "lease %" PRId64 " is kept alive for %" PRIu64 " ms", lease->id,
                       ttl_ms);
    }
    if (lease->gone_ns != 0 && op->submitted_ns > lease->gone_ns) { /* C13 */
        sim_world_fail(world, "lease %" PRId64 " is kept alive after it was revoked", lease->id);
    }
    lease->active_ns = op->submitted_ns > lease->active_ns ? op->submitted_ns : lease->active_ns;
}

static void told(struct sim_world *world, const struct sim_lease *lease,
                 const struct lkv_msg *reply) {
    uint64_t ttl_ms = 0, left_ms = UINT64_MAX;
    (void)lkv_msg_u64(reply, "ttl_ms", &ttl_ms);
    (void)lkv_msg_u64(reply, "remaining_ms", &left_ms);
    if (ttl_ms != lease->ttl_ms || left_ms > ttl_ms) {
        sim_world_fail(world, "lease %" PRId64 " has %" PRIu64 " of %" PRIu64 " ms", lease->id,
                       left_ms, ttl_ms);
    }
    struct lkv_kv item;
    uint32_t last = 0, number = 0;
    for (size_t i = 0; lkv_msg_kv(reply, i, &item); i++, last = number) {
        if (!sim_key_number(slice_of(item.key.data, item.key.size), &number) || number <= last ||
            number < SIM_LEASED_FROM || item.lease != lease->id) {
            sim_world_fail(world, "lease %" PRId64 " has keys that it has not", lease->id);
        }
    }
}

static void listed(struct sim_world *world, const struct lkv_msg *reply) {
    struct lkv_lease row;
    int64_t last = 0;
    for (size_t i = 0; lkv_msg_lease(reply, i, &row); last = row.id, i++) {
        const struct sim_lease *lease = sim_lease_at(&world->model.leases, row.id);
        if (row.id <= last || lease->granted == 0 || row.ttl_ms != (int64_t)lease->ttl_ms ||
            row.remaining_ms < 0 || row.remaining_ms > row.ttl_ms) {
            sim_world_fail(world, "a list has a lease %" PRId64 " that is none", row.id);
        }
    }
}

/* The entry that it is said to be, and nothing else. */
static void written(struct sim_world *world, const struct sim_call *op,
                    const struct lkv_msg *reply) {
    uint64_t index = 0, rev = 0, count = 0;
    (void)lkv_msg_u64(reply, "index", &index);
    (void)lkv_msg_u64(reply, "rev", &rev);
    (void)lkv_msg_u64(reply, "count", &count);
    struct sim_entry *entry = index <= world->model.commit ? world->model.committed[index] : NULL;
    bool put = op->kind == SIM_LEASE_PUT;
    bool same = entry != NULL && entry->rc == 0 && entry->command.lease == op->lease &&
                (put ? entry->value == op->value && entry->key == op->key
                     : entry->command.op ==
                           (op->kind == SIM_LEASE_GRANT ? KV_LEASE_GRANT : KV_LEASE_REVOKE));
    if (!same || entry->claimed || rev != entry->revision || count != entry->count ||
        index <= op->floor) {
        sim_world_fail(world, "a %s of lease %" PRId64 " is done at %" PRIu64,
                       sim_call_name(op->kind), op->lease, index);
        return;
    }
    entry->claimed = true;
    world->completed_index = index > world->completed_index ? index : world->completed_index;
}

static void judge_done(struct sim_world *world, const struct sim_call *op,
                       const struct lkv_msg *reply) {
    struct sim_lease *lease = sim_lease_at(&world->model.leases, op->lease);
    if (op->kind == SIM_LEASE_KEEP) {
        kept(world, op, lease, reply);
    } else if (op->kind == SIM_LEASE_TTL) {
        told(world, lease, reply);
    } else if (op->kind == SIM_LEASE_LIST) {
        listed(world, reply);
    } else {
        written(world, op, reply);
        lease->gone_ns = op->kind == SIM_LEASE_REVOKE ? world->time.now_ns : lease->gone_ns;
    }
}

void sim_lease_judge(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    int rc = lkv_msg_rc(reply);
    enum lkv_outcome outcome = error_outcome(rc);
    const struct sim_lease *lease = sim_lease_at(&world->model.leases, op->lease);
    world->counts.done += outcome == LKV_DONE;
    world->counts.not_done += outcome == LKV_NOT_DONE;
    world->counts.unknown += outcome == LKV_UNKNOWN;
    if (rc == 0) {
        judge_done(world, op, reply);
    } else if (op->kind == SIM_LEASE_PUT && outcome == LKV_NOT_DONE) {
        struct sim_value *value = sim_model_value(&world->model, op->value);
        value->not_done = true;
        if (value->committed != 0) {
            sim_world_fail(world, "value %" PRIu64 " is reported as not done", op->value);
        }
    }
    if (rc == LKV_ELEASE && lease->open && lease->granted <= op->floor) {
        sim_world_fail(world, "lease %" PRId64 " is said to have ended", op->lease);
    }
    bool gone = rc == LKV_ELEASE || (op->kind == SIM_LEASE_REVOKE && rc == 0);
    if (op->client != NULL && op->client->lease == op->lease && gone) {
        op->client->lease = 0;
    }
}
