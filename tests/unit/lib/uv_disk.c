/* POSIX files behind the disk seam: results of system calls chosen by the test, the lock between
 * processes, and the errors of real file systems. */
#define _GNU_SOURCE
#include "base/mem.h"
#include "lib/uv/disk_posix.h"
#include "lib/uv/disk_posix_calls.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct disk *disk;
static char folder[64];

static void open_folder(void) {
    (void)snprintf(folder, sizeof(folder), "/tmp/uv_disk.XXXXXX");
    cr_assert(mkdtemp(folder) != NULL);
    cr_assert_eq(disk_posix_open(&disk), 0);
}

static void remove_folder(void) {
    char command[128];
    disk_posix_close(disk);
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(uv_disk, .init = open_folder, .fini = remove_folder);

static const char *path_of(const char *name) {
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static struct disk_file *open_new(struct disk *on, const char *name) {
    struct disk_file *file;
    cr_assert_eq(disk_open(on, path_of(name), DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &file), 0);
    return file;
}

static void assert_content(struct disk_file *file, const char *expected, size_t size) {
    char found[512];
    size_t got;
    cr_assert(size < sizeof(found));
    cr_assert_eq(disk_read(file, 0, found, sizeof(found), &got), 0);
    cr_assert_eq(got, size);
    cr_assert(memcmp(found, expected, size) == 0);
}

/* ---- Files ---- */

Test(uv_disk, reads_back_what_was_written_in_slices) {
    struct disk_file *file = open_new(disk, "a");
    struct slice parts[] = {slice_text(""), slice_text("one"), slice_text(""), slice_text("two")};
    cr_assert_eq(disk_write(file, 0, parts, 4), 0);
    cr_assert_eq(disk_write(file, 6, NULL, 0), 0);
    cr_assert_eq(disk_write(file, 10, parts + 3, 1), 0);
    cr_assert_eq(disk_sync(file), 0);
    assert_content(file, "onetwo\0\0\0\0two", 13);

    char some[4];
    size_t got;
    cr_assert_eq(disk_read(file, 11, some, sizeof(some), &got), 0);
    cr_assert_eq(got, 2);
    cr_assert_eq(disk_read(file, 100, some, sizeof(some), &got), 0);
    cr_assert_eq(got, 0);

    uint64_t size;
    cr_assert_eq(disk_truncate(file, 3), 0);
    cr_assert_eq(disk_size(file, &size), 0);
    cr_assert_eq(size, 3);
    disk_close(file);
}

Test(uv_disk, writes_more_slices_than_one_call_takes) {
    enum { COUNT = 300 };
    struct disk_file *file = open_new(disk, "a");
    struct slice parts[COUNT];
    char expected[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        expected[i] = (char)('a' + i % 26);
        parts[i] = slice_of(&expected[i], 1);
    }
    cr_assert_eq(disk_write(file, 0, parts, COUNT), 0);
    assert_content(file, expected, COUNT);
    disk_close(file);
}

Test(uv_disk, open_flags_mean_what_they_say) {
    struct disk_file *file;
    cr_assert_eq(disk_open(disk, path_of("a"), DISK_READ, &file), LKV_ENOENT);
    cr_assert_null(file);
    cr_assert_eq(disk_open(disk, path_of("no/a"), DISK_WRITE | DISK_CREATE, &file), LKV_ENOENT);
    disk_close(open_new(disk, "a"));
    int exclusive = DISK_WRITE | DISK_CREATE | DISK_EXCLUSIVE;
    cr_assert_eq(disk_open(disk, path_of("a"), exclusive, &file), LKV_EEXIST);
    cr_assert_eq(disk_open(disk, path_of("a/b"), DISK_READ, &file), LKV_ENOENT);

    cr_assert_eq(disk_open(disk, path_of("a"), DISK_READ, &file), 0);
    struct slice part = slice_text("x");
    cr_assert_lt(disk_write(file, 0, &part, 1), 0);
    disk_close(file);
    disk_close(NULL);

    struct stat status;
    cr_assert_eq(stat(path_of("a"), &status), 0);
    cr_assert_eq(status.st_mode & 0777, 0600);
}

Test(uv_disk, names_can_be_made_renamed_and_removed) {
    cr_assert_eq(disk_make_dir(disk, path_of("d")), 0);
    cr_assert_eq(disk_make_dir(disk, path_of("d")), 0);
    cr_assert_eq(disk_make_dir(disk, path_of("e/f")), LKV_ENOENT);
    disk_close(open_new(disk, "a"));
    cr_assert_eq(disk_make_dir(disk, path_of("a")), LKV_EEXIST);
    cr_assert_eq(disk_rename(disk, path_of("a"), path_of("d/b")), 0);
    cr_assert_eq(disk_rename(disk, path_of("a"), path_of("d/b")), LKV_ENOENT);
    cr_assert_eq(disk_sync_dir(disk, path_of("d")), 0);
    cr_assert_eq(disk_sync_dir(disk, path_of("none")), LKV_ENOENT);
    cr_assert_eq(disk_remove(disk, path_of("d/b")), 0);
    cr_assert_eq(disk_remove(disk, path_of("d/b")), LKV_ENOENT);
    uint64_t bytes;
    cr_assert_eq(disk_free_bytes(disk, path_of("d"), &bytes), 0);
    cr_assert_gt(bytes, 0);
    cr_assert_eq(disk_free_bytes(disk, path_of("none"), &bytes), LKV_ENOENT);
}

static int join_names(void *arg, const char *name) {
    strcat(arg, name);
    strcat(arg, " ");
    return strcmp(name, "stop") == 0 ? 77 : 0;
}

Test(uv_disk, lists_names_in_byte_order) {
    char names[128] = "";
    cr_assert_eq(disk_list(disk, folder, join_names, names), 0);
    cr_assert_str_eq(names, "");
    static const char *const made[] = {"b", "\xc3\xa4", "a10", "a", "B", ".x", "a9", "10"};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        disk_close(open_new(disk, made[i]));
    }
    cr_assert_eq(disk_list(disk, folder, join_names, names), 0);
    cr_assert_str_eq(names, ".x 10 B a a10 a9 b \xc3\xa4 ");
    cr_assert_eq(disk_list(disk, path_of("none"), join_names, names), LKV_ENOENT);
}

Test(uv_disk, list_ends_with_what_the_visitor_returns) {
    disk_close(open_new(disk, "go"));
    disk_close(open_new(disk, "stop"));
    disk_close(open_new(disk, "then"));
    char names[128] = "";
    cr_assert_eq(disk_list(disk, folder, join_names, names), 77);
    cr_assert_str_eq(names, "go stop ");
}

/* S28 */
Test(uv_disk, is_refused_when_out_of_memory_and_leaks_nothing) {
    disk_close(open_new(disk, "a"));
    disk_close(open_new(disk, "b"));
    int rc = LKV_ENOMEM;
    for (uint64_t n = 0; rc != 0; n++) {
        char names[128] = "";
        struct disk_file *file = NULL;
        struct disk_lock *lock = NULL;
        long owner;
        mem_fail_after(n);
        rc = disk_list(disk, folder, join_names, names);
        rc = rc == 0 ? disk_open(disk, path_of("a"), DISK_READ, &file) : rc;
        rc = rc == 0 ? disk_lock(disk, path_of("b"), &lock, &owner) : rc;
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        disk_unlock(lock);
        disk_close(file);
    }
}

/* ---- S12: short results and interruptions ---- */

static struct {
    size_t size_max;       /* of the next read or write; 0: as asked */
    unsigned until_fault;  /* calls that go well before it */
    int fault;             /* errno; 0: none */
    unsigned fault_repeat; /* how often */
    unsigned calls;
} inject;

static bool is_faulty(void) {
    inject.calls++;
    if (inject.fault == 0 || inject.fault_repeat == 0) {
        return false;
    }
    if (inject.until_fault > 0) {
        inject.until_fault--;
        return false;
    }
    inject.fault_repeat--;
    errno = inject.fault;
    return true;
}

static int open_injected(const char *path, int flags, mode_t mode) {
    return is_faulty() ? -1 : disk_posix_system_calls.open(path, flags, mode);
}

static ssize_t pread_injected(int fd, void *into, size_t size, off_t offset) {
    if (is_faulty()) {
        return -1;
    }
    size = inject.size_max > 0 && inject.size_max < size ? inject.size_max : size;
    return pread(fd, into, size, offset);
}

static ssize_t pwritev_injected(int fd, const struct iovec *parts, int count, off_t offset) {
    if (is_faulty()) {
        return -1;
    }
    ssize_t total = 0;
    size_t left = inject.size_max > 0 ? inject.size_max : SIZE_MAX;
    for (int i = 0; i < count && left > 0; i++) {
        size_t size = parts[i].iov_len < left ? parts[i].iov_len : left;
        cr_assert_eq(pwrite(fd, parts[i].iov_base, size, offset + total), (ssize_t)size);
        total += (ssize_t)size;
        left -= size;
    }
    return total;
}

static int fdatasync_injected(int fd) {
    return is_faulty() ? -1 : fdatasync(fd);
}

static int fsync_injected(int fd) {
    return is_faulty() ? -1 : fsync(fd);
}

static int ftruncate_injected(int fd, off_t size) {
    return is_faulty() ? -1 : ftruncate(fd, size);
}

static const struct disk_posix_calls injected_calls = {.open = open_injected,
                                                       .pread = pread_injected,
                                                       .pwritev = pwritev_injected,
                                                       .fdatasync = fdatasync_injected,
                                                       .fsync = fsync_injected,
                                                       .ftruncate = ftruncate_injected};

static struct disk *open_injected_disk(void) {
    struct disk *injected;
    memset(&inject, 0, sizeof(inject));
    cr_assert_eq(disk_posix_open_with(&injected, &injected_calls), 0);
    return injected;
}

Test(uv_disk, completes_after_short_writes_and_reads_of_every_length) {
    struct disk *injected = open_injected_disk();
    struct slice parts[] = {slice_text("abc"), slice_text(""), slice_text("defgh"), slice_text("i"),
                            slice_text("jklmno")};
    for (size_t length = 1; length <= 15; length++) {
        inject.size_max = length;
        struct disk_file *file = open_new(injected, "a");
        cr_assert_eq(disk_write(file, 0, parts, 5), 0);
        assert_content(file, "abcdefghijklmno", 15);
        disk_close(file);
    }
    disk_posix_close(injected);
}

/* Every operation once; the number of system calls that the table sees. */
static int do_everything(struct disk *on) {
    struct disk_file *file;
    struct slice parts[] = {slice_text("abc"), slice_text("def")};
    char found[8];
    size_t got = 0;
    int rc = disk_open(on, path_of("all"), DISK_WRITE | DISK_CREATE, &file);
    if (rc != 0) {
        cr_assert_null(file);
        return rc;
    }
    rc = disk_write(file, 0, parts, 2);
    rc = rc == 0 ? disk_sync(file) : rc;
    rc = rc == 0 ? disk_read(file, 0, found, 6, &got) : rc;
    rc = rc == 0 ? disk_truncate(file, 6) : rc;
    rc = rc == 0 ? disk_sync_dir(on, folder) : rc;
    cr_assert(rc != 0 || (got == 6 && memcmp(found, "abcdef", 6) == 0));
    disk_close(file);
    return rc;
}

Test(uv_disk, completes_when_each_call_is_interrupted) {
    struct disk *injected = open_injected_disk();
    inject.size_max = 2;
    cr_assert_eq(do_everything(injected), 0);
    unsigned calls = inject.calls;
    cr_assert_gt(calls, 10);
    for (unsigned n = 0; n < calls; n++) {
        inject.until_fault = n;
        inject.fault = EINTR;
        inject.fault_repeat = 3;
        cr_assert_eq(do_everything(injected), 0, "interrupted at call %u", n);
    }
    disk_posix_close(injected);
}

Test(uv_disk, fails_cleanly_when_each_call_fails) {
    static const struct {
        int error;
        int rc;
    } faults[] = {{ENOSPC, LKV_ENOSPACE}, {EDQUOT, LKV_ENOSPACE}, {EFBIG, LKV_ENOSPACE},
                  {EIO, LKV_EIO},         {EACCES, LKV_EPERM},    {EPERM, LKV_EPERM},
                  {EROFS, LKV_EPERM},     {ENOENT, LKV_ENOENT},   {EEXIST, LKV_EEXIST},
                  {ENOMEM, LKV_ENOMEM},   {EMFILE, LKV_ENOMEM}};
    struct disk *injected = open_injected_disk();
    inject.size_max = 2;
    cr_assert_eq(do_everything(injected), 0);
    unsigned calls = inject.calls;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        for (unsigned n = 0; n < calls; n++) {
            inject.until_fault = n;
            inject.fault = faults[i].error;
            inject.fault_repeat = 1;
            cr_assert_eq(do_everything(injected), faults[i].rc, "errno %d at call %u",
                         faults[i].error, n);
        }
    }
    disk_posix_close(injected);
}

