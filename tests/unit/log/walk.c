/* The offline walk: what it says about good, torn, damaged and dead records. */
#include "tests/unit/log/fixture.h"

struct heard {
    size_t counts[LOG_WARNING + 1];
    uint64_t damaged_index, damaged_offset;
    char text[128], file[64];
    size_t stop_after, total;
};

static int hear(void *arg, const struct log_visit *what) {
    struct heard *heard = arg;
    heard->counts[what->kind]++;
    heard->total++;
    cr_assert(what->file != NULL);
    cr_assert_eq(what->text == NULL, what->kind == LOG_RECORD || what->kind == LOG_MARK);
    if (what->kind == LOG_RECORD) {
        struct entry want = entry_of(what->index, what->term, what->payload.size);
        cr_assert_eq(what->type, want.type);
        cr_assert(slice_equal(what->payload, blob_slice(want.payload)));
        blob_unref(want.payload);
    }
    if (what->kind == LOG_DAMAGED) {
        heard->damaged_index = what->index;
        heard->damaged_offset = what->offset;
        (void)snprintf(heard->text, sizeof(heard->text), "%s", what->text);
        (void)snprintf(heard->file, sizeof(heard->file), DIR_NAME "/%s", what->file);
    }
    return heard->stop_after > 0 && heard->total == heard->stop_after ? 7 : 0;
}

static struct heard walk(struct fixture *f) {
    struct heard heard = {0};
    uint64_t before = sim_disk_fingerprint(f->sim);
    int rc = log_walk(sim_disk_seam(f->sim), DIR_NAME, f->image_index, hear, &heard, &f->why);
    cr_assert_eq(rc, 0, "%s", f->why.text);
    cr_assert_eq(sim_disk_fingerprint(f->sim), before, "a walk writes nothing");
    cr_assert_eq(sim_disk_open_files(f->sim), 0);
    return heard;
}

Test(log_walk, visits_every_record_of_a_good_log) {
    struct fixture f;
    fixture_init(&f, 1);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    mark(&f);
    append(&f, 61, 3, 2, 0);
    fixture_close(&f);
    struct heard heard = walk(&f);
    cr_assert_eq(heard.counts[LOG_RECORD], 63);
    cr_assert_geq(heard.counts[LOG_MARK], 1);
    cr_assert_eq(heard.counts[LOG_TORN] + heard.counts[LOG_DAMAGED] + heard.counts[LOG_DEAD], 0);
    fixture_fini(&f);
}

Test(log_walk, names_a_damaged_record_and_goes_on) {
    struct fixture f;
    fixture_init(&f, 2);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    fixture_close(&f);
    const char *path;
    uint64_t at = record_offset(&f, 17, &path);
    cr_assert(sim_disk_flip_bit(f.sim, path, at + 100, 0, SIM_ROT_BOTH));
    struct heard heard = walk(&f);
    cr_assert_eq(heard.counts[LOG_RECORD], 59);
    cr_assert_eq(heard.counts[LOG_DAMAGED], 1);
    cr_assert_eq(heard.damaged_index, 17);
    cr_assert_eq(heard.damaged_offset, at);
    cr_assert_str_eq(heard.text, "crc mismatch (acknowledged)");
    cr_assert_str_eq(heard.file, path);
    cr_assert(sim_disk_flip_bit(f.sim, path, at + 20, 0, SIM_ROT_BOTH));
    heard = walk(&f);
    cr_assert_eq(heard.counts[LOG_RECORD], 59);
    cr_assert_eq(heard.damaged_index, 17);
    cr_assert_str_eq(heard.text, "no valid record (acknowledged)");
    f.image_index = 17;
    heard = walk(&f);
    cr_assert_eq(heard.counts[LOG_DAMAGED], 0, "rule 14: the image has it");
    fixture_fini(&f);
}

/* S11: an unreadable sector is told like any other damage, and is not the end of the walk. */
Test(log_walk, s11_passes_sectors_that_cannot_be_read) {
    struct fixture f;
    fixture_init(&f, 5);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    fixture_close(&f);
    const char *path;
    uint64_t at = record_offset(&f, 17, &path);
    cr_assert(sim_disk_unreadable(f.sim, path, at + 100, 1));
    struct heard heard = walk(&f);
    cr_assert_geq(heard.counts[LOG_RECORD], 57);
    cr_assert_geq(heard.counts[LOG_DAMAGED], 1);
    cr_assert(heard.damaged_index == 16 || heard.damaged_index == 17);
    cr_assert_str_eq(heard.file, path);
    fixture_fini(&f);
}

Test(log_walk, tells_torn_from_damaged_and_dead) {
    struct fixture f;
    fixture_init(&f, 3);
    fixture_must_open(&f);
    append(&f, 1, 10, 1, 100);
    append(&f, 6, 2, 2, 100); /* 6 to 10 of term 1 are dead now */
    append(&f, 8, 4, 2, 100);
    fixture_power_cut(&f);
    const char *path;
    uint64_t at = record_offset(&f, 9, &path);
    cr_assert(sim_disk_flip_bit(f.sim, path, at + 100, 0, SIM_ROT_BOTH));
    struct heard heard = walk(&f);
    cr_assert_eq(heard.counts[LOG_RECORD], 5 + 3);
    cr_assert_eq(heard.counts[LOG_DEAD], 5);
    cr_assert_eq(heard.counts[LOG_TORN], 3);
    cr_assert_eq(heard.counts[LOG_DAMAGED], 0);
    fixture_fini(&f);
}

Test(log_walk, reports_what_open_refuses) {
    struct fixture f;
    fixture_init(&f, 4);
    fixture_must_open(&f);
    append(&f, 1, 60, 1, 500);
    fixture_close(&f);
    struct sim_disk *whole = f.sim;
    f.sim = sim_disk_clone(whole, 1);
    cr_assert(sim_disk_flip_bit(f.sim, segment_path(&f, 1), 50, 0, SIM_ROT_BOTH));
    cr_assert_gt(walk(&f).counts[LOG_DAMAGED], 0);
    sim_disk_free(f.sim);
    f.sim = sim_disk_clone(whole, 1);
    cr_assert(sim_disk_unlink(f.sim, DIR_NAME "/vote"));
    struct heard heard = walk(&f);
    cr_assert_eq(heard.counts[LOG_DAMAGED], 1);
    cr_assert_eq(heard.counts[LOG_RECORD], 60, "the records are readable all the same");
    sim_disk_free(f.sim);
    f.sim = whole;
    fixture_fini(&f);
}

Test(log_walk, ends_when_the_visitor_says_so) {
    struct fixture f;
    fixture_init(&f, 5);
    fixture_must_open(&f);
    append(&f, 1, 10, 1, 100);
    fixture_close(&f);
    struct heard heard = {.stop_after = 4};
    cr_assert_eq(log_walk(sim_disk_seam(f.sim), DIR_NAME, 0, hear, &heard, &f.why), 7);
    cr_assert_eq(heard.total, 4);
    fixture_fini(&f);
}

Test(log_walk, of_an_empty_directory_hears_nothing) {
    struct fixture f;
    fixture_init(&f, 6);
    struct heard heard = walk(&f);
    cr_assert_eq(heard.total, 0);
    fixture_fini(&f);
}
