/* What an opening with `mend` makes of each shape of damage, and that it can be filled again. */
#include "tests/unit/log/fixture.h"

enum { ENTRIES = 60, SIZE = 500, CUT = 41 };

/* Sixty entries over three segments or more; from `CUT` on of term 2, in a segment of their own. */
static void build(struct fixture *f, uint64_t seed) {
    fixture_init(f, seed);
    f->options.mend = true;
    fixture_must_open(f);
    append(f, 1, 50, 1, SIZE);
    append(f, CUT, ENTRIES - CUT + 1, 2, SIZE);
    mark(f);
    cr_assert_eq(log_prepare_spare(f->log, &f->why), 0); /* what was cut off goes */
    fixture_kill(f);
}

static uint64_t term_of(uint64_t index) {
    return index < CUT ? 1 : 2;
}

static void fill_all(struct fixture *f) {
    struct log_gap gap;
    while (log_gaps(f->log, &gap, 1) > 0) {
        struct entry entry = entry_of(gap.first, term_of(gap.first), SIZE);
        int rc = log_fill(f->log, &entry, 1, &f->why);
        blob_unref(entry.payload);
        cr_assert_eq(rc, 0, "fill %llu: %s: %s", (unsigned long long)gap.first, error_name(rc),
                     f->why.text);
    }
}

/* Opens, fills what is missing; then it opens as if nothing had ever been. */
static void mend(struct fixture *f, bool end_unknown) {
    fixture_must_open(f);
    cr_assert_eq(f->state.end_unknown, end_unknown);
    cr_assert(f->state.damage.text[0] != '\0');
    cr_assert_eq(f->state.vote.term, 2);
    fill_all(f);
    cr_assert_eq(log_prepare_spare(f->log, &f->why), 0);
    if (end_unknown) {
        cr_assert_eq(log_settle_end(f->log, &f->why), 0);
    }
    check_entries(f, 1, CUT - 1, 1, SIZE);
    check_entries(f, CUT, f->state.last, 2, SIZE);
    append(f, f->state.last + 1, 3, 2, SIZE);
    fixture_close(f);
    f->options.mend = false;
    fixture_must_open(f);
    check_entries(f, 1, CUT - 1, 1, SIZE);
    check_entries(f, CUT, f->state.last, 2, SIZE);
    cr_assert_eq(f->state.damage.text[0], '\0');
}

static void expect_gap(const struct fixture *f, size_t n, uint64_t first, uint64_t last) {
    cr_assert(n < f->state.gap_count);
    cr_assert_eq(f->state.gaps[n].first, first, "gap from %llu",
                 (unsigned long long)f->state.gaps[n].first);
    cr_assert_eq(f->state.gaps[n].last, last, "gap to %llu",
                 (unsigned long long)f->state.gaps[n].last);
    cr_assert_eq(f->state.gaps[n].last_term, term_of(last));
}

/* S2, S3 */
Test(log_gaps_at_open, of_a_flipped_bit_anywhere_in_any_record) {
    for (uint64_t index = 1; index <= ENTRIES; index += 7) {
        for (uint64_t byte = 4; byte < LOG_RECORD_HEADER + SIZE; byte += 190) {
            struct fixture f;
            build(&f, index);
            const char *path;
            uint64_t at = record_offset(&f, index, &path);
            cr_assert(sim_disk_flip_bit(f.sim, path, at + byte, 2, SIM_ROT_BOTH));
            fixture_must_open(&f);
            check_state(&f, 1, ENTRIES, 2);
            cr_assert_eq(f.state.gap_count, 1);
            expect_gap(&f, 0, index, index);
            cr_assert(strstr(f.state.damage.text, path) != NULL, "%s", f.state.damage.text);
            fixture_power_cut(&f);
            mend(&f, false);
            fixture_fini(&f);
        }
    }
}