static ssize_t pwritev_nothing(int fd, const struct iovec *parts, int count, off_t offset) {
    (void)fd, (void)parts, (void)count, (void)offset;
    return 0;
}

Test(uv_disk, write_without_progress_is_an_error_and_no_endless_loop) {
    struct disk_posix_calls calls = disk_posix_system_calls;
    calls.pwritev = pwritev_nothing;
    struct disk *stuck;
    cr_assert_eq(disk_posix_open_with(&stuck, &calls), 0);
    struct disk_file *file = open_new(stuck, "a");
    struct slice part = slice_text("x");
    cr_assert_eq(disk_write(file, 0, &part, 1), LKV_EIO);
    disk_close(file);
    disk_posix_close(stuck);
}

/* ---- The lock ---- */

Test(uv_disk, lock_is_refused_to_a_second_open_in_this_process) {
    struct disk_lock *first, *second;
    long owner;
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &first, &owner), 0);
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &second, &owner), LKV_ELOCKED);
    cr_assert_null(second);
    cr_assert_eq(owner, getpid());
    /* The failed attempt opened and closed the file: the first lock must still hold. */
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &second, &owner), LKV_ELOCKED);
    disk_unlock(first);
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &second, &owner), 0);
    disk_unlock(second);
    disk_unlock(NULL);
}

