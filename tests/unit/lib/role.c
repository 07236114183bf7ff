/* Rule 31: leadership as a program sees it. */
#include "lib/role.h"

#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <pthread.h>

static int freed; /* calls of on_freed */

static void on_freed(void *arg) {
    (*(int *)arg)++;
}

struct fixture {
    struct role role;
    struct lkv_queue *queue;
};

static void open_fixture(struct fixture *fixture) {
    freed = 0;
    role_init(&fixture->role, on_freed, &freed);
    cr_assert_eq(lkv_queue_new(&fixture->queue), 0);
    cr_assert_eq(role_add_watcher(&fixture->role, fixture->queue, fixture), 0);
}

static void close_fixture(struct fixture *fixture) {
    role_fini(&fixture->role);
    lkv_queue_free(fixture->queue);
}

/* The next message, which must be this one; owned by the caller. */
static struct lkv_msg *take(struct fixture *fixture, const char *role, uint64_t term) {
    struct lkv_msg *msg = lkv_queue_next(fixture->queue, 0);
    cr_assert_not_null(msg, "no %s", role);
    uint64_t found = 0;
    cr_assert_eq(lkv_msg_kind(msg), LKV_ROLE);
    cr_assert_eq(lkv_msg_rc(msg), 0);
    cr_assert_eq(lkv_msg_tag(msg), fixture);
    cr_assert_str_eq(lkv_msg_str(msg, "role"), role);
    cr_assert(lkv_msg_u64(msg, "term", &found));
    cr_assert_eq(found, term, "%s of term %lu, not %lu", role, found, term);
    return msg;
}

static void expect(struct fixture *fixture, const char *role, uint64_t term) {
    lkv_msg_free(take(fixture, role, term));
}

static void expect_none(struct fixture *fixture) {
    cr_assert_null(lkv_queue_next(fixture->queue, 0));
}

static void set(struct fixture *fixture, enum role_kind kind, uint64_t term, uint64_t index) {
    cr_assert_eq(role_set(&fixture->role, kind, term, index), 0);
}

static void stop(struct fixture *fixture, uint64_t term) {
    cr_assert_eq(role_stop(&fixture->role, term, LKV_EIO, "disk full of holes"), 0);
}

static void expect_stopped(struct fixture *fixture, uint64_t term) {
    struct lkv_msg *msg = lkv_queue_next(fixture->queue, 0);
    uint64_t found = 0;
    cr_assert_not_null(msg);
    cr_assert_str_eq(lkv_msg_str(msg, "role"), "stopped");
    cr_assert_eq(lkv_msg_rc(msg), LKV_EIO);
    cr_assert_str_eq(lkv_msg_text(msg), "disk full of holes");
    cr_assert(lkv_msg_u64(msg, "term", &found));
    cr_assert_eq(found, term);
    lkv_msg_free(msg);
}

/* L20: never leader before the first election. */
Test(lib_role, begins_with_the_present_role) {
    struct fixture fixture;
    open_fixture(&fixture);
    expect(&fixture, "follower", 0);
    expect_none(&fixture);
    set(&fixture, ROLE_READY, 3, 17);
    expect(&fixture, "leader_ready", 3);
    struct lkv_queue *late;
    cr_assert_eq(lkv_queue_new(&late), 0);
    cr_assert_eq(role_add_watcher(&fixture.role, late, NULL), 0);
    struct lkv_msg *msg = lkv_queue_next(late, 0);
    uint64_t index = 0;
    cr_assert_str_eq(lkv_msg_str(msg, "role"), "leader_ready");
    cr_assert(lkv_msg_u64(msg, "index", &index));
    cr_assert_eq(index, 17);
    lkv_msg_free(msg);
    close_fixture(&fixture);
    lkv_queue_free(late);
}

Test(lib_role, says_nothing_when_nothing_changed) {
    struct fixture fixture;
    open_fixture(&fixture);
    expect(&fixture, "follower", 0);
    set(&fixture, ROLE_FOLLOWER, 0, 0);
    expect_none(&fixture);
    set(&fixture, ROLE_READY, 1, 1);
    set(&fixture, ROLE_READY, 1, 1);
    expect(&fixture, "leader_ready", 1);
    expect_none(&fixture);
    close_fixture(&fixture);
}

Test(lib_role, collapses_soft_changes_to_the_newest_while_one_is_not_freed) {
    struct fixture fixture;
    open_fixture(&fixture);
    for (uint64_t term = 1; term <= 50; term++) {
        set(&fixture, ROLE_CANDIDATE, term, 0);
        set(&fixture, ROLE_FOLLOWER, term, 0);
    }
    struct lkv_msg *first = take(&fixture, "follower", 0);
    expect_none(&fixture);
    cr_assert_eq(role_pump(&fixture.role), 0);
    expect_none(&fixture);
    lkv_msg_free(first);
    cr_assert_eq(freed, 1);
    cr_assert_eq(role_pump(&fixture.role), 0);
    expect(&fixture, "follower", 50);
    cr_assert_eq(role_pump(&fixture.role), 0);
    expect_none(&fixture);
    close_fixture(&fixture);
}

