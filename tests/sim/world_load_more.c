/* What a program asks rarely: status, digests, ranges with flags and limits, the end of its session, what
 * is answered on its own thread; in log mode spans of one replica and the end of a tail. */
#include "tests/sim/world_call.h"

#include "base/assert.h"
#include "base/crc.h"

#include <inttypes.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ ranges */

struct slice sim_call_end(const struct sim_call *op, char text[static SIM_KEY_SIZE]) {
    if (op->to_last) {
        return (struct slice){0};
    }
    if (op->end == SIM_PREFIX_END && op->kind == SIM_RANGE) {
        return slice_of((uint8_t *)text, lkv_prefix_end(LKV_STR("k0"), text));
    }
    sim_key_text(op->end, text);
    return slice_text(text);
}

static struct sim_call *draw_range(struct sim_client *client, struct sim_node *node,
                                   struct sim_remote *remote, uint32_t key) {
    struct prng *prng = &client->world->prng_more;
    bool deletes = prng_below(prng, 16) == 0;
    struct sim_call *op =
        sim_call_new(client->world, node, remote, deletes ? SIM_DELETE_RANGE : SIM_RANGE, key);
    uint64_t way = prng_below(prng, 4);
    op->end = way == 0 ? SIM_KEYS_MAX : way == 1 ? SIM_PREFIX_END : op->end;
    op->to_last = way == 0;
    if (deletes) {
        op->client = client;
        sim_session_put_in(client, op);
        return op;
    }
    op->flags = (int)prng_below(prng, 16); /* any of enum lkv_range_flags together */
    op->limit = prng_below(prng, 2) == 0 ? 0 : 1 + (size_t)prng_below(prng, 8);
    op->how = prng_below(prng, 4) == 0 ? LKV_LOCAL : sim_read_draw_leased(client->world);
    return op;
}

/* ------------------------------------------------------------------ status and digest */

