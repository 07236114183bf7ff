/* Reads of older revisions in whole clusters: each answer is that of its revision, whoever leads, dies,
 * installs an image or compacts meanwhile. */
#include "lib/node.h"
#include "tests/unit/sim/play.h"

static struct play begin(uint64_t seed, uint32_t level, uint32_t read_permille,
                         uint32_t view_permille) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.clients = 6;
    plan.depth = 4;
    plan.remotes = 2;
    plan.remote_permille = 500;
    plan.op_pause_ns = 4 * MS_NS;
    plan.read_permille = read_permille;
    plan.view_permille = view_permille;
    plan.image_log_bytes = 4096;
    plan.keep_entries = 10;
    plan.history_revisions = 0; /* nothing is compacted */
    struct play play = {.story = sim_story_new(STORY_LINES, stderr)};
    play.world = sim_world_new(&plan, sim_story_tell, play.story);
    for (size_t i = 0; i < plan.nodes; i++) {
        play.world->nodes[i].feature_level = level;
        sim_node_start(&play.world->nodes[i]);
    }
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 500);
    return play;
}

/* One node after the other dies under load, the leader too, and comes back by log or image. */
static void run_through_deaths(struct play *play) {
    sim_load_start(play->world);
    for (size_t i = 0; i < 6; i++) {
        sim_world_run_ms(play->world, 1000);
        struct sim_node *node =
            i % 2 == 0 ? play_leader(play, 5000) : &play->world->nodes[i % play->world->plan.nodes];
        sim_node_crash(node, i % 3 == 0);
        sim_world_run_ms(play->world, 1500);
        sim_node_start(node);
    }
    sim_world_run_ms(play->world, 1000);
}

Test(sim_reads, c7_what_is_kept_is_read_as_it_was_and_the_rest_refused) {
    struct play play = begin(410, 2, 700, 0);
    run_through_deaths(&play);
    struct sim_counts counts = play.world->counts;
    cr_expect_gt(counts.past_reads, 1000);
    cr_expect_gt(counts.past_refusals, 20, "of a future that a replica had not seen");
    cr_expect_lt(counts.past_refusals, counts.past_reads / 4);
    cr_expect_gt(counts.images, 0);
    play_agree(&play);
    play_end(&play);
}

Test(sim_reads, c7_below_the_level_of_history_the_newest_revision_is_kept) {
    struct play play = begin(411, 1, 700, 0);
    run_through_deaths(&play);
    cr_expect_gt(play.world->counts.past_refusals, 1000);
    cr_expect_gt(play.world->counts.past_reads, 20, "of the newest");
    play_agree(&play);
    play_end(&play);
}

/* Every page that follows is of the first one's revision, and nothing else than that is right. */
Test(sim_reads, c16_pages_are_of_one_revision_under_writes) {
    struct play play = begin(412, 2, 400, 0);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 8000);
    cr_expect_gt(play.world->counts.next_pages, 100);
    play_agree(&play);
    play_end(&play);
}

static bool holds_views(const struct play *play) {
    for (size_t i = 0; i < play->world->plan.nodes; i++) {
        if (play->world->nodes[i].node->view_count > 0) {
            return true;
        }
    }
    return false;
}

/* Below the level of history every write compacts what was before it, and leaves the views. */
Test(sim_reads, c16_iterators_are_of_one_revision_under_writes_and_compaction) {
    struct play play = begin(413, 1, 600, 600);
    sim_load_start(play.world);
    sim_world_run_ms(play.world, 8000);
    cr_expect_gt(play.world->counts.view_items, 1000);
    cr_expect_gt(play.world->counts.views_old, 10);
    cr_expect(holds_views(&play));
    sim_load_stop(play.world); /* nobody closes them */
    sim_world_run_ms(play.world, 21000);
    cr_expect(not(holds_views(&play)), "the longest was opened for 20 s");
    play_agree(&play);
    play_end(&play);
}

Test(sim_reads, c16_views_live_through_deaths_and_images) {
    struct play play = begin(414, 2, 700, 700);
    run_through_deaths(&play);
    struct sim_counts counts = play.world->counts;
    cr_expect_gt(counts.views, 50);
    cr_expect_gt(counts.view_items, 500);
    cr_expect_gt(counts.images, 0);
    play_agree(&play);
    play_end(&play);
}

/* A follower that is cut off answers bounded reads for as long as its state is known to be new enough. */
Test(sim_reads, a_bounded_read_is_not_older_than_its_bound) {
    struct play play = begin(415, 2, 900, 0);
    struct sim_world *world = play.world;
    sim_load_start(world);
    for (size_t i = 0; i < 8; i++) {
        sim_world_run_ms(world, 800);
        sim_isolate(world, (unsigned)(i % world->plan.nodes), world->time.now_ns + 2500 * MS_NS);
        sim_world_run_ms(world, 3000);
    }
    cr_expect_gt(world->counts.bounded, 1000);
    cr_expect_gt(world->counts.bounded_old, 20, "some are answered without asking anybody");
    play_agree(&play);
    play_end(&play);
}
