/* What the log's tests share: a simulated disk with one log directory, and verbs on it. */
#ifndef TESTS_UNIT_LOG_FIXTURE_H
#define TESTS_UNIT_LOG_FIXTURE_H

#include "base/prng.h"
#include "log/format.h"
#include "log/log.h"
#include "log/names.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define DIR_NAME "d"

enum { SEGMENT_BYTES = 16 * 1024, FIXTURE_BATCH_MAX = 64 };

struct fixture {
    struct sim_disk *sim;
    struct log *log;
    struct log_state state;
    struct log_options options;
    uint64_t image_index, image_term;
    struct reason why;
    char traced[1024]; /* the last line */
};

static inline void fixture_trace(void *arg, int level, const char *json) {
    struct fixture *f = arg;
    (void)level;
    (void)snprintf(f->traced, sizeof(f->traced), "%s", json);
}

static inline struct trace *fixture_sink(struct fixture *f) {
    static struct trace trace;
    trace = (struct trace){.sink = fixture_trace, .arg = f, .level = TRACE_DEBUG};
    return &trace;
}

static inline void fixture_init(struct fixture *f, uint64_t seed) {
    *f = (struct fixture){.sim = sim_disk_new(seed)};
    f->options = (struct log_options){.cluster_id = 0xc1,
                                      .group_id = 7,
                                      .segment_bytes = SEGMENT_BYTES,
                                      .record_bytes_max = 64 * 1024,
                                      .trace = NULL};
    struct disk *disk = sim_disk_seam(f->sim);
    cr_assert_eq(disk_make_dir(disk, DIR_NAME), 0);
    cr_assert_eq(disk_sync_dir(disk, ""), 0);
}

static inline int fixture_open(struct fixture *f) {
    f->options.trace = fixture_sink(f);
    return log_open(&f->log, sim_disk_seam(f->sim), DIR_NAME, &f->options, f->image_index,
                    f->image_term, &f->state, &f->why);
}

static inline void fixture_must_open(struct fixture *f) {
    int rc = fixture_open(f);
    cr_assert_eq(rc, 0, "open: %s: %s", error_name(rc), f->why.text);
}

static inline void fixture_close(struct fixture *f) {
    log_close(f->log);
    f->log = NULL;
}

/* The process dies without another disk call, then everything unsynced is at risk. */
static inline void fixture_die(struct fixture *f) {
    sim_disk_crash_now(f->sim);
    fixture_close(f);
}

static inline void fixture_power_cut(struct fixture *f) {
    fixture_die(f);
    sim_disk_power_cut(f->sim);
}

static inline void fixture_kill(struct fixture *f) {
    fixture_die(f);
    sim_disk_kill(f->sim);
}

static inline void fixture_fini(struct fixture *f) {
    fixture_close(f);
    sim_disk_free(f->sim);
    f->sim = NULL;
}

/* The payload that entry (index, term) always has, so that any copy of it can be checked. */
static inline struct blob *payload_of(uint64_t index, uint64_t term, size_t size) {
    struct blob *blob = blob_new(size);
    cr_assert(blob != NULL);
    struct prng prng = prng_of(index * 1000003 + term);
    for (size_t i = 0; i < size; i++) {
        blob->data[i] = (uint8_t)prng_next(&prng);
    }
    return blob;
}

static inline struct entry entry_of(uint64_t index, uint64_t term, size_t size) {
    return (struct entry){.index = index,
                          .term = term,
                          .type = size > 0 ? ENTRY_COMMAND : ENTRY_NOOP,
                          .payload = size > 0 ? payload_of(index, term, size) : NULL};
}

static inline void free_entries(struct entry *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
}

/* Appends `count` entries of `size` bytes from `first` on, cutting first if they overlap; saves the
 * term with them. */
static inline int try_append(struct fixture *f, uint64_t first, size_t count, uint64_t term,
                             size_t size) {
    struct entry entries[FIXTURE_BATCH_MAX];
    cr_assert(count <= FIXTURE_BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        entries[i] = entry_of(first + i, term, size);
    }
    struct log_write write = {.save_vote = f->state.vote.term < term,
                              .vote.term = term,
                              .cut_from = first,
                              .entries = entries,
                              .count = count};
    int rc = log_write(f->log, &write, &f->why);
    if (rc == 0 && write.save_vote) {
        f->state.vote = write.vote;
    }
    free_entries(entries, count);
    return rc;
}

