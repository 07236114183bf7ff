#include "tests/sim/world_roles.h"

#include "base/assert.h"
#include "tests/sim/world.h"

#include <inttypes.h>

static void release(struct sim_program *program) {
    struct lkv_msg *held = program->held;
    if (held != NULL) {
        program->held = NULL;
        program->acts_in = 0;
        lkv_msg_free(held);
    }
}

static void fire_release(struct sim_event *event) {
    release(LIST_ITEM(event, struct sim_program, release));
}

void sim_program_init(struct sim_node *node) {
    node->program = (struct sim_program){.release.fire = fire_release};
}

void sim_program_begin(struct sim_node *node) {
    struct sim_program *program = &node->program;
    int rc = lkv_queue_new(&program->queue);
    rc = rc == 0 ? role_add_watcher(&node->node->role_events, program->queue, NULL) : rc;
    ASSERT(rc == 0);
    program->acts_in = program->acted_in = 0;
}

void sim_program_end(struct sim_node *node) {
    struct sim_program *program = &node->program;
    if (program->queue == NULL) {
        return;
    }
    sim_event_cancel(&node->world->time, &program->release);
    release(program);
    lkv_queue_free(program->queue);
    program->queue = NULL;
}

static void wrong(struct sim_node *node, const char *role, uint64_t term) {
    sim_world_fail(node->world,
                   "%s is told %s of term %" PRIu64 " while its program acts in term %" PRIu64
                   ", and acted in %" PRIu64 "%s",
                   node->name, role, term, node->program.acts_in, node->program.acted_in,
                   node->program.held != NULL ? " (stepping down is not freed)" : "");
}

static void take_ready(struct sim_node *node, const struct lkv_msg *msg, uint64_t term) {
    struct sim_program *program = &node->program;
    uint64_t index = 0;
    bool has_index = lkv_msg_u64(msg, "index", &index);
    if (program->acts_in != 0 || program->acted_in >= term) {
        wrong(node, "leader_ready", term);
    } else if (!has_index || node->node->applied < index) {
        sim_world_fail(node->world, "%s is ready at %" PRIu64 " but has applied %" PRIu64,
                       node->name, index, node->node->applied);
    }
    sim_log_check_ready(node, index);
    program->acts_in = program->acted_in = term;
    program->ready++;
}

/* False: the message is kept. */
static bool take_stepping_down(struct sim_node *node, struct lkv_msg *msg, uint64_t term) {
    struct sim_world *world = node->world;
    struct sim_program *program = &node->program;
    if (program->acts_in != term || program->held != NULL) {
        wrong(node, "stepping_down", term);
    }
    program->stepped_down++;
    bool late = prng_below(&world->prng_program, 1000) < world->plan.late_permille;
    if (!world->load_on || !late || program->held != NULL) {
        program->acts_in = 0;
        return true;
    }
    struct raft_status status;
    raft_status(node->node->raft, &status);
    program->campaigns = status.campaigns;
    program->held = msg;
    sim_event_in(&world->time, &program->release,
                 prng_below(&world->prng_program, world->plan.fault_ms_max) * MS_NS);
    return false;
}

static void take(struct sim_node *node, struct lkv_msg *msg) {
    const char *role = lkv_msg_str(msg, "role");
    uint64_t term = 0;
    ASSERT(role != NULL && lkv_msg_u64(msg, "term", &term));
    if (strcmp(role, "leader_ready") == 0) {
        take_ready(node, msg, term);
    } else if (strcmp(role, "stepping_down") == 0) {
        if (!take_stepping_down(node, msg, term)) {
            return;
        }
    } else if (node->program.acts_in != 0 && node->program.held == NULL) {
        wrong(node, role, term);
    }
    lkv_msg_free(msg);
}

void sim_program_check(struct sim_node *node) {
    struct sim_program *program = &node->program;
    struct lkv_msg *msg;
    while (program->queue != NULL && (msg = lkv_queue_next(program->queue, 0)) != NULL) {
        take(node, msg);
    }
    if (program->acts_in == 0 || node->node->raft == NULL) {
        return;
    }
    struct raft_status status;
    raft_status(node->node->raft, &status);
    uint64_t applied_term = raft_term_at(node->node->raft, node->node->applied);
    if (applied_term > program->acts_in) {
        sim_world_fail(node->world,
                       "%s has applied an entry of term %" PRIu64
                       " while its program acts as leader of term %" PRIu64,
                       node->name, applied_term, program->acts_in);
    }
    if (program->held != NULL && status.campaigns != program->campaigns) {
        sim_world_fail(node->world, "%s campaigns before its program has freed stepping_down",
                       node->name);
    }
}

void sim_program_release(struct sim_node *node) {
    sim_event_cancel(&node->world->time, &node->program.release);
    release(&node->program);
}

void sim_programs_release(struct sim_world *world) {
    for (size_t i = 0; i < world->plan.nodes; i++) {
        sim_program_release(&world->nodes[i]);
    }
}