static int wait_for(pid_t child) {
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* S16 */
Test(uv_disk, lock_holds_against_a_child_by_fork_whatever_it_does) {
    struct disk_lock *lock;
    long owner;
    pid_t parent = getpid();
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &lock, &owner), 0);
    pid_t child = fork();
    if (child == 0) {
        struct disk_lock *mine;
        int rc = disk_lock(disk, path_of("LOCK"), &mine, &owner);
        disk_unlock(lock); /* as a child that cleans up would */
        _exit(rc == LKV_ELOCKED && owner == parent ? 0 : 1);
    }
    cr_assert_eq(wait_for(child), 0);
    child = fork();
    if (child == 0) {
        struct disk_lock *mine;
        _exit(disk_lock(disk, path_of("LOCK"), &mine, &owner) == LKV_ELOCKED ? 0 : 1);
    }
    cr_assert_eq(wait_for(child), 0);
    disk_unlock(lock);
}

static pid_t start_holder(int *ready) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct disk_lock *lock;
        long owner;
        char result = disk_lock(disk, path_of("LOCK"), &lock, &owner) == 0 ? 'y' : 'n';
        ssize_t n = write(ends[1], &result, 1);
        (void)n;
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    *ready = ends[0];
    return child;
}

/* S15, S16 */
Test(uv_disk, lock_is_refused_at_once_with_the_owners_pid_and_does_not_survive_a_kill) {
    int ready;
    char result = 0;
    pid_t holder = start_holder(&ready);
    cr_assert_eq(read(ready, &result, 1), 1);
    cr_assert_eq(result, 'y');

    struct disk_lock *lock;
    long owner;
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &lock, &owner), LKV_ELOCKED);
    cr_assert_eq(owner, holder);

    cr_assert_eq(kill(holder, SIGKILL), 0);
    cr_assert_eq(wait_for(holder), -1);
    cr_assert_eq(access(path_of("LOCK"), F_OK), 0, "the file is still there");
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &lock, &owner), 0);
    disk_unlock(lock);
    (void)close(ready);
}

