/* S21, C15: the process is killed at a call that changes the disk, at one after the other of them, while transactions
 * that increment two keys are applied in a session. Whatever is there at the next start is the state after some
 * entry, with both increments of each transaction or neither, and with the rest of the log each has happened
 * exactly once.
 *
 * What is killed and what looks afterwards are children: the engine's threads do not survive a fork. */
#define _GNU_SOURCE
#include "base/feature.h"
#include "kv/command.h"
#include "kv/txn.h"
#include "tests/support/map_home.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ENTRIES = 300, FIRST = 3, STRIDE = 4, VALUE_SIZE = 3000 };

/* ---------------------------------------------------------------------------- calls that change the disk */

static atomic_int left; /* calls until the process is killed; below 0: never */

static void count(void) {
    if (atomic_fetch_sub(&left, 1) == 1) {
        (void)kill(getpid(), SIGKILL);
    }
}

#define REAL(name, type)                    \
    type *real = NULL;                      \
    void *symbol = dlsym(RTLD_NEXT, #name); \
    memcpy(&real, &symbol, sizeof(real))

#define EXPORTED __attribute__((visibility("default")))

typedef ssize_t write_fn(int file, const void *bytes, size_t size);
typedef ssize_t pwrite_fn(int file, const void *bytes, size_t size, off_t offset);
typedef int sync_fn(int file);
typedef int rename_fn(const char *from, const char *to);
typedef int unlink_fn(const char *path);

EXPORTED ssize_t write(int file, const void *bytes, size_t size) {
    REAL(write, write_fn);
    count();
    return real(file, bytes, size);
}

EXPORTED ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
    REAL(pwrite, pwrite_fn);
    count();
    return real(file, bytes, size, offset);
}

EXPORTED int fdatasync(int file) {
    REAL(fdatasync, sync_fn);
    count();
    return real(file);
}

EXPORTED int fsync(int file) {
    REAL(fsync, sync_fn);
    count();
    return real(file);
}

EXPORTED int rename(const char *from, const char *to) {
    REAL(rename, rename_fn);
    count();
    return real(from, to);
}

EXPORTED int unlink(const char *path) {
    REAL(unlink, unlink_fn);
    count();
    return real(path);
}

/* ---------------------------------------------------------------------------- the log */

/* Increments "n" and "z", and has what lies between them, large, in the middle. */
static struct blob *increment(uint64_t index) {
    static const char value[VALUE_SIZE];
    const struct kv_step steps[] = {
        {.op = KV_ADD, .key = slice_text("n"), .delta = 1},
        {.op = KV_PUT, .key = slice_text("o"), .value = slice_of(value, sizeof(value))},
        {.op = KV_ADD, .key = slice_text("z"), .delta = 1}};
    struct kv_txn txn;
    struct buffer program;
    kv_txn_init(&txn);
    buffer_init(&program);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        kv_txn_step(&txn, true, &steps[i]);
    }
    kv_txn_write(&txn, &program);
    const struct kv_command command = {.op = KV_TXN,
                                       .txn = buffer_slice(&program),
                                       .session = 2,
                                       .seq = index,
                                       .acked_below = index > 20 ? index - 20 : 1};
    struct blob *payload = kv_command_encode(&command);
    kv_txn_fini(&txn);
    buffer_fini(&program);
    return payload;
}

/* 1: history, 2: the session; then increments, each in the session and beside a large value. */
static struct blob *payload_of(uint64_t index) {
    static const char value[VALUE_SIZE];
    struct kv_command command = {.op = KV_SESSION_OPEN, .ttl_ms = 1000, .limit = 10};
    if (index == 1) {
        return feature_encode(KV_LEVEL_HISTORY);
    }
    if (index >= FIRST && index % 2 == 1) {
        return increment(index);
    }
    if (index >= FIRST) {
        command = (struct kv_command){
            .op = KV_PUT, .key = slice_text("large"), .value = slice_of(value, sizeof(value))};
    }
    return kv_command_encode(&command);
}

