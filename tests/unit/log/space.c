/* A disk that is full, spares, and names: rules 14 to 16, S9, S14. */
#include "tests/unit/log/fixture.h"

/* S9: no space at the k-th call of each kind, for every k. */
Test(log_space, acknowledges_nothing_that_had_no_space_and_goes_on_after) {
    static const int kinds[] = {SIM_OPEN, SIM_WRITE, SIM_SYNC, SIM_RENAME, SIM_SYNC_DIR, SIM_ANY};
    for (unsigned kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        bool reached = true;
        for (uint64_t k = 0; reached; k++) {
            struct fixture f;
            fixture_init(&f, k);
            fixture_must_open(&f);
            append(&f, 1, 10, 1, 500);
            sim_disk_fail(f.sim, kinds[kind], k, LKV_ENOSPACE, true);
            uint64_t next = 11;
            int rc = 0;
            while (rc == 0 && next < 120) {
                rc = try_append(&f, next, 6, 1, 500);
                next += rc == 0 ? 6 : 0;
            }
            reached = rc != 0;
            cr_assert(rc == 0 || rc == LKV_ENOSPACE || rc == LKV_EIO, "%s", error_name(rc));
            sim_disk_heal(f.sim);
            check_entries(&f, 1, next - 1, 1, 500); /* reads go on */
            if (rc == LKV_ENOSPACE) {               /* nothing has changed: it works again */
                append(&f, next, 6, 1, 500);
                next += 6;
            }
            fixture_power_cut(&f);
            fixture_must_open(&f);
            cr_assert_geq(f.state.last, next - 1);
            check_entries(&f, 1, next - 1, 1, 500);
            fixture_fini(&f);
            if (kinds[kind] == SIM_ANY) {
                reached = reached && k < 60;
            }
        }
    }
}

/* A disk that is really full: the rest of the segment and the spare still take entries. */
Test(log_space, uses_the_spare_when_the_disk_is_full) {
    struct fixture f;
    fixture_init(&f, 2);
    fixture_must_open(&f);
    append(&f, 1, 10, 1, 500);
    cr_assert(log_wants_spare(f.log));
    cr_assert_eq(log_prepare_spare(f.log, &f.why), 0);
    cr_assert(!log_wants_spare(f.log));
    sim_disk_set_capacity(f.sim, log_bytes(f.log) + 2 * LOG_BLOCK);
    uint64_t room = log_room(f.log);
    cr_assert_gt(room, SEGMENT_BYTES - LOG_BLOCK);
    uint64_t next = 11;
    while (try_append(&f, next, 1, 1, 500) == 0) {
        next++;
    }
    cr_assert_gt(next, 11 + (SEGMENT_BYTES - LOG_BLOCK) / record_size(500));
    cr_assert_eq(try_append(&f, next, 1, 1, 500), LKV_ENOSPACE);
    cr_assert_eq(log_prepare_spare(f.log, &f.why), LKV_ENOSPACE);
    cr_assert_lt(log_room(f.log), record_size(500));
    cr_assert_eq(try_vote(&f, 3, 4), 0, "a vote needs no space");
    mark(&f);
    check_entries(&f, 1, next - 1, 1, 500);
    cr_assert(spare_path_of(&f) == NULL, "what could not be filled is not left behind");
    sim_disk_set_capacity(f.sim, UINT64_MAX);
    append(&f, next, 1, 3, 500);
    fixture_power_cut(&f);
    fixture_must_open(&f);
    check_entries(&f, 1, next - 1, 1, 500);
    cr_assert_eq(f.state.last, next);
    fixture_fini(&f);
}

/* Rule 15: a newest segment that cannot be continued (torn, or a file used again) does not keep a log on
 * a full disk from being opened and read; what is torn is cut off each time, and never comes back. */
Test(log_space, opens_on_a_full_disk_and_goes_on_when_there_is_room) {
    size_t torn = 0;
    for (uint64_t seed = 100; seed < 160; seed++) {
        struct fixture f;
        fixture_init(&f, seed);
        fixture_must_open(&f);
        append(&f, 1, 10, 1, 500);
        mark(&f);
        sim_disk_crash_at(f.sim, sim_disk_op_count(f.sim) + seed % 2);
        (void)try_append(&f, 11, 6, 1, 500);
        fixture_power_cut(&f);
        const char *spare = spare_path_of(&f);
        if (spare != NULL) {
            cr_assert(sim_disk_unlink(f.sim, spare));
        }
        sim_disk_set_capacity(f.sim, 0);
        uint64_t last = 0;
        for (int life = 0; life < 3; life++) {
            fixture_must_open(&f);
            cr_assert_geq(f.state.last, 10);
            cr_assert(life == 0 || f.state.last == last, "what was torn came back");
            last = f.state.last;
            check_entries(&f, 1, last, 1, 500);
            cr_assert_eq(try_vote(&f, 2 + (uint64_t)life, 4), 0, "a vote needs no space");
            torn += log_room(f.log) == 0;
            mark(&f);
            if (life == 1) {
                fixture_power_cut(&f);
            } else {
                fixture_close(&f);
            }
            sim_disk_set_capacity(f.sim, 0);
        }
        sim_disk_set_capacity(f.sim, UINT64_MAX);
        fixture_must_open(&f);
        append(&f, last + 1, 5, 5, 500);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        cr_assert_eq(f.state.last, last + 5);
        check_entries(&f, 1, last, 1, 500);
        check_entries(&f, last + 1, last + 5, 5, 500);
        fixture_fini(&f);
    }
    cr_assert_gt(torn, 10, "hardly any end was torn");
}

