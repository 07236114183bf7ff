/* A program's hold of a session: its numbers, its keep-alives, and what its writes carry. */
#include "lib/session.h"
#include "base/mem.h"
#include "base/prng.h"
#include "kv/command.h"

#include <criterion/criterion.h>

/* A handle that keeps what is submitted until the test answers it. */
static struct {
    struct lkv handle;
    struct lkv_ops ops;
    uint64_t now_ns;
    int submit_rc;
    struct request *kept[600];
    size_t count;
    bool open_at_once; /* the request that opens a session is answered inside submit */
    uint64_t last_seq; /* told then, of one that is resumed */
} fake;

static struct kv_command command_of(const struct request *request) {
    struct kv_command command = {.op = KV_PUT};
    if (request->op != REQUEST_WRITE) {
        return command; /* it has none */
    }
    cr_assert_eq(kv_command_decode(blob_slice(request->command), &command, NULL), 0);
    return command;
}

static int fake_submit(struct lkv *db, struct request *request) {
    cr_assert_eq(db, &fake.handle);
    if (fake.submit_rc != 0) {
        return fake.submit_rc;
    }
    struct kv_command command = command_of(request);
    if (fake.open_at_once && command.op == KV_SESSION_OPEN && request->in_session != NULL) {
        if (command.session == 0) {
            msg_set_u64(request->reply, "session", 50);
        }
        msg_set_u64(request->reply, "count", fake.last_seq);
        request_finish(request);
        return 0;
    }
    fake.kept[fake.count++] = request;
    return 0;
}

static uint64_t fake_now_ns(const struct lkv *db) {
    (void)db;
    return fake.now_ns;
}

static int fake_close(struct lkv *db, int64_t handover_ms) {
    (void)db;
    (void)handover_ms;
    return 0;
}

static struct lkv *db = &fake.handle;
static struct lkv_queue *queue;
static struct lkv_session *session;

static void open_fake(void) {
    memset(&fake, 0, sizeof(fake));
    fake.ops = (struct lkv_ops){.submit = fake_submit, .close = fake_close, .now_ns = fake_now_ns};
    fake.handle.ops = &fake.ops;
    fake.handle.timeout_ms = 5000;
    fake.handle.key_bytes_max = fake.handle.value_bytes_max = 1000;
    fake.handle.sessions_max = 77;
    fake.open_at_once = true;
    cr_assert_eq(lkv_queue_new(&queue), 0);
    cr_assert_eq(lkv_session_open(db, 0, 30000, &session), 0);
}

static void close_fake(void) {
    for (size_t i = 0; i < fake.count; i++) {
        if (fake.kept[i] != NULL) {
            request_fail(fake.kept[i], LKV_ECLOSED, NULL);
        }
    }
    cr_assert_eq(lkv_session_close(session, 0), 0);
    cr_assert_eq(atomic_load(&db->sessions.count), 0);
    lkv_queue_free(queue);
}

TestSuite(lib_session, .init = open_fake, .fini = close_fake);

static int submit(uint64_t seq) {
    return lkv_put_once_submit(session, seq, LKV_STR("k"), LKV_STR("v"), 1000, queue, NULL);
}

/* The oldest that is kept. */
static struct request *take(void) {
    for (size_t i = 0; i < fake.count; i++) {
        if (fake.kept[i] != NULL) {
            struct request *request = fake.kept[i];
            fake.kept[i] = NULL;
            return request;
        }
    }
    cr_assert_fail("nothing was submitted");
    return NULL;
}

static void answer(int rc) {
    struct request *request = take();
    if (rc == 0) {
        request_finish(request);
    } else {
        request_fail(request, rc, "the fake says %d", rc);
    }
}

static void expect_reply(int rc) {
    struct lkv_msg *msg = lkv_queue_next(queue, 0);
    cr_assert_not_null(msg);
    cr_assert_eq(lkv_msg_rc(msg), rc);
    lkv_msg_free(msg);
}

Test(lib_session, a_write_carries_session_number_and_what_is_answered) {
    cr_assert_eq(lkv_session_id(session), 50);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        cr_assert_eq(submit(seq), 0);
    }
    struct request *third = fake.kept[2];
    cr_assert(third->repeatable && third->session == 50);
    struct kv_command command = command_of(third);
    cr_assert(command.session == 50 && command.seq == 3 && command.acked_below == 1);
    answer(0);
    answer(0);
    cr_assert_eq(submit(4), 0);
    cr_assert_eq(command_of(fake.kept[3]).acked_below, 3, "the third has no answer yet");
    cr_assert_eq(lkv_session_last(session), 4);
    lkv_msg_free(lkv_queue_next(queue, 0));
    lkv_msg_free(lkv_queue_next(queue, 0));
}

