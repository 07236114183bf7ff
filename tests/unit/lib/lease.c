/* Leases that a handle keeps alive: when keep-alives are sent, and when the loss is told (X-I9). */
#include "lib/lease.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kv/command.h"
#include "lib/request.h"

#include <criterion/criterion.h>

enum { TTL_MS = 9000, ID = 5 };

#define MS(n) ((uint64_t)(n)*MS_NS)

/* A handle that keeps what is submitted until the test answers it. */
static struct {
    struct lkv handle;
    struct lkv_ops ops;
    uint64_t now_ns;
    int submit_rc;
    int call_rc; /* of writes, which are answered inside of submit */
    struct request *kept;
    size_t submits, wakes;
    struct kv_command command; /* of the last write */
} fake;

static int fake_submit(struct lkv *db, struct request *request) {
    cr_assert_eq(db, &fake.handle);
    if (fake.submit_rc != 0) {
        return fake.submit_rc;
    }
    fake.submits++;
    if (request->op == REQUEST_WRITE) {
        cr_assert_eq(kv_command_decode(blob_slice(request->command), &fake.command, NULL), 0);
        cr_assert_eq(request->level, kv_command_level(&fake.command));
        if (fake.call_rc != 0) {
            request_fail(request, fake.call_rc, "refused");
        } else {
            request_finish(request);
        }
        return 0;
    }
    cr_assert_eq(request->op, REQUEST_LEASE_KEEP);
    cr_assert_null(fake.kept, "one at a time");
    fake.kept = request;
    return 0;
}

static uint64_t fake_now_ns(const struct lkv *db) {
    (void)db;
    return fake.now_ns;
}

static void fake_wake(struct lkv *db) {
    (void)db;
    fake.wakes++;
}

static int fake_close(struct lkv *db, int64_t handover_ms) {
    (void)db;
    (void)handover_ms;
    return 0;
}

static struct lkv *db = &fake.handle;
static struct lkv_queue *queue;

static void setup(void) {
    memset(&fake, 0, sizeof(fake));
    fake.ops = (struct lkv_ops){
        .submit = fake_submit, .close = fake_close, .now_ns = fake_now_ns, .wake = fake_wake};
    fake.handle.ops = &fake.ops;
    fake.handle.timeout_ms = 5000;
    fake.now_ns = MS(1000);
    cr_assert_eq(lkv_queue_new(&queue), 0);
}

static void teardown(void) {
    lease_holds_detach(db);
    if (fake.kept != NULL) {
        request_fail(fake.kept, LKV_ECLOSED, NULL);
    }
    lkv_queue_free(queue);
}

TestSuite(lib_lease, .init = setup, .fini = teardown);

static int tag;

static int64_t open_lease(void) {
    int64_t id;
    cr_assert_eq(lkv_lease_open(db, TTL_MS, queue, &tag, &id), 0);
    cr_assert_gt(id, 0);
    cr_assert(fake.command.op == KV_LEASE_GRANT && fake.command.lease == id);
    cr_assert(fake.command.ttl_ms == TTL_MS && fake.command.limit == KV_LEASES_MAX);
    cr_assert_eq(fake.wakes, 1);
    return id;
}

static uint64_t turn_at(uint64_t now_ns) {
    fake.now_ns = now_ns;
    return lease_holds_turn(db, now_ns);
}

static void answer(int rc) {
    struct request *request = fake.kept;
    cr_assert_not_null(request);
    fake.kept = NULL;
    if (rc == 0) {
        request_finish(request);
    } else {
        request_fail(request, rc, "refused");
    }
}

static void expect_loss(int64_t id, int rc) {
    struct lkv_msg *msg = lkv_queue_next(queue, 0);
    uint64_t lease = 0;
    cr_assert_not_null(msg);
    cr_assert_eq(lkv_msg_kind(msg), LKV_LEASE_LOST);
    cr_assert_eq(lkv_msg_rc(msg), rc);
    cr_assert(lkv_msg_tag(msg) == &tag && lkv_msg_u64(msg, "lease", &lease));
    cr_assert_eq(lease, (uint64_t)id);
    lkv_msg_free(msg);
    cr_assert_null(lkv_queue_next(queue, 0), "told once");
}

Test(lib_lease, it_is_kept_alive_each_third_of_its_ttl) {
    (void)open_lease();
    cr_assert_eq(turn_at(MS(1000)), MS(4000));
    cr_assert_eq(turn_at(MS(3999)), MS(4000));
    cr_assert_null(fake.kept);
    cr_assert_eq(turn_at(MS(4000)), MS(10000), "it is under way");
    fake.now_ns = MS(4500);
    answer(0);
    cr_assert_eq(turn_at(MS(4500)), MS(7000), "a third from when it was sent");
    cr_assert_eq(turn_at(MS(7000)), MS(13000), "and lost a ttl after that");
    answer(0);
    cr_assert_null(lkv_queue_next(queue, 0));
}

