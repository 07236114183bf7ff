/* What a reopened log makes of torn, rotten, lost and misplaced bytes. Ids: docs of the faults. */
#include "base/crc.h"
#include "tests/unit/log/fixture.h"

/* Ten entries of term 1, acknowledged; `marked`: with a durable mark over all of them. */
static void ten_entries(struct fixture *f, uint64_t seed, bool marked) {
    fixture_init(f, seed);
    fixture_must_open(f);
    append(f, 1, 4, 1, 100);
    append(f, 5, 6, 1, 100);
    if (marked) {
        mark(f);
    }
    fixture_power_cut(f);
}

static void expect_damage(struct fixture *f, const char *path, uint64_t index) {
    uint64_t before = sim_disk_fingerprint(f->sim);
    int rc = fixture_open(f);
    cr_assert_eq(rc, LKV_EDAMAGED, "entry %llu: %s", (unsigned long long)index, error_name(rc));
    cr_assert(f->log == NULL);
    cr_assert(strstr(f->why.text, path) != NULL, "%s", f->why.text);
    cr_assert(strstr(f->why.text, "expected") != NULL && strstr(f->why.text, "found") != NULL, "%s",
              f->why.text);
    cr_assert_eq(sim_disk_fingerprint(f->sim), before, "nothing was changed");
}

/* S1: unacknowledged, so no mark covers it. */
Test(log_recovery, drops_a_last_record_cut_at_every_byte) {
    uint64_t size = LOG_RECORD_HEADER + 100;
    for (uint64_t kept = 0; kept < size; kept++) {
        struct fixture f;
        fixture_init(&f, kept);
        fixture_must_open(&f);
        append(&f, 1, 9, 1, 100);
        append(&f, 10, 1, 1, 100);
        fixture_power_cut(&f);
        const char *path;
        uint64_t at = record_offset(&f, 10, &path);
        cr_assert(sim_disk_zero(f.sim, path, at + kept, size - kept, SIM_ROT_BOTH));
        fixture_must_open(&f);
        /* Its payload does not end in zeros, so each cut is a loss. */
        check_state(&f, 1, 9, 1);
        check_entries(&f, 1, 9, 1, 100);
        append(&f, 10, 3, 2, 50);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        check_entries(&f, 1, 9, 1, 100);
        check_entries(&f, 10, 12, 2, 50);
        fixture_fini(&f);
    }
}

Test(log_recovery, says_what_it_cut_off) {
    struct fixture f;
    ten_entries(&f, 1, false);
    const char *path;
    uint64_t at = record_offset(&f, 7, &path);
    cr_assert(sim_disk_flip_bit(f.sim, path, at + LOG_RECORD_HEADER + 5, 3, SIM_ROT_BOTH));
    fixture_must_open(&f);
    check_state(&f, 1, 6, 1);
    cr_assert_eq(f.state.cut_records, 4);
    cr_assert(strstr(f.traced, "log.torn") != NULL && strstr(f.traced, "4 torn records") != NULL,
              "%s", f.traced);
    fixture_fini(&f);
}

/* S2: the acknowledged last record; and S3: any other one, with later ones kept. */
Test(log_recovery, calls_every_flipped_bit_of_an_acknowledged_record_damage) {
    for (uint64_t index = 1; index <= 10; index++) {
        for (uint64_t byte = 0; byte < LOG_RECORD_HEADER + 100; byte += 3) {
            struct fixture f;
            ten_entries(&f, index, true);
            const char *path;
            uint64_t at = record_offset(&f, index, &path);
            cr_assert(sim_disk_flip_bit(f.sim, path, at + byte, byte % 8, SIM_ROT_BOTH));
            expect_damage(&f, path, index);
            /* Mended, everything is there: nothing was thrown away meanwhile. */
            cr_assert(sim_disk_flip_bit(f.sim, path, at + byte, byte % 8, SIM_ROT_BOTH));
            fixture_must_open(&f);
            check_entries(&f, 1, 10, 1, 100);
            fixture_fini(&f);
        }
    }
}