/* S4, S6: sectors full of zeros, as of a write that was lost; the end is what the vote's mark says. */
Test(log_gaps_at_open, of_zeros_in_the_middle_and_at_the_end) {
    struct fixture f;
    build(&f, 1);
    const char *path;
    uint64_t at = record_offset(&f, 58, &path);
    cr_assert(sim_disk_zero(f.sim, path, at,
                            8 * 1024 < SEGMENT_BYTES - at ? 8 * 1024 : SEGMENT_BYTES - at,
                            SIM_ROT_BOTH));
    at = record_offset(&f, 5, &path);
    cr_assert(sim_disk_zero(f.sim, path, at + 100, 4096, SIM_ROT_BOTH));
    fixture_must_open(&f);
    check_state(&f, 1, ENTRIES, 2);
    cr_assert_eq(f.state.gap_count, 3);
    expect_gap(&f, 0, 5, 5);
    cr_assert_eq(f.state.gaps[1].first, 6);
    expect_gap(&f, 2, 58, ENTRIES);
    fixture_power_cut(&f);
    mend(&f, false);
    fixture_fini(&f);
}

/* S11: the disk returns errors; the entries' segment gets a new file. */
Test(log_gaps_at_open, of_sectors_that_cannot_be_read) {
    struct fixture f;
    build(&f, 2);
    const char *path;
    uint64_t at = record_offset(&f, 9, &path);
    cr_assert(sim_disk_unreadable(f.sim, path, at + 100, 900));
    at = record_offset(&f, 50, &path);
    cr_assert(sim_disk_unreadable(f.sim, path, at + 100, 1));
    f.options.mend = false;
    cr_assert_eq(fixture_open(&f), LKV_EIO, "alone, it is refused as it always was");
    f.options.mend = true;
    fixture_must_open(&f);
    cr_assert_geq(f.state.gap_count, 2);
    expect_gap(&f, f.state.gap_count - 1, 50, 50);
    fixture_power_cut(&f);
    mend(&f, false);
    fixture_fini(&f);
}

/* S11: from some read on the disk returns errors, and later it does not. That an end is unknown is noted for ever,
 * unless nobody could ever confirm another one: then the open is refused. */
Test(log_gaps_at_open, of_an_end_that_cannot_be_read_for_a_while) {
    for (int alone = 0; alone < 2; alone++) {
        size_t unknown = 0, refused = 0;
        for (uint64_t n = 0; n < 40; n++) {
            struct fixture f;
            build(&f, 2);
            f.options.mend = true;
            f.options.no_quorum_left = alone == 1;
            uint64_t before = sim_disk_fingerprint(f.sim);
            sim_disk_fail(f.sim, SIM_READ, n, LKV_EIO, true);
            int rc = fixture_open(&f);
            sim_disk_heal(f.sim);
            cr_assert(rc == 0 || rc == LKV_EIO || rc == LKV_EDAMAGED, "%s", f.why.text);
            if (rc != 0 && strstr(f.why.text, "nobody else could confirm") != NULL) {
                cr_assert_eq(sim_disk_fingerprint(f.sim), before);
                refused++;
            }
            fixture_close(&f);
            fixture_must_open(&f);
            unknown += f.state.end_unknown;
            fixture_fini(&f);
        }
        cr_assert((unknown == 0) == (alone == 1), "%zu", unknown);
        cr_assert((refused == 0) == (alone == 0), "%zu", refused);
    }
}

/* S14: a header is lost, and known from the next one's, the vote or the first record. No gap at all. */
/* An error that passes is none: wherever one read fails, nothing is lost, though an opening may fail. */
Test(log_gaps_at_open, of_nothing_when_one_read_fails_and_the_next_does_not) {
    size_t opened = 0;
    for (uint64_t k = 0; k < 60; k++) {
        struct fixture f;
        build(&f, 90 + k);
        sim_disk_fail(f.sim, SIM_READ, k, LKV_EIO, false);
        if (fixture_open(&f) == 0) {
            opened++;
            cr_assert_eq(f.state.gap_count, 0, "read %llu: %s", (unsigned long long)k,
                         f.state.damage.text);
            cr_assert_eq(f.state.damage.text[0], '\0', "read %llu: %s", (unsigned long long)k,
                         f.state.damage.text);
            check_entries(&f, 1, CUT - 1, 1, SIZE);
            check_entries(&f, CUT, ENTRIES, 2, SIZE);
        }
        fixture_fini(&f);
    }
    cr_assert_gt(opened, 40);
}

