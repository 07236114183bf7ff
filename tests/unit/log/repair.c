/* Gaps in a running log: noted, read around, filled, cut, dropped; scrubbing; the doubtful end. */
#include "tests/unit/log/fixture.h"

static void spoil(struct fixture *f, uint64_t index, uint64_t byte) {
    const char *path;
    uint64_t at = record_offset(f, index, &path);
    cr_assert_neq(at, 0);
    cr_assert(sim_disk_flip_bit(f->sim, path, at + byte, 3, SIM_ROT_BOTH));
}

static struct log_gap note(struct fixture *f, uint64_t first, uint64_t last) {
    struct log_gap gap;
    cr_assert_eq(log_note_damage(f->log, first, last, &gap), 0);
    return gap;
}

static int try_fill(struct fixture *f, uint64_t first, size_t count, uint64_t term, size_t size) {
    struct entry entries[FIXTURE_BATCH_MAX] = {{0}};
    for (size_t i = 0; i < count; i++) {
        entries[i] = entry_of(first + i, term, size);
    }
    int rc = log_fill(f->log, entries, count, &f->why);
    free_entries(entries, count);
    return rc;
}

static void fill(struct fixture *f, uint64_t first, size_t count, uint64_t term, size_t size) {
    int rc = try_fill(f, first, count, term, size);
    cr_assert_eq(rc, 0, "fill %llu: %s: %s", (unsigned long long)first, error_name(rc),
                 f->why.text);
}

static void twenty(struct fixture *f, uint64_t seed) {
    fixture_init(f, seed);
    fixture_must_open(f);
    append(f, 1, 8, 1, 100);
    append(f, 9, 12, 2, 100);
}

/* S3 */
Test(log_repair, notes_a_gap_reads_around_it_and_fills_it) {
    for (uint64_t byte = 0; byte < LOG_RECORD_HEADER + 100; byte += 43) {
        struct fixture f;
        twenty(&f, byte);
        spoil(&f, 10, byte);
        spoil(&f, 11, byte);
        struct log_gap gap = note(&f, 5, 20);
        cr_assert_eq(gap.first, 10);
        cr_assert_eq(gap.last, 11);
        cr_assert_eq(gap.last_term, 2);
        cr_assert(log_damage_at(f.log, 11, NULL));
        cr_assert(!log_damage_at(f.log, 12, NULL));
        check_entries(&f, 9, 9, 2, 100);
        check_entries(&f, 12, 20, 2, 100);
        struct entry got[4];
        size_t count;
        cr_assert_eq(log_read(f.log, 10, 20, 4096, got, 4, &count, &f.why), LKV_EDAMAGED);
        append(&f, 21, 2, 2, 100);
        fill(&f, 10, 1, 2, 100);
        cr_assert(!log_damage_at(f.log, 10, NULL));
        cr_assert(log_damage_at(f.log, 11, NULL));
        fill(&f, 11, 1, 2, 100);
        cr_assert_eq(log_gaps(f.log, NULL, 0), 0);
        check_entries(&f, 9, 22, 2, 100);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        check_entries(&f, 1, 8, 1, 100);
        check_entries(&f, 9, 22, 2, 100);
        fixture_fini(&f);
    }
}

/* S7: a fill that went astray is read back, and the gap stays. */
Test(log_repair, believes_no_fill_that_reads_otherwise) {
    struct fixture f;
    twenty(&f, 2);
    spoil(&f, 10, 5);
    cr_assert_eq(note(&f, 10, 10).first, 10);
    sim_disk_misdirect_next_write(f.sim, SEGMENT_BYTES / 2);
    cr_assert_eq(try_fill(&f, 10, 1, 2, 100), LKV_EDAMAGED);
    cr_assert(log_damage_at(f.log, 10, NULL));
    fill(&f, 10, 1, 2, 100);
    check_entries(&f, 9, 20, 2, 100);
    fixture_fini(&f);
}

