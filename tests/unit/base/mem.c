#include "base/mem.h"

#include <criterion/criterion.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#endif
#endif

Test(base_mem, zero_size_gives_a_pointer) {
    void *pointers[] = {mem_alloc(0), mem_calloc(0, 8), mem_calloc(8, 0), mem_realloc(NULL, 0)};
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        cr_assert_not_null(pointers[i]);
        mem_free(pointers[i]);
    }
    mem_free(NULL);
}

Test(base_mem, calloc_is_zero) {
    uint64_t *numbers = mem_calloc(100, sizeof(*numbers));
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(numbers[i], 0);
    }
    mem_free(numbers);
}

#ifndef HAS_ADDRESS_SANITIZER /* which ends the program here instead */
Test(base_mem, calloc_refuses_a_product_that_overflows) {
    volatile size_t huge = SIZE_MAX / 2; /* or the compiler warns */
    cr_assert_null(mem_calloc(huge, 4));
}
#endif

Test(base_mem, strdup_copies) {
    char text[] = "abc";
    char *copy = mem_strdup(text);
    text[0] = 'x';
    cr_assert_str_eq(copy, "abc");
    mem_free(copy);
}

Test(base_mem, array_grows_by_doubling_and_keeps_its_content) {
    size_t capacity = 0;
    int *items = mem_array_grow(NULL, &capacity, 1, sizeof(*items));
    cr_assert_not_null(items);
    cr_assert_eq(capacity, 8);
    items[0] = 42;
    cr_assert_eq(mem_array_grow(items, &capacity, 8, sizeof(*items)), items);
    items = mem_array_grow(items, &capacity, 9, sizeof(*items));
    cr_assert_eq(capacity, 16);
    items = mem_array_grow(items, &capacity, 1000, sizeof(*items));
    cr_assert_eq(capacity, 1024);
    cr_assert_eq(items[0], 42);
    mem_free(items);
}

Test(base_mem, array_that_cannot_grow_is_unchanged) {
    size_t capacity = 0;
    int *items = mem_array_grow(NULL, &capacity, 1, sizeof(*items));
    items[0] = 42;
    cr_assert_null(mem_array_grow(items, &capacity, SIZE_MAX, sizeof(*items)));
    cr_assert_null(mem_array_grow(items, &capacity, SIZE_MAX / 4, sizeof(*items)));
    mem_fail_after(0);
    cr_assert_null(mem_array_grow(items, &capacity, 9, sizeof(*items)));
    mem_fail_never();
    cr_assert_eq(capacity, 8);
    cr_assert_eq(items[0], 42);
    mem_free(items);
}

Test(base_mem, nth_allocation_fails_and_so_do_all_after_it) {
    mem_fail_after(2);
    void *first = mem_alloc(1);
    void *second = mem_calloc(1, 1);
    void *third = mem_alloc(1);
    void *grown = mem_realloc(first, 100);
    char *copy = mem_strdup("abc");
    uint64_t calls = mem_fail_count();
    mem_fail_never();
    cr_assert_not_null(first);
    cr_assert_not_null(second);
    cr_assert_null(third);
    cr_assert_null(grown, "the old block is still there");
    cr_assert_null(copy);
    cr_assert_eq(calls, 5);

    void *later = mem_alloc(1);
    cr_assert_not_null(later);
    cr_assert_eq(mem_fail_count(), 1);
    mem_free(later);
    mem_free(first);
    mem_free(second);
}