Test(log_recovery, covers_all_but_the_last_group_commit_without_a_mark) {
    struct fixture f;
    ten_entries(&f, 2, false); /* the second group says that 4 is durable */
    const char *path;
    uint64_t at = record_offset(&f, 4, &path);
    cr_assert(sim_disk_flip_bit(f.sim, path, at + 80, 0, SIM_ROT_BOTH));
    expect_damage(&f, path, 4);
    fixture_fini(&f);
}

Test(log_recovery, finds_the_mark_behind_a_hole) {
    struct fixture f;
    ten_entries(&f, 3, false);
    const char *path;
    uint64_t four = record_offset(&f, 4, &path);
    uint64_t seven = record_offset(&f, 7, &path);
    /* 4 to 6 are gone, headers and all; 7 still says that 4 was durable. */
    cr_assert(sim_disk_zero(f.sim, path, four, seven - four, SIM_ROT_BOTH));
    expect_damage(&f, path, 4);
    fixture_fini(&f);
}

/* S4: sectors of 512 and 4096 zeroed, valid bytes behind. */
Test(log_recovery, tells_a_zeroed_sector_by_the_mark) {
    for (unsigned i = 0; i < 4; i++) {
        struct fixture f;
        bool acknowledged = i % 2 == 0;
        uint64_t size = i < 2 ? 512 : 4096;
        fixture_init(&f, i);
        fixture_must_open(&f);
        append(&f, 1, 1, 1, 100);
        append(&f, 2, 20, 1, 400);
        if (acknowledged) {
            mark(&f);
        }
        fixture_power_cut(&f);
        const char *path = newest_path(&f);
        cr_assert(sim_disk_zero(f.sim, path, LOG_BLOCK + size, size, SIM_ROT_BOTH));
        if (acknowledged) {
            expect_damage(&f, path, 0);
        } else {
            fixture_must_open(&f);
            cr_assert_lt(f.state.last, 21);
            cr_assert_geq(f.state.last, 1);
            check_entries(&f, 2, f.state.last, 1, 400);
        }
        fixture_fini(&f);
    }
}

/* S4: zeros from an acknowledged record to the end take the segment's newest marks with them; the vote
 * file still knows. */
Test(log_recovery, tells_a_vanished_tail_by_the_mark_in_the_vote_file) {
    struct fixture f;
    ten_entries(&f, 1, true);
    const char *path;
    uint64_t four = record_offset(&f, 4, &path);
    cr_assert(sim_disk_zero(f.sim, path, four, 8 * 1024, SIM_ROT_BOTH));
    expect_damage(&f, path, 0);
    fixture_fini(&f);
}

/* S5 */
Test(log_recovery, cuts_at_the_hole_when_only_the_second_of_two_writes_reached_the_disk) {
    struct fixture f;
    ten_entries(&f, 4, false);
    const char *path;
    uint64_t five = record_offset(&f, 5, &path);
    uint64_t eight = record_offset(&f, 8, &path);
    cr_assert(sim_disk_zero(f.sim, path, five, eight - five, SIM_ROT_BOTH));
    fixture_must_open(&f);
    check_state(&f, 1, 4, 1);
    cr_assert_eq(f.state.cut_records, 3);
    fixture_fini(&f);
}

/* S6: the disk said yes and has nothing; later records carry a mark over it. */
Test(log_recovery, finds_a_lost_write_by_the_mark_of_the_next_one) {
    struct fixture f;
    fixture_init(&f, 5);
    fixture_must_open(&f);
    append(&f, 1, 2, 1, 600);
    sim_disk_lose_next_write(f.sim);
    append(&f, 3, 2, 1, 600);
    append(&f, 5, 2, 1, 600);
    fixture_power_cut(&f);
    expect_damage(&f, newest_path(&f), 3);
    fixture_fini(&f);
}