Test(log_space, refuses_before_the_vote_when_the_entries_have_no_room) {
    struct fixture f;
    fixture_init(&f, 3);
    fixture_must_open(&f);
    append(&f, 1, 1, 1, 100);
    sim_disk_set_capacity(f.sim, log_bytes(f.log) + 2 * LOG_BLOCK);
    cr_assert_eq(try_append(&f, 2, 2, 4, 9000), LKV_ENOSPACE, "a new term with it");
    cr_assert_eq(try_append(&f, 1, 1, 4, 100), LKV_ENOSPACE, "a cut needs a segment");
    fixture_close(&f);
    sim_disk_set_capacity(f.sim, UINT64_MAX);
    fixture_must_open(&f);
    cr_assert_eq(f.state.vote.term, 1, "nothing has changed");
    check_entries(&f, 1, 1, 1, 100);
    fixture_fini(&f);
}

/* S14, rule 16: death at each step of making a segment. */
Test(log_space, discards_half_made_spares_and_never_a_real_name) {
    for (uint64_t step = 0; step < 12; step++) {
        for (uint64_t seed = 0; seed < 12; seed++) {
            struct fixture f;
            fixture_init(&f, seed);
            fixture_must_open(&f);
            append(&f, 1, 10, 1, 500);
            sim_disk_crash_at(f.sim, sim_disk_op_count(f.sim) + step);
            int rc = log_prepare_spare(f.log, &f.why);
            rc = rc != 0 ? rc : try_append(&f, 11, 20, 1, 500);
            fixture_die(&f);
            sim_disk_power_cut(f.sim);
            fixture_must_open(&f);
            cr_assert_geq(f.state.last, rc == 0 ? 30 : 10);
            check_entries(&f, 1, f.state.last, 1, 500);
            append(&f, f.state.last + 1, 40, 2, 500);
            fixture_fini(&f);
        }
    }
}

Test(log_space, keeps_a_whole_spare_and_removes_the_rest_at_open) {
    struct fixture f;
    fixture_init(&f, 5);
    fixture_must_open(&f);
    append(&f, 1, 3, 1, 100);
    cr_assert_eq(log_prepare_spare(f.log, &f.why), 0);
    fixture_close(&f);
    struct disk *disk = sim_disk_seam(f.sim);
    struct disk_file *file;
    cr_assert_eq(disk_open(disk, DIR_NAME "/spare-7.tmp", DISK_WRITE | DISK_CREATE, &file), 0);
    disk_close(file);
    cr_assert_eq(disk_open(disk, DIR_NAME "/notes.txt", DISK_WRITE | DISK_CREATE, &file), 0);
    disk_close(file);
    fixture_must_open(&f);
    cr_assert(!log_wants_spare(f.log));
    struct slice bytes;
    cr_assert(!sim_disk_peek(f.sim, DIR_NAME "/spare-7.tmp", &bytes));
    cr_assert(sim_disk_peek(f.sim, DIR_NAME "/notes.txt", &bytes), "other names are left alone");
    fixture_fini(&f);
}

/* Rule 14 */
Test(log_space, drops_whole_segments_below_an_image_only) {
    struct fixture f;
    fixture_init(&f, 6);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    size_t files = segment_count(&f);
    cr_assert_eq(log_drop_prefix(f.log, 0, &f.why), 0);
    cr_assert_eq(segment_count(&f), files);
    cr_assert_eq(log_drop_prefix(f.log, 30, &f.why), 0);
    cr_assert_lt(segment_count(&f), files);
    uint64_t first = log_first(f.log);
    cr_assert(first > 1 && first <= 31);
    check_entries(&f, first, 60, 1, 500);
    struct entry got;
    size_t count;
    cr_assert_eq(log_read(f.log, first - 1, 60, 100, &got, 1, &count, &f.why), LKV_ETRUNCATED);
    fixture_power_cut(&f);
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED, "without the image the prefix is missing");
    f.image_index = 30;
    f.image_term = 1;
    fixture_must_open(&f);
    cr_assert_leq(f.state.first, 31);
    cr_assert_eq(f.state.last, 60);
    check_entries(&f, f.state.first, 60, 1, 500);
    append(&f, 55, 3, 2, 500);
    fixture_fini(&f);
}