Test(log_gaps_at_open, of_no_entry_when_only_a_header_is_lost) {
    struct fixture f;
    build(&f, 3);
    size_t files = segment_count(&f);
    for (size_t n = 0; n < files; n++) {
        cr_assert(sim_disk_zero(f.sim, segment_path(&f, n), 0, LOG_BLOCK, SIM_ROT_BOTH));
    }
    fixture_must_open(&f);
    check_state(&f, 1, ENTRIES, 2);
    cr_assert_eq(f.state.gap_count, 0);
    cr_assert(!f.state.end_unknown);
    fixture_power_cut(&f);
    f.options.mend = false;
    fixture_must_open(&f);
    check_entries(&f, 1, CUT - 1, 1, SIZE);
    check_entries(&f, CUT, ENTRIES, 2, SIZE);
    fixture_fini(&f);
}

/* Each file in turn is gone. Of the newest nobody can say how much it held. */
Test(log_gaps_at_open, of_a_segment_that_is_gone) {
    struct fixture f;
    build(&f, 4);
    size_t files = segment_count(&f);
    fixture_fini(&f);
    cr_assert_geq(files, 3);
    for (size_t n = 0; n < files; n++) {
        build(&f, 4);
        char path[64];
        (void)snprintf(path, sizeof(path), "%s", segment_path(&f, n));
        cr_assert(sim_disk_unlink(f.sim, path));
        mend(&f, n == files - 1);
        fixture_fini(&f);
    }
}

/* What a lost segment had cut off stays cut off. */
Test(log_gaps_at_open, bring_back_nothing_that_a_lost_segment_had_cut_off) {
    struct fixture f;
    fixture_init(&f, 5);
    f.options.mend = true;
    fixture_must_open(&f);
    append(&f, 1, 10, 1, 100);
    append(&f, 4, 24, 2, SIZE); /* cuts 4 to 10, and goes on into a third segment */
    mark(&f);
    fixture_power_cut(&f);
    cr_assert_geq(segment_count(&f), 3);
    char path[64];
    (void)snprintf(path, sizeof(path), "%s", segment_path(&f, 1));
    cr_assert(sim_disk_unlink(f.sim, path));
    fixture_must_open(&f);
    cr_assert(!f.state.end_unknown);
    cr_assert_eq(f.state.gap_count, 1);
    cr_assert_eq(f.state.gaps[0].first, 4);
    cr_assert_eq(f.state.gaps[0].last_term, 2);
    check_entries(&f, 1, 3, 1, 100);
    struct entry got[4];
    size_t count;
    cr_assert_eq(log_read(f.log, 4, 10, 4096, got, 4, &count, &f.why), LKV_EDAMAGED);
    fixture_fini(&f);
}

/* Rule 14 and a lost image: what is between the image that is left and the log is missing. */
Test(log_gaps_at_open, of_what_only_a_lost_image_had) {
    struct fixture f;
    build(&f, 6);
    f.image_index = 30;
    f.image_term = 1;
    fixture_must_open(&f);
    cr_assert_eq(log_drop_prefix(f.log, 30, &f.why), 0);
    uint64_t first = log_first(f.log);
    cr_assert_gt(first, 1);
    fixture_power_cut(&f);
    f.image_index = f.image_term = 0;
    fixture_must_open(&f);
    cr_assert_eq(f.state.first, 1);
    cr_assert_eq(f.state.gaps[f.state.gap_count - 1].last, first - 1);
    cr_assert_eq(f.state.gaps[0].first, 1);
    fixture_power_cut(&f);
    mend(&f, false);
    fixture_fini(&f);
}

/* Nobody can repair a vote. */
Test(log_gaps_at_open, are_refused_without_a_vote_with_nothing_changed) {
    struct fixture f;
    build(&f, 7);
    cr_assert(sim_disk_flip_bit(f.sim, DIR_NAME "/vote", 50, 1, SIM_ROT_BOTH));
    struct sim_disk *one_slot = sim_disk_clone(f.sim, 1);
    cr_assert(sim_disk_flip_bit(f.sim, DIR_NAME "/vote", LOG_BLOCK + 50, 1, SIM_ROT_BOTH));
    uint64_t before = sim_disk_fingerprint(f.sim);
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED);
    cr_assert(strstr(f.why.text, "must not vote again") != NULL, "%s", f.why.text);
    cr_assert_eq(sim_disk_fingerprint(f.sim), before);
    sim_disk_free(f.sim);
    f.sim = one_slot;
    cr_assert(
        sim_disk_unreadable(f.sim, DIR_NAME "/vote", 0, 1)); /* S11: the other one is enough */
    fixture_must_open(&f);
    fixture_fini(&f);
}