/* Marks that lay between the entries of a gap lie behind those that filled it: one of these that rots is
 * written where it is read, and not behind what is left of the others. */
Test(log_repair, fills_where_readers_look_again_and_again) {
    struct fixture f;
    fixture_init(&f, 4);
    fixture_must_open(&f);
    for (uint64_t index = 1; index <= 9; index++) {
        append(&f, index, 1, 1, 20);
        mark(&f);
    }
    for (uint64_t index = 4; index <= 7; index++) {
        spoil(&f, index, 5);
    }
    cr_assert_eq(note(&f, 4, 7).last, 7);
    fill(&f, 4, 4, 1, 20);
    for (uint64_t index = 7; index >= 4; index--) {
        spoil(&f, index, LOG_RECORD_HEADER + 3);
        cr_assert_eq(note(&f, index, index).first, index);
        fill(&f, index, 1, 1, 20);
        check_entries(&f, 1, 9, 1, 20);
    }
    fixture_power_cut(&f);
    fixture_must_open(&f);
    cr_assert_eq(log_gaps(f.log, NULL, 0), 0);
    check_entries(&f, 1, 9, 1, 20);
    fixture_fini(&f);
}

Test(log_repair, notes_nothing_where_all_can_be_read) {
    struct fixture f;
    twenty(&f, 1);
    struct log_gap gap;
    cr_assert_eq(log_note_damage(f.log, 1, 100, &gap), LKV_EINVAL);
    cr_assert_eq(log_note_damage(f.log, 30, 40, &gap), LKV_EINVAL);
    spoil(&f, 10, 90);
    gap = note(&f, 10, 10);
    gap = note(&f, 10, 10); /* the same, once more */
    cr_assert_eq(gap.first, 10);
    cr_assert_eq(log_gaps(f.log, &gap, 1), 1);
    fixture_fini(&f);
}

Test(log_repair, refuses_fills_that_do_not_fit) {
    struct fixture f;
    twenty(&f, 2);
    spoil(&f, 8, 90);
    spoil(&f, 9, 90);
    struct log_gap gap = note(&f, 8, 9);
    cr_assert_eq(gap.last, 9);
    cr_assert_eq(try_fill(&f, 9, 1, 2, 100), LKV_EINVAL, "not its beginning");
    cr_assert_eq(try_fill(&f, 7, 1, 1, 100), LKV_EINVAL, "no gap");
    cr_assert_eq(try_fill(&f, 8, 3, 1, 100), LKV_EINVAL, "more than the gap");
    cr_assert_eq(try_fill(&f, 8, 2, 1, 100), LKV_EINVAL, "its last has term 2");
    cr_assert_eq(try_fill(&f, 8, 1, 3, 100), LKV_EINVAL, "beyond its last term");
    cr_assert_eq(try_fill(&f, 8, 0, 1, 100), LKV_EINVAL);
    cr_assert_eq(try_fill(&f, 8, 1, 1, 64 * 1024 + 1), LKV_ETOOLARGE);
    fill(&f, 8, 1, 1, 100);
    fill(&f, 9, 1, 2, 100);
    check_entries(&f, 1, 8, 1, 100);
    check_entries(&f, 9, 20, 2, 100);
    fixture_fini(&f);
}

Test(log_repair, forgets_a_gap_that_is_cut_off_or_dropped) {
    struct fixture f;
    twenty(&f, 3);
    spoil(&f, 12, 90);
    spoil(&f, 13, 90);
    (void)note(&f, 12, 13);
    append(&f, 13, 3, 3, 50); /* cuts at 13 */
    struct log_gap gap;
    cr_assert_eq(log_gaps(f.log, &gap, 1), 1);
    cr_assert_eq(gap.last, 12);
    cr_assert_eq(gap.last_term, 2);
    append(&f, 10, 3, 4, 50);
    cr_assert_eq(log_gaps(f.log, NULL, 0), 0);
    spoil(&f, 3, 90);
    (void)note(&f, 3, 3);
    cr_assert_eq(log_drop_prefix(f.log, 9, &f.why), 0);
    cr_assert_eq(log_gaps(f.log, NULL, 0), 0);
    fixture_fini(&f);
}

