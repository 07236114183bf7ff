/* Images of log mode whose checksums are right and whose contents are not, and images on a disk. */
#include "lib/meta_image.h"

#include "base/crc.h"
#include "base/mem.h"
#include "lib/small_file.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

enum { HEADER_CRC_AT = 56, HEADER_SIZE = 60, FIRST_CRC_AT = 12, SECTION_HEAD = 8 };

static struct meta_image image_of_three(void) {
    struct meta_image image = {
        .feature_level = 1,
        .cluster_id = 7,
        .group_id = 9,
        .index = 4711,
        .term = 12,
        .visible = 4709,
        .members = {{.name = "n1", .address = "h:1", .id = 5},
                    {.name = "n2", .address = "h:2", .id = 6},
                    {.name = "n3", .address = "", .id = 7}},
        .member_count = 3,
        .ledger = {.chain = 1, .included = 4800, .included_term = 13, .included_visible = 4799}};
    const struct session_call call = {.id = 10, .seq = 3, .acked_below = 2};
    const struct session_reply reply = {
        .seq = 3, .index = 100, .term = 3, .revision = 7, .count = 4};
    cr_assert_eq(sessions_open(&image.ledger.sessions, 10, 1000, 100), 0);
    cr_assert_eq(sessions_reserve(&image.ledger.sessions, &call), 0);
    sessions_record(&image.ledger.sessions, &call, &reply);
    return image;
}

static void encode(struct buffer *out) {
    struct meta_image image = image_of_three();
    buffer_init(out);
    meta_image_encode(&image, out);
    cr_assert_not(out->failed);
    meta_image_fini(&image);
}

/* Every checksum anew, as if the writer had meant it. False: the sections do not fill the file any more. */
static bool seal(struct buffer *bytes) {
    uint32_t crc = crc32c(0, slice_of(bytes->data, FIRST_CRC_AT)), header_crc, length;
    memcpy(bytes->data + FIRST_CRC_AT, &crc, sizeof(crc));
    header_crc = crc32c(0, slice_of(bytes->data, HEADER_CRC_AT));
    memcpy(bytes->data + HEADER_CRC_AT, &header_crc, sizeof(header_crc));
    size_t at = HEADER_SIZE;
    while (at + SECTION_HEAD + sizeof(crc) <= bytes->size) {
        memcpy(&length, bytes->data + at + 4, sizeof(length));
        if (length > bytes->size - at - SECTION_HEAD - sizeof(crc)) {
            return false;
        }
        crc = crc32c(header_crc, slice_of(bytes->data + at, SECTION_HEAD + length));
        memcpy(bytes->data + at + SECTION_HEAD + length, &crc, sizeof(crc));
        at += SECTION_HEAD + length + sizeof(crc);
    }
    return at == bytes->size;
}

Test(lib_meta_image_bytes, any_byte_may_be_wrong_under_right_checksums) {
    struct buffer bytes, changed;
    size_t good = 0, refused = 0, newer = 0;
    encode(&bytes);
    encode(&changed);
    cr_assert(seal(&changed));
    cr_assert_arr_eq(changed.data, bytes.data, bytes.size, "sealed as it was written");
    for (size_t i = 0; i < bytes.size; i++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            struct meta_image back;
            struct reason why = {{0}};
            memcpy(changed.data, bytes.data, bytes.size);
            changed.data[i] = (uint8_t)byte;
            (void)seal(&changed);
            int rc = meta_image_decode(buffer_slice(&changed), 1, &back, &why);
            cr_assert(rc == 0 || rc == LKV_EDAMAGED || rc == LKV_EVERSION, "%d", rc);
            cr_assert(rc == 0 || why.text[0] != '\0');
            good += rc == 0;
            refused += rc == LKV_EDAMAGED;
            newer += rc == LKV_EVERSION;
            if (rc == 0) {
                meta_image_fini(&back);
            }
        }
    }
    cr_assert_gt(good, bytes.size);
    cr_assert_gt(refused, bytes.size);
    cr_assert_gt(newer, 255);
    buffer_fini(&bytes);
    buffer_fini(&changed);
}

/* Both sections again: the sessions of the first would be lost. */
Test(lib_meta_image_bytes, one_with_sessions_twice_is_refused) {
    struct buffer bytes;
    struct meta_image back;
    struct reason why = {{0}};
    encode(&bytes);
    size_t size = bytes.size;
    struct blob *sections = blob_copy(slice_of(bytes.data + HEADER_SIZE, size - HEADER_SIZE));
    buffer_append(&bytes, sections->data, sections->size);
    bytes.data[HEADER_CRC_AT - 4] = 4;
    cr_assert(seal(&bytes));
    cr_assert_eq(meta_image_decode(buffer_slice(&bytes), 1, &back, &why), LKV_EDAMAGED);
    cr_assert_str_eq(why.text, "it has sessions twice");
    cr_assert_eq(back.ledger.included, 0, "nothing is kept");
    blob_unref(sections);
    buffer_fini(&bytes);
}

Test(lib_meta_image_bytes, one_for_which_there_is_no_memory_is_refused) {
    struct buffer bytes;
    encode(&bytes);
    bool failed = true;
    for (uint64_t n = 0; failed; n++) {
        struct meta_image back;
        struct reason why = {{0}};
        mem_fail_after(n);
        int rc = meta_image_decode(buffer_slice(&bytes), 1, &back, &why);
        failed = mem_fail_count() > n;
        mem_fail_never();
        cr_assert_eq(rc, failed ? LKV_ENOMEM : 0, "%d after %d", rc, (int)n);
        if (rc == 0) {
            meta_image_fini(&back);
        }
    }
    buffer_fini(&bytes);
}

Test(lib_meta_image_bytes, one_that_finds_no_memory_is_not_written) {
    struct meta_image image = image_of_three();
    bool failed = true;
    for (uint64_t n = 0; failed; n++) {
        struct buffer bytes;
        buffer_init(&bytes);
        mem_fail_after(n);
        meta_image_encode(&image, &bytes);
        failed = mem_fail_count() > n;
        mem_fail_never();
        cr_assert_eq(bytes.failed, failed, "after %d", (int)n);
        buffer_fini(&bytes);
    }
    meta_image_fini(&image);
}

Test(lib_meta_image_bytes, is_read_from_a_disk_or_told_what_is_wrong) {
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    struct meta_image back;
    struct reason why = {{0}};
    struct buffer bytes;
    encode(&bytes);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    cr_assert_eq(meta_image_load(disk, "d/none", 1, &back, &why), LKV_ENOENT);
    cr_assert_eq(small_file_save(disk, "d", "one", buffer_slice(&bytes), &why), 0);
    cr_assert_eq(meta_image_load(disk, "d/one", 1, &back, &why), 0, "%s", why.text);
    cr_assert_eq(back.member_count, 3);
    meta_image_fini(&back);
    bytes.data[HEADER_SIZE + SECTION_HEAD] ^= 1;
    cr_assert_eq(small_file_save(disk, "d", "one", buffer_slice(&bytes), &why), 0);
    cr_assert_eq(meta_image_load(disk, "d/one", 1, &back, &why), LKV_EDAMAGED);
    cr_assert_not_null(strstr(why.text, "d/one: "), "%s", why.text);
    buffer_fini(&bytes);
    sim_disk_free(sim);
}
