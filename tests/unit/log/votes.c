/* The vote record: rule 2, R1 to R3, R6. */
#include "tests/unit/log/fixture.h"

Test(log_votes, keeps_a_vote_over_a_power_cut) {
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct fixture f;
        fixture_init(&f, seed);
        fixture_must_open(&f);
        cr_assert_eq(try_vote(&f, 5, 77), 0);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        cr_assert_eq(f.state.vote.term, 5);
        cr_assert_eq(f.state.vote.voted_for, 77);
        fixture_fini(&f);
    }
}

/* R2: old pair or new pair, never a mixture; R1: what was answered stays. */
Test(log_votes, is_the_old_or_the_new_pair_after_a_death_at_every_step) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fixture f;
        fixture_init(&f, seed);
        fixture_must_open(&f);
        cr_assert_eq(try_vote(&f, 5, 77), 0);
        sim_disk_crash_at(f.sim, sim_disk_op_count(f.sim) + seed % 5);
        bool saved = try_vote(&f, 6, 78) == 0;
        cr_assert_eq(saved, seed % 5 == 4, "a vote is four disk calls");
        fixture_close(&f);
        if (seed % 2 == 0) {
            sim_disk_power_cut(f.sim);
        } else {
            sim_disk_kill(f.sim);
        }
        fixture_must_open(&f);
        bool old_pair = f.state.vote.term == 5 && f.state.vote.voted_for == 77;
        bool new_pair = f.state.vote.term == 6 && f.state.vote.voted_for == 78;
        cr_assert(new_pair || (old_pair && !saved));
        fixture_fini(&f);
    }
}

/* R3 */
Test(log_votes, fails_for_good_when_it_cannot_be_saved) {
    static const int errors[] = {LKV_EIO, LKV_ENOSPACE};
    for (unsigned i = 0; i < 8; i++) {
        struct fixture f;
        fixture_init(&f, i);
        fixture_must_open(&f);
        cr_assert_eq(try_vote(&f, 5, 77), 0);
        sim_disk_fail(f.sim, SIM_WRITE | SIM_SYNC, i % 4, errors[i / 4], false);
        cr_assert_eq(try_vote(&f, 6, 78), LKV_EIO);
        cr_assert_eq(try_vote(&f, 6, 78), LKV_EIO, "no vote until a restart");
        fixture_power_cut(&f);
        fixture_must_open(&f);
        cr_assert_geq(f.state.vote.term, 5);
        fixture_fini(&f);
    }
}

/* Rule 2: each slot alone brings the newest vote back. */
Test(log_votes, survives_the_rot_of_either_slot) {
    for (unsigned slot = 0; slot < 2; slot++) {
        for (unsigned byte = 0; byte < LOG_HEADER_SIZE; byte += 7) {
            struct fixture f;
            fixture_init(&f, byte);
            fixture_must_open(&f);
            cr_assert_eq(try_vote(&f, 5, 77), 0);
            cr_assert_eq(try_vote(&f, 6, 78), 0);
            fixture_close(&f);
            cr_assert(sim_disk_flip_bit(f.sim, DIR_NAME "/vote", slot * LOG_BLOCK + byte, byte % 8,
                                        SIM_ROT_BOTH));
            fixture_must_open(&f);
            cr_assert_eq(f.state.vote.term, 6);
            cr_assert_eq(f.state.vote.voted_for, 78);
            fixture_fini(&f);
        }
    }
}

/* Found by the seeded test: one slot torn, then power fails while the other is being written. */
Test(log_votes, survives_a_torn_slot_and_a_torn_repair) {
    for (unsigned slot = 0; slot < 2; slot++) {
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct fixture f;
            fixture_init(&f, seed);
            fixture_must_open(&f);
            cr_assert_eq(try_vote(&f, 5, 77), 0);
            fixture_close(&f);
            cr_assert(
                sim_disk_zero(f.sim, DIR_NAME "/vote", slot * LOG_BLOCK + 8, 100, SIM_ROT_BOTH));
            sim_disk_crash_at(f.sim, seed % 30);
            if (fixture_open(&f) == 0) {
                fixture_die(&f);
            }
            sim_disk_power_cut(f.sim);
            fixture_must_open(&f);
            cr_assert_eq(f.state.vote.term, 5);
            cr_assert_eq(f.state.vote.voted_for, 77);
            fixture_fini(&f);
        }
    }
}

Test(log_votes, is_damage_when_both_slots_or_the_file_are_lost) {
    struct fixture f;
    fixture_init(&f, 3);
    fixture_must_open(&f);
    append(&f, 1, 1, 5, 10);
    fixture_close(&f);
    for (unsigned slot = 0; slot < 2; slot++) {
        cr_assert(
            sim_disk_flip_bit(f.sim, DIR_NAME "/vote", slot * LOG_BLOCK + 50, 1, SIM_ROT_BOTH));
    }
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED);
    cr_assert(strstr(f.why.text, "d/vote") != NULL, "%s", f.why.text);
    cr_assert(sim_disk_unlink(f.sim, DIR_NAME "/vote"));
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED, "segments without a vote: not a blank log");
    fixture_fini(&f);
}

/* R6, rule 2: the term never falls below what the log says. */
Test(log_votes, has_at_least_the_term_of_the_log_at_open) {
    struct fixture f;
    fixture_init(&f, 4);
    fixture_must_open(&f);
    cr_assert_eq(try_vote(&f, 3, 9), 0);
    append(&f, 1, 1, 3, 10);
    cr_assert_eq(log_restart_after(f.log, 100, 8, &f.why), 0);
    fixture_close(&f);
    f.image_index = 100;
    f.image_term = 8;
    fixture_must_open(&f);
    cr_assert_eq(f.state.vote.term, 8);
    cr_assert_eq(f.state.vote.voted_for, 0, "a raised term has no vote in it");
    fixture_close(&f);
    fixture_must_open(&f);
    cr_assert_eq(f.state.vote.term, 8);
    fixture_fini(&f);
}