Test(lib_session, c6_a_number_without_an_answer_may_be_used_again) {
    cr_assert_eq(submit(1), 0);
    cr_assert_eq(submit(1), LKV_EBUSY, "it is under way");
    answer(LKV_EUNKNOWN);
    expect_reply(LKV_EUNKNOWN);
    cr_assert_eq(submit(2), 0);
    answer(LKV_ENOLEADER);
    expect_reply(LKV_ENOLEADER);
    cr_assert_eq(submit(1), 0);
    cr_assert_eq(command_of(fake.kept[2]).acked_below, 1);
    answer(0);
    expect_reply(0);
    cr_assert_eq(submit(1), LKV_EANSWERED);
    cr_assert_eq(submit(2), 0);
    cr_assert_eq(submit(0), LKV_EINVAL);
}

Test(lib_session, a_number_is_given_up_when_256_later_are_in_use) {
    cr_assert_eq(submit(1), 0);
    answer(LKV_EUNKNOWN);
    cr_assert_eq(submit(2), 0);
    cr_assert_eq(submit(257), 0);
    cr_assert_eq(command_of(fake.kept[2]).acked_below, 2);
    cr_assert_eq(submit(1), LKV_EANSWERED);
    cr_assert_eq(submit(258), LKV_EBUSY, "the second is under way");
    answer(0);
    cr_assert_eq(submit(258), 0);
    cr_assert_eq(submit(600), LKV_EBUSY);
    answer(0);
    answer(0);
    cr_assert_eq(submit(100000), 0);
    cr_assert_eq(command_of(fake.kept[4]).acked_below, 100000 - 255);
    for (struct lkv_msg *msg; (msg = lkv_queue_next(queue, 0)) != NULL;) {
        lkv_msg_free(msg);
    }
}

Test(lib_session, what_fails_at_once_gives_its_number_back) {
    fake.submit_rc = LKV_EBUSY;
    cr_assert_eq(submit(1), LKV_EBUSY);
    fake.submit_rc = 0;
    static char big[2000];
    cr_assert_eq(
        lkv_put_once(session, 1, (struct lkv_bytes){big, sizeof(big)}, LKV_STR("v"), 1, NULL),
        LKV_ETOOLARGE);
    for (uint64_t n = 0, failed = 1; failed != 0; n++) {
        mem_fail_after(n);
        int rc = submit(1);
        mem_fail_never();
        failed = rc == LKV_ENOMEM;
        cr_assert(failed || rc == 0);
    }
}

Test(lib_session, a_resumed_session_goes_on_behind_its_last_number) {
    cr_assert_eq(lkv_session_close(session, 0), 0);
    fake.last_seq = 1000;
    cr_assert_eq(lkv_session_open(db, 50, 30000, &session), 0);
    cr_assert_eq(lkv_session_id(session), 50);
    cr_assert_eq(lkv_session_last(session), 1000);
    cr_assert_eq(submit(744), LKV_EANSWERED);
    cr_assert_eq(submit(745), 0);
    answer(0);
    expect_reply(0);
    cr_assert_eq(submit(1001), 0);
    cr_assert_eq(command_of(fake.kept[1]).acked_below, 746, "997 may still be asked again");
}

Test(lib_session, says_keep_alive_when_nothing_else_was_said) {
    enum { SECOND = 1000000000 };
    uint64_t due = sessions_turn(db, fake.now_ns);
    cr_assert_eq(due, UINT64_C(10) * SECOND, "a third of the ttl");
    fake.now_ns = UINT64_C(5) * SECOND;
    cr_assert_eq(submit(1), 0);
    answer(0);
    expect_reply(0);
    cr_assert_eq(sessions_turn(db, fake.now_ns), due, "looked at when the first could be due");
    cr_assert_eq(sessions_turn(db, due), UINT64_C(15) * SECOND, "a write is as good");
    fake.now_ns = UINT64_C(15) * SECOND;
    cr_assert_eq(sessions_turn(db, fake.now_ns), UINT64_MAX, "one is under way");
    cr_assert(fake.kept[1]->op == REQUEST_SESSION_KEEP && fake.kept[1]->session == 50);
    cr_assert_eq(sessions_turn(db, fake.now_ns), UINT64_MAX);
    answer(LKV_ETIMEOUT);
    cr_assert_eq(sessions_turn(db, fake.now_ns), fake.now_ns + 30000 / 20 * UINT64_C(1000000));
    fake.now_ns = UINT64_C(17) * SECOND;
    cr_assert_eq(sessions_turn(db, fake.now_ns), UINT64_MAX);
    answer(LKV_ESESSION);
    cr_assert_eq(sessions_turn(db, UINT64_MAX - 1), UINT64_MAX, "it is over");
}

