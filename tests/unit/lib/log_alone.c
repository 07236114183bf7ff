/* One node of model log on real files: append, read, tail, span, hold, extents, retention. */
#include "tests/unit/lib/node_world.h"

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_log_alone, .init = setup, .fini = teardown, .timeout = 100);

static struct lkv *open_log(const char *more[][2], size_t count) {
    struct lkv_options *options = lkv_options_new();
    cr_assert_eq(lkv_options_set(options, "dir", world.dirs[0]), 0);
    cr_assert_eq(lkv_options_set(options, "model", "log"), 0);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(lkv_options_set(options, more[i][0], more[i][1]), 0, "%s",
                     lkv_options_error(options));
    }
    struct lkv *db = NULL;
    struct lkv_msg *why = NULL;
    int rc = lkv_open(&db, NULL, options, &why);
    cr_assert_eq(rc, 0, "%s", rc != 0 ? lkv_msg_text(why) : "");
    lkv_options_free(options);
    return db;
}

static struct lkv *open_plain(void) {
    return open_log(NULL, 0);
}

static uint64_t append_text(struct lkv *db, const char *text) {
    struct lkv_bytes record = {text, strlen(text)};
    uint64_t index = 0;
    cr_assert_eq(lkv_append(db, &record, 1, 0, LKV_DEFAULT, &index), 0, "%s", lkv_last_text());
    return index;
}

static void expect_record(const struct lkv_msg *msg, size_t i, uint64_t index, const char *text) {
    struct lkv_record record;
    cr_assert(lkv_msg_record(msg, i, &record));
    cr_assert_eq(record.index, index, "index %llu, not %llu", (unsigned long long)record.index,
                 (unsigned long long)index);
    cr_assert_eq(record.data.size, strlen(text));
    cr_assert(memcmp(record.data.data, text, record.data.size) == 0);
}

static uint64_t number(const struct lkv_msg *msg, const char *name) {
    uint64_t value = 0;
    cr_assert(lkv_msg_u64(msg, name, &value), "no number %s", name);
    return value;
}

Test(lib_log_alone, appends_and_reads_by_index) {
    struct lkv *db = open_plain();
    uint64_t first = append_text(db, "one");
    cr_assert_eq(append_text(db, "two"), first + 1);
    cr_assert_eq(append_text(db, ""), first + 2);
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_log_read(db, 0, 0, LKV_DEFAULT, &msg), 0);
    cr_assert_eq(lkv_msg_count(msg), 3);
    expect_record(msg, 0, first, "one");
    expect_record(msg, 1, first + 1, "two");
    expect_record(msg, 2, first + 2, "");
    cr_assert_eq(number(msg, "next"), first + 3);
    lkv_msg_free(msg);
    uint64_t begin = 0, commit = 0;
    cr_assert_eq(lkv_log_span(db, LKV_LINEARIZABLE, LKV_DEFAULT, &begin, &commit), 0);
    cr_assert_eq(begin, 1);
    cr_assert_eq(commit, first + 2);
    cr_assert_eq(lkv_log_read(db, commit + 1, 0, LKV_DEFAULT, &msg), 0);
    cr_assert_eq(lkv_msg_count(msg), 0, "L21: nothing is shown beyond commit");
    cr_assert_eq(number(msg, "next"), commit + 1);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_log_read(db, first + 1, 1, LKV_DEFAULT, &msg), 0);
    cr_assert_eq(lkv_msg_count(msg), 1, "one record, however small the limit");
    expect_record(msg, 0, first + 1, "two");
    lkv_msg_free(msg);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_log_alone, records_survive_a_restart_and_indices_go_on) {
    uint64_t last = 0;
    for (int life = 0; life < 3; life++) {
        struct lkv *db = open_plain();
        char text[64];
        for (int i = 0; i < 40; i++) {
            (void)snprintf(text, sizeof(text), "life %d record %d", life, i);
            uint64_t index = append_text(db, text);
            cr_assert_gt(index, last);
            last = index;
        }
        struct lkv_msg *msg = NULL;
        cr_assert_eq(lkv_log_read(db, 1, 0, LKV_DEFAULT, &msg), 0);
        size_t seen = 0;
        uint64_t from = 1;
        while (lkv_msg_count(msg) > 0) {
            for (size_t i = 0; i < lkv_msg_count(msg); i++, seen++) {
                struct lkv_record record;
                cr_assert(lkv_msg_record(msg, i, &record));
                (void)snprintf(text, sizeof(text), "life %zu record %zu", seen / 40, seen % 40);
                cr_assert_eq(record.data.size, strlen(text));
                cr_assert(memcmp(record.data.data, text, record.data.size) == 0);
            }
            from = number(msg, "next");
            lkv_msg_free(msg);
            cr_assert_eq(lkv_log_read(db, from, 0, LKV_DEFAULT, &msg), 0);
        }
        lkv_msg_free(msg);
        cr_assert_eq(seen, (size_t)(life + 1) * 40);
        cr_assert_eq(lkv_close(db, 0), 0);
    }
}