/* Drops the log's beginning, as the bulk thread may, in front of one disk operation. */
static struct {
    const struct disk_ops *real;
    struct log *log;
    uint64_t upto;
    unsigned left; /* operations until then; 0: it is dropped */
} dropper;

static void drop_in_time(void) {
    if (dropper.left > 0 && --dropper.left == 0) {
        cr_assert_eq(log_drop_prefix(dropper.log, dropper.upto, NULL), 0);
    }
}

static int read_dropping(struct disk_file *file, uint64_t offset, void *into, size_t size,
                         size_t *got) {
    drop_in_time();
    return dropper.real->read(file, offset, into, size, got);
}

static int write_dropping(struct disk_file *file, uint64_t offset, const struct slice *parts,
                          size_t count) {
    drop_in_time();
    return dropper.real->write(file, offset, parts, count);
}

/* An image makes all of a file go while that is built anew. True: it went in time. */
static bool rebuild_while_it_goes(unsigned operations) {
    struct fixture f;
    fixture_init(&f, 7);
    f.options.mend = true;
    struct disk *disk = sim_disk_seam(f.sim);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    struct log_segment segments[2];
    cr_assert_gt(log_segments(f.log, segments, 2), 2);
    uint64_t last = segments[0].last;
    const char *path;
    uint64_t at = record_offset(&f, 5, &path);
    cr_assert(sim_disk_unreadable(f.sim, path, at, 1));
    struct log_gap gap = note(&f, 1, last);
    dropper.real = disk->ops;
    dropper.log = f.log;
    dropper.upto = last;
    dropper.left = operations;
    struct disk_ops ops = *disk->ops;
    ops.read = read_dropping;
    ops.write = write_dropping;
    disk->ops = &ops;
    int rc = try_fill(&f, gap.first, (size_t)(gap.last - gap.first + 1), 1, 500);
    disk->ops = dropper.real;
    bool dropped = dropper.left == 0;
    cr_assert_eq(rc, 0, "dropped before operation %u: %s", operations, f.why.text);
    cr_assert_eq(log_gaps(f.log, NULL, 0), 0);
    cr_assert_eq(log_first(f.log), dropped ? last + 1 : 1);
    append(&f, 61, 1, 1, 500);
    check_entries(&f, dropped ? last + 1 : 1, 61, 1, 500);
    fixture_power_cut(&f);
    f.image_index = dropped ? last : 0;
    f.image_term = dropped ? 1 : 0;
    fixture_must_open(&f);
    check_entries(&f, dropped ? last + 1 : 1, 61, 1, 500);
    fixture_fini(&f);
    return dropped;
}

Test(log_repair, a_file_that_goes_while_it_is_built_anew_is_no_failure) {
    unsigned operations = 1;
    while (rebuild_while_it_goes(operations)) {
        operations++;
    }
    cr_assert_gt(operations, 8);
}

static unsigned forgotten;

static void count_forgotten(struct disk_file *file) {
    (void)file;
    forgotten++;
}

/* Else the cache would answer for the disk. */
Test(log_repair, the_scrub_reads_each_file_from_the_disk_whatever_its_steps_are) {
    struct fixture f;
    fixture_init(&f, 4);
    struct disk *disk = sim_disk_seam(f.sim);
    struct disk_ops ops = *disk->ops;
    ops.forget_cached = count_forgotten;
    disk->ops = &ops;
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    size_t files = log_segments(f.log, NULL, 0);
    cr_assert_gt(files, 2);
    const size_t steps[] = {1, 3000, SIZE_MAX};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t index = 0;
        forgotten = 0;
        do {
            struct log_gap gap;
            bool any;
            cr_assert_eq(log_scrub(f.log, &index, steps[i], &gap, &any, &f.why), 0);
        } while (index != 0);
        cr_expect_eq(forgotten, files, "%u of %zu, with steps of %zu bytes", forgotten, files,
                     steps[i]);
    }
    fixture_fini(&f);
}

