#include "base/cursor.h"

#include <criterion/criterion.h>

Test(base_cursor, fields_are_little_endian) {
    uint8_t bytes[15];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u8(&writer, 0x01);
    write_u16(&writer, 0x0302);
    write_u32(&writer, 0x07060504);
    write_u64(&writer, 0x0f0e0d0c0b0a0908);
    cr_assert_not(writer.failed);
    cr_assert_eq(writer.left, 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        cr_assert_eq(bytes[i], i + 1);
    }
    struct reader reader = reader_of(slice_of(bytes, sizeof(bytes)));
    cr_assert_eq(read_u8(&reader), 0x01);
    cr_assert_eq(read_u16(&reader), 0x0302);
    cr_assert_eq(read_u32(&reader), 0x07060504);
    cr_assert_eq(read_u64(&reader), 0x0f0e0d0c0b0a0908);
    cr_assert_not(reader.failed);
    cr_assert_eq(reader.left, 0);
}

Test(base_cursor, extreme_values_come_back) {
    uint8_t bytes[15];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u8(&writer, UINT8_MAX);
    write_u16(&writer, UINT16_MAX);
    write_u32(&writer, UINT32_MAX);
    write_u64(&writer, UINT64_MAX);
    struct reader reader = reader_of(slice_of(bytes, sizeof(bytes)));
    cr_assert_eq(read_u8(&reader), UINT8_MAX);
    cr_assert_eq(read_u16(&reader), UINT16_MAX);
    cr_assert_eq(read_u32(&reader), UINT32_MAX);
    cr_assert_eq(read_u64(&reader), UINT64_MAX);
}

Test(base_cursor, bytes_are_borrowed_from_the_source) {
    struct slice source = slice_text("abcdef");
    struct reader reader = reader_of(source);
    struct slice first = read_bytes(&reader, 4);
    cr_assert_eq(first.data, source.data);
    cr_assert_eq(first.size, 4);
    cr_assert_eq(read_bytes(&reader, 0).size, 0);
    cr_assert(slice_equal(read_bytes(&reader, 2), slice_text("ef")));
    cr_assert_not(reader.failed);
}

/* One byte short of each width: nothing is read, and the failure sticks. */
Test(base_cursor, reading_past_the_end_fails_and_gives_zero) {
    static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct reader reader = reader_of(slice_of(ones, 7));
    cr_assert_eq(read_u64(&reader), 0);
    cr_assert(reader.failed);
    cr_assert_eq(read_u8(&reader), 0, "even where there would be bytes");
    reader = reader_of(slice_of(ones, 3));
    cr_assert_eq(read_u32(&reader), 0);
    cr_assert(reader.failed);
    reader = reader_of(slice_of(ones, 1));
    cr_assert_eq(read_u16(&reader), 0);
    cr_assert(reader.failed);
    reader = reader_of((struct slice){0});
    cr_assert_eq(read_u8(&reader), 0);
    cr_assert(reader.failed);
}

Test(base_cursor, sizes_near_overflow_fail) {
    struct reader reader = reader_of(slice_text("abc"));
    cr_assert_null(read_bytes(&reader, SIZE_MAX).data);
    cr_assert(reader.failed);
}

Test(base_cursor, nothing_of_an_empty_source_is_no_failure) {
    struct reader reader = reader_of((struct slice){0});
    cr_assert_eq(read_bytes(&reader, 0).size, 0);
    cr_assert_not(reader.failed);
}

Test(base_cursor, writing_past_the_end_fails_and_writes_nothing) {
    uint8_t bytes[4] = {9, 9, 9, 9};
    struct writer writer = writer_of(bytes, 3);
    write_u32(&writer, 0);
    cr_assert(writer.failed);
    write_u8(&writer, 0); /* would fit */
    for (size_t i = 0; i < sizeof(bytes); i++) {
        cr_assert_eq(bytes[i], 9);
    }
}

Test(base_cursor, writes_exactly_to_the_end) {
    uint8_t bytes[5] = {9, 9, 9, 9, 9};
    struct writer writer = writer_of(bytes, 4);
    write_bytes(&writer, slice_text("abc"));
    write_bytes(&writer, (struct slice){0});
    write_u8(&writer, 'd');
    cr_assert_not(writer.failed);
    cr_assert_eq(memcmp(bytes, "abcd\x09", 5), 0);
}