Test(lib_session, closing_the_handle_first_leaves_sessions_without_one) {
    cr_assert_eq(submit(1), 0);
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(submit(2), LKV_ECLOSED);
    answer(LKV_EUNKNOWN);
    expect_reply(LKV_EUNKNOWN);
    cr_assert_eq(lkv_session_close(session, 1000), 0);
    session = NULL;
}

Test(lib_session, c6_a_refusal_after_a_lost_attempt_is_unknown) {
    static const int definite[] = {LKV_ESESSION, LKV_EBUSY, LKV_ENOSPACE, LKV_ETIMEOUT};
    for (size_t i = 0; i < sizeof(definite) / sizeof(definite[0]); i++) {
        cr_assert_eq(submit(1 + i), 0);
        struct request *request = take();
        request->maybe_done = true;
        request_fail(request, definite[i], NULL);
        expect_reply(LKV_EUNKNOWN);
    }
    cr_assert_eq(submit(9), 0);
    struct request *request = take();
    request->maybe_done = true;
    request_fail(request, LKV_ETERM, NULL); /* the answer to an applied entry */
    expect_reply(LKV_ETERM);
}

/* The program's own loop: the number goes out again and again, each time as a new request. */
Test(lib_session, c6_a_number_in_doubt_is_not_done_by_no_later_refusal) {
    static const int passing[] = {LKV_ETIMEOUT,     LKV_ENOLEADER, LKV_EBUSY,
                                  LKV_EUNREACHABLE, LKV_ENOQUORUM, LKV_EREADONLY};
    static const int staying[] = {LKV_ESESSION, LKV_ESTOPPED, LKV_ECLOSED};
    cr_assert_eq(submit(1), 0);
    answer(LKV_ETIMEOUT);
    expect_reply(LKV_ETIMEOUT); /* in no doubt yet */
    cr_assert_eq(submit(1), 0);
    answer(LKV_EUNKNOWN);
    expect_reply(LKV_EUNKNOWN);
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
        cr_assert_eq(submit(1), 0);
        answer(passing[i]);
        expect_reply(LKV_EUNKNOWN);
        fake.submit_rc = passing[i];
        cr_assert_eq(submit(1), LKV_EUNKNOWN, "refused at once");
        fake.submit_rc = 0;
    }
    for (size_t i = 0; i < sizeof(staying) / sizeof(staying[0]); i++) {
        cr_assert_eq(submit(1), 0);
        answer(staying[i]);
        expect_reply(LKV_EANSWERED);
    }
    cr_assert_eq(submit(2), 0); /* another number is in no doubt */
    cr_assert_eq(submit(1), 0);
    cr_assert_eq(submit(1), LKV_EUNKNOWN, "under way");
    answer(LKV_EBUSY);
    expect_reply(LKV_EBUSY);
    answer(LKV_ETERM); /* an applied entry's */
    expect_reply(LKV_ETERM);
    cr_assert_eq(submit(1), 0);
    answer(LKV_ETIMEOUT);
    expect_reply(LKV_ETIMEOUT);
}

Test(lib_session, c6_appends_and_all_other_writes_are_in_doubt_alike) {
    struct lkv_bytes record = LKV_STR("r");
    struct lkv_change add = {
        .op = LKV_OP_ADD, .key = LKV_STR("k"), .delta = 1, .session = session, .seq = 2};
    struct lkv_txn *txn = lkv_txn_new();
    lkv_txn_put(txn, LKV_STR("k"), LKV_STR("v"));
    lkv_txn_once(txn, session, 3);
    for (int attempt = 0; attempt < 2; attempt++) {
        int rcs[] = {
            lkv_append_once_submit(session, 1, &record, 1, 0, 1000, queue, NULL),
            lkv_write_submit(NULL, &add, 1000, queue, NULL),
            lkv_txn_submit(db, txn, 1000, queue, NULL),
            lkv_delete_once_submit(session, 4, LKV_STR("a"), LKV_STR("b"), true, 1000, queue, NULL),
        };
        for (size_t i = 0; i < sizeof(rcs) / sizeof(rcs[0]); i++) {
            cr_assert_eq(rcs[i], 0, "%zu: %s", i, lkv_last_text());
            answer(attempt == 0 ? LKV_EUNKNOWN : LKV_ENOLEADER);
            expect_reply(LKV_EUNKNOWN);
        }
    }
    lkv_txn_free(txn);
}