static const size_t batch_sizes[] = {1, 16, 256, LKV_APPEND_RECORDS_MAX};

Test(lib_log_alone, batches_are_contiguous_and_keep_their_order) {
    struct lkv *db = open_plain();
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    static struct lkv_bytes records[LKV_APPEND_RECORDS_MAX];
    static uint32_t numbers[LKV_APPEND_RECORDS_MAX * 8];
    uint32_t count = 0;
    size_t calls = 0;
    for (size_t round = 0; round < 2; round++) {
        for (size_t b = 0; b < 4; b++, calls++) {
            for (size_t i = 0; i < batch_sizes[b]; i++, count++) {
                numbers[count] = count;
                records[i] = (struct lkv_bytes){&numbers[count], sizeof(numbers[count])};
            }
            cr_assert_eq(
                lkv_append_submit(db, records, batch_sizes[b], 0, LKV_DEFAULT, queue, NULL), 0);
        }
    }
    uint64_t expected = 0;
    for (size_t i = 0; i < calls; i++) {
        struct lkv_msg *msg = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(msg);
        cr_assert_eq(lkv_msg_rc(msg), 0, "%s", lkv_msg_text(msg));
        cr_assert_eq(number(msg, "count"), batch_sizes[i % 4]);
        cr_assert(expected == 0 || number(msg, "index") == expected);
        expected = number(msg, "index") + batch_sizes[i % 4];
        lkv_msg_free(msg);
    }
    struct lkv_msg *msg = NULL;
    uint32_t seen = 0;
    for (uint64_t from = 1; seen < count; from = number(msg, "next"), lkv_msg_free(msg)) {
        cr_assert_eq(lkv_log_read(db, from, 4096, LKV_DEFAULT, &msg), 0);
        for (size_t i = 0; i < lkv_msg_count(msg); i++, seen++) {
            struct lkv_record record;
            cr_assert(lkv_msg_record(msg, i, &record));
            cr_assert(memcmp(record.data.data, &seen, sizeof(seen)) == 0);
        }
    }
    lkv_queue_free(queue);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* X-C9 */
Test(lib_log_alone, records_of_every_size_up_to_the_limit) {
    struct lkv *db = open_plain();
    static uint8_t bytes[(4 << 20) + 1];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 31 + i / 256);
    }
    const size_t sizes[] = {0, 1, 7, 8, 4095, 4096, 65536, 1 << 20, (1 << 20) + 1, 4 << 20};
    uint64_t at[sizeof(sizes) / sizeof(sizes[0])];
    for (int reopened = 0; reopened < 2; reopened++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct lkv_bytes record = {bytes, sizes[i]};
            if (!reopened) {
                cr_assert_eq(lkv_append(db, &record, 1, 0, LKV_DEFAULT, &at[i]), 0);
            }
            struct lkv_msg *msg = NULL;
            struct lkv_record got;
            cr_assert_eq(lkv_log_read(db, at[i], 1, LKV_DEFAULT, &msg), 0);
            cr_assert_geq(lkv_msg_count(msg), 1);
            cr_assert(lkv_msg_record(msg, 0, &got));
            cr_assert_eq(got.index, at[i]);
            cr_assert_eq(got.data.size, sizes[i]);
            cr_assert(memcmp(got.data.data, bytes, sizes[i]) == 0);
            lkv_msg_free(msg);
        }
        cr_assert_eq(lkv_close(db, 0), 0);
        db = open_plain();
        /* What is committed is the quorum's to say, also of one: until then nothing is shown. */
        cr_assert_eq(lkv_log_span(db, LKV_LINEARIZABLE, LKV_DEFAULT, NULL, NULL), 0);
    }
    struct lkv_bytes large = {bytes, sizeof(bytes)};
    cr_assert_eq(lkv_append(db, &large, 1, 0, LKV_DEFAULT, NULL), LKV_ETOOLARGE);
    cr_assert_str_eq(lkv_last_text(), "the record has 4194305 bytes, value_bytes_max is 4194304");
    cr_assert_eq(lkv_append(db, &large, 0, 0, LKV_DEFAULT, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_append(db, &large, LKV_APPEND_RECORDS_MAX + 1, 0, LKV_DEFAULT, NULL),
                 LKV_ETOOLARGE);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_log_alone, an_append_in_another_term_is_not_done) {
    struct lkv *db = open_plain();
    append_text(db, "x");
    uint64_t term = status_number(db, "term"), commit = 0;
    struct lkv_bytes record = LKV_STR("fenced");
    cr_assert_eq(lkv_append(db, &record, 1, term, LKV_DEFAULT, NULL), 0);
    cr_assert_eq(lkv_append(db, &record, 1, term + 1, LKV_DEFAULT, NULL), LKV_ETERM);
    cr_assert_eq(lkv_outcome(LKV_ETERM), LKV_NOT_DONE);
    cr_assert_eq(lkv_log_span(db, LKV_LOCAL, LKV_DEFAULT, NULL, &commit), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_plain();
    append_text(db, "y");
    cr_assert_eq(lkv_append(db, &record, 1, term, LKV_DEFAULT, NULL), LKV_ETERM);
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_log_read(db, commit + 1, 0, LKV_DEFAULT, &msg), 0);
    cr_assert_eq(lkv_msg_count(msg), 1, "the fenced ones never appear");
    lkv_msg_free(msg);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* X-E5: a directory is of one model for ever, and both values are told. */
Test(lib_log_alone, the_model_belongs_to_the_directory) {
    cr_assert_eq(lkv_close(open_plain(), 0), 0);
    const char *const models[] = {"kv", "log"};
    for (size_t i = 0; i < 2; i++) {
        struct lkv_options *options = lkv_options_new();
        cr_assert_eq(lkv_options_set(options, "dir", world.dirs[i]), 0);
        cr_assert_eq(lkv_options_set(options, "model", models[i]), 0);
        struct lkv *db = NULL;
        struct lkv_msg *why = NULL;
        if (i == 1) {
            cr_assert_eq(lkv_close(open_lone(world.dirs[1]), 0), 0);
        }
        cr_assert_eq(lkv_open(&db, NULL, options, &why), LKV_EIDENTITY);
        cr_assert_null(db);
        cr_assert(strstr(lkv_msg_text(why), "\"kv\"") != NULL, "%s", lkv_msg_text(why));
        cr_assert(strstr(lkv_msg_text(why), "\"log\"") != NULL, "%s", lkv_msg_text(why));
        lkv_msg_free(why);
        lkv_options_free(options);
    }
}

Test(lib_log_alone, verbs_of_the_other_model_are_unsupported) {
    struct lkv *log = open_plain();
    struct lkv *kv = open_lone(world.dirs[1]);
    struct lkv_bytes record = LKV_STR("r");
    char copy[4];
    size_t size;
    cr_assert_eq(lkv_put(log, LKV_STR("k"), LKV_STR("v"), LKV_DEFAULT, NULL), LKV_EUNSUPPORTED);
    cr_assert_eq(lkv_get(log, LKV_STR("k"), LKV_LOCAL, LKV_DEFAULT, NULL), LKV_EUNSUPPORTED);
    cr_assert_eq(lkv_get_copy(log, LKV_STR("k"), copy, 4, &size), LKV_EUNSUPPORTED);
    cr_assert_eq(lkv_append(kv, &record, 1, 0, LKV_DEFAULT, NULL), LKV_EUNSUPPORTED);
    cr_assert_eq(lkv_log_read(kv, 1, 0, LKV_DEFAULT, NULL), LKV_EUNSUPPORTED);
    cr_assert_eq(lkv_log_span(kv, LKV_LOCAL, LKV_DEFAULT, NULL, NULL), LKV_EUNSUPPORTED);
    cr_assert_eq(lkv_close(log, 0), 0);
    cr_assert_eq(lkv_close(kv, 0), 0);
}

/* ------------------------------------------------------------------ tails */

Test(lib_log_alone, a_tail_follows_the_log_and_its_credit_bounds_it) {
    struct lkv *db = open_plain();
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    int tag;
    char text[2048];
    memset(text, 'x', sizeof(text));
    cr_assert_eq(lkv_log_tail(db, 0, 16 * 1024, 0, queue, &tag), 0);
    for (int i = 0; i < 64; i++) {
        (void)snprintf(text, sizeof(text), "%04d", i);
        struct lkv_bytes record = {text, sizeof(text)};
        cr_assert_eq(lkv_append(db, &record, 1, 0, LKV_DEFAULT, NULL), 0);
    }
    struct lkv_msg *held[64];
    size_t held_count = 0;
    int seen = 0;
    while (seen < 64) {
        size_t bytes = 0;
        struct lkv_msg *msg;
        while ((msg = lkv_queue_next(queue, 50)) != NULL) {
            cr_assert_eq(lkv_msg_kind(msg), LKV_RECORDS);
            cr_assert_eq(lkv_msg_tag(msg), (void *)&tag);
            for (size_t i = 0; i < lkv_msg_count(msg); i++, seen++) {
                struct lkv_record record;
                cr_assert(lkv_msg_record(msg, i, &record));
                (void)snprintf(text, sizeof(text), "%04d", seen);
                cr_assert(memcmp(record.data.data, text, 4) == 0);
                bytes += record.data.size;
            }
            held[held_count++] = msg;
        }
        cr_assert_leq(bytes, 16 * 1024, "messages that are not freed hold the credit at most");
        while (held_count > 0) {
            lkv_msg_free(held[--held_count]);
        }
    }
    cr_assert_eq(lkv_cancel(db, &held), LKV_ENOENT);
    cr_assert_eq(lkv_cancel(db, &tag), 0);
    struct lkv_msg *end = lkv_queue_next(queue, WAIT_MS);
    cr_assert_eq(lkv_msg_kind(end), LKV_END);
    cr_assert_eq(lkv_msg_rc(end), LKV_ECANCELED);
    lkv_msg_free(end);
    append_text(db, "nobody hears it");
    cr_assert_null(lkv_queue_next(queue, 50));
    cr_assert_eq(lkv_log_tail(db, 1, 4096, 0, queue, &tag), 0);
    struct lkv_msg *kept = lkv_queue_next(queue, WAIT_MS);
    cr_assert_eq(lkv_close(db, 0), 0);
    end = lkv_queue_next(queue, 0);
    cr_assert_eq(lkv_msg_kind(end), LKV_END);
    cr_assert_eq(lkv_msg_rc(end), LKV_ECLOSED);
    lkv_msg_free(end);
    lkv_msg_free(kept); /* a message may outlive its node */
    lkv_queue_free(queue);
}

/* L20, rule 31: ready only when the tail has consumed what was there. */
Test(lib_log_alone, readiness_waits_for_its_tail) {
    struct lkv *db = open_plain();
    append_text(db, "of an earlier life");
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_plain();
    struct lkv_queue *tail, *roles;
    cr_assert_eq(lkv_queue_new(&tail), 0);
    cr_assert_eq(lkv_queue_new(&roles), 0);
    cr_assert_eq(lkv_log_tail(db, 1, 4096, LKV_GATES_READY, tail, NULL), 0);
    cr_assert_eq(lkv_role_watch(db, roles, NULL), 0);
    append_text(db, "appended by a leader that is not ready");
    struct lkv_msg *record = lkv_queue_next(tail, WAIT_MS);
    cr_assert_eq(lkv_msg_kind(record), LKV_RECORDS);
    struct lkv_msg *role;
    bool was_ready_at_open = false;
    while ((role = lkv_queue_next(roles, 100)) != NULL) {
        /* A lone node may have been elected before the tail existed. */
        was_ready_at_open =
            was_ready_at_open || strcmp(lkv_msg_str(role, "role"), "leader_ready") == 0;
        lkv_msg_free(role);
    }
    lkv_msg_free(record);
    while (!was_ready_at_open) {
        role = lkv_queue_next(roles, WAIT_MS);
        cr_assert_not_null(role);
        was_ready_at_open = strcmp(lkv_msg_str(role, "role"), "leader_ready") == 0;
        lkv_msg_free(role);
        lkv_msg_free(lkv_queue_next(tail, 0));
    }
    cr_assert_eq(lkv_close(db, 0), 0);
    lkv_queue_free(tail);
    lkv_queue_free(roles);
}

/* ------------------------------------------------------------------ extents */

Test(lib_log_alone, extents_show_the_same_bytes_on_disk) {
    struct lkv *db = open_plain();
    char text[64];
    for (int i = 0; i < 300; i++) {
        (void)snprintf(text, sizeof(text), "record number %d", i);
        append_text(db, text);
    }
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_log_read(db, 1, 0, LKV_DEFAULT, &msg), 0);
    cr_assert_eq(lkv_msg_count(msg), 300);
    int fd = -1, same = -1;
    for (size_t i = 0; i < 300; i++) {
        struct lkv_record record;
        uint64_t offset = 0;
        cr_assert(lkv_msg_record(msg, i, &record));
        cr_assert_eq(lkv_log_extent(msg, i, &fd, &offset), 0, "%s", lkv_last_text());
        cr_assert(same == -1 || same == fd, "one descriptor for one file");
        same = fd;
        cr_assert_eq(pread(fd, text, record.data.size, (off_t)offset), (ssize_t)record.data.size);
        cr_assert(memcmp(text, record.data.data, record.data.size) == 0);
        cr_assert_lt(pwrite(fd, "x", 1, (off_t)offset), 0, "it is for reading only");
    }
    uint64_t offset;
    cr_assert_eq(lkv_log_extent(msg, 300, &fd, &offset), LKV_EINVAL);
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(lkv_log_extent(msg, 0, &fd, &offset), LKV_ECLOSED);
    lkv_msg_free(msg);
}

