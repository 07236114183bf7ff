/* The smallest program: a store in ./hello-data (or the directory named on the command line) that
 * survives the program, and remembers how often it was run.
 *
 *     cc hello.c $(pkg-config --cflags --libs ledgerkv) -o hello && ./hello && ./hello */
#include <ledgerkv.h>
#include <stdio.h>

int main(int argc, char **argv) {
    struct lkv_options *options = lkv_options_new();
    struct lkv *db = NULL;
    uint64_t rev = 0;

    int rc = lkv_options_set(options, "dir", argc > 1 ? argv[1] : "./hello-data");
    if (rc == 0) {
        rc = lkv_open(&db, NULL, options, NULL);
    }
    lkv_options_free(options);
    if (rc == 0) {
        rc = lkv_put(db, LKV_STR("greeting"), LKV_STR("hello"), LKV_DEFAULT, &rev);
    }
    if (rc == 0) {
        printf("hello, for the %lu. time\n", (unsigned long)rev - 1); /* an empty store is at 1 */
    } else {
        fprintf(stderr, "%s: %s\n", lkv_error_name(rc), lkv_error_text(rc));
    }
    lkv_close(db, 0);
    return rc == 0 ? 0 : 1;
}
