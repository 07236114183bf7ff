/* How far the beginning of a log may go (L16), and the file that remembers. */
#include "lib/retention.h"

#include "lib/small_file.h"
#include "lib/uv/disk_posix.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Ten entries and 100 bytes each: 1-10, 11-20, ... */
enum { SEGMENTS = 8 };
static struct log_segment segments[SEGMENTS];
static struct retention retention;
static struct retention_rules rules;

static void setup(void) {
    retention = (struct retention){0};
    rules = (struct retention_rules){.hold_bytes_max = UINT64_MAX};
    for (uint64_t i = 0; i < SEGMENTS; i++) {
        segments[i] = (struct log_segment){.first = i * 10 + 1, .last = i * 10 + 10, .bytes = 100};
    }
}

TestSuite(lib_retention, .init = setup);

static uint64_t drop_to(uint64_t wall_ms) {
    struct retention_verdict verdict;
    retention_decide(&retention, &rules, segments, SEGMENTS, 80, wall_ms, &verdict);
    return verdict.drop_to;
}

Test(lib_retention, without_rules_nothing_goes) {
    cr_assert_eq(drop_to(1000000), 0);
}

Test(lib_retention, bytes_let_the_oldest_go_down_to_the_limit) {
    rules.retention_bytes = 300;
    cr_assert_eq(drop_to(0), 50, "three of eight segments stay");
    rules.retention_bytes = 301;
    cr_assert_eq(drop_to(0), 40, "never less than the limit");
    rules.retention_bytes = 1;
    cr_assert_eq(drop_to(0), 70, "the newest always stays");
    rules.retention_bytes = 10000;
    cr_assert_eq(drop_to(0), 0);
}

Test(lib_retention, age_lets_whole_segments_go_that_are_old_throughout) {
    rules.retention_ms = 1000;
    cr_assert(retention_sample(&retention, 5000, 25, 10));
    cr_assert(retention_sample(&retention, 6000, 60, 10));
    cr_assert_not(retention_sample(&retention, 6005, 70, 10), "too early");
    cr_assert_not(retention_sample(&retention, 7000, 60, 10), "nothing new");
    cr_assert_eq(drop_to(5999), 0);
    cr_assert_eq(drop_to(6000), 20, "21 to 30 are not all known to be old");
    cr_assert_eq(drop_to(7000), 60);
    cr_assert_eq(drop_to(100), 0, "a clock that jumps back keeps more");
}

Test(lib_retention, samples_are_bounded_and_the_oldest_make_room) {
    rules.retention_ms = 1;
    for (uint64_t i = 1; i <= 3 * RETENTION_SAMPLES_MAX; i++) {
        cr_assert(retention_sample(&retention, i * 100, i, 100));
    }
    cr_assert_eq(retention.sample_count, RETENTION_SAMPLES_MAX);
    cr_assert_eq(retention.samples[0].index, 2 * RETENTION_SAMPLES_MAX + 1);
}

/* L16: what followers may still need. */
Test(lib_retention, the_entries_kept_for_followers_stay) {
    rules.retention_bytes = 1;
    rules.keep_entries = 35;
    cr_assert_eq(drop_to(0), 40);
    rules.keep_entries = 80;
    cr_assert_eq(drop_to(0), 0);
    rules.keep_entries = 1000;
    cr_assert_eq(drop_to(0), 0);
}

Test(lib_retention, nothing_above_what_is_applied_goes) {
    rules.retention_bytes = 1;
    struct retention_verdict verdict;
    retention_decide(&retention, &rules, segments, SEGMENTS, 39, 0, &verdict);
    cr_assert_eq(verdict.drop_to, 30);
}

Test(lib_retention, the_lowest_hold_counts) {
    rules.retention_bytes = 1;
    cr_assert_eq(retention_hold(&retention, "a", 45), 0);
    cr_assert_eq(retention_hold(&retention, "b", 30), 0);
    cr_assert_eq(drop_to(0), 20, "30 itself is held");
    cr_assert_eq(retention_hold(&retention, "b", 31), 0);
    cr_assert_eq(drop_to(0), 30);
    cr_assert_eq(retention_hold(&retention, "b", 0), 0);
    cr_assert_eq(drop_to(0), 40);
    cr_assert_eq(retention_hold(&retention, "nobody", 0), 0);
    cr_assert_eq(retention.hold_count, 1);
}