/* The doubt outlives the damage: a later opening finds a newer segment that looks fine. */
Test(log_gaps_at_open, leave_an_unknown_end_until_it_is_settled) {
    struct fixture f;
    build(&f, 8);
    char path[64];
    (void)snprintf(path, sizeof(path), "%s", newest_path(&f));
    cr_assert(sim_disk_unlink(f.sim, path));
    for (unsigned i = 0; i < 3; i++) {
        fixture_must_open(&f);
        cr_assert(f.state.end_unknown);
        fill_all(&f);
        fixture_power_cut(&f);
    }
    fixture_must_open(&f);
    cr_assert_eq(log_settle_end(f.log, &f.why), 0);
    fixture_power_cut(&f);
    fixture_must_open(&f);
    cr_assert(!f.state.end_unknown);
    fixture_fini(&f);
}

/* Before anything else of the opening, since what that makes looks fine. */
Test(log_gaps_at_open, leave_an_unknown_end_also_when_the_opening_is_cut_short) {
    bool reached = true;
    for (uint64_t k = 0; reached; k++) {
        struct fixture f;
        build(&f, 40 + k);
        char path[64];
        (void)snprintf(path, sizeof(path), "%s", newest_path(&f));
        cr_assert(sim_disk_unlink(f.sim, path));
        sim_disk_crash_at(f.sim, sim_disk_op_count(f.sim) + k);
        reached = fixture_open(&f) != 0;
        fixture_power_cut(&f);
        fixture_must_open(&f);
        cr_assert(f.state.end_unknown, "after %d operations", (int)k);
        fixture_fini(&f);
    }
}

/* A full disk while a segment is rebuilt is no end: with space it goes on. */
Test(log_gaps_at_open, wait_for_space) {
    struct fixture f;
    build(&f, 9);
    char path[64];
    (void)snprintf(path, sizeof(path), "%s", segment_path(&f, 1));
    cr_assert(sim_disk_unlink(f.sim, path));
    fixture_must_open(&f);
    struct log_gap gap;
    cr_assert_eq(log_gaps(f.log, &gap, 1), 1);
    struct entry entry = entry_of(gap.first, term_of(gap.first), SIZE);
    sim_disk_set_capacity(f.sim, 1);
    cr_assert_eq(log_fill(f.log, &entry, 1, &f.why), LKV_ENOSPACE);
    cr_assert(log_damage_at(f.log, gap.first, NULL));
    sim_disk_set_capacity(f.sim, UINT64_MAX);
    cr_assert_eq(log_fill(f.log, &entry, 1, &f.why), 0);
    blob_unref(entry.payload);
    fixture_power_cut(&f);
    mend(&f, false);
    fixture_fini(&f);
}

static void expect_place(const struct fixture *f, size_t n, const char *path, uint64_t offset) {
    char place[256], expected[256];
    log_gap_place(f->log, &f->state.gaps[n], place, sizeof(place));
    (void)snprintf(expected, sizeof(expected), "%s:%llu", path, (unsigned long long)offset);
    cr_assert_str_eq(place, expected);
}

/* S2, S3: in two files, by a payload and by a header. */
Test(log_gaps_at_open, tell_each_where_it_is) {
    struct fixture f;
    build(&f, 21);
    const char *path;
    char first[64];
    uint64_t at = record_offset(&f, 3, &path);
    (void)snprintf(first, sizeof(first), "%s", path);
    cr_assert(sim_disk_flip_bit(f.sim, path, at + LOG_RECORD_HEADER + 10, 2, SIM_ROT_BOTH));
    uint64_t then = record_offset(&f, 50, &path);
    cr_assert_str_neq(path, first);
    cr_assert(sim_disk_flip_bit(f.sim, path, then + 8, 2, SIM_ROT_BOTH));
    fixture_must_open(&f);
    cr_assert_eq(f.state.gap_count, 2);
    expect_gap(&f, 0, 3, 3);
    expect_gap(&f, 1, 50, 50);
    expect_place(&f, 0, first, at);
    expect_place(&f, 1, path, then);
    struct log_gap later = {.first = 7, .last = 7};
    char place[64] = "?";
    log_gap_place(f.log, &later, place, sizeof(place));
    cr_assert_str_eq(place, "");
    fixture_power_cut(&f);
    mend(&f, false);
    fixture_fini(&f);
}
