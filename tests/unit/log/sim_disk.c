/* The simulated disk does what it says: a harness that forgets to lose data proves nothing. */
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

struct bench {
    struct sim_disk *sim;
    struct disk *disk;
    struct disk_file *file;
};

static void bench_init(struct bench *b, uint64_t seed) {
    b->sim = sim_disk_new(seed);
    b->disk = sim_disk_seam(b->sim);
    cr_assert_eq(disk_make_dir(b->disk, "d"), 0);
    cr_assert_eq(disk_sync_dir(b->disk, ""), 0);
    cr_assert_eq(disk_open(b->disk, "d/a", DISK_WRITE | DISK_CREATE, &b->file), 0);
}

static void bench_fini(struct bench *b) {
    disk_close(b->file);
    sim_disk_free(b->sim);
}

static int put(struct bench *b, uint64_t offset, const char *text) {
    struct slice part = slice_text(text);
    return disk_write(b->file, offset, &part, 1);
}

static bool shows(const struct bench *b, const char *path, uint64_t offset, const char *text) {
    struct slice bytes;
    return sim_disk_peek(b->sim, path, &bytes) && bytes.size >= offset + strlen(text) &&
           memcmp(bytes.data + offset, text, strlen(text)) == 0;
}

static void power_cut(struct bench *b) {
    disk_close(b->file);
    b->file = NULL;
    sim_disk_power_cut(b->sim);
}

static void reopen(struct bench *b) {
    disk_close(b->file);
    cr_assert_eq(disk_open(b->disk, "d/a", DISK_WRITE | DISK_CREATE, &b->file), 0);
}

Test(sim_disk, keeps_what_was_synced_and_nothing_for_sure_of_the_rest) {
    unsigned kept = 0, lost = 0, no_name = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct bench b;
        bench_init(&b, seed);
        if (seed % 2 == 0) {
            cr_assert_eq(disk_sync_dir(b.disk, "d"), 0);
        }
        cr_assert_eq(put(&b, 0, "first"), 0);
        cr_assert_eq(disk_sync(b.file), 0);
        cr_assert_eq(put(&b, 4096, "second"), 0);
        power_cut(&b);
        struct slice bytes;
        bool named = sim_disk_peek(b.sim, "d/a", &bytes);
        cr_assert(named || seed % 2 == 1, "a synced name is kept");
        cr_assert(!named || shows(&b, "d/a", 0, "first"));
        no_name += !named;
        kept += named && shows(&b, "d/a", 4096, "second");
        lost += named && !shows(&b, "d/a", 4096, "second");
        bench_fini(&b);
    }
    cr_assert(kept > 10 && lost > 10 && no_name > 10);
}

Test(sim_disk, tears_a_sector_and_keeps_a_later_without_an_earlier_one) {
    unsigned torn = 0, reordered = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct bench b;
        bench_init(&b, seed);
        cr_assert_eq(disk_sync_dir(b.disk, "d"), 0);
        char text[2048];
        memset(text, 'x', sizeof(text));
        struct slice part = slice_of(text, sizeof(text));
        cr_assert_eq(disk_write(b.file, 0, &part, 1), 0);
        power_cut(&b);
        struct slice bytes;
        cr_assert(sim_disk_peek(b.sim, "d/a", &bytes));
        bool first = bytes.size >= 512 && bytes.data[0] == 'x';
        bool later = bytes.size > 1024 && memchr(bytes.data + 512, 'x', bytes.size - 512) != NULL;
        reordered += !first && later;
        for (size_t sector = 0; (sector + 1) * 512 <= bytes.size; sector++) {
            const uint8_t *at = bytes.data + sector * 512;
            torn += at[0] == 'x' && at[511] != 'x';
        }
        bench_fini(&b);
    }
    cr_assert(torn > 5 && reordered > 20, "%u torn, %u reordered", torn, reordered);
}

Test(sim_disk, shows_everything_after_a_kill) {
    struct bench b;
    bench_init(&b, 1);
    cr_assert_eq(put(&b, 100, "unsynced"), 0);
    disk_close(b.file);
    b.file = NULL;
    sim_disk_kill(b.sim);
    cr_assert(shows(&b, "d/a", 100, "unsynced"));
    bench_fini(&b);
}

/* What Linux does: a failed sync calls the pages clean, a second one succeeds and mends nothing. */
Test(sim_disk, forgets_what_a_failed_sync_did_not_write) {
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct bench b;
        bench_init(&b, seed);
        cr_assert_eq(disk_sync_dir(b.disk, "d"), 0);
        cr_assert_eq(put(&b, 0, "data"), 0);
        sim_disk_fail(b.sim, SIM_SYNC, 0, LKV_EIO, false);
        cr_assert_eq(disk_sync(b.file), LKV_EIO);
        cr_assert_eq(disk_sync(b.file), 0);
        cr_assert(shows(&b, "d/a", 0, "data"), "the cache still shows it");
        power_cut(&b);
        lost += !shows(&b, "d/a", 0, "data");
        bench_fini(&b);
    }
    cr_assert_gt(lost, 20);
}