/* S7: every byte of the record is right, the place is wrong. */
Test(log_recovery, takes_no_record_in_a_wrong_place) {
    struct fixture f;
    fixture_init(&f, 6);
    fixture_must_open(&f);
    append(&f, 1, 2, 1, 600);
    sim_disk_misdirect_next_write(f.sim, 1024);
    append(&f, 3, 1, 1, 600);
    fixture_power_cut(&f);
    fixture_must_open(&f);
    check_state(&f, 1, 2, 1);
    fixture_fini(&f);
}

Test(log_recovery, takes_no_record_of_another_segment_group_or_cluster) {
    uint8_t bytes[LOG_RECORD_HEADER];
    struct log_identity ours = {.cluster_id = 1, .group_id = 2};
    struct record_header header = {.index = 1, .term = 1, .segment = 5, .type = ENTRY_COMMAND}, got;
    record_header_encode(&header, &ours, 4096, bytes);
    cr_assert(record_header_decode(bytes, &ours, 5, 4096, &got));
    struct log_identity cluster = {.cluster_id = 9, .group_id = 2};
    struct log_identity group = {.cluster_id = 1, .group_id = 9};
    cr_assert(!record_header_decode(bytes, &cluster, 5, 4096, &got));
    cr_assert(!record_header_decode(bytes, &group, 5, 4096, &got));
    cr_assert(!record_header_decode(bytes, &ours, 6, 4096, &got));
    cr_assert(!record_header_decode(bytes, &ours, 5, 4104, &got));
}

/* S8: old records, valid in their time, lie behind the end of a recycled file. */
Test(log_recovery, replays_nothing_of_a_recycled_file) {
    struct fixture f;
    fixture_init(&f, 7);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    uint64_t files = segment_count(&f);
    cr_assert_gt(files, 2);
    f.image_index = 60;
    f.image_term = 1;
    cr_assert_eq(log_drop_prefix(f.log, 60, &f.why), 0);
    cr_assert_eq(segment_count(&f), 1);
    cr_assert(spare_path_of(&f) != NULL, "one of them is the spare now");
    struct slice bytes;
    cr_assert(sim_disk_peek(f.sim, spare_path_of(&f), &bytes));
    cr_assert_neq(bytes.data[LOG_BLOCK], 0, "with its old records in it");
    append(&f, 61, 25, 2, 500); /* fills the newest and begins the recycled one */
    fixture_power_cut(&f);
    fixture_must_open(&f);
    check_state(&f, f.state.first, 85, 2);
    check_entries(&f, 61, 85, 2, 500);
    fixture_fini(&f);
}

/* S11 */
Test(log_recovery, takes_an_unreadable_sector_for_an_error_not_for_the_end) {
    struct fixture f;
    ten_entries(&f, 8, true);
    fixture_must_open(&f);
    struct entry got[10];
    size_t count;
    sim_disk_fail(f.sim, SIM_READ, 0, LKV_EIO, true);
    cr_assert_eq(log_read(f.log, 3, 5, 4096, got, 10, &count, &f.why), LKV_EDAMAGED);
    cr_assert(strstr(f.why.text, "sectors that cannot be read") != NULL, "%s", f.why.text);
    sim_disk_heal(f.sim);
    const char *path;
    uint64_t at = record_offset(&f, 5, &path);
    cr_assert(sim_disk_flip_bit(f.sim, path, at + 90, 0, SIM_ROT_BOTH));
    cr_assert_eq(log_read(f.log, 3, 9, 4096, got, 10, &count, &f.why), 0);
    cr_assert_eq(count, 2, "what comes before it");
    free_entries(got, count);
    cr_assert_eq(log_read(f.log, 5, 9, 4096, got, 10, &count, &f.why), LKV_EDAMAGED);
    cr_assert(strstr(f.why.text, path) != NULL, "%s", f.why.text);
    cr_assert_eq(log_read(f.log, 6, 9, 4096, got, 10, &count, &f.why), 0, "L7, S3: later ones");
    cr_assert_eq(count, 4);
    free_entries(got, count);
    append(&f, 11, 2, 1, 10); /* a read error is no write error */
    fixture_fini(&f);
}

