/* One node, and what its state machine makes of its log after a death at any moment. Ids as in the
 * catalogue of faults. */
#include "tests/unit/sim/play.h"

enum { PUTS = 500, KEYS = 250, LIVES = 12, OPERATIONS = 60 };

static struct sim_plan plan_alone(uint64_t seed) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.nodes = 1;
    plan.keys = KEYS;
    return plan;
}

/* The world judges each answer and each key; this counts once more, by itself. */
struct tally {
    int ends[PUTS];
    uint32_t keys[PUTS];
};

static void submit_puts(struct play *play, struct tally *tally, size_t from, size_t to) {
    struct sim_node *node = &play->world->nodes[0];
    for (size_t i = from; i < to; i++) {
        tally->keys[i] = (uint32_t)(i % KEYS);
        tally->ends[i] = 0;
        sim_submit(node, SIM_PUT, tally->keys[i], 5000, &tally->ends[i]);
        sim_world_run_ms(play->world, i % 3 == 0 ? 1 : 0);
    }
}

/* 0: there is no such key. */
static uint64_t version_of(const struct sim_node *node, uint32_t key) {
    char text[SIM_KEY_SIZE];
    struct kv_item item;
    sim_key_text(key, text);
    if (kv_get(node->node->kv, slice_text(text), &item, NULL) != 0) {
        return 0;
    }
    uint64_t version = item.version;
    kv_item_release(&item);
    return version;
}

static size_t count_ends(const struct tally *tally, size_t puts, uint32_t key,
                         enum lkv_outcome outcome) {
    size_t count = 0;
    for (size_t i = 0; i < puts; i++) {
        count += tally->keys[i] == key && tally->ends[i] == 1 + (int)outcome;
    }
    return count;
}

static void check_counts(struct play *play, const struct tally *tally, size_t puts) {
    for (uint32_t key = 0; key < KEYS; key++) {
        size_t done = count_ends(tally, puts, key, LKV_DONE);
        size_t unknown = count_ends(tally, puts, key, LKV_UNKNOWN);
        uint64_t version = version_of(&play->world->nodes[0], key);
        cr_expect(version >= done && version <= done + unknown,
                  "key %d has version %d: %d done, %d unknown", (int)key, (int)version, (int)done,
                  (int)unknown);
    }
}

Test(sim_alone, x_a1_of_500_puts_cut_at_a_random_moment_all_acknowledged_are_there) {
    size_t cut = 0;
    for (uint64_t seed = 2000; seed < 2050; seed++) {
        struct sim_plan plan = plan_alone(seed);
        struct play play = play_begin(&plan);
        struct prng prng = prng_of(seed);
        static struct tally tally;
        struct sim_node *node = play_leader(&play, 3000);
        sim_disk_crash_at(node->disk, sim_disk_op_count(node->disk) + prng_below(&prng, 300));
        submit_puts(&play, &tally, 0, PUTS);
        sim_world_run_ms(play.world, prng_below(&prng, 20));
        sim_node_crash(node, true);
        sim_node_start(node);
        sim_world_run_ms(play.world, 2000);
        check_counts(&play, &tally, PUTS);
        size_t done = 0;
        for (size_t i = 0; i < PUTS; i++) {
            done += tally.ends[i] == 1 + (int)LKV_DONE;
        }
        cut += done > 0 && done < PUTS;
        play_agree(&play);
        play_end(&play);
    }
    cr_expect(cut > 25, "only %d of 50 were cut in the middle", (int)cut);
}

/* Images at many distances behind the log, and many deaths: every put counts exactly once. */
static void count_over_lives(uint64_t seed, uint64_t image_log_bytes) {
    struct sim_plan plan = plan_alone(seed);
    plan.image_log_bytes = image_log_bytes;
    plan.segment_bytes = 8 * 1024;
    plan.keep_entries = 1;
    struct play play = play_begin(&plan);
    static struct tally tally;
    size_t replayed = 0;
    for (size_t life = 0; life < LIVES; life++) {
        struct sim_node *node = play_leader(&play, 5000);
        size_t from = life * PUTS / LIVES, to = (life + 1) * PUTS / LIVES;
        submit_puts(&play, &tally, from, to);
        sim_world_run_ms(play.world, life % 5);
        sim_node_crash(node, life % 2 == 0);
        sim_node_start(node);
        cr_assert(node->node != NULL);
        replayed += node->node->image_index < node->node->applied || node->node->applied == 0;
    }
    (void)play_leader(&play, 5000);
    play_agree(&play);
    check_counts(&play, &tally, PUTS);
    cr_expect(replayed > 0);
    play_end(&play);
}

Test(sim_alone, s19_replay_counts_every_put_once_however_far_the_image_is_behind) {
    for (uint64_t seed = 2100; seed < 2120; seed++) {
        count_over_lives(seed, (seed % 5 + 1) * 2048);
    }
}

/* S21: between applying and a durable image that says how far it is. */
Test(sim_alone, s21_a_death_at_any_operation_of_an_image_counts_nothing_twice) {
    for (uint64_t k = 0; k < OPERATIONS; k++) {
        struct sim_plan plan = plan_alone(2200 + k);
        plan.image_log_bytes = 4096;
        plan.segment_bytes = 4096;
        plan.keep_entries = 0;
        struct play play = play_begin(&plan);
        static struct tally tally;
        struct sim_node *node = play_leader(&play, 3000);
        submit_puts(&play, &tally, 0, 60); /* an image is due soon */
        sim_disk_crash_at(node->disk, sim_disk_op_count(node->disk) + k);
        submit_puts(&play, &tally, 60, 120);
        sim_world_run_ms(play.world, 5000);
        play_agree(&play);
        check_counts(&play, &tally, 120);
        play_end(&play);
    }
}