static inline void append(struct fixture *f, uint64_t first, size_t count, uint64_t term,
                          size_t size) {
    int rc = try_append(f, first, count, term, size);
    cr_assert_eq(rc, 0, "append: %s: %s", error_name(rc), f->why.text);
}

static inline int try_vote(struct fixture *f, uint64_t term, uint64_t voted_for) {
    struct log_write write = {.save_vote = true, .vote = {.term = term, .voted_for = voted_for}};
    int rc = log_write(f->log, &write, &f->why);
    if (rc == 0) {
        f->state.vote = write.vote;
    }
    return rc;
}

static inline void mark(struct fixture *f) {
    int rc = log_mark(f->log, &f->why);
    cr_assert_eq(rc, 0, "mark: %s", f->why.text);
}

/* Entries [first, last] are there, of `term`, with their payload of `size`. */
static inline void check_entries(struct fixture *f, uint64_t first, uint64_t last, uint64_t term,
                                 size_t size) {
    while (first <= last) {
        struct entry got[8];
        size_t count;
        int rc = log_read(f->log, first, last, 4096, got, 8, &count, &f->why);
        cr_assert_eq(rc, 0, "read %llu: %s", (unsigned long long)first, f->why.text);
        cr_assert(count > 0);
        for (size_t i = 0; i < count; i++) {
            struct entry want = entry_of(first, term, size);
            cr_assert_eq(got[i].index, first);
            cr_assert_eq(got[i].term, term, "entry %llu has term %llu", (unsigned long long)first,
                         (unsigned long long)got[i].term);
            cr_assert_eq(got[i].type, want.type);
            cr_assert(slice_equal(blob_slice(got[i].payload), blob_slice(want.payload)));
            blob_unref(want.payload);
            first++;
        }
        free_entries(got, count);
    }
}

static inline void check_state(const struct fixture *f, uint64_t first, uint64_t last,
                               uint64_t last_term) {
    cr_assert_eq(f->state.first, first, "first is %llu", (unsigned long long)f->state.first);
    cr_assert_eq(f->state.last, last, "last is %llu", (unsigned long long)f->state.last);
    cr_assert_eq(f->state.last_term, last_term);
}

/* The n-th segment file by number, as a path. */
static inline const char *segment_path(const struct fixture *f, size_t n) {
    const char *path;
    for (size_t i = 0; (path = sim_disk_path(f->sim, i)) != NULL; i++) {
        size_t size = strlen(path);
        if (size > 4 && strcmp(path + size - 4, ".seg") == 0 && n-- == 0) {
            return path;
        }
    }
    return NULL;
}

static inline size_t segment_count(const struct fixture *f) {
    size_t count = 0;
    while (segment_path(f, count) != NULL) {
        count++;
    }
    return count;
}

static inline const char *newest_path(const struct fixture *f) {
    return segment_path(f, segment_count(f) - 1);
}

static inline const char *spare_path_of(const struct fixture *f) {
    const char *path;
    for (size_t i = 0; (path = sim_disk_path(f->sim, i)) != NULL; i++) {
        if (strncmp(path, DIR_NAME "/spare-", strlen(DIR_NAME "/spare-")) == 0) {
            return path;
        }
    }
    return NULL;
}

/* Where record `index` starts in the newest file that has it; 0 when none does. */
static inline uint64_t record_offset(const struct fixture *f, uint64_t index, const char **path) {
    struct log_identity identity = {.cluster_id = f->options.cluster_id,
                                    .group_id = f->options.group_id};
    *path = NULL;
    for (size_t n = segment_count(f); n-- > 0;) {
        const char *name = segment_path(f, n);
        struct slice bytes;
        cr_assert(sim_disk_peek(f->sim, name, &bytes));
        uint64_t number = strtoull(name + strlen(DIR_NAME "/"), NULL, 10);
        for (uint64_t at = LOG_BLOCK; at + LOG_RECORD_HEADER <= bytes.size; at += LOG_ALIGN) {
            struct record_header header;
            if (record_header_decode(bytes.data + at, &identity, number, at, &header) &&
                header.type != LOG_TYPE_MARK && header.index == index) {
                *path = name;
                return at;
            }
        }
    }
    return 0;
}

#endif
