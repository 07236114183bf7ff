#include "base/blob.h"
#include "base/mem.h"

#include <criterion/criterion.h>

Test(base_blob, new_one_has_its_size_and_one_reference) {
    struct blob *blob = blob_new(3);
    cr_assert_eq(blob->size, 3);
    cr_assert_eq(atomic_load(&blob->refs), 1);
    cr_assert_not(blob->crc_known);
    memcpy(blob->data, "abc", 3);
    cr_assert(slice_equal(blob_slice(blob), slice_text("abc")));
    blob_unref(blob);
}

Test(base_blob, copy_does_not_depend_on_its_source) {
    char text[] = "abc";
    struct blob *blob = blob_copy(slice_text(text));
    text[0] = 'x';
    cr_assert(slice_equal(blob_slice(blob), slice_text("abc")));
    blob_unref(blob);
}

Test(base_blob, empty_one_is_a_blob_too) {
    struct blob *blob = blob_copy((struct slice){0});
    cr_assert_not_null(blob);
    cr_assert_eq(blob_slice(blob).size, 0);
    blob_unref(blob);
}

Test(base_blob, lives_until_the_last_reference_goes) {
    struct blob *blob = blob_copy(slice_text("abc"));
    cr_assert_eq(blob_ref(blob), blob);
    blob_unref(blob);
    cr_assert(slice_equal(blob_slice(blob), slice_text("abc")));
    blob_unref(blob);
}

Test(base_blob, null_is_an_empty_payload) {
    cr_assert_null(blob_ref(NULL));
    blob_unref(NULL);
    cr_assert_eq(blob_slice(NULL).size, 0);
}

Test(base_blob, size_that_overflows_is_refused) {
    cr_assert_null(blob_new(SIZE_MAX));
    cr_assert_null(blob_new(SIZE_MAX - sizeof(struct blob) + 1));
}

Test(base_blob, out_of_memory_is_null) {
    mem_fail_after(0);
    struct blob *blob = blob_new(1);
    struct blob *copy = blob_copy(slice_text("abc"));
    mem_fail_never();
    cr_assert_null(blob);
    cr_assert_null(copy);
}
