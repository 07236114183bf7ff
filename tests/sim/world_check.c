/* What must hold after each callback of a node. */
#include "tests/sim/world.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>

enum { WHOLE_STATE_EVERY_MS = 400 };

void sim_check_life_begins(struct sim_node *node) {
    const struct node *n = node->node;
    node->seen_next = n->window.first;
    node->seen_term = 0;
    node->seen_commit = n->image_index;
    node->seen_applied = n->applied;
    node->term = 0;
    node->led_term = 0;
    node->installing = false;
    node->seen_image = n->image_index;
    node->seen_compared = 0;
    node->tampered = false; /* the state is made anew from what is on the disk */
    node->seen_gone = n->log != NULL ? log_first(n->log) - 1 : 0;
    node->seen_imaging = false;
    memset(&node->appends, 0, sizeof(node->appends));
    node->seen_filled = 0;
    if (n->raft != NULL && n->term < node->durable_led_term) {
        sim_world_fail(node->world, "%s led in term %" PRIu64 ", after a restart it knows %" PRIu64,
                       node->name, node->durable_led_term, n->term);
    }
}

/* ------------------------------------------------------------------ the log in memory */

/* The first index of the window that the model has not seen in its present form. */
static uint64_t changed_from(const struct sim_node *node) {
    const struct node *n = node->node;
    uint64_t next = log_window_next(&n->window);
    uint64_t from = node->seen_next < next ? node->seen_next : next;
    while (from > n->window.first) {
        const struct entry *before = node_entry(n, from - 1);
        if (sim_model_find(&node->world->model, from - 1, before->term) != NULL &&
            (from < node->seen_next || before->term == node->seen_term)) {
            break;
        }
        from--;
    }
    return from > n->window.first ? from : n->window.first;
}

static void see_window(struct sim_node *node) {
    const struct node *n = node->node;
    uint64_t next = log_window_next(&n->window);
    const struct entry *last = next > n->window.first ? node_entry(n, next - 1) : NULL;
    if (next == node->seen_next && (last == NULL || last->term == node->seen_term)) {
        return;
    }
    for (uint64_t index = changed_from(node); index < next; index++) {
        if (!sim_model_see(&node->world->model, node_entry(n, index))) {
            sim_world_fail(node->world, "%s: %s", node->name, node->world->model.why);
            return;
        }
    }
    node->seen_next = next;
    node->seen_term = last != NULL ? last->term : 0;
}

/* ------------------------------------------------------------------ commit */

/* What is committed here is what is committed everywhere. */
static bool same_committed(struct sim_node *node, uint64_t index, uint64_t term) {
    const struct sim_entry *entry = node->world->model.committed[index];
    if (term == entry->term) {
        return true;
    }
    sim_world_fail(node->world,
                   "%s has entry %" PRIu64 " of term %" PRIu64 " committed, it was committed with"
                   " term %" PRIu64,
                   node->name, index, term, entry->term);
    return false;
}

static void see_commit(struct sim_node *node, const struct raft_status *status) {
    struct sim_model *model = &node->world->model;
    model->now_ns = node->world->time.now_ns;
    for (uint64_t i = node->seen_commit + 1; i <= status->commit; i++) {
        uint64_t term = raft_term_at(node->node->raft, i);
        if (term == 0) {
            continue; /* below what this log keeps */
        }
        if (i <= model->commit) {
            if (!same_committed(node, i, term)) {
                return;
            }
        } else if (i > model->commit + 1) {
            sim_world_fail(node->world, "%s has %" PRIu64 " committed, nobody has what is before",
                           node->name, i);
            return;
        } else if (!sim_model_commit(model, i, term, status->term)) {
            sim_world_fail(node->world, "%s: %s", node->name, model->why);
            return;
        } else {
            sim_check_session(node->world, model->committed[i]);
            sim_lease_check(node->world, model->committed[i]);
        }
    }
    node->seen_commit = status->commit;
}

/* ------------------------------------------------------------------ roles and order */

/* A new leader's log holds all that was committed in earlier terms. */
static void check_complete(struct sim_node *node, const struct raft_status *status) {
    const struct sim_model *model = &node->world->model;
    uint64_t index = model->commit;
    while (index > 0 && model->committed[index]->seen_term >= status->term) {
        index--;
    }
    if (index == 0) {
        return;
    }
    uint64_t term = raft_term_at(node->node->raft, index);
    bool covered = term == 0 && index <= node->node->image_index;
    if (!covered && term != model->committed[index]->term) {
        sim_world_fail(node->world,
                       "%s leads in term %" PRIu64 " without entry %" PRIu64 " of term %" PRIu64
                       ", committed before",
                       node->name, status->term, index, model->committed[index]->term);
    }
}

/* Who led in the term before, as its number + 1; 0: nobody, and now it is `leader`. */
static unsigned led_by(struct sim_world *world, uint64_t term, unsigned leader) {
    if (term >= world->led_capacity) {
        size_t capacity = (size_t)term * 2 + 64;
        world->led = realloc(world->led, capacity);
        ASSERT(world->led != NULL);
        memset(world->led + world->led_capacity, 0, capacity - world->led_capacity);
        world->led_capacity = capacity;
    }
    unsigned before = world->led[term];
    world->led[term] = (uint8_t)leader;
    return before;
}