Test(sim_disk, fails_the_call_it_was_told_to) {
    struct bench b;
    bench_init(&b, 2);
    sim_disk_fail(b.sim, SIM_WRITE, 2, LKV_ENOSPACE, false);
    cr_assert_eq(put(&b, 0, "1"), 0);
    cr_assert_eq(disk_sync(b.file), 0);
    cr_assert_eq(put(&b, 0, "2"), 0);
    cr_assert_eq(put(&b, 0, "3"), LKV_ENOSPACE);
    cr_assert_eq(put(&b, 0, "4"), 0);
    sim_disk_fail(b.sim, SIM_WRITE | SIM_SYNC, 0, LKV_EIO, true);
    cr_assert_eq(put(&b, 0, "5"), LKV_EIO);
    cr_assert_eq(disk_sync(b.file), LKV_EIO);
    sim_disk_heal(b.sim);
    cr_assert_eq(disk_sync(b.file), 0);
    bench_fini(&b);
}

Test(sim_disk, is_dead_from_the_crash_until_the_restart) {
    struct bench b;
    bench_init(&b, 3);
    sim_disk_crash_at(b.sim, sim_disk_op_count(b.sim) + 1);
    cr_assert_eq(put(&b, 0, "a"), 0);
    cr_assert_eq(put(&b, 0, "b"), LKV_EIO);
    cr_assert(sim_disk_crashed(b.sim));
    cr_assert_eq(disk_sync(b.file), LKV_EIO);
    power_cut(&b);
    cr_assert(!sim_disk_crashed(b.sim));
    reopen(&b);
    cr_assert_eq(put(&b, 0, "c"), 0);
    bench_fini(&b);
}

Test(sim_disk, renames_at_once_or_not_at_all) {
    unsigned done = 0, undone = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct bench b;
        bench_init(&b, seed);
        cr_assert_eq(disk_sync_dir(b.disk, "d"), 0);
        cr_assert_eq(disk_rename(b.disk, "d/a", "d/b"), 0);
        if (seed % 2 == 0) {
            cr_assert_eq(disk_sync_dir(b.disk, "d"), 0);
        }
        power_cut(&b);
        struct slice bytes;
        bool old_name = sim_disk_peek(b.sim, "d/a", &bytes);
        bool new_name = sim_disk_peek(b.sim, "d/b", &bytes);
        cr_assert_neq(old_name, new_name);
        cr_assert(new_name || seed % 2 == 1);
        done += new_name && seed % 2 == 1;
        undone += old_name;
        bench_fini(&b);
    }
    cr_assert(done > 5 && undone > 5);
}

Test(sim_disk, is_full_at_its_capacity) {
    struct bench b;
    bench_init(&b, 4);
    sim_disk_set_capacity(b.sim, 10);
    cr_assert_eq(put(&b, 0, "12345"), 0);
    uint64_t left;
    cr_assert_eq(disk_free_bytes(b.disk, "d", &left), 0);
    cr_assert_eq(left, 5);
    cr_assert_eq(put(&b, 5, "123456"), LKV_ENOSPACE);
    cr_assert_eq(put(&b, 0, "abcde"), 0, "in place there is room");
    cr_assert_eq(disk_remove(b.disk, "d/a"), 0);
    cr_assert_eq(disk_free_bytes(b.disk, "d", &left), 0);
    cr_assert_eq(left, 10);
    bench_fini(&b);
}

Test(sim_disk, rots_loses_and_misplaces_writes) {
    struct bench b;
    bench_init(&b, 5);
    cr_assert_eq(disk_sync_dir(b.disk, "d"), 0);
    cr_assert_eq(put(&b, 0, "aaaa"), 0);
    cr_assert_eq(disk_sync(b.file), 0);
    cr_assert(sim_disk_flip_bit(b.sim, "d/a", 1, 0, SIM_ROT_MEDIUM));
    cr_assert(shows(&b, "d/a", 0, "aaaa"), "the cache hides it");
    sim_disk_misdirect_next_write(b.sim, 1000);
    cr_assert_eq(put(&b, 0, "elsewhere"), 0);
    cr_assert(shows(&b, "d/a", 1000, "elsewhere"));
    sim_disk_lose_next_write(b.sim);
    cr_assert_eq(put(&b, 3000, "lost"), 0);
    cr_assert_eq(disk_sync(b.file), 0);
    cr_assert(shows(&b, "d/a", 3000, "lost"));
    power_cut(&b);
    cr_assert(shows(&b, "d/a", 0, "a`aa"));
    cr_assert(!shows(&b, "d/a", 3000, "lost"));
    bench_fini(&b);
}

