/* T1: the wall clock jumps by a day, to and fro. No election and no session depends on it; what does is the
 * age of records in log mode (retention_ms). */
#define _GNU_SOURCE
#include "tests/unit/lib/node_world.h"

#include <stdatomic.h>
#include <sys/syscall.h>

enum { DAY_S = 24 * 3600, JUMPS = 6 };

static _Atomic long shift_s;

/* In place of libc's, for every library of this program. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    int rc = (int)syscall(SYS_clock_gettime, clock, now);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += atomic_load(&shift_s);
    }
    return rc;
}

static struct world world;

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    world_fini(&world);
}

TestSuite(lib_node_clock, .init = setup, .fini = teardown, .timeout = 100);

static time_t wall_s(void) {
    struct timespec now;
    cr_assert_eq(clock_gettime(CLOCK_REALTIME, &now), 0);
    return now.tv_sec;
}

Test(lib_node_clock, t1_a_day_to_and_fro_elects_nobody_and_ends_no_session) {
    for (int i = 0; i < NODES;
         i++) { /* patient, so that only a clock's jump could elect somebody */
        struct lkv_options *options = member_options(&world, i);
        cr_assert_eq(lkv_options_set(options, "election_ms", "2s"), 0);
        cr_assert_eq(try_open(&world.nodes[i], options), 0, "%s", open_text);
    }
    int leader = find_leader(&world);
    struct lkv *db = world.nodes[leader];
    put(db, "k", "v");
    uint64_t term = status_number(db, "term");
    struct lkv_session *session = NULL;
    cr_assert_eq(lkv_session_open(db, 0, 60000, &session), 0);
    time_t before = wall_s();
    for (int i = 1; i <= JUMPS; i++) {
        atomic_store(&shift_s, i % 2 == 0 ? -DAY_S : DAY_S);
        cr_assert_geq(labs((long)(wall_s() - before)), DAY_S - 60, "the clock has not jumped");
        sleep_ms(200);
        cr_assert_eq(lkv_put_once(session, (uint64_t)i, bytes("k"), bytes("v"), WAIT_MS, NULL), 0);
        expect_get(world.nodes[i % NODES], LKV_LINEARIZABLE, "k", "v");
    }
    cr_assert_eq(status_number(db, "term"), term);
    cr_assert(has_role(db, "leader"));
    cr_assert_eq(status_number(db, "sessions"), 1);
    cr_assert_eq(lkv_session_close(session, WAIT_MS), 0);
}
