/* A program's own state machine on each node (model own): lib/machine.c step by step, since nothing here may wait.
 * What it makes of the records is a hash over them, and it must be the same after each entry on every node
 * and in every life, whether it came by the log or by an image. */
#include "tests/sim/world.h"

#include "base/assert.h"
#include "lib/machine.h"

#include <inttypes.h>
#include <stdlib.h>

enum { STEPS_A_TURN = 200, IMAGE_BYTES_MAX = 300 * 1024 };

/* An image: index, hash, and zeros. */
struct own_view {
    uint64_t index, hash, at, size;
};

static struct sim_node *node_of(void *arg) {
    return arg;
}

static void wrong(const struct sim_node *node, uint64_t index, const char *what) {
    sim_world_fail(node->world, "the program of %s, at entry %" PRIu64 ": %s", node->name, index,
                   what);
}

/* ------------------------------------------------------------------ the state */

static uint64_t *hash_at(struct sim_world *world, uint64_t index) {
    struct sim_own_model *model = &world->own;
    if (index >= model->capacity) {
        uint64_t capacity = 2 * index + 64;
        uint64_t *grown = realloc(model->hashes, capacity * sizeof(*grown));
        ASSERT(grown != NULL);
        memset(grown + model->capacity, 0, (capacity - model->capacity) * sizeof(*grown));
        model->hashes = grown;
        model->capacity = capacity;
    }
    return &model->hashes[index];
}

static uint64_t mix(uint64_t hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    }
    return hash | 1; /* 0 is that of nobody */
}

static int apply(void *arg, const struct lkv_record *record, struct lkv_said *answer) {
    struct sim_node *node = node_of(arg);
    struct sim_world *world = node->world;
    struct sim_own *own = &node->own;
    const struct sim_model *model = &world->model;
    if (record->index <= own->index || record->index > model->commit ||
        !model->committed[record->index]->shown ||
        model->committed[record->index]->term != record->term) {
        wrong(node, record->index, "no record that was committed there, or once more");
        return LKV_EPROTOCOL;
    }
    for (uint64_t i = own->index + 1; i < record->index; i++) {
        if (model->committed[i]->shown) {
            wrong(node, i, "a record was left out");
        }
    }
    own->hash = mix(mix(own->hash, &record->index, sizeof(record->index)), record->data.data,
                    record->data.size);
    own->index = record->index;
    uint64_t *known = hash_at(world, record->index);
    if (*known != 0 && *known != own->hash) {
        wrong(node, record->index, "another state than elsewhere");
    }
    *known = own->hash;
    world->counts.own_applied++;
    return lkv_machine_say(answer, (struct lkv_bytes){&own->hash, sizeof(own->hash)});
}

static int reset(void *arg) {
    struct sim_own *own = &node_of(arg)->own;
    own->index = own->hash = own->loaded = 0;
    return 0;
}

static int load(void *arg, struct lkv_bytes bytes) {
    struct sim_node *node = node_of(arg);
    struct sim_own *own = &node->own;
    const uint8_t *from = bytes.data;
    for (size_t i = 0; i < bytes.size; i++, own->loaded++) {
        if (own->loaded < sizeof(own->loading)) {
            own->loading[own->loaded] = from[i];
        } else if (from[i] != 0) {
            wrong(node, own->index, "an image with another byte");
        }
    }
    if (bytes.size == 0) {
        memcpy(&own->index, own->loading, 8);
        memcpy(&own->hash, own->loading + 8, 8);
        if (own->loaded < 16 ||
            (own->hash != 0 && *hash_at(node->world, own->index) != own->hash)) {
            wrong(node, own->index, "an image of a state that never was");
        }
        node->world->counts.own_loaded++;
    }
    return 0;
}

static int freeze(void *arg, void **out) {
    struct sim_node *node = node_of(arg);
    struct own_view *view = malloc(sizeof(*view));
    ASSERT(view != NULL);
    uint64_t more = prng_below(&node->world->prng_own, 4) == 0
                        ? prng_below(&node->world->prng_own, IMAGE_BYTES_MAX)
                        : prng_below(&node->world->prng_own, 100);
    *view = (struct own_view){.index = node->own.index, .hash = node->own.hash, .size = 16 + more};
    *out = view;
    return 0;
}

static int save(void *arg, void *opaque, void *into, size_t size, size_t *got) {
    struct own_view *view = opaque;
    uint8_t *to = into, head[16];
    (void)arg;
    memcpy(head, &view->index, 8);
    memcpy(head + 8, &view->hash, 8);
    for (*got = 0; *got < size && view->at < view->size; view->at++, (*got)++) {
        to[*got] = view->at < 16 ? head[view->at] : 0;
    }
    return 0;
}

static void thaw(void *arg, void *view) {
    node_of(arg)->world->counts.own_images++;
    free(view);
}

/* ------------------------------------------------------------------ its life */

static const struct lkv_machine_calls calls = {
    .apply = apply, .reset = reset, .load = load, .freeze = freeze, .save = save, .thaw = thaw};

static void turn_again(struct sim_node *node) {
    uint64_t pause_ms = 1 + prng_below(&node->world->prng_own, 30);
    sim_event_in(&node->world->time, &node->own.turn, pause_ms * MS_NS);
}

/* Its disk or its log may fail it, and then its program closes the node. */
static bool may_fail(const struct sim_node *node, int rc) {
    return rc == LKV_EIO || rc == LKV_EDAMAGED || rc == LKV_ESTOPPED || rc == LKV_ECLOSED ||
           sim_disk_crashed(node->disk);
}

static void take_turn(struct sim_event *event) {
    struct sim_node *node = LIST_ITEM(event, struct sim_node, own.turn);
    bool idle = false;
    int rc = 0;
    if (node->own.machine == NULL || node->state != SIM_UP || node->dying) {
        return;
    }
    for (int i = 0; rc == 0 && !idle && i < STEPS_A_TURN; i++) {
        rc = machine_step(node->own.machine, 0, &idle);
        sim_loop_leave(&node->loop);
        if (sim_disk_crashed(node->disk)) {
            sim_node_die(node, false);
            return;
        }
    }
    if (rc == 0) {
        turn_again(node);
        return;
    }
    if (!may_fail(node, rc)) {
        sim_world_fail(node->world, "the machine of %s ends: %s: %s", node->name, error_name(rc),
                       lkv_last_text());
    }
    sim_world_tell(node->world, "%s: its machine ends: %s", node->name, error_name(rc));
    sim_node_die(node, false);
}

void sim_own_init(struct sim_node *node) {
    node->own = (struct sim_own){.turn = {.fire = take_turn}};
}

void sim_own_begin(struct sim_node *node) {
    if (!node->world->plan.own_mode) {
        return;
    }
    int rc = lkv_machine_new(&node->node->handle, &calls, node, node->world->plan.image_log_bytes,
                             &node->own.machine);
    ASSERT(rc == 0);
    turn_again(node);
}

void sim_own_end(struct sim_node *node) {
    sim_event_cancel(&node->world->time, &node->own.turn);
    if (node->own.machine != NULL) {
        machine_end(node->own.machine, 0);
        lkv_machine_free(node->own.machine);
        node->own.machine = NULL;
    }
}

bool sim_own_has_all(const struct sim_node *node) {
    const struct sim_model *model = &node->world->model;
    for (uint64_t i = model->commit; node->own.machine != NULL && i > node->own.index; i--) {
        if (model->committed[i]->shown) {
            return false;
        }
    }
    return true;
}
