/* Watches under load, on every node and through remotes: what each of them is told, put together, is exactly what
 * the model has of its range from its start, each change once, revision by revision, through leader changes,
 * restarts and images; or it ends with LKV_ECOMPACTED, and that is true (C7, C8, C9). */
#include "tests/sim/world_watch.h"

#include "base/assert.h"
#include "base/crc.h"
#include "lib/client.h"
#include "tests/sim/world_call.h"

#include <inttypes.h>

enum { SETTLE_MS = 30000 };

/* ------------------------------------------------------------------ what it is due */

static bool was_told(const struct sim_watch *watch, uint32_t key) {
    return (watch->told[key / 64] >> (key % 64) & 1) != 0;
}

static bool is_in_range(const struct sim_watch *watch, uint32_t key) {
    return key >= watch->from && (watch->to_last || key < watch->to);
}

/* The version that this very entry has written or deleted, or NULL. */
static const struct sim_version *change_of(const struct sim_model *model, uint32_t key,
                                           uint64_t index) {
    const struct sim_key *found = &model->keys[key];
    size_t low = 0, high = found->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (found->versions[middle].index < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is = low < found->count && found->versions[low].index == index;
    return is ? &found->versions[low] : NULL;
}

static const struct sim_version *due_of(const struct sim_watch *watch,
                                        const struct sim_model *model, uint32_t key,
                                        uint64_t index) {
    const struct sim_version *change =
        is_in_range(watch, key) ? change_of(model, key, index) : NULL;
    int unwanted = change != NULL && change->live ? LKV_WATCH_NO_PUTS : LKV_WATCH_NO_DELETES;
    return change != NULL && (watch->flags & unwanted) == 0 ? change : NULL;
}

/* How many changes of the revision it has not been told. */
static size_t owed_of(const struct sim_watch *watch, const struct sim_world *world,
                      uint64_t revision) {
    uint64_t index = sim_model_made(&world->model, revision);
    size_t owed = 0;
    for (uint32_t key = 0; index != 0 && key < SIM_KEYS_MAX; key++) {
        owed += due_of(watch, &world->model, key, index) != NULL && !was_told(watch, key);
    }
    return owed;
}

/* Goes on to the revision: of those before it, nothing may be owed. */
static void move_to(struct sim_watch *watch, struct sim_world *world, uint64_t revision) {
    if (watch->due == 0) {
        watch->due = revision; /* it asked for what comes next: here that begins */
    }
    if (revision < watch->due) {
        sim_world_fail(world, "a watch is due revision %" PRIu64 ", and is at %" PRIu64, watch->due,
                       revision);
        return;
    }
    for (; watch->due < revision && watch->due <= world->model.revision; watch->due++) {
        size_t owed = owed_of(watch, world, watch->due);
        if (owed > 0) {
            sim_world_fail(world,
                           "a watch of [%u, %u) is at revision %" PRIu64
                           ", and was not told %zu changes of %" PRIu64,
                           watch->from, watch->to_last ? SIM_KEYS_MAX : watch->to, revision, owed,
                           watch->due);
            return;
        }
        memset(watch->told, 0, sizeof(watch->told));
    }
    watch->due = revision;
}

/* ------------------------------------------------------------------ messages */

static bool is_right(const struct lkv_event *event, const struct sim_version *change) {
    if (!change->live) {
        return event->type == LKV_EVENT_DELETE && event->kv.version == 0 &&
               event->kv.value.size == 0;
    }
    uint32_t print = crc32c(0, slice_of(event->kv.value.data, event->kv.value.size));
    return event->type == LKV_EVENT_PUT && print == change->print &&
           event->kv.create_rev == change->create_rev && event->kv.version == change->version;
}

/* What is compacted may be missing. */
static bool is_right_before(const struct sim_watch *watch, const struct sim_world *world,
                            const struct lkv_event *event, uint32_t key, uint64_t index) {
    bool wants = (watch->flags & LKV_WATCH_PREVIOUS) != 0;
    bool told = event->previous.version != 0;
    const struct sim_version *before = sim_model_at(&world->model, key, index - 1);
    if (!told || !wants) {
        return !told && (!wants || before == NULL || event->kv.mod_rev <= world->model.kept_from);
    }
    return before != NULL && sim_same_item(&world->model, key, index - 1, &event->previous, true);
}

static void take_event(struct sim_watch *watch, struct sim_world *world,
                       const struct lkv_event *event) {
    uint64_t revision = event->kv.mod_rev, index = sim_model_made(&world->model, revision);
    uint32_t key;
    if (!sim_key_number(slice_of(event->kv.key.data, event->kv.key.size), &key) || index == 0 ||
        key >= SIM_KEYS_MAX) {
        sim_world_fail(world, "a watch is told revision %" PRIu64 ", which nobody has made",
                       revision);
        return;
    }
    move_to(watch, world, revision);
    if (sim_world_failed(world)) {
        return;
    }
    const struct sim_version *change = due_of(watch, &world->model, key, index);
    if (change == NULL || was_told(watch, key) || !is_right(event, change) ||
        !is_right_before(watch, world, event, key, index)) {
        sim_world_fail(world, "a watch is told revision %" PRIu64 " of key %u %s", revision, key,
                       change == NULL         ? "although it is none of its own"
                       : was_told(watch, key) ? "twice"
                                              : "as something else");
    }
    watch->told[key / 64] |= UINT64_C(1) << (key % 64);
    world->counts.watched++;
}

static void take_end(struct sim_watch *watch, struct sim_world *world, const struct lkv_msg *msg) {
    int rc = lkv_msg_rc(msg);
    uint64_t first = 0;
    watch->open = false;
    memset(watch->told, 0,
           sizeof(watch->told)); /* the next one tells that revision from its beginning */
    if (rc == LKV_ECOMPACTED) {
        (void)lkv_msg_u64(msg, "first", &first);
        if (watch->due >= first || first > world->model.kept_from) {
            sim_world_fail(world,
                           "a watch at %" PRIu64 " is told that %" PRIu64
                           " is the first that is kept, which is %" PRIu64,
                           watch->due, first, world->model.kept_from);
        }
        watch->due = first;
        world->counts.overtaken++;
    } else if (rc != LKV_ECLOSED && rc != LKV_ESTOPPED && rc != LKV_ECANCELED &&
               rc != LKV_EUNSUPPORTED && rc != LKV_EBUSY) {
        sim_world_fail(world, "a watch ends as %s: %s", error_name(rc), lkv_msg_text(msg));
    }
}

static void take_message(struct sim_watch *watch, struct sim_world *world,
                         const struct lkv_msg *msg) {
    uint64_t next = 0, rev = 0, partial = 0;
    struct lkv_event event;
    (void)lkv_msg_u64(msg, "next", &next);
    (void)lkv_msg_u64(msg, "rev", &rev);
    (void)lkv_msg_u64(msg, "partial", &partial);
    for (size_t i = 0; !sim_world_failed(world) && lkv_msg_event(msg, i, &event); i++) {
        take_event(watch, world, &event);
    }
    if (!sim_world_failed(world)) {
        move_to(watch, world, next);
    }
    if (sim_world_failed(world)) {
        return;
    }
    bool more = lkv_msg_count(msg) > 0 && event.kv.mod_rev == next && owed_of(watch, world, next);
    if (partial != more || rev >= next || rev > world->model.revision) {
        sim_world_fail(world,
                       "a watch is at %" PRIu64 ", has been told up to %" PRIu64
                       ", and says that revision %s goes on",
                       next, rev, partial ? "this" : "no");
    }
}

static void free_kept(struct sim_watch *watch) {
    for (size_t i = 0; i < SIM_WATCH_KEPT; i++) {
        lkv_msg_free(watch->kept[i]);
        watch->kept[i] = NULL;
    }
}

static void take_all(struct sim_client *client, bool keep) {
    struct sim_world *world = client->world;
    struct sim_watch *watch = &client->watch;
    for (struct lkv_msg *msg;
         !sim_world_failed(world) && (msg = lkv_queue_next(watch->queue, 0)) != NULL;) {
        if (lkv_msg_kind(msg) == LKV_END) {
            take_end(watch, world, msg);
        } else {
            take_message(watch, world, msg);
        }
        size_t slot = (size_t)prng_below(&world->prng_watch, SIM_WATCH_KEPT);
        if (keep) { /* as a slow reader does */
            struct lkv_msg *older = watch->kept[slot];
            watch->kept[slot] = msg;
            msg = older;
        }
        lkv_msg_free(msg);
    }
}

/* ------------------------------------------------------------------ opening one */

static struct lkv *handle_for(struct sim_client *client, const struct sim_remote *remote) {
    struct sim_node *node = &client->world->nodes[client->node];
    if (remote != NULL) {
        return remote->client != NULL ? client_handle(remote->client) : NULL;
    }
    return node->state == SIM_UP && !node->dying ? &node->node->handle : NULL;
}

/* Mostly from where it was; sometimes another one, from any revision that is kept, the next, or one to come. */
static void draw(struct sim_client *client) {
    struct sim_world *world = client->world;
    struct sim_watch *watch = &client->watch;
    struct prng *prng = &world->prng_watch;
    if (watch->begun && prng_below(prng, 3) > 0) {
        return;
    }
    const struct sim_model *model = &world->model;
    uint64_t keys = world->plan.keys, span = model->revision + 4 - model->kept_from;
    watch->begun = true;
    watch->from = (uint32_t)prng_below(prng, keys);
    watch->to = watch->from + 1 + (uint32_t)prng_below(prng, keys - watch->from);
    watch->to_last = prng_below(prng, 3) == 0;
    watch->flags = prng_below(prng, 3) == 0   ? LKV_WATCH_NO_PUTS
                   : prng_below(prng, 2) == 0 ? LKV_WATCH_NO_DELETES
                                              : 0;
    watch->flags = prng_below(prng, 2) == 0 ? 0 : watch->flags;
    watch->flags |= prng_below(prng, 2) == 0 ? LKV_WATCH_PREVIOUS : 0;
    watch->flags |= prng_below(prng, 2) == 0 ? LKV_WATCH_PROGRESS : 0;
    watch->flags |= !watch->to_last && watch->to == watch->from + 1 ? LKV_WATCH_KEY : 0;
    watch->due = prng_below(prng, 3) == 0 ? 0 : model->kept_from + prng_below(prng, span);
    memset(watch->told, 0, sizeof(watch->told));
}

static struct lkv_bytes key_bytes(uint32_t key, char text[static SIM_KEY_SIZE]) {
    sim_key_text(key, text);
    return (struct lkv_bytes){text, strlen(text)};
}

static void open_watch(struct sim_client *client, struct sim_remote *remote) {
    struct sim_watch *watch = &client->watch;
    struct lkv *db = handle_for(client, remote);
    if (db == NULL) {
        return;
    }
    draw(client);
    char from[SIM_KEY_SIZE], to[SIM_KEY_SIZE];
    struct lkv_bytes end = key_bytes(watch->to, to);
    int rc =
        lkv_watch(db, key_bytes(watch->from, from), watch->to_last ? (struct lkv_bytes){0} : end,
                  watch->due, watch->flags, watch->queue, client);
    ASSERT(rc == 0);
    watch->open = true;
    watch->node = client->node;
    watch->remote = remote;
    client->world->counts.watches++;
}

static void cancel(struct sim_client *client) {
    struct sim_world *world = client->world;
    struct sim_watch *watch = &client->watch;
    const struct sim_node *node = &world->nodes[watch->node];
    bool here = watch->remote != NULL ? watch->remote->client != NULL
                                      : node->state != SIM_DOWN && !node->dying;
    take_all(client, false); /* so that it is known whether it has ended by itself */
    if (!watch->open || !here || sim_world_failed(world)) {
        return;
    }
    struct lkv *db =
        watch->remote != NULL ? client_handle(watch->remote->client) : &node->node->handle;
    int rc = lkv_cancel(db, client);
    take_all(client, false);
    if (rc != 0 || watch->open) {
        sim_world_fail(world, "a watch is canceled: %s, and has %s", error_name(rc),
                       watch->open ? "no end" : "ended");
    }
}

void sim_watch_follow(struct sim_client *client, struct sim_remote *remote) {
    struct sim_world *world = client->world;
    struct sim_watch *watch = &client->watch;
    struct prng *prng = &world->prng_watch;
    if (world->model.level < KV_LEVEL_HISTORY) {
        return;
    }
    if (watch->queue == NULL) {
        int rc = lkv_queue_new(&watch->queue);
        ASSERT(rc == 0);
    }
    uint64_t way = prng_below(prng, 16);
    if (way < 12) {
        take_all(client, way < 6);
    }
    if (way % 4 == 0) {
        free_kept(watch);
    }
    if (way == 15) {
        cancel(client);
    }
    if (!watch->open && !sim_world_failed(world)) {
        open_watch(client, remote);
    }
}

/* ------------------------------------------------------------------ the end */

/* What is none of its own it need not be told of. */
static bool is_owed_something(const struct sim_watch *watch, const struct sim_world *world) {
    struct sim_watch after = *watch;
    for (; after.due <= world->model.revision; after.due++) {
        if (after.due == 0 || owed_of(&after, world, after.due) > 0) {
            return true;
        }
        memset(after.told, 0, sizeof(after.told));
    }
    return false;
}

static bool has_seen_all(struct sim_client *client) {
    struct sim_watch *watch = &client->watch;
    if (watch->queue == NULL || !watch->open) {
        return true;
    }
    free_kept(watch);
    take_all(client, false);
    return !watch->open || !is_owed_something(watch, client->world);
}

static bool all_have_seen_all(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.clients; i++) {
        if (!has_seen_all(&world->clients[i])) {
            return false;
        }
    }
    return true;
}

void sim_watch_settle(struct sim_world *world) {
    if (sim_world_failed(world) || sim_world_until(world, all_have_seen_all, SETTLE_MS)) {
        return;
    }
    for (size_t i = 0; i < world->plan.clients && !sim_world_failed(world); i++) {
        const struct sim_watch *watch = &world->clients[i].watch;
        if (!has_seen_all(&world->clients[i])) {
            sim_world_fail(world,
                           "a watch at %s hears nothing: it is at %" PRIu64 " of %" PRIu64
                           " after %d ms of calm",
                           watch->remote != NULL ? watch->remote->name
                                                 : world->nodes[watch->node].name,
                           watch->due, world->model.revision, SETTLE_MS);
        }
    }
}

void sim_watch_fini(struct sim_client *client) {
    free_kept(&client->watch);
    lkv_queue_free(client->watch.queue);
    client->watch.queue = NULL;
}