Test(sim_disk, gives_the_same_from_the_same_seed_and_a_true_copy) {
    uint64_t prints[2];
    for (unsigned i = 0; i < 2; i++) {
        struct bench b;
        bench_init(&b, 6);
        for (unsigned k = 0; k < 20; k++) {
            cr_assert_eq(put(&b, k * 700, "something or other"), 0);
        }
        struct sim_disk *copy = sim_disk_clone(b.sim, 99);
        cr_assert_eq(sim_disk_fingerprint(copy), sim_disk_fingerprint(b.sim));
        sim_disk_free(copy);
        power_cut(&b);
        prints[i] = sim_disk_fingerprint(b.sim);
        bench_fini(&b);
    }
    cr_assert_eq(prints[0], prints[1]);
}

Test(sim_disk, locks_until_the_holder_dies) {
    struct bench b;
    bench_init(&b, 7);
    struct disk_lock *lock, *second;
    long owner = 0;
    cr_assert_eq(disk_lock(b.disk, "d/lock", &lock, &owner), 0);
    cr_assert_eq(disk_lock(b.disk, "d/lock", &second, &owner), LKV_ELOCKED);
    cr_assert_neq(owner, 0);
    disk_close(b.file);
    b.file = NULL;
    sim_disk_kill(b.sim);
    cr_assert_eq(disk_lock(b.disk, "d/lock", &second, &owner), 0);
    disk_unlock(second);
    disk_unlock(lock);
    bench_fini(&b);
}

Test(sim_disk, counts_virtual_time) {
    struct bench b;
    bench_init(&b, 8);
    struct sim_disk_latency latency = {.op_ns = 10, .sync_ns = 1000, .byte_ps = 2000};
    sim_disk_set_latency(b.sim, &latency);
    (void)sim_disk_take_ns(b.sim);
    cr_assert_eq(put(&b, 0, "12345"), 0);
    cr_assert_eq(sim_disk_take_ns(b.sim), 20);
    cr_assert_eq(disk_sync(b.file), 0);
    cr_assert_eq(sim_disk_take_ns(b.sim), 1010);
    cr_assert_eq(sim_disk_take_ns(b.sim), 0);
    bench_fini(&b);
}

Test(sim_disk, lists_names_in_byte_order) {
    struct bench b;
    bench_init(&b, 9);
    struct disk_file *file;
    cr_assert_eq(disk_open(b.disk, "d/c", DISK_WRITE | DISK_CREATE, &file), 0);
    disk_close(file);
    cr_assert_eq(disk_open(b.disk, "d/B", DISK_WRITE | DISK_CREATE, &file), 0);
    disk_close(file);
    cr_assert_str_eq(sim_disk_path(b.sim, 0), "d");
    cr_assert_str_eq(sim_disk_path(b.sim, 1), "d/B");
    cr_assert_str_eq(sim_disk_path(b.sim, 2), "d/a");
    cr_assert_eq(disk_open(b.disk, "d/c", DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE, &file),
                 LKV_EEXIST);
    cr_assert_eq(disk_open(b.disk, "d/x", DISK_READ, &file), LKV_ENOENT);
    cr_assert_eq(disk_open(b.disk, "e/x", DISK_WRITE | DISK_CREATE, &file), LKV_ENOENT);
    bench_fini(&b);
}

Test(sim_disk, has_sectors_that_cannot_be_read_until_they_are_written_whole) {
    struct bench b;
    uint8_t sectors[3 * 512] = {1};
    size_t got;
    struct slice whole = slice_of(sectors, 512), all = slice_of(sectors, sizeof(sectors));
    bench_init(&b, 1);
    cr_assert_eq(disk_write(b.file, 0, &all, 1), 0);
    cr_assert(sim_disk_unreadable(b.sim, "d/a", 700, 1));
    cr_assert_not(sim_disk_unreadable(b.sim, "d/a", 1500, 100), "beyond the end");
    cr_assert_eq(disk_read(b.file, 0, sectors, 512, &got), 0);
    cr_assert_eq(disk_read(b.file, 0, sectors, 513, &got), LKV_EIO);
    cr_assert_eq(disk_read(b.file, 1023, sectors, 1, &got), LKV_EIO);
    cr_assert_eq(disk_read(b.file, 1024, sectors, 512, &got), 0);
    cr_assert_eq(put(&b, 600, "part"), LKV_EIO, "it would have to be read first");
    cr_assert_eq(disk_write(b.file, 512, &whole, 1), 0);
    cr_assert_eq(disk_read(b.file, 0, sectors, sizeof(sectors), &got), 0);
    bench_fini(&b);
}

Test(sim_disk, forgets_all_that_was_not_synced_when_asked_for_the_worst) {
    struct bench b;
    bench_init(&b, 1);
    cr_assert_eq(disk_sync_dir(b.disk, "d"), 0);
    cr_assert_eq(put(&b, 0, "synced"), 0);
    cr_assert_eq(disk_sync(b.file), 0);
    cr_assert_eq(put(&b, 0, "cached"), 0);
    disk_close(b.file);
    b.file = NULL;
    sim_disk_forget_unsynced(b.sim);
    cr_assert(shows(&b, "d/a", 0, "synced"));
    bench_fini(&b);
}