Test(lib_session, c6_the_number_is_in_doubt_when_there_is_no_memory_for_its_next_attempt) {
    cr_assert_eq(submit(1), 0);
    answer(LKV_EUNKNOWN);
    expect_reply(LKV_EUNKNOWN);
    int rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        mem_fail_after(n);
        rc = submit(1);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_EUNKNOWN, "%s", error_name(rc));
    }
    answer(0);
    expect_reply(0);
    cr_assert_eq(submit(2), 0);
    answer(LKV_EUNKNOWN);
    expect_reply(LKV_EUNKNOWN);
    cr_assert_eq(lkv_close(db, 0), 0);
    cr_assert_eq(submit(2), LKV_EANSWERED, "nobody can say any more");
    cr_assert_eq(submit(3), LKV_ECLOSED);
}

Test(lib_session, c6_a_resumed_session_is_in_doubt_about_what_was_used) {
    struct lkv_session *other;
    fake.last_seq = 300;
    cr_assert_eq(lkv_session_open(db, 50, 30000, &other), 0);
    static const uint64_t numbers[] = {45, 300, 301};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(
            lkv_put_once_submit(other, numbers[i], LKV_STR("k"), LKV_STR("v"), 1000, queue, NULL),
            0);
        answer(LKV_ETIMEOUT);
        expect_reply(numbers[i] <= 300 ? LKV_EUNKNOWN : LKV_ETIMEOUT);
    }
    cr_assert_eq(lkv_session_close(other, 0), 0);
}

Test(lib_session, opening_fails_cleanly) {
    struct lkv_session *other;
    cr_assert_eq(lkv_session_open(NULL, 0, 30000, &other), LKV_EINVAL);
    cr_assert_eq(lkv_session_open(db, 0, 999, &other), LKV_EINVAL);
    fake.submit_rc = LKV_ECLOSED;
    cr_assert_eq(lkv_session_open(db, 0, 30000, &other), LKV_ECLOSED);
    cr_assert_null(other);
    fake.submit_rc = 0;
    int rc = -1;
    for (uint64_t n = 0; rc != 0; n++) {
        mem_fail_after(n);
        rc = lkv_session_open(db, 0, 30000, &other);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        cr_assert_eq(rc == 0, other != NULL);
    }
    cr_assert_eq(lkv_session_close(other, 0), 0);
}

/* ------------------------------------------------------------------ numbers, against a naive model */

enum { NAIVE = 4000 };

Test(lib_session, numbers_agree_with_a_naive_model) {
    static enum { UNUSED, UNDER_WAY, OPEN, ANSWERED } state[NAIVE];
    static bool in_doubt[NAIVE];
    struct prng prng = prng_of(3);
    uint64_t greatest = 0;
    memset(state, 0, sizeof(state));
    memset(in_doubt, 0, sizeof(in_doubt));
    for (unsigned step = 0; step < 60000; step++) {
        uint64_t seq = greatest + 3 - prng_below(&prng, greatest < 300 ? greatest + 2 : 300);
        if (seq >= NAIVE) {
            break;
        }
        if (state[seq] == UNDER_WAY && prng_below(&prng, 2) == 0) {
            bool good = prng_below(&prng, 3) > 0;
            struct request request = {.in_session = NULL};
            struct lkv_msg reply = {.rc = good ? 0 : LKV_EUNKNOWN};
            request.reply = &reply;
            session_attach(session, &request, seq);
            session_answer(&request);
            state[seq] = good ? ANSWERED : OPEN;
            in_doubt[seq] = !good;
            continue;
        }
        bool blocked = false, gone = false;
        for (uint64_t i = 1; i + KV_SESSION_WINDOW <= seq; i++) {
            blocked = blocked || state[i] == UNDER_WAY;
        }
        gone = seq + KV_SESSION_WINDOW <= greatest;
        uint64_t acked_below;
        int rc = session_use(session, seq, &acked_below, NULL);
        if (gone || state[seq] == ANSWERED) {
            cr_assert_eq(rc, LKV_EANSWERED, "step %u, number %lu", step, seq);
        } else if (state[seq] == UNDER_WAY || (seq > greatest && blocked)) {
            cr_assert_eq(rc, in_doubt[seq] ? LKV_EUNKNOWN : LKV_EBUSY, "step %u, number %lu", step,
                         seq);
        } else {
            cr_assert_eq(rc, 0, "step %u, number %lu", step, seq);
            state[seq] = UNDER_WAY;
            greatest = seq > greatest ? seq : greatest;
            cr_assert_leq(acked_below, seq);
            cr_assert_lt(seq - acked_below, KV_SESSION_WINDOW);
            for (uint64_t i = 1; i < acked_below; i++) { /* never one that may still be asked */
                cr_assert(state[i] == ANSWERED || i + KV_SESSION_WINDOW <= greatest);
            }
        }
    }
    cr_assert_gt(greatest, 1000);
    for (uint64_t seq = 1; seq < NAIVE; seq++) {
        if (state[seq] == UNDER_WAY) {
            session_give_back(session, seq);
        }
    }
}