/* ------------------------------------------------------------------ retention and holds */

static const char *small_segments[][2] = {
    {"segment_bytes", "1MiB"}, {"retention_bytes", "3MiB"}, {"keep_entries", "10"}};

static void append_bulk(struct lkv *db, int count) {
    static uint8_t bytes[64 * 1024];
    struct lkv_bytes record = {bytes, sizeof(bytes)};
    for (int i = 0; i < count; i++) {
        cr_assert_eq(lkv_append(db, &record, 1, 0, LKV_DEFAULT, NULL), 0, "%s", lkv_last_text());
    }
}

static uint64_t first_index(struct lkv *db) {
    uint64_t first = 0;
    cr_assert_eq(lkv_log_span(db, LKV_LOCAL, LKV_DEFAULT, &first, NULL), 0);
    return first;
}

static bool first_moves_beyond(struct lkv *db, uint64_t than) {
    for (int i = 0; i < 100; i++) {
        if (first_index(db) > than) {
            return true;
        }
        sleep_ms(50);
    }
    return false;
}

/* L16 */
Test(lib_log_alone, retention_drops_whole_segments_and_tells_where_the_log_begins) {
    struct lkv *db = open_log(small_segments, 3);
    append_bulk(db, 120);
    cr_assert(first_moves_beyond(db, 1));
    uint64_t first = first_index(db);
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_log_read(db, 1, 0, LKV_DEFAULT, &msg), LKV_ETRUNCATED);
    cr_assert_geq(number(msg, "first"), first);
    lkv_msg_free(msg);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_log_tail(db, 1, 4096, 0, queue, NULL), 0);
    msg = lkv_queue_next(queue, WAIT_MS);
    cr_assert_eq(lkv_msg_kind(msg), LKV_END);
    cr_assert_eq(lkv_msg_rc(msg), LKV_ETRUNCATED);
    cr_assert_geq(number(msg, "first"), first);
    lkv_msg_free(msg);
    lkv_queue_free(queue);
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_log(small_segments, 3);
    cr_assert_geq(first_index(db), first, "it begins there after a restart, too");
    append_bulk(db, 40);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_log_alone, age_lets_records_go) {
    const char *aged[][2] = {
        {"segment_bytes", "1MiB"}, {"retention_ms", "400"}, {"keep_entries", "5"}};
    struct lkv *db = open_log(aged, 3);
    append_bulk(db, 60);
    cr_assert(first_moves_beyond(db, 1));
    uint64_t commit = 0;
    cr_assert_eq(lkv_log_span(db, LKV_LOCAL, LKV_DEFAULT, NULL, &commit), 0);
    cr_assert_leq(first_index(db) + 5, commit + 1, "keep_entries stay, however old");
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_log_alone, a_hold_keeps_the_log_until_it_moves_on) {
    struct lkv *db = open_log(small_segments, 3);
    uint64_t held = append_text(db, "held");
    cr_assert_eq(lkv_log_hold(db, "reader", held, LKV_DEFAULT), 0);
    append_bulk(db, 120);
    sleep_ms(1500);
    cr_assert_leq(first_index(db), held);
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_log(small_segments, 3);
    append_bulk(db, 20);
    sleep_ms(1500);
    cr_assert_leq(first_index(db), held, "it is durable");
    struct lkv_msg *msg = NULL;
    cr_assert_eq(lkv_log_read(db, held, 0, LKV_DEFAULT, &msg), 0);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_log_hold(db, "reader", held + 60, LKV_DEFAULT), 0);
    cr_assert(first_moves_beyond(db, held));
    cr_assert_leq(first_index(db), held + 60);
    cr_assert_eq(lkv_log_hold(db, "late", 1, LKV_DEFAULT), LKV_ETRUNCATED);
    cr_assert_eq(lkv_log_hold(db, "reader", 0, LKV_DEFAULT), 0);
    cr_assert(first_moves_beyond(db, held + 60));
    cr_assert_eq(lkv_log_hold(db, "no/name", 1, LKV_DEFAULT), LKV_EINVAL);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_log_alone, a_hold_that_keeps_too_much_loses) {
    const char *capped[][2] = {{"segment_bytes", "1MiB"},
                               {"retention_bytes", "2MiB"},
                               {"keep_entries", "10"},
                               {"hold_bytes_max", "2MiB"}};
    struct lkv *db = open_log(capped, 4);
    uint64_t held = append_text(db, "held");
    cr_assert_eq(lkv_log_hold(db, "gone", held, LKV_DEFAULT), 0);
    append_bulk(db, 160);
    cr_assert(first_moves_beyond(db, held));
    cr_assert_eq(lkv_close(db, 0), 0);
}
