/* Clients over the client protocol, with the network, the nodes and themselves failing. */
#include "tests/unit/sim/play.h"

#include <inttypes.h>

static struct sim_plan plan_of(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 4;
    plan.depth = 8;
    plan.keys = 12;
    plan.op_pause_ns = 5 * MS_NS;
    plan.timeout_ms = 500;
    plan.session_ttl_ms = 3000;
    plan.remotes = 1;
    return plan;
}

/* The only node that the client reaches is a follower, which passes its requests on. What the leader
 * refused was kept there, and overtaken by the appends that came behind it. */
Test(sim_clients, appends_that_a_follower_passes_on_keep_their_order) {
    uint64_t done = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct sim_plan plan = plan_of(seed);
        plan.log_mode = true;
        plan.session_permille = 300;
        struct play play = play_begin(&plan);
        struct sim_world *world = play.world;
        (void)play_leader(&play, 3000);
        sim_load_start(world);
        for (unsigned round = 0; round < 6 && !sim_world_failed(world); round++) {
            struct sim_node *leader = play_leader(&play, 3000);
            unsigned host = world->remotes[0].host, door = play_follower(&play, leader)->number;
            sim_net_mend_all(&world->net);
            sim_isolate(world, host, UINT64_MAX);
            sim_net_mend(&world->net, host, door);
            sim_net_mend(&world->net, door, host);
            sim_world_run_ms(world, 4000);
            for (unsigned i = 0; i < 10 && !sim_world_failed(world); i++) {
                (void)sim_net_reset(&world->net, leader->number);
                sim_world_run_ms(world, 100);
            }
            sim_node_close(leader, 200);
            sim_world_run_ms(world, 1000);
        }
        done += world->counts.remote_done; /* none where the only endpoint is cut off */
        play_agree(&play);
        play_end(&play);
    }
    cr_expect_gt(done, 5000, "%" PRIu64 " done", done);
}