/* S11: payloads that reach beyond what one read brings are read on their own. */
Test(log_recovery, says_where_a_read_fails_in_a_large_segment) {
    struct fixture f;
    fixture_init(&f, 13);
    f.options.segment_bytes = 1 << 20;
    f.options.record_bytes_max = 512 * 1024;
    fixture_must_open(&f);
    append(&f, 1, 1, 1, 200 * 1024);
    append(&f, 2, 1, 1, 300 * 1024);
    append(&f, 3, 1, 1, 200 * 1024);
    mark(&f);
    fixture_kill(&f);
    size_t failed = 0;
    for (uint64_t n = 0; n < 12; n++) {
        sim_disk_fail(f.sim, SIM_READ, n, LKV_EIO, true);
        int rc = fixture_open(&f);
        sim_disk_heal(f.sim);
        cr_assert(rc == 0 || rc == LKV_EIO);
        cr_assert(rc == 0 || strstr(f.why.text, "cannot read") != NULL, "%s", f.why.text);
        failed += rc != 0;
        fixture_kill(&f);
    }
    cr_assert_geq(failed, 6);
    fixture_must_open(&f);
    check_entries(&f, 1, 1, 1, 200 * 1024);
    check_entries(&f, 2, 2, 1, 300 * 1024);
    check_entries(&f, 3, 3, 1, 200 * 1024);
    fixture_fini(&f);
}

/* S23: there is no index file; a lost or cold index costs a scan, not an answer. */
Test(log_recovery, rebuilds_its_index_from_the_records) {
    struct fixture f;
    fixture_init(&f, 9);
    f.options.segment_bytes = 1 << 20;
    fixture_must_open(&f);
    for (uint64_t i = 0; i < 40; i++) {
        append(&f, 1 + i * 50, 50, 1, i * 7 % 300);
    }
    fixture_kill(&f);
    fixture_must_open(&f);
    for (uint64_t i = 0; i < 40; i++) {
        check_entries(&f, 1 + i * 50 + i, 50 + i * 50, 1, i * 7 % 300);
    }
    fixture_fini(&f);
}

/* Rule 8: a name is only given to a file whose header is durable. */
Test(log_recovery, calls_a_bad_header_under_a_real_name_damage) {
    struct fixture f;
    ten_entries(&f, 10, true);
    for (uint64_t byte = 0; byte < LOG_HEADER_SIZE; byte += 5) {
        const char *path = newest_path(&f);
        cr_assert(sim_disk_flip_bit(f.sim, path, byte, 1, SIM_ROT_BOTH));
        expect_damage(&f, path, 0);
        cr_assert(sim_disk_flip_bit(f.sim, path, byte, 1, SIM_ROT_BOTH));
    }
    static const uint64_t sizes[] = {LOG_BLOCK + 512, LOG_BLOCK, 1000, 511, 100, 0};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cr_assert(sim_disk_cut_file(f.sim, newest_path(&f), sizes[i]));
        expect_damage(&f, newest_path(&f), 0);
    }
    fixture_fini(&f);
}

Test(log_recovery, calls_a_missing_segment_damage) {
    struct fixture f;
    fixture_init(&f, 11);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    fixture_close(&f);
    size_t count = segment_count(&f);
    for (size_t n = 0; n < count; n++) {
        struct sim_disk *whole = f.sim;
        f.sim = sim_disk_clone(whole, n);
        char path[64];
        (void)snprintf(path, sizeof(path), "%s", segment_path(&f, n));
        cr_assert(sim_disk_unlink(f.sim, path));
        cr_assert_eq(fixture_open(&f), LKV_EDAMAGED, "without file %zu", n);
        fixture_fini(&f);
        f.sim = whole;
    }
    fixture_must_open(&f);
    check_entries(&f, 1, 60, 1, 500);
    cr_assert_eq(try_vote(&f, 2, 1), 0);
    fixture_close(&f);
    char newest[64];
    (void)snprintf(newest, sizeof(newest), "%s", newest_path(&f));
    cr_assert(sim_disk_unlink(f.sim, newest));
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED, "the vote's mark names it");
    cr_assert(strstr(f.why.text, "mark names segment") != NULL, "%s", f.why.text);
    fixture_fini(&f);
}

