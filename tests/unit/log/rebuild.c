/* A segment's file built anew, when memory, the disk or the file that is read from fail on the way: the gap
 * stays until it is filled, and nothing else is lost. */
#include "base/mem.h"
#include "tests/unit/log/fixture.h"

enum { ENTRIES = 60, SIZE = 500, LOST = 9, CURRENT = 58 };

/* Sixty entries, of which `lost` lies in sectors that cannot be written in part: its file is built anew. */
static void begin(struct fixture *f, uint64_t seed, uint64_t lost) {
    fixture_init(f, seed);
    f->options.mend = true;
    fixture_must_open(f);
    append(f, 1, ENTRIES, 1, SIZE);
    mark(f);
    fixture_kill(f);
    const char *path;
    uint64_t at = record_offset(f, lost, &path);
    cr_assert(sim_disk_unreadable(f->sim, path, at + LOG_RECORD_HEADER, SIZE));
    fixture_must_open(f);
    cr_assert_geq(f->state.gap_count, 1);
}

/* Every gap, entry by entry. */
static int fill_all(struct fixture *f) {
    struct log_gap gap;
    int rc = 0;
    while (rc == 0 && log_gaps(f->log, &gap, 1) > 0) {
        struct entry entry = entry_of(gap.first, 1, SIZE);
        rc = log_fill(f->log, &entry, 1, &f->why);
        blob_unref(entry.payload);
    }
    return rc;
}

static void expect_whole(struct fixture *f) {
    cr_assert_eq(fill_all(f), 0, "%s", f->why.text);
    check_entries(f, 1, ENTRIES, 1, SIZE);
    append(f, ENTRIES + 1, 1, 1, SIZE);
    fixture_power_cut(f);
    fixture_must_open(f);
    cr_assert_eq(f->state.gap_count, 0, "%s", f->state.damage.text);
    check_entries(f, 1, ENTRIES + 1, 1, SIZE);
    fixture_fini(f);
}

/* One fill, of the first gap: the entry is made beforehand. */
static int fill_first(struct fixture *f, uint64_t memory_for, struct log_gap *gap) {
    cr_assert_geq(log_gaps(f->log, gap, 1), 1);
    struct entry entry = entry_of(gap->first, 1, SIZE);
    f->why = (struct reason){{0}};
    mem_fail_after(memory_for);
    int rc = log_fill(f->log, &entry, 1, &f->why);
    mem_fail_never();
    blob_unref(entry.payload);
    return rc;
}

/* S28, in an older segment and in the newest. That one is left first, for a new one, and what fails once that
 * was renamed is final (rule 10): a new opening finds the gap. */
Test(log_rebuild, without_memory_the_gap_stays) {
    static const uint64_t lost[] = {LOST, CURRENT};
    for (size_t i = 0; i < 2; i++) {
        int rc = LKV_ENOMEM;
        size_t refused = 0;
        for (uint64_t n = 0; rc != 0; n++) {
            struct fixture f;
            struct log_gap gap;
            begin(&f, n, lost[i]);
            rc = fill_first(&f, n, &gap);
            bool final = rc == LKV_EIO && lost[i] == CURRENT;
            cr_assert(rc == 0 || rc == LKV_ENOMEM || final, "%s: %s", error_name(rc), f.why.text);
            cr_assert_eq(log_damage_at(f.log, gap.first, NULL), rc != 0);
            cr_assert(rc == 0 || strstr(f.why.text, "out of memory") != NULL, "%s", f.why.text);
            refused += rc == LKV_ENOMEM;
            if (final) {
                fixture_power_cut(&f);
                fixture_must_open(&f);
                cr_assert(log_damage_at(f.log, gap.first, NULL));
            }
            expect_whole(&f);
        }
        cr_assert_geq(refused, 5);
    }
}

/* The list of segments is full when the newest is to be left for one more. */
Test(log_rebuild, without_memory_for_one_segment_more_the_gap_stays) {
    struct fixture f;
    fixture_init(&f, 1);
    fixture_must_open(&f);
    uint64_t last = 0;
    while (log_segments(f.log, NULL, 0) < 8) {
        append(&f, ++last, 1, 1, SIZE);
    }
    mark(&f);
    const char *path;
    uint64_t at = record_offset(&f, last, &path);
    struct log_gap gap;
    cr_assert(sim_disk_unreadable(f.sim, path, at + LOG_RECORD_HEADER, SIZE));
    cr_assert_eq(log_note_damage(f.log, last, last, &gap), 0);
    size_t refused = 0;
    int rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc == LKV_ENOMEM; n++) {
        rc = fill_first(&f, n, &gap);
        refused += rc == LKV_ENOMEM;
    }
    cr_assert_eq(refused, 4, "%zu", refused);
    cr_assert_eq(rc, LKV_EIO, "rule 10: in the middle of beginning a segment");
    fixture_power_cut(&f);
    f.options.mend = true;
    fixture_must_open(&f);
    cr_assert_eq(fill_all(&f), 0, "%s", f.why.text);
    check_entries(&f, 1, last, 1, SIZE);
    fixture_fini(&f);
}