/* S11: what is found by scrubbing, and by it alone. */
Test(log_repair, scrubs_step_by_step_and_finds_what_rots) {
    struct fixture f;
    fixture_init(&f, 4);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    uint64_t index = 0;
    struct log_gap gap;
    bool any;
    unsigned steps = 0;
    do {
        cr_assert_eq(log_scrub(f.log, &index, 3000, &gap, &any, &f.why), 0);
        cr_assert(!any);
        steps++;
    } while (index != 0);
    cr_assert(steps >= 8 && steps <= 20, "%u steps", steps);
    spoil(&f, 37, 300);
    const char *path;
    uint64_t at = record_offset(&f, 50, &path);
    cr_assert(sim_disk_unreadable(f.sim, path, at, 1));
    unsigned found = 0;
    do {
        cr_assert_eq(log_scrub(f.log, &index, 1 << 20, &gap, &any, &f.why), 0);
        if (any) {
            cr_assert(log_damage_at(f.log, gap.first, NULL));
            found++;
        }
    } while (index != 0);
    cr_assert_geq(found, 2);
    cr_assert(log_damage_at(f.log, 37, NULL));
    cr_assert(log_damage_at(f.log, 50, NULL));
    do {
        cr_assert_eq(log_scrub(f.log, &index, SIZE_MAX, &gap, &any, &f.why), 0);
        cr_assert(!any, "all of it is known");
    } while (index != 0);
    fixture_fini(&f);
}

static size_t reread(struct fixture *f, uint64_t first, struct entry *out, size_t capacity) {
    size_t count;
    cr_assert_eq(log_reread(f->log, first, UINT64_MAX, 1 << 20, out, capacity, &count, &f->why), 0,
                 "%s", f->why.text);
    return count;
}

/* S11: an error that has passed took nothing, and nothing is written for what lies there. */
Test(log_repair, what_can_be_read_again_is_no_gap) {
    struct fixture f;
    twenty(&f, 11);
    append(&f, 21, 20, 2, 100);
    sim_disk_fail(f.sim, SIM_READ, 0, LKV_EIO, true);
    struct log_gap gap = note(&f, 7, 30);
    cr_assert_eq(gap.first, 7);
    struct entry got[64];
    cr_assert_eq(reread(&f, 7, got, 64), 0);
    sim_disk_heal(f.sim);
    uint64_t before = sim_disk_fingerprint(f.sim), entries = gap.last - gap.first + 1;
    cr_assert_eq(reread(&f, 8, got, 64), 0, "no gap begins there");
    while (log_damaged_entries(f.log) > 0) { /* in parts */
        uint64_t first = gap.last + 1 - entries;
        size_t count = reread(&f, first, got, 5);
        cr_assert(count == (entries < 5 ? entries : 5), "%zu", count);
        cr_assert_eq(log_regain(f.log, got, count, &f.why), 0, "%s", f.why.text);
        entries -= count;
        free_entries(got, count);
    }
    cr_expect_eq(sim_disk_fingerprint(f.sim), before);
    check_entries(&f, 1, 8, 1, 100);
    check_entries(&f, 9, 40, 2, 100);
    append(&f, 41, 2, 2, 100);
    fixture_fini(&f);
}