/* Rule 8: a mark record is nobody's entry; a bad one is passed if the chain continues. */
Test(log_recovery, skips_a_bad_mark_record) {
    struct fixture f;
    fixture_init(&f, 12);
    fixture_must_open(&f);
    append(&f, 1, 3, 1, 100);
    mark(&f);
    append(&f, 4, 3, 1, 100);
    fixture_close(&f);
    const char *path;
    uint64_t at = record_offset(&f, 4, &path) - LOG_RECORD_HEADER;
    cr_assert(sim_disk_flip_bit(f.sim, path, at + 20, 1, SIM_ROT_BOTH));
    fixture_must_open(&f);
    check_state(&f, 1, 6, 1);
    check_entries(&f, 1, 6, 1, 100);
    fixture_fini(&f);
}

/* Rule 6, the second line of defence: valid records that do not fit together. */
Test(log_recovery, joins_no_records_whose_terms_do_not_fit) {
    struct fixture f;
    fixture_init(&f, 13);
    fixture_must_open(&f);
    append(&f, 1, 1, 1, 40);
    fixture_power_cut(&f);
    const char *path;
    uint64_t at = record_offset(&f, 1, &path) + record_size(40);
    uint64_t number = strtoull(path + strlen(DIR_NAME "/"), NULL, 10);
    uint8_t bytes[LOG_RECORD_HEADER];
    struct log_identity identity = {.cluster_id = 0xc1, .group_id = 7};
    struct record_header stray = {.index = 2,
                                  .term = 3,
                                  .prev_term = 2, /* but entry 1 has term 1 */
                                  .segment = number,
                                  .type = ENTRY_NOOP};
    record_header_encode(&stray, &identity, at, bytes);
    cr_assert(sim_disk_poke(f.sim, path, at, slice_of(bytes, sizeof(bytes))));
    fixture_must_open(&f);
    check_state(&f, 1, 1, 1);
    cr_assert_eq(f.state.cut_records, 1);
    fixture_fini(&f);
}

/* Rule 7, the story of in-place tails: 42's header is half there, and what is written over it could
 * complete it. Any byte behind the end forbids going on in that file. */
Test(log_recovery, never_writes_over_a_torn_tail) {
    struct fixture f;
    ten_entries(&f, 14, true);
    size_t files = segment_count(&f);
    const char *path = newest_path(&f);
    struct slice bytes;
    cr_assert(sim_disk_peek(f.sim, path, &bytes));
    cr_assert(sim_disk_poke(f.sim, path, bytes.size - 1, slice_text("x")));
    fixture_must_open(&f);
    check_state(&f, 1, 10, 1);
    cr_assert_eq(segment_count(&f), files + 1);
    append(&f, 11, 1, 2, 10);
    fixture_power_cut(&f);
    fixture_must_open(&f);
    check_state(&f, 1, 11, 2);
    cr_assert_eq(segment_count(&f), files + 1, "a clean end is continued");
    fixture_fini(&f);
}

/* Rule 7: cut records stay cut, whatever power does. */
Test(log_recovery, brings_no_cut_record_back) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct fixture f;
        fixture_init(&f, seed);
        fixture_must_open(&f);
        append(&f, 1, 10, 1, 300);
        append(&f, 6, 1, 2, 300); /* cuts 6 to 10 */
        fixture_power_cut(&f);
        fixture_must_open(&f);
        check_state(&f, 1, 6, 2);
        check_entries(&f, 1, 5, 1, 300);
        check_entries(&f, 6, 6, 2, 300);
        append(&f, 3, 5, 3, 300);
        fixture_kill(&f);
        fixture_must_open(&f);
        check_state(&f, 1, 7, 3);
        check_entries(&f, 3, 7, 3, 300);
        fixture_fini(&f);
    }
}