static void check_leader(struct sim_node *node, const struct raft_status *status) {
    struct sim_world *world = node->world;
    if (node->led_term == status->term) {
        return;
    }
    unsigned before = led_by(world, status->term, node->number + 1);
    if (before != 0) {
        sim_world_fail(world, "n%u and %s both lead in term %" PRIu64, before, node->name,
                       status->term);
    }
    node->led_term = node->durable_led_term = status->term;
    world->counts.leaders++;
    sim_world_tell(world, "%s: leads in term %" PRIu64, node->name, status->term);
    check_complete(node, status);
}

static void check_order(struct sim_node *node, const struct raft_status *status) {
    const struct node *n = node->node;
    struct sim_world *world = node->world;
    if (status->commit < node->seen_commit && n->image_index < node->seen_commit) {
        sim_world_fail(world, "%s: commit fell from %" PRIu64 " to %" PRIu64, node->name,
                       node->seen_commit, status->commit);
    } else if (n->applied < node->seen_applied) {
        sim_world_fail(world, "%s: applied fell from %" PRIu64 " to %" PRIu64, node->name,
                       node->seen_applied, n->applied);
    } else if (n->applied > status->commit || n->applied > status->durable) {
        sim_world_fail(world, "%s: applied %" PRIu64 ", committed %" PRIu64 ", durable %" PRIu64,
                       node->name, n->applied, status->commit, status->durable);
    } else if (status->term < node->term) {
        sim_world_fail(world, "%s: the term fell from %" PRIu64 " to %" PRIu64, node->name,
                       node->term, status->term);
    }
    node->term = status->term;
    node->seen_applied = n->applied;
}

/* ------------------------------------------------------------------ state */

static bool same_key(const struct sim_node *node, uint32_t key, uint64_t index,
                     const struct kv_item *item) {
    const struct sim_version *version = sim_model_at(&node->world->model, key, index);
    if (version == NULL || item == NULL) {
        return version == NULL && item == NULL;
    }
    return sim_value_number(item->value) == version->value && item->mod_rev == version->mod_rev &&
           item->create_rev == version->create_rev && item->version == version->version &&
           item->lease == version->lease;
}

static void compare_state(struct sim_node *node, const struct kv_range *range) {
    struct sim_world *world = node->world;
    uint64_t index = range->stamp.index;
    size_t at = 0;
    for (uint32_t key = 0; key < SIM_KEYS_MAX; key++) {
        uint32_t number = UINT32_MAX;
        bool have =
            at < range->count && sim_key_number(range->items[at].key, &number) && number == key;
        if (!same_key(node, key, index, have ? &range->items[at] : NULL)) {
            sim_world_fail(world, "%s: key %u at %" PRIu64 " is not what the log says", node->name,
                           key, index);
        }
        at += have;
    }
    uint64_t revision = sim_model_revision(&world->model, index);
    if (at != range->count || range->stamp.revision != revision) {
        sim_world_fail(
            world, "%s: %zu keys, %zu are right, revision %" PRIu64 " at %" PRIu64 ", not %" PRIu64,
            node->name, range->count, at, range->stamp.revision, index, revision);
    }
    uint64_t kept_from = index == 0 ? 2 : world->model.committed[index]->kept_from;
    if (range->stamp.kept_from != kept_from) {
        sim_world_fail(world, "%s: history from %" PRIu64 " at %" PRIu64 ", not %" PRIu64,
                       node->name, range->stamp.kept_from, index, kept_from);
    }
}

void sim_check_state(struct sim_node *node) {
    struct kv_query all = {0};
    struct kv_range range;
    node->checked_ns = node->world->time.now_ns;
    if (node->node == NULL || node->node->kv == NULL || node->tampered) { /* model log has none */
        return;
    }
    int rc = kv_range(node->node->kv, &all, &range);
    ASSERT(rc == 0);
    if (range.stamp.index <= node->world->model.commit) {
        compare_state(node, &range);
    }
    kv_range_fini(&range);
}

/* Rule 25: equal states are never found to differ. */
static void check_comparison(struct sim_node *node) {
    struct sim_world *world = node->world;
    const struct agree *agree = &node->node->agree;
    world->counts.compared += agree->judged_index != node->seen_compared;
    node->seen_compared = agree->judged_index;
    if (agree->state > AGREE_SAME && !world->tampered) {
        sim_world_fail(
            world, "%s: at entry %" PRIu64 " digest %016" PRIx64 ", the others have %016" PRIx64,
            node->name, agree->judged_index, agree->own.digest, agree->majority);
    }
}

/* ------------------------------------------------------------------ all of it */

void sim_check_commit(struct sim_node *node) {
    const struct node *n = node->node;
    if (n->raft != NULL && n->running && !sim_world_failed(node->world)) {
        struct raft_status status;
        raft_status(n->raft, &status);
        see_window(node);
        see_commit(node, &status);
    }
}

