/* Appends in sessions (rule 26, X-A10): once, side by side, all or none, with the first answer; on one
 * node, across restarts, images and changes of leader. */
#include "tests/unit/lib/node_world.h"

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_log_once, .init = setup, .fini = teardown, .timeout = 100);

enum { TTL_MS = 60000 };

static struct lkv *open_log_alone(void) {
    struct lkv_options *options = new_options(world.dirs[0], "n1");
    struct lkv *db;
    cr_assert_eq(lkv_options_set(options, "model", "log"), 0);
    cr_assert_eq(lkv_options_set(options, "keep_entries", "1"), 0);
    cr_assert_eq(lkv_options_set(options, "retention_bytes", "65536"), 0);
    int rc = try_open(&db, options);
    cr_assert_eq(rc, 0, "%s", open_text);
    return db;
}

static struct lkv_session *resume(struct lkv *db, uint64_t id) {
    struct lkv_session *session;
    int rc = lkv_session_open(db, id, TTL_MS, &session);
    cr_assert_eq(rc, 0, "%s", lkv_last_text());
    return session;
}

static uint64_t append_as(struct lkv_session *session, uint64_t seq, const char *text,
                          size_t count) {
    struct lkv_bytes records[8];
    uint64_t index = 0;
    for (size_t i = 0; i < count; i++) {
        records[i] = (struct lkv_bytes){text, strlen(text) - i};
    }
    int rc = lkv_append_once(session, seq, records, count, 0, WAIT_MS, &index);
    cr_assert_eq(rc, 0, "%lu: %s", seq, lkv_last_text());
    return index;
}

static size_t count_records(struct lkv *db, uint64_t from) {
    size_t count = 0;
    uint64_t next_index = from, commit = 0;
    cr_assert_eq(lkv_log_span(db, LKV_LINEARIZABLE, WAIT_MS, NULL, &commit), 0);
    while (next_index <= commit) {
        struct lkv_msg *msg = NULL;
        cr_assert_eq(lkv_log_read(db, next_index, 0, WAIT_MS, &msg), 0, "%s", lkv_last_text());
        count += lkv_msg_count(msg);
        cr_assert(lkv_msg_u64(msg, "next", &next_index));
        lkv_msg_free(msg);
    }
    return count;
}

static uint64_t digest_at(struct lkv *db, uint64_t *index) {
    struct lkv_msg *msg = NULL;
    uint64_t digest = 0;
    cr_assert_eq(lkv_digest(db, WAIT_MS, &msg), 0, "%s", lkv_last_text());
    cr_assert(lkv_msg_u64(msg, "digest", &digest));
    cr_assert(lkv_msg_u64(msg, "index", index));
    lkv_msg_free(msg);
    return digest;
}

Test(lib_log_once, a_number_is_appended_once_and_answered_as_the_first_time) {
    struct lkv *db = open_log_alone();
    struct lkv_session *session = resume(db, 0);
    uint64_t id = lkv_session_id(session);
    uint64_t first = append_as(session, 1, "record", 3);
    struct lkv_bytes record = LKV_STR("record");
    cr_assert_eq(lkv_append_once(session, 1, &record, 1, 0, WAIT_MS, NULL), LKV_EANSWERED);
    cr_assert_eq(lkv_session_close(session, 0), 0);
    /* Somebody who does not know that it was answered. */
    session = resume(db, id);
    cr_assert_eq(lkv_session_last(session), 1);
    cr_assert_eq(append_as(session, 1, "record", 3), first);
    cr_assert_eq(lkv_session_close(session, 0), 0);
    session = resume(db, id);
    cr_assert_eq(lkv_append_once(session, 1, &record, 1, 0, WAIT_MS, NULL), LKV_EINVAL);
    cr_assert(strstr(lkv_last_text(), "other records") != NULL, "%s", lkv_last_text());
    cr_assert_eq(append_as(session, 1, "record", 3), first);
    cr_assert_gt(append_as(session, 2, "more", 1), first + 2);
    cr_assert_eq(count_records(db, 1), 4);
    cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
}