/* Rule 9: the page cache shows what the disk does not have; what open reports must survive. */
Test(log_recovery, makes_durable_what_it_read_from_the_page_cache) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct fixture f;
        fixture_init(&f, seed);
        fixture_must_open(&f);
        append(&f, 1, 3, 1, 300);
        sim_disk_fail(f.sim, SIM_SYNC, 0, LKV_EIO, false);
        cr_assert_eq(try_append(&f, 4, 9, 1, 300), LKV_EIO);
        fixture_kill(&f);
        fixture_must_open(&f);
        uint64_t last = f.state.last; /* what this life answers with */
        cr_assert_eq(last, 12);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        check_state(&f, 1, last, 1);
        check_entries(&f, 1, last, 1, 300);
        fixture_fini(&f);
    }
}

/* S10, rule 10 */
Test(log_recovery, lets_no_write_follow_a_failed_sync) {
    struct fixture f;
    fixture_init(&f, 15);
    fixture_must_open(&f);
    append(&f, 1, 3, 1, 300);
    sim_disk_fail(f.sim, SIM_SYNC, 0, LKV_EIO, false);
    cr_assert_eq(try_append(&f, 4, 1, 1, 300), LKV_EIO);
    uint64_t before = sim_disk_op_count(f.sim);
    cr_assert_eq(try_append(&f, 4, 1, 1, 300), LKV_EIO);
    cr_assert_eq(try_vote(&f, 9, 1), LKV_EIO);
    cr_assert_eq(log_mark(f.log, &f.why), LKV_EIO);
    cr_assert_eq(log_prepare_spare(f.log, &f.why), LKV_EIO);
    cr_assert_eq(log_restart_after(f.log, 9, 1, &f.why), LKV_EIO);
    cr_assert_eq(sim_disk_op_count(f.sim), before, "the disk was not touched again");
    check_entries(&f, 1, 3, 1, 300); /* reads go on */
    fixture_power_cut(&f);
    fixture_must_open(&f);
    check_entries(&f, 1, 3, 1, 300);
    fixture_fini(&f);
}

/* L19: the last bytes of a segment, for each count that is too few for a header, and some more. */
Test(log_recovery, stays_within_a_segment_whatever_is_left_at_its_end) {
    uint64_t records = SEGMENT_BYTES - LOG_BLOCK;
    for (uint64_t left = 0; left <= LOG_RECORD_HEADER + LOG_ALIGN; left++) {
        struct fixture f;
        fixture_init(&f, left);
        fixture_must_open(&f);
        append(&f, 1, 1, 1, records - left - LOG_RECORD_HEADER);
        size_t files = segment_count(&f);
        mark(&f); /* fits as a record or goes to the vote file */
        fixture_power_cut(&f);
        fixture_must_open(&f);
        check_state(&f, 1, 1, 1);
        append(&f, 2, 2, 1, 0);
        cr_assert_geq(segment_count(&f), files);
        const char *path;
        uint64_t at = record_offset(&f, 1, &path);
        fixture_close(&f);
        fixture_must_open(&f);
        check_state(&f, 1, 3, 1);
        fixture_close(&f);
        cr_assert(sim_disk_flip_bit(f.sim, path, at + 100, 0, SIM_ROT_BOTH));
        expect_damage(&f, path, 1);
        fixture_fini(&f);
    }
}