static void check_core(struct sim_node *node) {
    struct sim_world *world = node->world;
    const struct node *n = node->node;
    struct raft_status status;
    raft_status(n->raft, &status);
    node->has_run = true;
    node->end_unknown = status.end_unknown;
    node->image_index = n->image_index > node->image_index ? n->image_index : node->image_index;
    see_window(node);
    check_order(node, &status);
    see_commit(node, &status);
    if (status.role == RAFT_LEADER && n->stop_rc == 0) {
        check_leader(node, &status);
    }
    if (world->plan.log_mode) {
        sim_log_check(node);
    }
    if (world->time.now_ns - node->checked_ns > WHOLE_STATE_EVERY_MS * MS_NS) {
        sim_check_state(node);
    }
    check_comparison(node);
    world->counts.images += n->installing && !node->installing;
    node->installing = n->installing;
    world->counts.filled += n->repair.filled_ever - node->seen_filled;
    node->seen_filled = n->repair.filled_ever;
}

void sim_check_node(struct sim_node *node) {
    const struct node *n = node->node;
    if (n == NULL || node->dying || sim_world_failed(node->world)) {
        return;
    }
    if (n->raft != NULL && n->running) {
        check_core(node);
    }
    sim_program_check(node);
    if (n->stop_rc != 0 && node->state == SIM_UP) {
        sim_node_stopped(node);
    }
    if (n->finished_loop) {
        sim_node_finished(node);
    }
    sim_rot_strike(node);
}

/* ------------------------------------------------------------------ the end */

static uint64_t digest_of_node(struct sim_node *node) {
    const struct state_ops *state = node->node->state;
    struct state_digest digest = {0};
    struct reason why = {{0}};
    int rc = state->digest_begin(node->node, &digest, &why);
    ASSERT(rc == 0);
    rc = state->digest_run(&digest, NULL);
    ASSERT(rc == 0);
    state->digest_end(&digest);
    return digest.digest;
}

static void check_digests(struct sim_world *world) {
    uint64_t first = 0;
    for (size_t i = 0; i < world->plan.nodes; i++) {
        uint64_t digest = digest_of_node(&world->nodes[i]);
        first = i == 0 ? digest : first;
        if (digest != first) {
            sim_world_fail(world, "%s has another digest at the same index", world->nodes[i].name);
            return;
        }
    }
}

/* Rule 22: at the same index, whoever came how. (A level that all know may be proposed yet.) */
static void check_levels(struct sim_world *world) {
    const struct node *first = world->nodes[0].node;
    for (size_t i = 1; i < world->plan.nodes; i++) {
        const struct node *node = world->nodes[i].node;
        if (node->applied == first->applied &&
            node->state->feature_level(node) != first->state->feature_level(first)) {
            sim_world_fail(world, "n1 has feature level %u, n%zu has %u",
                           first->state->feature_level(first), i + 1,
                           node->state->feature_level(node));
        }
    }
}

bool sim_world_converged(struct sim_world *world) {
    const struct sim_node *leader = sim_world_leader(world);
    if (leader == NULL || world->op_count > 0) {
        return false;
    }
    struct raft_status status;
    raft_status(leader->node->raft, &status);
    if (status.noop_index == 0 || leader->node->applied < status.noop_index) {
        return false;
    }
    for (size_t i = 0; i < world->plan.nodes; i++) {
        const struct sim_node *node = &world->nodes[i];
        if (!sim_node_runs(node) || node->node->applied != status.last ||
            node->node->term != leader->node->term || !sim_own_has_all(node)) {
            return false;
        }
    }
    return true;
}

/* Exactly the sessions of the model, now that all is applied. */
static void check_sessions(struct sim_node *node) {
    const struct sim_sessions *sessions = &node->world->model.sessions;
    struct kv_session session;
    size_t at = 0;
    for (size_t i = 0; i < sessions->count; i++) {
        if (!sessions->items[i].open) {
            continue;
        }
        if (!node->node->state->session_at(node->node, at++, &session) ||
            session.id != sessions->items[i].id || session.ttl_ms != sessions->items[i].ttl_ms) {
            sim_world_fail(node->world, "%s has no session %" PRIu64, node->name,
                           sessions->items[i].id);
            return;
        }
    }
    if (node->node->state->session_at(node->node, at, &session)) {
        sim_world_fail(node->world, "%s has a session %" PRIu64 " that has ended", node->name,
                       session.id);
    }
}

void sim_check_end(struct sim_world *world) {
    const struct sim_model *model = &world->model;
    if (sim_world_failed(world)) {
        return;
    }
    for (size_t i = 0; i < world->plan.nodes; i++) {
        struct sim_node *node = &world->nodes[i];
        sim_check_state(node);
        check_sessions(node);
        sim_lease_check_end(node);
        if (world->plan.log_mode) {
            sim_log_check_end(node);
        }
        if (node->node->applied < model->commit) {
            sim_world_fail(world, "%s has applied %" PRIu64 ", %" PRIu64 " was committed",
                           node->name, node->node->applied, model->commit);
        }
    }
    if (world->op_count > 0) {
        sim_world_fail(world, "%zu operations have no final message", world->op_count);
    }
    check_digests(world);
    check_levels(world);
    sim_history_check(world);
}