Test(lib_retention, a_hold_keeps_its_cap_and_no_more) {
    rules.retention_bytes = 100;
    rules.hold_bytes_max = 300;
    cr_assert_eq(retention_hold(&retention, "slow", 5), 0);
    struct retention_verdict verdict;
    retention_decide(&retention, &rules, segments, SEGMENTS, 80, 0, &verdict);
    cr_assert_eq(verdict.drop_to, 40, "seven may go, three of them are held");
    cr_assert_str_eq(verdict.lost->name, "slow");
    rules.hold_bytes_max = 0;
    cr_assert_eq(drop_to(0), 70);
}

Test(lib_retention, holds_are_limited_in_number) {
    char name[NAME_SIZE];
    for (int i = 0; i < RETENTION_HOLDS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "h%d", i);
        cr_assert_eq(retention_hold(&retention, name, 7), 0);
    }
    cr_assert_eq(retention_hold(&retention, "more", 7), LKV_EBUSY);
    cr_assert_eq(retention_hold(&retention, "h3", 9), 0);
}

/* ------------------------------------------------------------------ the file */

static struct disk *disk;
static char dir[64];

static void open_disk(void) {
    setup();
    (void)snprintf(dir, sizeof(dir), "/tmp/lkv-retention-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(disk_posix_open(&disk), 0);
}

static void close_disk(void) {
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/retention", dir);
    (void)remove(path);
    (void)rmdir(dir);
    disk_posix_close(disk);
}

TestSuite(lib_retention_file, .init = open_disk, .fini = close_disk);

static int load(struct retention *out, struct reason *why) {
    *why = (struct reason){{0}};
    return retention_load(disk, dir, out, why);
}

static const char golden[] = "ledgerkv-retention 1\n"
                             "hold reader-1 4711\n"
                             "sample 1700000000000 42\n"
                             "crc32c d6e0ee85\n";

Test(lib_retention_file, remembers_holds_and_samples) {
    struct retention loaded;
    struct reason why;
    cr_assert_eq(load(&loaded, &why), 0, "none yet");
    cr_assert_eq(loaded.hold_count, 0);
    cr_assert_eq(retention_hold(&retention, "reader-1", 4711), 0);
    cr_assert(retention_sample(&retention, UINT64_C(1700000000000), 42, 1));
    cr_assert_eq(retention_save(disk, dir, &retention, &why), 0);
    cr_assert_eq(load(&loaded, &why), 0, "%s", why.text);
    cr_assert_eq(loaded.hold_count, 1);
    cr_assert_str_eq(loaded.holds[0].name, "reader-1");
    cr_assert_eq(loaded.holds[0].keep_from, 4711);
    cr_assert_eq(loaded.samples[0].index, 42);
    char path[128], *text;
    size_t size;
    (void)snprintf(path, sizeof(path), "%s/retention", dir);
    cr_assert_eq(small_file_load(disk, path, 4096, &text, &size, &why), 0);
    cr_assert_str_eq(text, golden);
    free(text);
}

Test(lib_retention_file, refuses_damage_and_other_versions) {
    struct retention loaded;
    struct reason why;
    char bytes[sizeof(golden)];
    for (size_t i = 0; i < sizeof(golden) - 1; i++) {
        memcpy(bytes, golden, sizeof(golden));
        bytes[i] ^= 1;
        cr_assert_eq(
            small_file_save(disk, dir, "retention", slice_of(bytes, sizeof(golden) - 1), &why), 0);
        int rc = load(&loaded, &why);
        cr_assert(rc == LKV_EDAMAGED || rc == LKV_EVERSION, "byte %zu: %d", i, rc);
        cr_assert_neq(why.text[0], '\0');
    }
    for (size_t size = 0; size < sizeof(golden) - 1; size++) {
        cr_assert_eq(small_file_save(disk, dir, "retention", slice_of(golden, size), &why), 0);
        cr_assert_eq(load(&loaded, &why), LKV_EDAMAGED, "%zu bytes", size);
    }
}