Test(log_recovery, refuses_the_log_of_another_cluster_or_group_unchanged) {
    struct fixture f;
    ten_entries(&f, 16, true);
    uint64_t before = sim_disk_fingerprint(f.sim);
    f.options.cluster_id = 2;
    cr_assert_eq(fixture_open(&f), LKV_EIDENTITY);
    f.options.cluster_id = 0xc1;
    f.options.group_id = 8;
    cr_assert_eq(fixture_open(&f), LKV_EIDENTITY);
    cr_assert_eq(sim_disk_fingerprint(f.sim), before);
    f.options.group_id = 7;
    fixture_must_open(&f);
    fixture_fini(&f);
}

/* The vote's mark speaks for a segment whose header is lost: older records may be above it. */
Test(log_recovery, refuses_a_log_whose_cut_is_unreadable) {
    struct fixture f;
    fixture_init(&f, 17);
    fixture_must_open(&f);
    append(&f, 1, 10, 1, 100);
    append(&f, 4, 1, 2, 100);
    cr_assert_eq(try_vote(&f, 3, 1), 0);
    fixture_power_cut(&f);
    char path[64];
    (void)snprintf(path, sizeof(path), "%s", newest_path(&f));
    cr_assert(sim_disk_flip_bit(f.sim, path, 40, 0, SIM_ROT_BOTH));
    expect_damage(&f, path, 0);
    fixture_fini(&f);
}

static int ignore_visit(void *arg, const struct log_visit *what) {
    (void)arg;
    (void)what;
    return 0;
}

static void spoil(struct fixture *f, struct prng *prng) {
    size_t paths = 0;
    while (sim_disk_path(f->sim, paths) != NULL) {
        paths++;
    }
    const char *path = sim_disk_path(f->sim, prng_below(prng, paths));
    const char *other = sim_disk_path(f->sim, prng_below(prng, paths));
    struct slice bytes, source;
    if (!sim_disk_peek(f->sim, path, &bytes) || !sim_disk_peek(f->sim, other, &source) ||
        bytes.size < LOG_BLOCK || source.size < LOG_BLOCK) {
        return;
    }
    uint64_t at = prng_below(prng, bytes.size);
    uint64_t from = prng_below(prng, source.size);
    uint8_t copy[2048];
    size_t size = prng_below(prng, sizeof(copy));
    switch (prng_below(prng, 6)) {
    case 0: (void)sim_disk_flip_bit(f->sim, path, at, (unsigned)at % 8, SIM_ROT_BOTH); break;
    case 1: (void)sim_disk_zero(f->sim, path, at, size, SIM_ROT_BOTH); break;
    case 2: (void)sim_disk_cut_file(f->sim, path, at); break;
    case 3: (void)sim_disk_unlink(f->sim, path); break;
    default:
        size = size < source.size - from ? size : source.size - from;
        memcpy(copy, source.data + from, size); /* valid bytes of another place */
        (void)sim_disk_poke(f->sim, path, prng_below(prng, 2) == 0 ? at : from,
                            slice_of(copy, size));
        break;
    }
}

/* Whatever lies in the directory is an answer, never a crash; and what opens can be written to. */
Test(log_recovery, survives_any_bytes) {
    struct prng prng = prng_of(4);
    for (uint64_t seed = 0; seed < 1500; seed++) {
        struct fixture f;
        fixture_init(&f, seed);
        fixture_must_open(&f);
        append(&f, 1, 40, 1, 300);
        append(&f, 30, 20, 2, 200);
        cr_assert_eq(try_vote(&f, 3, 4), 0);
        fixture_power_cut(&f);
        for (uint64_t n = prng_below(&prng, 5); n < 5; n++) {
            spoil(&f, &prng);
        }
        f.image_index = prng_below(&prng, 3) * 20;
        f.image_term = f.image_index > 0 ? 1 + prng_below(&prng, 2) : 0;
        (void)!log_walk(sim_disk_seam(f.sim), DIR_NAME, f.image_index, ignore_visit, NULL, &f.why);
        if (fixture_open(&f) == 0) {
            append(&f, f.state.last + 1, 5, f.state.vote.term + 1, 300);
            fixture_power_cut(&f);
            fixture_must_open(&f);
        }
        fixture_fini(&f);
    }
}
