/* Where a log writes next is its own matter, and the vote record is never absent: L8, L6. */
#include "tests/unit/log/fixture.h"

enum { ENTRIES = 20, LARGE = 700, SMALL = 50 };

/* Nothing of what was cut, and nothing that was never given to it, is there after a power cut. */
static void expect_only(struct fixture *f, uint64_t last, uint64_t last_term) {
    for (unsigned life = 0; life < 2; life++) {
        fixture_power_cut(f);
        fixture_must_open(f);
        cr_assert_eq(f->state.last, last, "last is %llu", (unsigned long long)f->state.last);
        cr_assert_eq(f->state.last_term, last_term);
    }
}

/* One node has the whole log, the other begins behind an image: the same entries lie elsewhere. What each
 * cuts is cut, although its position was never the other's. */
static void part_ways(uint64_t image, uint64_t cut, uint64_t seed) {
    struct fixture whole, behind;
    fixture_init(&whole, seed);
    fixture_init(&behind, seed + 1);
    fixture_must_open(&whole);
    fixture_must_open(&behind);
    append(&whole, 1, ENTRIES, 1, LARGE);
    append(&behind, 1, 3, 1, LARGE);
    cr_assert_eq(log_restart_after(behind.log, image, 1, &behind.why), 0);
    behind.image_index = image;
    behind.image_term = 1;
    append(&behind, image + 1, ENTRIES - image, 1, LARGE);
    const char *path, *other_path;
    uint64_t at = record_offset(&whole, ENTRIES, &path);
    uint64_t other_at = record_offset(&behind, ENTRIES, &other_path);
    cr_assert(at != other_at || strcmp(path, other_path) != 0, "that they differ is the point");
    struct fixture *both[] = {&whole, &behind};
    for (unsigned i = 0; i < 2; i++) {
        struct fixture *f = both[i];
        append(f, cut, 1, 2, SMALL); /* shorter than what it replaces, which lies behind it */
        expect_only(f, cut, 2);
        append(f, cut + 1, 2, 2, SMALL);
        expect_only(f, cut + 2, 2);
        check_entries(f, f->state.first, cut - 1, 1, LARGE);
        check_entries(f, cut, cut + 2, 2, SMALL);
        fixture_fini(f);
    }
}

Test(log_positions, l8_are_local_and_what_was_cut_behind_an_image_stays_cut) {
    for (uint64_t image = 4; image <= 16; image += 3) {
        for (uint64_t cut = image + 1; cut <= ENTRIES; cut += 2) {
            part_ways(image, cut, image * 100 + cut);
        }
    }
}

/* At every disk call of a vote the process dies: the file is there, and holds the old or the new vote. */
Test(log_positions, l6_a_vote_is_never_without_its_file) {
    for (uint64_t k = 0; k < 6; k++) {
        for (uint64_t seed = 0; seed < 40; seed++) {
            struct fixture f;
            fixture_init(&f, seed);
            fixture_must_open(&f);
            cr_assert_eq(try_vote(&f, 5, 77), 0);
            sim_disk_crash_at(f.sim, sim_disk_op_count(f.sim) + k);
            bool saved = try_vote(&f, 6, 78) == 0;
            fixture_power_cut(&f);
            struct slice bytes;
            cr_assert(sim_disk_peek(f.sim, DIR_NAME "/vote", &bytes), "call %d", (int)k);
            fixture_must_open(&f);
            cr_assert(f.state.vote.term == 6 || (!saved && f.state.vote.term == 5));
            cr_assert_eq(f.state.vote.voted_for, f.state.vote.term + 72);
            fixture_fini(&f);
        }
    }
}

/* It needs neither a removal nor a rename, and an error of any call is an error of the vote. */
Test(log_positions, l6_no_error_of_a_vote_is_ignored) {
    static const int kinds[] = {SIM_OPEN,   SIM_WRITE,  SIM_SYNC,
                                SIM_RENAME, SIM_REMOVE, SIM_SYNC_DIR};
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (uint64_t k = 0; k < 3; k++) {
            struct fixture f;
            fixture_init(&f, k);
            fixture_must_open(&f);
            cr_assert_eq(try_vote(&f, 5, 77), 0);
            uint64_t before = sim_disk_op_count(f.sim);
            sim_disk_fail(f.sim, kinds[i], k, LKV_EIO, true);
            int rc = try_vote(&f, 6, 78);
            bool makes_it = kinds[i] == SIM_WRITE || kinds[i] == SIM_SYNC;
            cr_assert_eq(rc, makes_it && k < 2 ? LKV_EIO : 0, "kind %d, call %d", kinds[i], (int)k);
            cr_assert_gt(sim_disk_op_count(f.sim), before);
            sim_disk_heal(f.sim);
            fixture_power_cut(&f);
            fixture_must_open(&f);
            cr_assert(f.state.vote.term == 6 || (rc != 0 && f.state.vote.term == 5));
            fixture_fini(&f);
        }
    }
}