/* Rule 11: what does not lie there, whole, as it was found, is not taken. */
Test(log_repair, takes_nothing_for_readable_that_is_not) {
    struct fixture f;
    twenty(&f, 12);
    spoil(&f, 12, LOG_RECORD_HEADER + 5);
    sim_disk_fail(f.sim, SIM_READ, 0, LKV_EIO, true);
    (void)note(&f, 10, 20);
    sim_disk_heal(f.sim);
    struct entry got[64];
    size_t count = reread(&f, 10, got, 64);
    cr_assert_eq(count, 2, "up to the one that is lost: %zu", count);
    got[1].term = 1; /* falls */
    cr_expect_eq(log_regain(f.log, got, 2, &f.why), LKV_EINVAL);
    got[1].term = 2;
    struct entry other = entry_of(11, 2, 99), kept = got[1];
    got[1] = other;
    cr_expect_eq(log_regain(f.log, got, 2, &f.why), LKV_EDAMAGED);
    free_entries(&other, 1);
    got[1] = kept;
    spoil(&f, 11, 3);
    cr_expect_eq(log_regain(f.log, got, 2, &f.why), LKV_EDAMAGED);
    cr_assert_eq(log_regain(f.log, got, 1, &f.why), 0);
    free_entries(got, 2);
    cr_expect_eq(reread(&f, 11, got, 64), 0);
    cr_expect_eq(log_read(f.log, 11, 11, 4096, got, 1, &count, &f.why), LKV_EDAMAGED);
    check_entries(&f, 10, 10, 2, 100);
    fixture_fini(&f);
}

/* Rule 10 */
Test(log_repair, a_failed_sync_of_what_can_be_read_again_is_final) {
    struct fixture f;
    twenty(&f, 13);
    sim_disk_fail(f.sim, SIM_READ, 0, LKV_EIO, true);
    (void)note(&f, 20, 20);
    sim_disk_heal(f.sim);
    struct entry got[1];
    cr_assert_eq(reread(&f, 20, got, 1), 1);
    sim_disk_fail(f.sim, SIM_SYNC, 0, LKV_EIO, false);
    cr_expect_eq(log_regain(f.log, got, 1, &f.why), LKV_EIO);
    cr_expect_eq(log_regain(f.log, got, 1, &f.why), LKV_EIO);
    free_entries(got, 1);
    fixture_fini(&f);
}

/* Rule 17 */
Test(log_repair, remembers_that_its_end_is_doubtful) {
    struct fixture f;
    twenty(&f, 5);
    cr_assert(!f.state.end_unknown);
    cr_assert_eq(log_doubt_end(f.log, &f.why), 0);
    append(&f, 21, 2, 2, 10);
    fixture_power_cut(&f);
    fixture_must_open(&f);
    cr_assert(f.state.end_unknown);
    cr_assert_eq(try_vote(&f, 7, 1), 0);
    cr_assert_eq(log_settle_end(f.log, &f.why), 0);
    fixture_power_cut(&f);
    fixture_must_open(&f);
    cr_assert(!f.state.end_unknown);
    cr_assert_eq(f.state.vote.term, 7);
    fixture_fini(&f);
}

/* An image stands for what cannot be read at or below it; of a gap across it the rest stays, and what
 * comes into it follows the image's term. */
Test(log_repair, begins_behind_what_an_image_covers) {
    struct fixture f;
    twenty(&f, 1);
    for (uint64_t index = 4; index <= 12; index++) {
        spoil(&f, index, 80);
    }
    (void)note(&f, 1, 20);
    struct log_gap gap;
    log_cover(f.log, 2, 1);
    cr_assert_eq(log_first(f.log), 1, "nothing is unreadable there");
    log_cover(f.log, 10, 2);
    cr_assert_eq(log_first(f.log), 11);
    cr_assert_eq(log_gaps(f.log, &gap, 1), 1);
    cr_assert_eq(gap.first, 11);
    cr_assert_eq(gap.last, 12);
    cr_assert_eq(log_term_at(f.log, 10), 0, "it is gone");
    cr_assert_eq(log_term_at(f.log, 11), 2, "as the image's and the gap's end");
    cr_assert_eq(log_term_at(f.log, 20), 2);
    cr_assert_eq(log_term_at(f.log, 21), 0);
    fill(&f, 11, 2, 2, 100);
    cr_assert_eq(log_gaps(f.log, NULL, 0), 0);
    append(&f, 21, 1, 2, 100);
    fixture_power_cut(&f);
    f.image_index = 10;
    f.image_term = 2;
    fixture_must_open(&f);
    check_entries(&f, 11, 21, 2, 100);
    fixture_fini(&f);
}