static long long increments(uint64_t upto) {
    return upto >= FIRST ? (long long)(upto - FIRST) / 2 + 1 : 0;
}

static struct kv *open_home(struct map_home *home) {
    struct reason why = {{0}};
    struct kv *kv;
    const struct kv_options options = {
        .feature_level = KV_LEVEL_HISTORY, .home = &home->home, .why = &why};
    int rc = kv_open(&kv, &options);
    if (rc != 0) {
        (void)fprintf(stderr, "%s\n", why.text);
    }
    MAP_HOME_REQUIRE(rc == 0);
    return kv;
}

static void apply(struct kv *kv, uint64_t index) {
    const struct entry entry = {.index = index,
                                .term = 1,
                                .type = index == 1 ? ENTRY_FEATURE : ENTRY_COMMAND,
                                .payload = payload_of(index)};
    struct kv_result result;
    size_t applied = 0;
    int rc = 0;
    while (rc == 0 && applied == 0) {
        rc = kv_apply(kv, &entry, 1, &result, &applied, NULL);
    }
    MAP_HOME_REQUIRE(rc == 0 && result.rc == 0 && !result.repeated);
    kv_result_fini(&result);
    blob_unref(entry.payload);
}

static long long counter(struct kv *kv, const char *key) {
    char text[32] = "0";
    size_t size;
    int rc = kv_get_copy(kv, slice_text(key), text, sizeof(text) - 1, &size);
    MAP_HOME_REQUIRE(rc == 0 || rc == LKV_ENOTFOUND);
    return atoll(text);
}

static bool counts(struct kv *kv, long long wanted) {
    return counter(kv, "n") == wanted && counter(kv, "z") == wanted;
}

/* ---------------------------------------------------------------------------- children */

static void live(struct map_home *home, int calls) {
    struct kv *kv = open_home(home);
    struct kv_stamp stamp;
    kv_stamp(kv, &stamp);
    atomic_store(&left, calls);
    for (uint64_t index = stamp.index + 1; index <= ENTRIES; index++) {
        apply(kv, index);
        if (index % 50 == 0) {
            int rc = kv_flush(kv, NULL);
            MAP_HOME_REQUIRE(rc == 0);
        }
    }
    atomic_store(&left, -1);
    kv_close(kv);
}

static void look(struct map_home *home, int calls) {
    (void)calls;
    struct kv *kv = open_home(home);
    struct kv_stamp stamp;
    kv_stamp(kv, &stamp);
    MAP_HOME_REQUIRE(counts(kv, increments(stamp.index)));
    for (uint64_t index = stamp.index + 1; index <= ENTRIES; index++) {
        apply(kv, index);
    }
    MAP_HOME_REQUIRE(counts(kv, increments(ENTRIES)));
    kv_close(kv);
}

static void clean(struct map_home *home, int calls) {
    (void)calls;
    map_home_remove(home);
}

/* Its wait status. */
static int in_child(void (*run)(struct map_home *home, int calls), struct map_home *home,
                    int calls) {
    pid_t child = fork();
    MAP_HOME_REQUIRE(child >= 0);
    if (child == 0) {
        run(home, calls);
        _exit(0);
    }
    int status = 0;
    pid_t ended = waitpid(child, &status, 0);
    MAP_HOME_REQUIRE(ended == child);
    return status;
}

static bool survives(int calls) {
    struct map_home home;
    map_home_make(&home);
    home.home.unflushed_bytes = 64 * 1024;
    int status = in_child(live, &home, calls);
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    MAP_HOME_REQUIRE(killed || status == 0);
    status = in_child(look, &home, 0);
    MAP_HOME_REQUIRE(status == 0);
    status = in_child(clean, &home, 0);
    MAP_HOME_REQUIRE(status == 0);
    return !killed;
}

int main(void) {
    int calls = 1;
    (void)alarm(200);
    atomic_store(&left, -1);
    while (!survives(calls)) {
        calls += STRIDE;
    }
    (void)printf("killed at %d of %d calls\n", calls / STRIDE, calls);
    return calls > 40 ? 0 : 1; /* else not much was written */
}
