// Planted fault: a leak in a Criterion test, which Criterion counts as passed.

#include <criterion/criterion.h>
#include <stdlib.h>

Test(planted, leaks_and_is_counted_as_passed) {
    void *volatile lost = malloc(64);
    lost = NULL;
    cr_assert(1);
}
