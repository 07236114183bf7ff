/* The file of a program's image: what is written comes back, and nothing else is believed. */
#include "lib/own_image.h"
#include "lib/meta_image.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define PART "dir/own.part"
#define PATH "dir/00000000000000000007.img"

static struct sim_disk *sim;
static struct disk *disk;

static void setup(void) {
    sim = sim_disk_new(1);
    disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "dir"), 0);
}

static void teardown(void) {
    sim_disk_free(sim);
}

TestSuite(lib_own_image, .init = setup, .fini = teardown);

static void meta_of(struct buffer *out) {
    const struct meta_image meta = {.feature_level = 1,
                                    .cluster_id = 5,
                                    .index = 7,
                                    .term = 2,
                                    .visible = 7,
                                    .members = {{.name = "n1", .address = "h:1", .id = 5}},
                                    .member_count = 1,
                                    .ledger = {.chain = 1, .included = 8, .included_term = 2}};
    buffer_init(out);
    meta_image_encode(&meta, out);
    cr_assert(!out->failed);
}

static uint8_t byte_at(size_t i) {
    return (uint8_t)(i * 31 + i / 251);
}

static void save(size_t size, size_t step) {
    struct own_writer writer;
    struct buffer meta;
    uint8_t *bytes = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = byte_at(i);
    }
    cr_assert_eq(own_writer_open(&writer, disk, PART, NULL), 0);
    for (size_t at = 0; at < size; at += step) {
        size_t part = size - at < step ? size - at : step;
        cr_assert_eq(own_writer_put(&writer, slice_of(bytes + at, part), NULL), 0);
    }
    cr_assert_eq(own_writer_flush(&writer, NULL), 0);
    own_writer_close(&writer);
    meta_of(&meta);
    cr_assert_eq(own_image_finish(&writer, disk, "dir", PART, PATH, buffer_slice(&meta), NULL), 0);
    buffer_fini(&meta);
    free(bytes);
}

static void expect(size_t size, size_t step) {
    struct own_reader reader;
    uint8_t *into = malloc(step);
    size_t at = 0, got;
    cr_assert_eq(own_reader_open(&reader, disk, PATH, NULL), 0);
    do {
        cr_assert_eq(own_reader_next(&reader, into, step, &got, NULL, NULL), 0);
        for (size_t i = 0; i < got; i++, at++) {
            cr_assert_eq(into[i], byte_at(at), "byte %zu", at);
        }
    } while (got > 0);
    cr_assert_eq(at, size);
    cr_assert_eq(own_reader_next(&reader, into, step, &got, NULL, NULL), 0, "again at the end");
    cr_assert_eq(got, 0);
    own_reader_close(&reader);
    free(into);
}

Test(lib_own_image, gives_back_what_was_written_in_any_pieces) {
    const size_t sizes[] = {0, 1, 1000, OWN_CHUNK_MAX, OWN_CHUNK_MAX + 1, 3 * OWN_CHUNK_MAX};
    const size_t steps[] = {777, OWN_CHUNK_MAX, 2 * OWN_CHUNK_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
            save(sizes[i], steps[k]);
            expect(sizes[i], steps[(k + 1) % 3]);
        }
    }
    struct meta_image meta;
    cr_assert_eq(own_image_load(disk, PATH, NULL, 1, &meta, NULL), 0);
    cr_expect(meta.index == 7 && meta.cluster_id == 5 && meta.ledger.included == 8);
    meta_image_fini(&meta);
}

/* Every bit counts: of the program's bytes, of the meta-image, of what stands between. */
Test(lib_own_image, believes_no_file_with_a_changed_bit) {
    save(300, 300);
    struct slice file;
    cr_assert(sim_disk_peek(sim, PATH, &file));
    for (uint64_t at = 0; at < file.size; at++) {
        struct meta_image meta;
        struct reason why = {{0}};
        cr_assert(sim_disk_flip_bit(sim, PATH, at, (unsigned)(at % 8), SIM_ROT_BOTH));
        cr_expect_eq(own_image_load(disk, PATH, NULL, 1, &meta, &why), LKV_EDAMAGED, "byte %llu",
                     (unsigned long long)at);
        cr_expect(strstr(why.text, PATH) != NULL, "%s", why.text);
        cr_assert(sim_disk_flip_bit(sim, PATH, at, (unsigned)(at % 8), SIM_ROT_BOTH));
    }
    expect(300, 300);
}

/* What is still being received goes on behind its last whole chunk. */
Test(lib_own_image, knows_how_much_of_a_part_is_whole) {
    enum { SIZE = 2 * OWN_CHUNK_MAX + 500, HEADER = 16, CHUNK_HEADER = 8 };
    save(SIZE, SIZE);
    struct slice file;
    uint64_t size = 1;
    cr_assert(sim_disk_peek(sim, PATH, &file));
    const uint64_t one = HEADER + CHUNK_HEADER + OWN_CHUNK_MAX;
    const uint64_t two = one + CHUNK_HEADER + OWN_CHUNK_MAX, all = two + CHUNK_HEADER + 500;
    const uint64_t cuts[][2] = {{file.size, all},  {file.size - 1, all}, {all, all},
                                {all - 1, two},    {two, two},           {two - 1, one},
                                {one - 1, HEADER}, {HEADER, HEADER},     {HEADER - 1, 0}};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        cr_assert(sim_disk_cut_file(sim, PATH, cuts[i][0]));
        cr_expect_eq(own_image_prefix(disk, PATH, &size, NULL), 0);
        cr_expect_eq(size, cuts[i][1], "%zu: %llu", i, (unsigned long long)size);
        struct meta_image meta;
        cr_expect_eq(own_image_load(disk, PATH, NULL, 1, &meta, NULL) == 0, i == 0);
        if (i == 0) {
            meta_image_fini(&meta);
        }
    }
    cr_expect_eq(own_image_prefix(disk, "dir/none", &size, NULL), LKV_ENOENT);
}

/* X-F1: whichever call fails, there is no file under its name, or the whole one. */
Test(lib_own_image, is_whole_or_not_there) {
    save(1000, 100);
    for (uint64_t k = 0; k < 12; k++) {
        (void)!disk_remove(disk, PATH);
        sim_disk_fail(sim, SIM_OPEN | SIM_WRITE | SIM_SYNC | SIM_RENAME | SIM_SYNC_DIR, k,
                      LKV_ENOSPACE, false);
        struct own_writer writer;
        struct buffer meta;
        meta_of(&meta);
        int rc = own_writer_open(&writer, disk, PART, NULL);
        if (rc == 0) {
            rc = own_writer_put(&writer, slice_text("state"), NULL);
            rc = rc == 0 ? own_writer_flush(&writer, NULL) : rc;
            own_writer_close(&writer);
        }
        rc = rc == 0 ? own_image_finish(&writer, disk, "dir", PART, PATH, buffer_slice(&meta), NULL)
                     : rc;
        buffer_fini(&meta);
        sim_disk_heal(sim);
        struct meta_image found;
        int there = own_image_load(disk, PATH, NULL, 1, &found, NULL);
        cr_expect(there == 0 || there == LKV_ENOENT, "%llu", (unsigned long long)k);
        cr_expect(rc != 0 || there == 0);
        cr_expect(k > 5 || rc == LKV_ENOSPACE, "%llu", (unsigned long long)k);
        if (there == 0) {
            meta_image_fini(&found);
        }
    }
}
