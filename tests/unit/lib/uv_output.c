#include "base/mem.h"
#include "base/prng.h"
#include "lib/uv/output.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct output output;

static void open_output(void) {
    output_init(&output);
}

static void close_output(void) {
    output_fini(&output);
}

TestSuite(uv_output, .init = open_output, .fini = close_output);

static void write_text(const char *text) {
    cr_assert_eq(output_write(&output, slice_text(text)), 0);
}

/* Joins the first `max` pieces. */
static size_t front(char *into, unsigned max, unsigned *pieces) {
    uv_buf_t buffers[64];
    *pieces = output_peek(&output, buffers, max);
    size_t size = 0;
    for (unsigned i = 0; i < *pieces; i++) {
        memcpy(into + size, buffers[i].base, buffers[i].len);
        size += buffers[i].len;
    }
    return size;
}

static void assert_front(const char *expected, unsigned expected_pieces) {
    static char found[1 << 20];
    unsigned pieces;
    size_t size = front(found, 64, &pieces);
    cr_assert_eq(size, strlen(expected));
    cr_assert(memcmp(found, expected, size) == 0);
    cr_assert_eq(pieces, expected_pieces);
    cr_assert_eq(output.bytes, size);
}

Test(uv_output, gathers_small_writes_in_one_piece) {
    assert_front("", 0);
    write_text("one");
    write_text("");
    write_text("two");
    struct blob *blob = blob_copy(slice_text("three"));
    cr_assert_eq(output_write_blob(&output, blob), 0);
    cr_assert_eq(atomic_load(&blob->refs), 1);
    blob_unref(blob);
    assert_front("onetwothree", 1);
    output_consume(&output, 2);
    assert_front("etwothree", 1);
    write_text("four");
    output_consume(&output, 9);
    assert_front("four", 1);
    output_consume(&output, 4);
    assert_front("", 0);
    output_consume(&output, 0);
}

Test(uv_output, references_big_blobs_until_they_are_consumed) {
    struct blob *blob = blob_new(OUTPUT_COPY_MAX + 1);
    memset(blob->data, 'b', blob->size);
    write_text("head");
    cr_assert_eq(output_write_blob(&output, blob), 0);
    write_text("tail");
    cr_assert_eq(atomic_load(&blob->refs), 2);
    uv_buf_t buffers[3];
    cr_assert_eq(output_peek(&output, buffers, 3), 3);
    cr_assert_eq((const uint8_t *)buffers[1].base, blob->data);
    cr_assert_eq(output_peek(&output, buffers, 2), 2);

    output_consume(&output, 4 + blob->size - 1);
    cr_assert_eq(atomic_load(&blob->refs), 2);
    assert_front("btail", 2);
    output_consume(&output, 1);
    cr_assert_eq(atomic_load(&blob->refs), 1);
    assert_front("tail", 1);
    blob_unref(blob);
}

Test(uv_output, clear_lets_go_of_everything) {
    struct blob *blob = blob_new(5000);
    memset(blob->data, 0, blob->size);
    cr_assert_eq(output_write_blob(&output, blob), 0);
    write_text("x");
    output_clear(&output);
    cr_assert_eq(atomic_load(&blob->refs), 1);
    assert_front("", 0);
    write_text("again");
    assert_front("again", 1);
    blob_unref(blob);
}

/* What is given to the system stays where it is while more is written behind it. */
Test(uv_output, bytes_that_were_peeked_do_not_move) {
    write_text("first");
    uv_buf_t peeked;
    cr_assert_eq(output_peek(&output, &peeked, 1), 1);
    char *where = peeked.base;
    for (int i = 0; i < 10000; i++) {
        write_text("0123456789");
    }
    cr_assert_eq(output_peek(&output, &peeked, 1), 1);
    cr_assert_eq(peeked.base, where);
    cr_assert(memcmp(where, "first", 5) == 0);
}

Test(uv_output, chunks_are_filled_to_their_ends) {
    static char block[10000];
    memset(block, 'x', sizeof(block));
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(output_write(&output, slice_of(block, sizeof(block))), 0);
    }
    size_t chunks = output.count - output.head;
    cr_assert_leq(chunks, 100 * sizeof(block) / OUTPUT_CHUNK_SIZE + 1);
}

/* Random writes and consumption against a plain array. */
Test(uv_output, is_a_queue_of_bytes) {
    enum { SIZE = 4 << 20 };
    uint8_t *model = malloc(SIZE);
    size_t written = 0, taken = 0;
    struct prng prng = prng_of(7);
    while (written < SIZE - 40000) {
        size_t size = prng_below(&prng, prng_below(&prng, 8) == 0 ? 40000 : 1500);
        for (size_t i = 0; i < size; i++) {
            model[written + i] = (uint8_t)prng_next(&prng);
        }
        if (prng_below(&prng, 2) == 0) {
            cr_assert_eq(output_write(&output, slice_of(model + written, size)), 0);
        } else {
            struct blob *blob = blob_copy(slice_of(model + written, size));
            cr_assert_eq(output_write_blob(&output, blob), 0);
            blob_unref(blob);
        }
        written += size;
        if (prng_below(&prng, 3) == 0) {
            uv_buf_t buffers[4];
            unsigned pieces = output_peek(&output, buffers, 4);
            size_t at = taken;
            for (unsigned i = 0; i < pieces; i++) {
                cr_assert(memcmp(buffers[i].base, model + at, buffers[i].len) == 0);
                at += buffers[i].len;
            }
            size_t some = prng_below(&prng, at - taken + 1);
            output_consume(&output, some);
            taken += some;
        }
        cr_assert_eq(output.bytes, written - taken);
    }
    free(model);
}

/* S28 */
Test(uv_output, out_of_memory_adds_nothing) {
    struct blob *blob = blob_new(5000);
    memset(blob->data, 0, blob->size);
    write_text("kept");
    static char block[OUTPUT_CHUNK_SIZE];
    memset(block, 'x', sizeof(block));
    unsigned refused = 0;
    for (int i = 0; i < 20; i++) {
        mem_fail_after(0);
        size_t before = output.bytes;
        int rc = i % 2 == 0 ? output_write_blob(&output, blob)
                            : output_write(&output, slice_of(block, sizeof(block)));
        refused += rc == LKV_ENOMEM;
        cr_assert(rc == 0 || output.bytes == before);
        mem_fail_after(1);
        rc = output_write(&output, slice_of(block, sizeof(block)));
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
    }
    cr_assert_gt(refused, 0);
    blob_unref(blob);
}