Test(lib_lease, a_long_one_is_kept_alive_before_a_checkpoint_is_due) {
    int64_t id;
    cr_assert_eq(lkv_lease_open(db, 3600 * 1000, queue, &tag, &id), 0);
    cr_assert_eq(turn_at(MS(1000)), MS(1000 + LEASE_KEEP_MS_MAX));
}

/* Whatever the network does: by this process's clock, within a ttl of the last good keep-alive. */
Test(lib_lease, x_i9_the_loss_is_told_by_the_local_clock) {
    int64_t id = open_lease();
    (void)turn_at(MS(4000));
    answer(0);
    (void)turn_at(MS(7000));
    fake.now_ns = MS(10000);
    answer(LKV_ETIMEOUT);
    cr_assert_eq(turn_at(MS(10000)), MS(10000 + TTL_MS / 20));
    (void)turn_at(MS(10450));
    cr_assert_not_null(fake.kept, "and once more");
    cr_assert_eq(turn_at(MS(12999)), MS(13000));
    cr_assert_null(lkv_queue_next(queue, 0));
    cr_assert_eq(turn_at(MS(13000)), UINT64_MAX);
    expect_loss(id, LKV_ETIMEOUT);
    answer(0); /* too late */
    cr_assert_eq(turn_at(MS(20000)), UINT64_MAX);
    cr_assert_null(lkv_queue_next(queue, 0));
}

Test(lib_lease, x_i9_a_handle_that_takes_no_request_loses_it_too) {
    int64_t id = open_lease();
    fake.submit_rc = LKV_EBUSY;
    cr_assert_eq(turn_at(MS(4000)), MS(4000 + TTL_MS / 20));
    cr_assert_eq(turn_at(MS(9900)), MS(10000));
    (void)turn_at(MS(10000));
    expect_loss(id, LKV_ETIMEOUT);
}

Test(lib_lease, x_i9_the_loss_is_told_when_the_cluster_says_so) {
    int64_t id = open_lease();
    (void)turn_at(MS(4000));
    answer(LKV_ELEASE);
    expect_loss(id, LKV_ELEASE);
    cr_assert_eq(turn_at(MS(5000)), UINT64_MAX);
}

Test(lib_lease, a_closed_one_is_revoked_and_not_told) {
    int64_t id = open_lease();
    (void)turn_at(MS(4000));
    cr_assert_eq(lkv_lease_close(db, id, 1000), 0);
    cr_assert(fake.command.op == KV_LEASE_REVOKE && fake.command.lease == id);
    answer(LKV_ELEASE);
    cr_assert_eq(turn_at(MS(50000)), UINT64_MAX);
    cr_assert_null(lkv_queue_next(queue, 0));
    id = 0;
    fake.wakes = 0;
    id = open_lease();
    fake.call_rc = LKV_ELEASE;
    cr_assert_eq(lkv_lease_close(db, id, 1000), 0, "it had ended");
    fake.call_rc = 0;
    fake.wakes = 0;
    id = open_lease();
    size_t before = fake.submits;
    cr_assert_eq(lkv_lease_close(db, id, 0), 0);
    cr_assert_eq(fake.submits, before, "it runs out by itself");
}

Test(lib_lease, nothing_is_kept_of_what_was_not_granted) {
    int64_t id = 7;
    fake.call_rc = LKV_EBUSY;
    cr_assert_eq(lkv_lease_open(db, TTL_MS, queue, &tag, &id), LKV_EBUSY);
    cr_assert_eq(id, 0);
    cr_assert_eq(turn_at(MS(50000)), UINT64_MAX);
    cr_assert_eq(lkv_lease_open(db, 999, queue, &tag, &id), LKV_EINVAL);
    cr_assert_eq(lkv_lease_open(db, TTL_MS, NULL, &tag, &id), LKV_EINVAL);
    cr_assert_eq(lkv_lease_grant(NULL, 0, TTL_MS, 1000, &id), LKV_EINVAL);
    cr_assert_eq(lkv_lease_grant(db, -1, TTL_MS, 1000, &id), LKV_EINVAL);
    cr_assert_eq(lkv_lease_revoke(db, 0, 1000, NULL, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_lease_keep_alive(db, 0, 1000, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_lease_list(db, -1, 0, 1000, NULL), LKV_EINVAL);
    cr_assert_eq(lkv_lease_ttl(db, 0, (struct lkv_bytes){0}, 0, 1000, NULL), LKV_EINVAL);
    cr_assert_eq(
        lkv_put_leased(db, (struct lkv_bytes){"k", 1}, (struct lkv_bytes){"v", 1}, 0, 1000, NULL),
        LKV_EINVAL);
}

Test(lib_lease, s28_without_memory_nothing_is_granted) {
    for (uint64_t n = 0; n < 100; n++) {
        int64_t id;
        size_t before = fake.submits;
        mem_fail_after(n);
        int rc = lkv_lease_open(db, TTL_MS, queue, &tag, &id);
        mem_fail_never();
        if (rc == 0) {
            cr_assert_gt(n, 4);
            return;
        }
        cr_assert(rc == LKV_ENOMEM && fake.submits == before);
    }
    cr_assert_fail("so many allocations");
}