Test(lib_role, never_merges_or_drops_ready_and_stepping_down) {
    struct fixture fixture;
    open_fixture(&fixture);
    for (uint64_t term = 1; term <= 20; term++) { /* nobody takes anything */
        set(&fixture, ROLE_READY, term, term);
        set(&fixture, ROLE_STEPPING_DOWN, term, 0);
        set(&fixture, ROLE_FOLLOWER, term + 1, 0);
    }
    expect(&fixture, "follower", 0);
    for (uint64_t term = 1; term <= 20; term++) {
        expect(&fixture, "leader_ready", term);
        expect(&fixture, "stepping_down", term);
    }
    cr_assert_eq(role_pump(&fixture.role), 0);
    expect(&fixture, "follower", 21);
    close_fixture(&fixture);
}

Test(lib_role, closes_the_gate_until_stepping_down_is_freed) {
    struct fixture fixture;
    open_fixture(&fixture);
    cr_assert_not(role_gate_closed(&fixture.role));
    set(&fixture, ROLE_READY, 1, 1);
    cr_assert_not(role_gate_closed(&fixture.role));
    set(&fixture, ROLE_STEPPING_DOWN, 1, 0);
    cr_assert(role_gate_closed(&fixture.role));
    expect(&fixture, "follower", 0);
    expect(&fixture, "leader_ready", 1);
    int before = freed;
    struct lkv_msg *msg = take(&fixture, "stepping_down", 1);
    cr_assert(role_gate_closed(&fixture.role), "taken is not freed");
    lkv_msg_free(msg);
    cr_assert_not(role_gate_closed(&fixture.role));
    cr_assert_eq(freed, before + 1, "the loop is woken");
    close_fixture(&fixture);
}

Test(lib_role, one_watcher_of_several_holds_the_gate) {
    struct fixture slow;
    open_fixture(&slow);
    struct lkv_queue *quick;
    cr_assert_eq(lkv_queue_new(&quick), 0);
    cr_assert_eq(role_add_watcher(&slow.role, quick, NULL), 0);
    set(&slow, ROLE_READY, 1, 1);
    set(&slow, ROLE_STEPPING_DOWN, 1, 0);
    struct lkv_msg *msg;
    while ((msg = lkv_queue_next(quick, 0)) != NULL) {
        lkv_msg_free(msg);
    }
    cr_assert(role_gate_closed(&slow.role));
    lkv_queue_free(quick); /* nothing of this handle is owed to it here */
    while ((msg = lkv_queue_next(slow.queue, 0)) != NULL) {
        lkv_msg_free(msg);
    }
    cr_assert_not(role_gate_closed(&slow.role));
    close_fixture(&slow);
}

Test(lib_role, does_not_step_down_before_whom_it_never_led) {
    struct fixture fixture;
    open_fixture(&fixture);
    expect(&fixture, "follower", 0);
    set(&fixture, ROLE_STEPPING_DOWN, 1, 0);
    expect_none(&fixture);
    cr_assert_not(role_gate_closed(&fixture.role));
    close_fixture(&fixture);
}

/* A stop, or a term that passed unseen: what is owed comes first, with the term that was led. */
Test(lib_role, steps_down_from_the_term_it_was_ready_in) {
    struct fixture fixture;
    open_fixture(&fixture);
    expect(&fixture, "follower", 0);
    set(&fixture, ROLE_READY, 4, 9);
    expect(&fixture, "leader_ready", 4);
    stop(&fixture, 6);
    expect(&fixture, "stepping_down", 4);
    expect_stopped(&fixture, 6);
    close_fixture(&fixture);
}

Test(lib_role, steps_down_between_two_terms_of_leadership) {
    struct fixture fixture;
    open_fixture(&fixture);
    expect(&fixture, "follower", 0);
    set(&fixture, ROLE_READY, 4, 9);
    set(&fixture, ROLE_READY, 7, 12);
    expect(&fixture, "leader_ready", 4);
    expect(&fixture, "stepping_down", 4);
    expect(&fixture, "leader_ready", 7);
    close_fixture(&fixture);
}

Test(lib_role, stopped_is_told_although_a_soft_message_was_not_freed) {
    struct fixture fixture;
    open_fixture(&fixture);
    stop(&fixture, 2);
    expect(&fixture, "follower", 0);
    expect_stopped(&fixture, 2);
    close_fixture(&fixture);
}

Test(lib_role, tells_a_late_watcher_why_it_has_stopped) {
    struct fixture fixture;
    open_fixture(&fixture);
    stop(&fixture, 2);
    struct fixture late = {.role = fixture.role};
    cr_assert_eq(lkv_queue_new(&late.queue), 0);
    cr_assert_eq(role_add_watcher(&fixture.role, late.queue, &late), 0);
    expect_stopped(&late, 2);
    lkv_queue_free(late.queue);
    close_fixture(&fixture);
}

