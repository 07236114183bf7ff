/* Readers on other threads while the log thread appends and cuts and the bulk thread makes spares
 * and drops the prefix: what is read is always whole, and never older than what was cut before. */
#include "base/prng.h"
#include "log/log.h"
#include "tests/sim/sim_disk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                              \
        }                                                                         \
    } while (0)

enum { ROUNDS = 3000, BATCH = 5, SIZE = 200, READERS = 2, KEEP = 400 };

static struct log *db_log;
static atomic_uint_fast64_t last, stopped;

static uint8_t byte_of(uint64_t index, uint64_t term) {
    return (uint8_t)(index * 31 + term * 7);
}

static void append(uint64_t first, uint64_t term, bool cuts) {
    struct entry entries[BATCH];
    for (uint64_t i = 0; i < BATCH; i++) {
        struct blob *payload = blob_new(SIZE);
        CHECK(payload != NULL);
        memset(payload->data, byte_of(first + i, term), SIZE);
        entries[i] = (struct entry){
            .index = first + i, .term = term, .type = ENTRY_COMMAND, .payload = payload};
    }
    struct log_write write = {.save_vote = cuts || first == 1,
                              .vote.term = term,
                              .cut_from = cuts ? first : 0,
                              .entries = entries,
                              .count = BATCH};
    CHECK(log_write(db_log, &write, NULL) == 0);
    for (uint64_t i = 0; i < BATCH; i++) {
        blob_unref(entries[i].payload);
    }
    atomic_store(&last, first + BATCH - 1);
}

static void *log_thread(void *arg) {
    (void)arg;
    struct prng prng = prng_of(1);
    uint64_t term = 1, next = 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        bool cuts = next > KEEP && prng_below(&prng, 20) == 0;
        if (cuts) {
            next -= 1 + prng_below(&prng, 2 * BATCH);
            term++;
        }
        append(next, term, cuts);
        next += BATCH;
        if (prng_below(&prng, 10) == 0) {
            CHECK(log_mark(db_log, NULL) == 0);
        }
    }
    atomic_store(&stopped, 1);
    return NULL;
}

static void *bulk_thread(void *arg) {
    (void)arg;
    while (atomic_load(&stopped) == 0) {
        if (log_wants_spare(db_log)) {
            CHECK(log_prepare_spare(db_log, NULL) == 0);
        }
        uint64_t end = atomic_load(&last);
        if (end > KEEP) {
            CHECK(log_drop_prefix(db_log, end - KEEP + 4 * BATCH, NULL) == 0);
        }
        CHECK(log_bytes(db_log) >= log_room(db_log));
    }
    return NULL;
}

static void *reader_thread(void *arg) {
    struct prng prng = prng_of((uint64_t)(uintptr_t)arg);
    uint64_t read = 0;
    while (atomic_load(&stopped) == 0) {
        uint64_t first = log_first(db_log), end = atomic_load(&last);
        if (end < first) {
            continue;
        }
        uint64_t from = first + prng_below(&prng, end - first + 1);
        struct entry got[20];
        size_t count;
        int rc = log_read(db_log, from, from + 19, 4096, got, 20, &count, NULL);
        CHECK(rc == 0 || rc == LKV_ETRUNCATED || rc == LKV_EINVAL); /* it may be gone by now */
        for (size_t i = 0; i < count; i++) {
            CHECK(got[i].index == from + i && got[i].payload->size == SIZE);
            for (size_t k = 0; k < SIZE; k++) {
                CHECK(got[i].payload->data[k] == byte_of(got[i].index, got[i].term));
            }
            blob_unref(got[i].payload);
        }
        read += count;
    }
    CHECK(read > 0);
    return NULL;
}

int main(void) {
    struct sim_disk *sim = sim_disk_new(1);
    CHECK(disk_make_dir(sim_disk_seam(sim), "d") == 0);
    struct log_options options = {
        .cluster_id = 1, .segment_bytes = 32 * 1024, .record_bytes_max = 4096};
    struct log_state state;
    struct reason why = {{0}};
    CHECK(log_open(&db_log, sim_disk_seam(sim), "d", &options, 0, 0, &state, &why) == 0);
    pthread_t threads[READERS + 2];
    CHECK(pthread_create(&threads[0], NULL, log_thread, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, bulk_thread, NULL) == 0);
    for (uintptr_t i = 0; i < READERS; i++) {
        CHECK(pthread_create(&threads[2 + i], NULL, reader_thread, (void *)(i + 2)) == 0);
    }
    for (size_t i = 0; i < READERS + 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    log_close(db_log);
    sim_disk_free(sim);
    (void)printf("1 passed, 0 failed\n");
    return 0;
}