/* Entry 12 rots while its file is copied, and its being noted needs memory as well. */
Test(log_rebuild, what_has_rotted_meanwhile_is_a_gap_like_the_others) {
    int rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc != 0; n++) {
        struct fixture f;
        struct log_gap gap;
        begin(&f, n, LOST);
        const char *path;
        uint64_t at = record_offset(&f, 12, &path);
        cr_assert(sim_disk_flip_bit(f.sim, path, at + 90, 2, SIM_ROT_BOTH));
        rc = fill_first(&f, n, &gap);
        cr_assert(rc == 0 || rc == LKV_ENOMEM || rc == LKV_EDAMAGED, "%s", error_name(rc));
        cr_assert_eq(log_damage_at(f.log, gap.first, NULL), rc != 0);
        cr_assert(rc != 0 || log_damage_at(f.log, 12, NULL));
        expect_whole(&f);
    }
}

/* S9, S11: what is written under a spare name may fail and be tried again; once it was renamed the log is
 * done (rule 10), and a new opening finds either file. */
Test(log_rebuild, when_the_disk_fails_either_file_is_whole) {
    static const uint64_t lost[] = {LOST, CURRENT};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        struct log_gap gap;
        begin(&f, 1, lost[i]);
        uint64_t operations = sim_disk_op_count(f.sim);
        cr_assert_eq(fill_first(&f, UINT64_MAX, &gap), 0);
        operations = sim_disk_op_count(f.sim) - operations;
        expect_whole(&f);
        size_t gave_up = 0, stopped = 0;
        for (uint64_t n = 0; n < operations; n++) {
            begin(&f, 1, lost[i]);
            sim_disk_fail(f.sim, SIM_ANY, n, LKV_EIO, false);
            int rc = fill_first(&f, UINT64_MAX, &gap);
            sim_disk_heal(f.sim);
            /* LKV_EDAMAGED: an entry to be copied could not be read, and a moment later it can. */
            cr_assert(rc == 0 || rc == LKV_EIO || rc == LKV_EDAMAGED, "%s", f.why.text);
            cr_assert_eq(log_damage_at(f.log, gap.first, NULL), rc != 0);
            if (rc != 0 && fill_all(&f) != 0) {
                stopped++;
                fixture_power_cut(&f);
                fixture_must_open(&f);
            } else {
                gave_up += rc != 0;
            }
            expect_whole(&f);
        }
        cr_assert(gave_up >= 3 && stopped >= 1, "%zu, %zu", gave_up, stopped);
    }
}

/* A disk that says yes and writes nothing, at its n-th write. */
static struct {
    const struct disk_ops *real;
    uint64_t left;
    bool lied;
} liar;

static int write_or_lie(struct disk_file *file, uint64_t offset, const struct slice *parts,
                        size_t count) {
    if (liar.left-- == 0) {
        liar.lied = true;
        return 0;
    }
    return liar.real->write(file, offset, parts, count);
}

/* S6: the new file is read before it takes the old one's place. */
Test(log_rebuild, a_lost_write_is_noticed_before_the_file_counts) {
    size_t noticed = 0;
    liar.lied = true;
    for (uint64_t n = 0; liar.lied; n++) {
        struct fixture f;
        struct log_gap gap;
        begin(&f, n, LOST);
        struct disk *disk = sim_disk_seam(f.sim);
        struct disk_ops ops = *disk->ops;
        ops.write = write_or_lie;
        liar.real = disk->ops;
        liar.left = n;
        liar.lied = false;
        disk->ops = &ops;
        int rc = fill_first(&f, UINT64_MAX, &gap);
        disk->ops = liar.real;
        cr_assert(rc == 0 || rc == LKV_EDAMAGED, "%s: %s", error_name(rc), f.why.text);
        if (rc != 0) {
            cr_assert_str_eq(f.why.text, "d: cannot rebuild segment 1: stored data is damaged");
            cr_assert(log_damage_at(f.log, gap.first, NULL));
            noticed++;
        }
        cr_assert(liar.lied || rc == 0);
        expect_whole(&f);
    }
    cr_assert_geq(noticed, 3, "the records before the gap, those in it and those behind it");
}