Test(lib_log_once, readers_and_extents_see_the_callers_bytes_only) {
    struct lkv *db = open_log_alone();
    struct lkv_session *session = resume(db, 0);
    uint64_t index = append_as(session, 1, "bytes", 1);
    struct lkv_bytes nothing = {NULL, 0};
    cr_assert_eq(lkv_append_once(session, 2, &nothing, 1, 0, WAIT_MS, NULL), 0);
    struct lkv_msg *msg = NULL;
    struct lkv_record record;
    int fd;
    uint64_t offset;
    char found[8] = {0};
    cr_assert_eq(lkv_log_read(db, index, 0, WAIT_MS, &msg), 0);
    cr_assert_eq(lkv_msg_count(msg), 2);
    cr_assert(lkv_msg_record(msg, 0, &record));
    cr_assert_eq(record.data.size, 5);
    cr_assert_arr_eq(record.data.data, "bytes", 5);
    cr_assert_eq(lkv_log_extent(msg, 0, &fd, &offset), 0, "%s", lkv_last_text());
    cr_assert_eq(pread(fd, found, 5, (off_t)offset), 5);
    cr_assert_str_eq(found, "bytes");
    cr_assert(lkv_msg_record(msg, 1, &record));
    cr_assert_eq(record.data.size, 0);
    cr_assert_eq(lkv_log_extent(msg, 1, &fd, &offset), 0);
    lkv_msg_free(msg);
    cr_assert_eq(lkv_session_close(session, 0), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* Across restarts, and across retention: the image that lets records go brings the sessions (rule 14). */
Test(lib_log_once, numbers_outlive_restarts_and_their_records) {
    struct lkv *db = open_log_alone();
    struct lkv_session *session = resume(db, 0);
    uint64_t id = lkv_session_id(session);
    uint64_t first = append_as(session, 1, "record", 2), index, last;
    static char large[65536];
    memset(large, 'x', sizeof(large));
    struct lkv_bytes filler = {large, sizeof(large)};
    for (int i = 0; i < 200 && status_number(db, "image_index") <= first + 1; i++) {
        cr_assert_eq(lkv_append(db, &filler, 1, 0, WAIT_MS, NULL), 0);
        if (i > 20) {
            sleep_ms(50);
        }
    }
    cr_assert_gt(status_number(db, "image_index"), first + 1, "its records are gone");
    uint64_t digest = digest_at(db, &index);
    cr_assert_eq(lkv_session_close(session, 0), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
    db = open_log_alone();
    session = resume(db, id);
    cr_assert_eq(append_as(session, 1, "record", 2), first, "the first answer");
    cr_assert_eq(append_as(session, 2, "second", 1), append_as(session, 3, "third", 1) - 1);
    cr_assert_eq(lkv_session_close(session, 0), 0);
    session = resume(db, id);
    cr_assert_eq(lkv_session_last(session), 3);
    cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
    cr_assert_neq(digest_at(db, &last), digest);
    cr_assert_gt(last, index);
    cr_assert_eq(lkv_close(db, 0), 0);
}

static void open_log_member(int i) {
    struct lkv_options *options = member_options(&world, i);
    cr_assert_eq(lkv_options_set(options, "model", "log"), 0);
    int rc = try_open(&world.nodes[i], options);
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), open_text);
}

enum { NUMBERS = 20 };

/* All at once, so that none is known to be answered by another. */
static void append_all(struct lkv_session *session, uint64_t *indices) {
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (uint64_t seq = 1; seq <= NUMBERS; seq++) {
        struct lkv_bytes records[3] = {LKV_STR("a"), LKV_STR("bc"), LKV_STR("")};
        cr_assert_eq(lkv_append_once_submit(session, seq, records, 1 + seq % 3, 0, WAIT_MS, queue,
                                            (void *)(uintptr_t)seq),
                     0, "%s", lkv_last_text());
    }
    for (uint64_t i = 1; i <= NUMBERS; i++) {
        struct lkv_msg *reply = lkv_queue_next(queue, WAIT_MS);
        cr_assert_not_null(reply);
        cr_assert_eq(lkv_msg_rc(reply), 0, "%s", lkv_msg_text(reply));
        uint64_t seq = (uint64_t)(uintptr_t)lkv_msg_tag(reply);
        cr_assert(lkv_msg_u64(reply, "index", &indices[seq - 1]));
        lkv_msg_free(reply);
    }
    lkv_queue_free(queue);
}

static void submit_one(struct lkv_session *session, uint64_t seq, struct lkv_queue *queue) {
    const struct lkv_bytes record = LKV_STR("record");
    cr_assert_eq(lkv_append_once_submit(session, seq, &record, 1, 0, WAIT_MS, queue, NULL), 0, "%s",
                 lkv_last_text());
}

/* Two handles of one session, each with numbers of its own, in one turn of the leader: the later number
 * says that the earlier one was answered, although it is on its way. */
Test(lib_log_once, a_number_that_is_given_up_within_its_turn_is_appended_all_the_same) {
    enum { ROUNDS = 100, APART = 300 /* more than a window */ };
    struct lkv *db = open_log_alone();
    struct lkv_session *first = resume(db, 0);
    struct lkv_session *second = resume(db, lkv_session_id(first));
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        submit_one(first, 2 * APART * round, queue);
        submit_one(second, 2 * APART * round + APART, queue);
        for (int i = 0; i < 2; i++) {
            struct lkv_msg *reply = lkv_queue_next(queue, WAIT_MS);
            cr_assert_not_null(reply);
            cr_assert_eq(lkv_msg_rc(reply), 0, "%s", lkv_msg_text(reply));
            lkv_msg_free(reply);
        }
    }
    cr_assert_eq(count_records(db, 1), 2 * ROUNDS);
    lkv_queue_free(queue);
    cr_assert_eq(lkv_session_close(first, 0), 0);
    cr_assert_eq(lkv_session_close(second, 0), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
}

/* X-A10: repeated to whichever node, and to the next leader. Digests are equal at equal index. */
Test(lib_log_once, the_next_leader_knows_what_the_last_one_has_appended) {
    for (int i = 0; i < NODES; i++) {
        open_log_member(i);
    }
    int leader = find_leader(&world);
    struct lkv_session *session = resume(world.nodes[(leader + 1) % NODES], 0);
    uint64_t id = lkv_session_id(session), indices[NUMBERS], again[NUMBERS];
    append_all(session, indices);
    cr_assert_eq(lkv_session_close(session, 0), 0);
    close_member(&world, leader);
    int next = find_leader(&world);
    cr_assert_neq(next, leader);
    open_log_member(leader);
    for (int i = 0; i < NODES; i++) {
        session = resume(world.nodes[i], id);
        append_all(session, again);
        cr_assert_arr_eq(again, indices, sizeof(indices));
        cr_assert_eq(lkv_session_close(session, 0), 0);
    }
    cr_assert_eq(count_records(world.nodes[next], 1), 41);
    uint64_t digests[NODES], index[NODES] = {0, 1, 2};
    for (int round = 0; round < 100 && (index[0] != index[1] || index[1] != index[2]); round++) {
        sleep_ms(20);
        for (int i = 0; i < NODES; i++) {
            digests[i] = digest_at(world.nodes[i], &index[i]);
        }
    }
    cr_assert_eq(index[0], index[1]);
    cr_assert_eq(index[1], index[2]);
    cr_assert_eq(digests[0], digests[1]);
    cr_assert_eq(digests[1], digests[2]);
}

/* One handle's appends keep their order, and none is lost or doubled, when leaders change under them. */
Test(lib_log_once, a_stream_keeps_its_order_across_changes_of_leader) {
    enum { COUNT = 200 };
    for (int i = 0; i < NODES; i++) {
        open_log_member(i);
    }
    int leader = find_leader(&world);
    struct lkv *db = world.nodes[(leader + 1) % NODES];
    struct lkv_session *session = resume(db, 0);
    struct lkv_queue *queue;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    uint64_t last = 0;
    size_t in_flight = 0;
    for (uint64_t seq = 1; seq <= COUNT || in_flight > 0;) {
        if (seq == COUNT / 2 && leader >= 0) {
            close_member(&world, leader);
            leader = -1;
        }
        if (seq <= COUNT && in_flight < 50) {
            struct lkv_bytes record = {&seq, sizeof(seq)};
            cr_assert_eq(lkv_append_once_submit(session, seq, &record, 1, 0, WAIT_MS, queue, NULL),
                         0, "%s", lkv_last_text());
            seq++;
            in_flight++;
            continue;
        }
        struct lkv_msg *reply = lkv_queue_next(queue, WAIT_MS);
        uint64_t index = 0;
        cr_assert_not_null(reply);
        cr_assert_eq(lkv_msg_rc(reply), 0, "%s", lkv_msg_text(reply));
        cr_assert(lkv_msg_u64(reply, "index", &index));
        last = index > last ? index : last;
        lkv_msg_free(reply);
        in_flight--;
    }
    uint64_t expected = 1, from = 1;
    while (from <= last) {
        struct lkv_msg *msg = NULL;
        struct lkv_record record;
        cr_assert_eq(lkv_log_read(db, from, 0, WAIT_MS, &msg), 0, "%s", lkv_last_text());
        for (size_t i = 0; lkv_msg_record(msg, i, &record); i++) {
            uint64_t value;
            cr_assert_eq(record.data.size, sizeof(value));
            memcpy(&value, record.data.data, sizeof(value));
            cr_assert_eq(value, expected, "%lu, not %lu", value, expected);
            expected++;
        }
        cr_assert(lkv_msg_u64(msg, "next", &from));
        lkv_msg_free(msg);
    }
    cr_assert_eq(expected, COUNT + 1);
    cr_assert_eq(lkv_session_close(session, 0), 0);
    lkv_queue_free(queue);
}