static unsigned number_of(const struct sim_world *world, const char *id) {
    for (unsigned i = 0; i < world->plan.nodes; i++) {
        if (id != NULL && strcmp(world->nodes[i].name, id) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* Who says that it leads in a term is the one that does, and nothing is said that was not so. */
void sim_more_judge_status(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    uint64_t term = 0, commit = 0, applied = 0;
    const char *id = lkv_msg_str(reply, "id"), *role = lkv_msg_str(reply, "role");
    bool told = lkv_msg_u64(reply, "term", &term) && lkv_msg_u64(reply, "commit", &commit) &&
                lkv_msg_u64(reply, "applied", &applied);
    unsigned number = number_of(world, id);
    struct lkv_member self;
    bool first = lkv_msg_member(reply, 0, &self) && strcmp(self.id, id != NULL ? id : "") == 0;
    if (!told || number == 0 || role == NULL || !first) {
        sim_world_fail(world, "%s: a status of nobody here", sim_call_place(op));
        return;
    }
    if (applied > world->model.commit || commit > world->model.commit) {
        sim_world_fail(world, "%s has applied %" PRIu64 " of %" PRIu64 ", committed is %" PRIu64,
                       id, applied, commit, world->model.commit);
    }
    unsigned leader = term < world->led_capacity ? world->led[term] : 0;
    bool leads = strcmp(role, "leader") == 0;
    bool just_now = leader == 0 && op->node != NULL; /* the check comes after the callback */
    if (leads && leader != number && !just_now) {
        sim_world_fail(world, "%s says that it leads in term %" PRIu64 ", which n%u does", id, term,
                       leader);
    }
}

/* Two replicas at one index are equal. */
void sim_more_judge_digest(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    uint64_t index = 0, digest = 0;
    bool told = lkv_msg_u64(reply, "index", &index) && lkv_msg_u64(reply, "digest", &digest);
    if (!told || index > world->model.commit) {
        sim_world_fail(world, "a digest of %" PRIu64 ", committed is %" PRIu64, index,
                       world->model.commit);
        return;
    }
    if (index >= world->digest_capacity) {
        size_t capacity = (size_t)index * 2 + 256;
        world->digests = realloc(world->digests, capacity * sizeof(*world->digests));
        ASSERT(world->digests != NULL);
        memset(world->digests + world->digest_capacity, 0,
               (capacity - world->digest_capacity) * sizeof(*world->digests));
        world->digest_capacity = capacity;
    }
    world->counts.digests++;
    uint64_t before = world->digests[index];
    world->digests[index] = digest;
    if (before != 0 && before != digest) {
        sim_world_fail(world, "%s: the digest at %" PRIu64 " is not that of another replica",
                       sim_call_place(op), index);
    }
}

/* ------------------------------------------------------------------ on the caller's thread */

static void copy_here(struct sim_node *node, uint32_t key, uint64_t index) {
    struct sim_world *world = node->world;
    const struct sim_version *version = sim_model_at(&world->model, key, index);
    char text[SIM_KEY_SIZE];
    uint8_t bytes[SIM_VALUE_BYTES_MAX];
    size_t size = 0;
    sim_key_text(key, text);
    int rc = lkv_get_copy(&node->node->handle, (struct lkv_bytes){text, strlen(text)}, bytes,
                          sizeof(bytes), &size);
    bool same = version == NULL ? rc == LKV_ENOTFOUND
                                : rc == 0 && size <= sizeof(bytes) &&
                                      crc32c(0, slice_of(bytes, size)) == version->print;
    if (!same) {
        sim_world_fail(world, "%s: a copy of key %u at %" PRIu64 " is not what was written (%s)",
                       node->name, key, index, error_name(rc));
    }
}

/* A local read of a node in this process is answered before the call returns. */
static void read_here(struct sim_node *node, uint32_t key) {
    struct sim_world *world = node->world;
    char text[SIM_KEY_SIZE];
    struct lkv_queue *queue;
    sim_key_text(key, text);
    int rc = lkv_queue_new(&queue);
    ASSERT(rc == 0);
    rc = lkv_get_submit(&node->node->handle, (struct lkv_bytes){text, strlen(text)}, LKV_LOCAL,
                        LKV_DEFAULT, queue, NULL);
    struct lkv_msg *msg = lkv_queue_next(queue, 0);
    struct lkv_kv item;
    uint64_t index = 0;
    bool have = msg != NULL && lkv_msg_kv(msg, 0, &item);
    if (rc != 0 || msg == NULL || !lkv_msg_u64(msg, "index", &index) ||
        index > world->model.commit ||
        !sim_same_item(&world->model, key, index, have ? &item : NULL, true)) {
        sim_world_fail(world,
                       "%s: a read of key %u on the caller's thread shows not what was "
                       "written by %" PRIu64,
                       node->name, key, index);
    } else {
        copy_here(node, key, index);
    }
    lkv_msg_free(msg);
    lkv_queue_free(queue);
}

/* ------------------------------------------------------------------ which one */

static struct sim_call *draw_log(struct sim_client *client, struct sim_node *node,
                                 struct sim_remote *remote) {
    if (prng_below(&client->world->prng_more, 2) == 0) {
        sim_log_cancel(client);
        return NULL;
    }
    struct sim_call *op = sim_call_new(client->world, node, remote, SIM_LOG_SPAN, 0);
    op->how = LKV_LOCAL;
    return op;
}

struct sim_call *sim_more_draw(struct sim_client *client, struct sim_node *node,
                               struct sim_remote *remote, uint32_t key) {
    struct sim_world *world = client->world;
    if (world->plan.more_permille == 0 ||
        prng_below(&world->prng_more, 1000) >= world->plan.more_permille) {
        return NULL;
    }
    uint64_t way = prng_below(&world->prng_more, 8);
    if (way == 0) {
        return sim_call_new(world, node, remote, SIM_STATUS, 0);
    } else if (way == 1) {
        return sim_call_new(world, node, remote, SIM_DIGEST, 0);
    } else if (way == 2) {
        return sim_session_end(client, node, remote);
    } else if (world->plan.log_mode) {
        return draw_log(client, node, remote);
    } else if (way == 3) {
        if (sim_node_runs(node)) {
            read_here(node, key);
        }
        return NULL;
    }
    return draw_range(client, node, remote, key);
}