Test(uv_disk, owner_is_unknown_when_the_lock_file_says_nothing_useful) {
    static const char *const texts[] = {"", "-1\n", "999999999999999999999\n", "hello\n",
                                        "2147483646\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct disk_lock *lock, *second;
        long owner = 42;
        cr_assert_eq(disk_lock(disk, path_of("LOCK"), &lock, &owner), 0);
        struct disk_file *file = open_new(disk, "LOCK");
        struct slice text = slice_text(texts[i]);
        cr_assert_eq(disk_write(file, 0, &text, 1), 0);
        disk_close(file);
        cr_assert_eq(disk_lock(disk, path_of("LOCK"), &second, &owner), LKV_ELOCKED);
        cr_assert_eq(owner, 0);
        disk_unlock(lock);
    }
}

Test(uv_disk, lock_in_a_folder_that_is_not_there_is_an_error) {
    struct disk_lock *lock;
    long owner;
    cr_assert_eq(disk_lock(disk, path_of("none/LOCK"), &lock, &owner), LKV_ENOENT);
}

/* ---- Real file systems ---- */

static int fill_disk(struct disk_file *file) {
    static uint8_t block[4096];
    struct slice part = slice_of(block, sizeof(block));
    for (uint64_t offset = 0;; offset += sizeof(block)) {
        int rc = disk_write(file, offset, &part, 1);
        if (rc != 0) {
            return rc;
        }
    }
}