/* A peer proves that an unreadable entry is another one: we hold its log up to there, in its term, also
 * after a crash. Without the term told it is refused. */
static void cut_inside_a_gap(uint64_t told) {
    struct fixture f;
    fixture_init(&f, 1);
    f.options.mend = true;
    fixture_must_open(&f);
    append(&f, 1, 4, 1, 100);
    append(&f, 5, 4, 2, 100);
    append(&f, 9, 12, 4, 100);
    mark(&f);
    for (uint64_t index = 4; index <= 12; index++) {
        spoil(&f, index, 20);
    }
    fixture_power_cut(&f);
    fixture_must_open(&f);
    cr_assert_eq(f.state.gap_count, 1);
    cr_assert_eq(f.state.gaps[0].first, 4);
    cr_assert_eq(f.state.gaps[0].last, 12);
    struct log_write write = {.cut_from = 8};
    cr_assert_eq(log_write(f.log, &write, &f.why), LKV_EINVAL);
    write.cut_prev_term = 5;
    cr_assert_eq(log_write(f.log, &write, &f.why), LKV_EINVAL);
    write.cut_prev_term = told;
    cr_assert_eq(log_write(f.log, &write, &f.why), 0, "%s", f.why.text);
    struct log_gap gap;
    cr_assert_eq(log_term_at(f.log, 5), told == 1 ? 1 : 0,
                 "known when all of the gap is of one term");
    cr_assert_eq(log_term_at(f.log, 7), told);
    for (int opened = 0; opened < 2; opened++) {
        cr_assert_eq(log_gaps(f.log, &gap, 1), 1);
        cr_assert_eq(gap.first, 4);
        cr_assert_eq(gap.last, 7);
        cr_assert_eq(gap.last_term, told);
        fixture_power_cut(&f);
        fixture_must_open(&f);
        cr_assert_eq(f.state.last, 7);
        cr_assert_eq(f.state.last_term, told);
    }
    fill(&f, 4, 3, 1, 100);
    fill(&f, 7, 1, told, 100);
    append(&f, 8, 1, 4, 100);
    check_entries(&f, 4, 6, 1, 100);
    check_entries(&f, 7, 7, told, 100);
    fixture_fini(&f);
}

Test(log_repair, a_cut_inside_a_gap_states_the_term_before_it) {
    for (uint64_t told = 1; told <= 4; told++) { /* from that before the gap to that of its end */
        cut_inside_a_gap(told);
    }
}

/* The peer's entry comes in the same write, and its term may be below that of the gap's old end. */
Test(log_repair, a_cut_inside_a_gap_takes_an_entry_of_the_term_that_it_states) {
    struct fixture f;
    fixture_init(&f, 1);
    f.options.mend = true;
    fixture_must_open(&f);
    append(&f, 1, 4, 1, 100);
    append(&f, 5, 8, 4, 100);
    mark(&f);
    for (uint64_t index = 4; index <= 12; index++) {
        spoil(&f, index, 20);
    }
    fixture_power_cut(&f);
    fixture_must_open(&f);
    struct entry entry = entry_of(9, 2, 100);
    struct log_write write = {.cut_from = 9, .cut_prev_term = 3, .entries = &entry, .count = 1};
    cr_assert_eq(log_write(f.log, &write, &f.why), LKV_EINVAL, "2 behind 3");
    write.cut_prev_term = 2;
    cr_assert_eq(log_write(f.log, &write, &f.why), 0, "%s", f.why.text);
    free_entries(&entry, 1);
    fixture_power_cut(&f);
    fixture_must_open(&f);
    cr_assert_eq(f.state.last, 9);
    cr_assert_eq(f.state.last_term, 2);
    cr_assert_eq(f.state.gaps[0].last, 8);
    cr_assert_eq(f.state.gaps[0].last_term, 2);
    check_entries(&f, 9, 9, 2, 100);
    fixture_fini(&f);
}