/* Rule 16: what somebody still reads is unlinked, and never becomes another segment under the reader. */
Test(log_space, a_segment_that_is_being_read_is_not_recycled) {
    struct fixture f;
    fixture_init(&f, 3);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    struct log_segment segments[2];
    cr_assert_gt(log_segments(f.log, segments, 2), 2);
    struct log_extent extent;
    cr_assert_eq(log_extent_pin(f.log, 1, &extent, &f.why), 0);
    cr_assert_eq(log_drop_prefix(f.log, segments[0].last, &f.why), 0);
    cr_assert_eq(log_first(f.log), segments[0].last + 1);
    for (uint64_t first = 61; first < 181; first += 60) {
        append(&f, first, 60, 1, 500);
    }
    struct blob *payload = payload_of(1, 1, 500);
    uint8_t bytes[500];
    size_t got;
    cr_assert_eq(extent.length, sizeof(bytes));
    cr_assert_eq(disk_read(extent.file, extent.offset, bytes, sizeof(bytes), &got), 0);
    cr_expect(got == sizeof(bytes) && memcmp(bytes, payload->data, sizeof(bytes)) == 0);
    blob_unref(payload);
    log_extent_unpin(f.log, extent.segment);
    fixture_fini(&f);
}

Test(log_space, sees_no_damage_in_a_hole_below_the_image) {
    struct fixture f;
    fixture_init(&f, 7);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    fixture_close(&f);
    const char *path;
    for (uint64_t index = 3; index <= 20; index++) {
        uint64_t at = record_offset(&f, index, &path);
        cr_assert(sim_disk_flip_bit(f.sim, path, at + index % 90, 2, SIM_ROT_BOTH));
    }
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED);
    f.image_index = 19;
    f.image_term = 1;
    cr_assert_eq(fixture_open(&f), LKV_EDAMAGED, "20 is above it");
    f.image_index = 20;
    fixture_must_open(&f);
    check_state(&f, 21, 60, 1);
    check_entries(&f, 21, 60, 1, 500);
    fixture_fini(&f);
}

/* An image from a leader, beyond the log or contradicting it, and a death before the log restarts. */
Test(log_space, continues_behind_an_image) {
    for (uint64_t image = 5; image <= 25; image += 5) {
        for (uint64_t seed = 0; seed < 10; seed++) {
            struct fixture f;
            fixture_init(&f, seed);
            fixture_must_open(&f);
            append(&f, 1, 20, 1, 700);
            cr_assert_eq(try_vote(&f, 2, 0), 0);
            f.image_index = image;
            f.image_term = 2;
            if (seed % 2 == 0) {
                cr_assert_eq(log_restart_after(f.log, image, 2, &f.why), 0);
                cr_assert_eq(log_first(f.log), image + 1);
                append(&f, image + 1, 2, 2, 50);
                fixture_power_cut(&f);
                fixture_must_open(&f);
                check_state(&f, image + 1, image + 2, 2);
                check_entries(&f, image + 1, image + 2, 2, 50);
            } else {
                fixture_power_cut(&f);
                fixture_must_open(&f);
                check_state(&f, image + 1, image, 2);
                append(&f, image + 1, 2, 2, 50);
                check_entries(&f, image + 1, image + 2, 2, 50);
            }
            fixture_fini(&f);
        }
    }
}

/* An image of the log itself keeps the log. */
Test(log_space, keeps_the_log_when_the_image_agrees_with_it) {
    struct fixture f;
    fixture_init(&f, 9);
    fixture_must_open(&f);
    append(&f, 1, 10, 1, 100);
    append(&f, 11, 10, 2, 100);
    fixture_close(&f);
    f.image_index = 10;
    f.image_term = 1;
    fixture_must_open(&f);
    check_state(&f, 1, 20, 2);
    cr_assert_eq(log_prepare_spare(f.log, &f.why), 0);
    fixture_fini(&f);
}

Test(log_space, counts_its_bytes) {
    struct fixture f;
    fixture_init(&f, 10);
    fixture_must_open(&f);
    for (unsigned i = 0; i < 12; i++) {
        append(&f, 1 + i * 10, 10, 1, 700);
        cr_assert_eq(log_prepare_spare(f.log, &f.why), 0);
        if (i % 4 == 3) {
            cr_assert_eq(log_drop_prefix(f.log, i * 10, &f.why), 0);
        }
        uint64_t bytes = 0;
        const char *path;
        struct slice content;
        for (size_t n = 0; (path = sim_disk_path(f.sim, n)) != NULL; n++) {
            bool counts = strstr(path, ".seg") != NULL || strstr(path, ".tmp") != NULL;
            bytes += counts && sim_disk_peek(f.sim, path, &content) ? content.size : 0;
        }
        cr_assert_eq(log_bytes(f.log), bytes);
    }
    fixture_fini(&f);
}
