/* What must hold of a node of log mode after each of its callbacks, and of every page it shows. */
#include "tests/sim/world.h"

#include "base/crc.h"

#include <inttypes.h>

void sim_log_check_records(struct sim_world *world, const char *who, uint64_t from, uint64_t next,
                           const struct lkv_msg *msg) {
    const struct sim_model *model = &world->model;
    size_t at = 0;
    if (next > model->commit + 1 && lkv_msg_count(msg) > 0) {
        sim_world_fail(world, "%s goes on at %" PRIu64 ", committed is %" PRIu64, who, next,
                       model->commit);
        return;
    }
    for (uint64_t i = from; i < next && i <= model->commit; i++) {
        const struct sim_entry *entry = model->committed[i];
        struct lkv_record record;
        bool have = lkv_msg_record(msg, at, &record) && record.index == i;
        if (have != entry->shown) {
            sim_world_fail(world,
                           "%s, from %" PRIu64 " to %" PRIu64 ": the record at %" PRIu64 " %s", who,
                           from, next, i, have ? "should not be seen" : "is missing");
            return;
        }
        if (!have) {
            continue;
        }
        size_t skip = entry->type == ENTRY_ONCE ? ONCE_HEADER_SIZE : 0;
        if (record.term != entry->term || record.data.size + skip != entry->size ||
            sim_value_number(slice_of(record.data.data, record.data.size)) != entry->value ||
            (skip == 0 && crc32c(0, slice_of(record.data.data, record.data.size)) != entry->crc)) {
            sim_world_fail(world, "%s: the record at %" PRIu64 " is not what was appended", who, i);
            return;
        }
        at++;
    }
    if (at != lkv_msg_count(msg)) {
        sim_world_fail(world, "%s, from %" PRIu64 " to %" PRIu64 ": %zu records, %zu are right",
                       who, from, next, lkv_msg_count(msg), at);
    }
}

/* ------------------------------------------------------------------ retention */

/* Model own: the log goes no further than the image, less what stays for followers, and holds. */
static void check_own(struct sim_node *node) {
    struct sim_world *world = node->world;
    const struct node *n = node->node;
    uint64_t gone = log_first(n->log) - 1;
    if (n->image_running || n->installing || gone == node->seen_gone) {
        /* It may go before the image counts. */
        return;
    }
    node->seen_gone = gone;
    if (n->image_index != node->seen_image && !node->seen_imaging) {
        return; /* one was installed */
    }
    world->counts.drops++;
    bool rots = world->plan.rot_budget != SIM_ROT_NONE; /* an image may cover what is unreadable */
    if (gone > n->image_index || (!rots && gone + world->plan.keep_entries > n->image_index)) {
        sim_world_fail(world, "%s lets entries up to %" PRIu64 " go, its image is of %" PRIu64,
                       node->name, gone, n->image_index);
    }
    for (size_t i = 0; !rots && i < SIM_CLIENTS_MAX; i++) {
        if (node->holds[i] != 0 && gone >= node->holds[i]) {
            sim_world_fail(world, "%s lets entries up to %" PRIu64 " go, %" PRIu64 " is held",
                           node->name, gone, node->holds[i]);
        }
    }
}

/* Rule 14: nothing goes that is not committed, that followers may want, or that is held. */
static void check_images(struct sim_node *node) {
    struct sim_world *world = node->world;
    const struct node *n = node->node;
    if (n->image_index == node->seen_image) {
        return;
    }
    bool installed = !node->seen_imaging; /* else it is an own one that was being written */
    node->seen_image = n->image_index;
    if (installed) { /* what it held is gone with what it had */
        memset(node->holds, 0, sizeof(node->holds));
        return;
    }
    if (world->plan.own_mode) {
        return; /* it says nothing of what goes */
    }
    world->counts.drops++;
    if (n->image_index > world->model.commit ||
        n->image_index + world->plan.keep_entries > n->applied) {
        sim_world_fail(
            world, "%s lets entries up to %" PRIu64 " go, applied %" PRIu64 ", committed %" PRIu64,
            node->name, n->image_index, n->applied, world->model.commit);
    }
    for (size_t i = 0; i < SIM_CLIENTS_MAX; i++) {
        if (node->holds[i] != 0 && n->image_index >= node->holds[i]) {
            sim_world_fail(world, "%s lets entries up to %" PRIu64 " go, %" PRIu64 " is held",
                           node->name, n->image_index, node->holds[i]);
        }
    }
}

/* ------------------------------------------------------------------ the ledger */

static void check_ledger(struct sim_node *node) {
    struct sim_world *world = node->world;
    const struct sim_model *model = &world->model;
    const struct ledger *ledger = &node->node->ledger;
    world->counts.voids = model->voids;
    if (ledger->visible > node->node->applied || ledger->included < node->node->applied) {
        sim_world_fail(world,
                       "%s: applied %" PRIu64 ", visible %" PRIu64 ", the ledger is of %" PRIu64,
                       node->name, node->node->applied, ledger->visible, ledger->included);
    }
    if (ledger->included > model->commit) {
        sim_world_fail(world, "%s: the ledger is of %" PRIu64 ", committed is %" PRIu64, node->name,
                       ledger->included, model->commit);
    } else if (ledger->included > 0 && !node->tampered &&
               ledger->chain != model->committed[ledger->included]->chain) {
        sim_world_fail(world, "%s: another chain at %" PRIu64 " than its entries make", node->name,
                       ledger->included);
    }
}

void sim_log_check(struct sim_node *node) {
    if (node->world->plan.own_mode) {
        check_own(node);
    }
    check_images(node);
    node->seen_imaging = node->node->image_running;
    check_ledger(node);
}

/* Now that all is applied and nothing is under way. */
void sim_log_check_end(struct sim_node *node) {
    struct sim_world *world = node->world;
    const struct node *n = node->node;
    if (n->ledger.included != n->applied || n->ledger.visible > n->applied) {
        sim_world_fail(world, "%s: applied %" PRIu64 ", the ledger is of %" PRIu64, node->name,
                       n->applied, n->ledger.included);
    }
    if (node_once_judges(n) && n->proposed.count != n->ledger.sessions.count) {
        sim_world_fail(world, "%s judges by %zu sessions, there are %zu", node->name,
                       n->proposed.count, n->ledger.sessions.count);
    }
}