Test(lib_role, is_a_follower_to_who_watches_while_others_step_down) {
    struct fixture fixture;
    open_fixture(&fixture);
    set(&fixture, ROLE_READY, 1, 1);
    set(&fixture, ROLE_STEPPING_DOWN, 1, 0);
    struct fixture late = {.role = fixture.role};
    cr_assert_eq(lkv_queue_new(&late.queue), 0);
    cr_assert_eq(role_add_watcher(&fixture.role, late.queue, &late), 0);
    expect(&late, "follower", 1);
    expect_none(&late);
    lkv_queue_free(late.queue);
    close_fixture(&fixture);
}

Test(lib_role, messages_may_be_freed_after_the_node_is_gone) {
    struct fixture fixture;
    open_fixture(&fixture);
    set(&fixture, ROLE_READY, 1, 1);
    set(&fixture, ROLE_STEPPING_DOWN, 1, 0);
    struct lkv_msg *held = take(&fixture, "follower", 0);
    int before = freed;
    role_fini(&fixture.role);
    memset(&fixture.role, 0xee, sizeof(fixture.role));
    lkv_msg_free(held);
    lkv_queue_free(fixture.queue); /* frees the rest */
    cr_assert_eq(freed, before, "nobody is called any more");
}

static void *free_all(void *arg) {
    struct lkv_queue *queue = arg;
    struct lkv_msg *msg;
    while ((msg = lkv_queue_next(queue, 100)) != NULL) {
        lkv_msg_free(msg);
    }
    return NULL;
}

Test(lib_role, messages_are_freed_on_another_thread_while_the_node_goes) {
    for (int round = 0; round < 20; round++) {
        struct fixture fixture;
        open_fixture(&fixture);
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, free_all, fixture.queue), 0);
        for (uint64_t term = 1; term < 20; term++) {
            set(&fixture, ROLE_READY, term, term);
            set(&fixture, ROLE_STEPPING_DOWN, term, 0);
            (void)role_gate_closed(&fixture.role);
        }
        role_fini(&fixture.role);
        cr_assert_eq(pthread_join(thread, NULL), 0);
        lkv_queue_free(fixture.queue);
    }
}

/* Whatever happens, and however slowly a program takes its messages: leader_ready and stepping_down
 * alternate, each of a term that was led, in order. */
Test(lib_role, alternates_in_every_random_history) {
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct prng prng = prng_of(seed);
        struct fixture fixture;
        open_fixture(&fixture);
        uint64_t term = 0;
        uint64_t ready = 0;
        uint64_t led[64];
        size_t led_count = 0;
        size_t seen = 0;
        for (int i = 0; i < 60; i++) {
            enum role_kind kind = (enum role_kind)prng_below(&prng, 4);
            if (kind == ROLE_READY) {
                led[led_count++] = ++term;
            } else {
                term += prng_below(&prng, 2);
            }
            set(&fixture, kind,
                kind == ROLE_STEPPING_DOWN && led_count > 0 ? led[led_count - 1] : term, 0);
            struct lkv_msg *msg;
            while (prng_below(&prng, 2) == 0 && (msg = lkv_queue_next(fixture.queue, 0)) != NULL) {
                uint64_t of = 0;
                (void)lkv_msg_u64(msg, "term", &of);
                const char *role = lkv_msg_str(msg, "role");
                if (strcmp(role, "leader_ready") == 0) {
                    cr_assert_eq(ready, 0, "seed %lu", seed);
                    cr_assert_eq(of, led[seen++], "seed %lu", seed);
                    ready = of;
                } else if (strcmp(role, "stepping_down") == 0) {
                    cr_assert_eq(of, ready, "seed %lu", seed);
                    ready = 0;
                } else {
                    cr_assert_eq(ready, 0, "seed %lu: %s while ready", seed, role);
                }
                lkv_msg_free(msg);
                cr_assert_eq(role_pump(&fixture.role), 0);
            }
        }
        close_fixture(&fixture);
    }
}

/* S28: who is owed a message that cannot be made is told so; the node stops then. */
Test(lib_role, says_when_memory_ran_out) {
    struct fixture fixture;
    open_fixture(&fixture);
    expect(&fixture, "follower", 0);
    const enum role_kind kinds[] = {ROLE_CANDIDATE, ROLE_READY, ROLE_STEPPING_DOWN};
    for (size_t i = 0; i < 2 * 3; i++) { /* the message, or the role's name in it */
        mem_fail_after(i % 2);
        int rc = role_set(&fixture.role, kinds[i / 2], 1 + i, 0);
        mem_fail_never();
        cr_assert_eq(rc, LKV_ENOMEM, "%zu", i);
        expect_none(&fixture);
        if (kinds[i / 2] == ROLE_READY && i % 2 != 0) {
            set(&fixture, ROLE_READY, 10, 1);
            expect(&fixture, "leader_ready", 10);
        }
    }
    stop(&fixture, 11); /* still owed */
    expect(&fixture, "stepping_down", 10);
    expect_stopped(&fixture, 11);
    for (uint64_t n = 0;; n++) {
        mem_fail_after(n);
        int rc = role_add_watcher(&fixture.role, fixture.queue, NULL);
        mem_fail_never();
        if (rc == 0) {
            break;
        }
        cr_assert_eq(rc, LKV_ENOMEM);
        cr_assert_lt(n, 10);
    }
    close_fixture(&fixture);
}