/* X-H1, S9, S27 */
Test(uv_disk, full_disk_is_no_space_and_works_again_after_room_is_made) {
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=256k") != 0) {
        cr_skip_test("SKIPPED: needs root to mount a small tmpfs");
    }
    struct disk_lock *lock;
    long owner;
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &lock, &owner), 0);
    disk_unlock(lock);

    struct disk_file *file = open_new(disk, "a");
    cr_assert_eq(fill_disk(file), LKV_ENOSPACE);
    uint64_t bytes = 1;
    cr_assert_eq(disk_free_bytes(disk, folder, &bytes), 0);
    cr_assert_eq(bytes, 0);
    cr_assert_eq(disk_lock(disk, path_of("LOCK"), &lock, &owner), 0, "opens on a full disk");
    disk_unlock(lock);

    cr_assert_eq(disk_truncate(file, 4096), 0);
    struct slice part = slice_text("again");
    cr_assert_eq(disk_write(file, 4096, &part, 1), 0);
    disk_close(file);
    cr_assert_eq(umount(folder), 0);
}

Test(uv_disk, limit_of_file_size_is_no_space) {
    (void)signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {.rlim_cur = 10000, .rlim_max = RLIM_INFINITY};
    struct disk_file *file = open_new(disk, "a");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = fill_disk(file);
    limit.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(rc, LKV_ENOSPACE);
    disk_close(file);
}

static int try_without_rights(void) {
    struct disk_file *file;
    struct disk_lock *lock;
    long owner;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
        return 2;
    }
    bool refused = disk_open(disk, path_of("d/a"), DISK_READ, &file) == LKV_EPERM &&
                   disk_open(disk, path_of("d/b"), DISK_WRITE | DISK_CREATE, &file) == LKV_EPERM &&
                   disk_lock(disk, path_of("d/LOCK"), &lock, &owner) == LKV_EPERM &&
                   disk_make_dir(disk, path_of("d/e")) == LKV_EPERM &&
                   disk_sync_dir(disk, path_of("d")) == LKV_EPERM;
    return refused ? 0 : 1;
}

/* X-H1 */
Test(uv_disk, missing_rights_are_permission_denied) {
    cr_assert_eq(chmod(folder, 0755), 0);
    cr_assert_eq(disk_make_dir(disk, path_of("d")), 0);
    disk_close(open_new(disk, "d/a"));
    cr_assert_eq(chmod(path_of("d"), 0), 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(try_without_rights());
    }
    int result = wait_for(child);
    cr_assert_eq(chmod(path_of("d"), 0700), 0);
    cr_assert_eq(result, 0);
}
