/* The loop on libuv: timer, wake-ups, work queues, turns, and what it does to the process. */
#include "tests/threads/uv_harness.h"

#include "base/mem.h"

#include <signal.h>

/* ---- Timer ---- */

struct timing {
    struct harness *harness;
    uint64_t due_ns;
    uint64_t fired_ns;
    uint64_t fired;
    uint64_t early;
};

static void note_fired(void *arg) {
    struct timing *timing = arg;
    timing->fired_ns = loop_now_ns(timing->harness->loop);
    timing->early += timing->fired_ns < timing->due_ns;
    timing->fired++;
    if (timing->fired < 20) {
        timing->due_ns = timing->fired_ns + 700 * 1000 * timing->fired; /* not whole milliseconds */
        loop_timer_set(timing->harness->loop, timing->due_ns);
    }
}

static void set_due(void *arg) {
    struct timing *timing = arg;
    loop_timer_set(timing->harness->loop, timing->due_ns);
}

static bool has_fired_20(void *arg) {
    return ((struct timing *)arg)->fired == 20;
}

static void timer_fires_once_for_each_deadline_and_never_early(void) {
    struct harness harness;
    harness_open(&harness, "timer");
    struct timing timing = {.harness = &harness};
    harness.on_timer = note_fired;
    harness.arg = &timing;
    harness_start(&harness);
    timing.due_ns = loop_now_ns(harness.loop); /* at once */
    harness_call(&harness, set_due, &timing);
    harness_await(&harness, has_fired_20, &timing);
    pause_ms(30);
    harness_close(&harness);
    CHECK(timing.fired == 20);
    CHECK(timing.early == 0);
    CHECK(timing.fired_ns - timing.due_ns < 1000000000u); /* a loaded machine is slow, not lost */
}

static void set_near_then_off(void *arg) {
    struct timing *timing = arg;
    loop_timer_set(timing->harness->loop, loop_now_ns(timing->harness->loop) + 5000000);
    loop_timer_set(timing->harness->loop, UINT64_MAX);
}

static void timer_that_is_off_does_not_fire(void) {
    struct harness harness;
    harness_open(&harness, "timer");
    struct timing timing = {.harness = &harness};
    harness_start(&harness);
    harness_call(&harness, set_near_then_off, &timing);
    pause_ms(30);
    harness_close(&harness);
    CHECK(harness.timers == 0);
}

/* ---- Wake-ups ---- */

enum { WAKERS = 4, WAKES = 20000 };

struct waking {
    struct harness *harness;
    atomic_uint sent;
    unsigned seen; /* loop */
};

static void *wake_often(void *arg) {
    struct waking *waking = arg;
    for (int i = 0; i < WAKES; i++) {
        atomic_fetch_add(&waking->sent, 1);
        loop_wake(waking->harness->loop);
    }
    return NULL;
}

static void see_sent(void *arg) {
    struct waking *waking = arg;
    waking->seen = atomic_load(&waking->sent);
}

static bool all_seen(void *arg) {
    return ((struct waking *)arg)->seen == WAKERS * WAKES;
}

static void no_wake_from_another_thread_is_lost(void) {
    struct harness harness;
    harness_open(&harness, "wake");
    struct waking waking = {.harness = &harness};
    harness.on_wake = see_sent;
    harness.arg = &waking;
    harness_start(&harness);
    pthread_t threads[WAKERS];
    for (int i = 0; i < WAKERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, wake_often, &waking) == 0);
    }
    for (int i = 0; i < WAKERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    harness_await(&harness, all_seen, &waking);
    harness_close(&harness);
    CHECK(harness.wakes <= WAKERS * WAKES + 1);
}

/* One at a time, each waiting for the one before: a lost wake-up would hang here. */
static void single_wakes_into_a_sleeping_loop_arrive(void) {
    struct harness harness;
    harness_open(&harness, "wake");
    struct waking waking = {.harness = &harness};
    harness_start(&harness);
    for (int i = 0; i < 5000; i++) {
        harness_call(&harness, see_sent, &waking);
    }
    harness_close(&harness);
}

/* ---- Work ---- */

enum { JOBS = 2000 };

struct chore {
    struct loop_job job;
    struct working *working;
    enum loop_queue queue;
    unsigned number;
    unsigned ran_as;
    int done;
    pthread_t thread;
};

struct working {
    struct harness *harness;
    struct chore chores[LOOP_QUEUES][JOBS];
    unsigned ran[LOOP_QUEUES]; /* each by its queue's thread */
    unsigned done;             /* loop */
    unsigned out_of_order;     /* loop */
    pthread_t loop_thread;
    unsigned chain;
};

static void run_chore(struct loop_job *job) {
    struct chore *chore = (struct chore *)(void *)job;
    chore->ran_as = chore->working->ran[chore->queue]++;
    chore->thread = pthread_self();
}

static void chore_done(struct loop_job *job) {
    struct chore *chore = (struct chore *)(void *)job;
    struct working *working = chore->working;
    chore->done++;
    working->done++;
    working->out_of_order += chore->ran_as != chore->number;
    CHECK(pthread_equal(pthread_self(), working->loop_thread));
    CHECK(!pthread_equal(chore->thread, working->loop_thread));
}

static void submit_chores(void *arg) {
    struct working *working = arg;
    working->loop_thread = pthread_self();
    CHECK(loop_uv_is_here(working->harness->loop));
    for (unsigned i = 0; i < JOBS; i++) {
        for (int queue = 0; queue < LOOP_QUEUES; queue++) {
            struct chore *chore = &working->chores[queue][i];
            *chore = (struct chore){.job = {.run = run_chore, .done = chore_done},
                                    .working = working,
                                    .queue = (enum loop_queue)queue,
                                    .number = i};
            loop_submit(working->harness->loop, chore->queue, &chore->job);
        }
    }
}

static bool all_chores_done(void *arg) {
    return ((struct working *)arg)->done == LOOP_QUEUES * JOBS;
}

static void check_chores(const struct working *working) {
    CHECK(working->done == LOOP_QUEUES * JOBS);
    CHECK(working->out_of_order == 0);
    for (int queue = 0; queue < LOOP_QUEUES; queue++) {
        for (unsigned i = 0; i < JOBS; i++) {
            CHECK(working->chores[queue][i].done == 1);
            CHECK(
                pthread_equal(working->chores[queue][i].thread, working->chores[queue][0].thread));
        }
    }
    CHECK(
        !pthread_equal(working->chores[LOOP_LOG][0].thread, working->chores[LOOP_BULK][0].thread));
}

static void jobs_run_in_order_and_are_done_once_on_the_loop(void) {
    struct harness harness;
    harness_open(&harness, "jobs");
    struct working *working = calloc(1, sizeof(*working));
    CHECK(working != NULL);
    working->harness = &harness;
    harness_start(&harness);
    CHECK(!loop_uv_is_here(harness.loop));
    harness_call(&harness, submit_chores, working);
    harness_await(&harness, all_chores_done, working);
    harness_close(&harness);
    check_chores(working);
    free(working);
}

static void stop_waits_for_the_jobs_that_were_submitted(void) {
    struct harness harness;
    harness_open(&harness, "jobs");
    struct working *working = calloc(1, sizeof(*working));
    CHECK(working != NULL);
    working->harness = &harness;
    harness_start(&harness);
    harness_call(&harness, submit_chores, working);
    harness_close(&harness);
    check_chores(working);
    free(working);
}

static void chain_on(struct loop_job *job) {
    struct chore *chore = (struct chore *)(void *)job;
    struct working *working = chore->working;
    working->chain++;
    if (working->chain < 100) {
        loop_submit(working->harness->loop, LOOP_LOG, job);
    }
}

static void start_chain(void *arg) {
    struct working *working = arg;
    struct chore *first = &working->chores[LOOP_LOG][0];
    *first = (struct chore){.job = {.run = run_chore, .done = chain_on}, .working = working};
    loop_submit(working->harness->loop, LOOP_LOG, &first->job);
}

static void stop_waits_for_a_chain_of_jobs(void) {
    struct harness harness;
    harness_open(&harness, "jobs");
    struct working *working = calloc(1, sizeof(*working));
    CHECK(working != NULL);
    working->harness = &harness;
    harness_start(&harness);
    harness_call(&harness, start_chain, working);
    harness_close(&harness);
    CHECK(working->chain == 100);
    free(working);
}

struct gate {
    struct loop_job slow, quick;
    struct harness *harness;
    pthread_mutex_t mutex; /* held by main while the slow job must not end */
    bool quick_done, slow_done;
};

static void run_slow(struct loop_job *job) {
    struct gate *gate = LIST_ITEM(job, struct gate, slow);
    pthread_mutex_lock(&gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
}

static void slow_done(struct loop_job *job) {
    LIST_ITEM(job, struct gate, slow)->slow_done = true;
}

static void run_quick(struct loop_job *job) {
    (void)job;
}

static void quick_done(struct loop_job *job) {
    LIST_ITEM(job, struct gate, quick)->quick_done = true;
}

static void submit_both(void *arg) {
    struct gate *gate = arg;
    gate->slow = (struct loop_job){.run = run_slow, .done = slow_done};
    gate->quick = (struct loop_job){.run = run_quick, .done = quick_done};
    loop_submit(gate->harness->loop, LOOP_BULK, &gate->slow);
    loop_submit(gate->harness->loop, LOOP_LOG, &gate->quick);
}

static bool is_quick_done(void *arg) {
    return ((struct gate *)arg)->quick_done;
}

static void bulk_work_does_not_delay_the_log(void) {
    struct harness harness;
    harness_open(&harness, "queues");
    struct gate gate = {.harness = &harness, .mutex = PTHREAD_MUTEX_INITIALIZER};
    harness_start(&harness);
    pthread_mutex_lock(&gate.mutex);
    harness_call(&harness, submit_both, &gate);
    harness_await(&harness, is_quick_done, &gate);
    pthread_mutex_unlock(&gate.mutex);
    harness_close(&harness);
    CHECK(gate.slow_done);
}

/* ---- Turns and idleness ---- */

static unsigned long switches_of(const char *thread_id) {
    char path[300], line[256];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%s/status", thread_id);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    unsigned long found = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0) {
            found = strtoul(line + 24, NULL, 10);
        }
    }
    (void)fclose(file);
    return found;
}

/* Of all threads but the caller's and those that are not ours (a sanitizer has one). */
static unsigned long switches_of_ours(void) {
    unsigned long sum = 0;
    DIR *directory = opendir("/proc/self/task");
    CHECK(directory != NULL);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[300], name[64] = "";
        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = entry->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file == NULL) {
            continue;
        }
        if (fgets(name, sizeof(name), file) != NULL && strncmp(name, "idle", 4) == 0) {
            sum += switches_of(entry->d_name);
        }
        (void)fclose(file);
    }
    (void)closedir(directory);
    return sum;
}

static void nothing(void *arg) {
    (void)arg;
}

static void idle_loop_never_wakes_up(void) {
    struct harness harness;
    harness_open(&harness, "idle");
    harness_start(&harness);
    harness_call(&harness, nothing, NULL);
    pause_ms(50);
    unsigned long before = switches_of_ours();
    pause_ms(500);
    unsigned long after = switches_of_ours();
    harness_close(&harness);
    CHECK(before > 0);
    CHECK(after == before);
    CHECK(harness.turns <= 2);
}

/* ---- The process around it ---- */

static void check_dispositions(const struct sigaction *before, bool save, struct sigaction *out) {
    for (int number = 1; number < 32; number++) {
        struct sigaction now;
        if (sigaction(number, NULL, &now) != 0) {
            continue;
        }
        if (save) {
            out[number] = now;
        } else {
            CHECK(now.sa_handler == before[number].sa_handler);
        }
    }
}

struct masks {
    sigset_t loop, queue;
    struct loop_job job;
    struct harness *harness;
};

static void read_queue_mask(struct loop_job *job) {
    struct masks *masks = LIST_ITEM(job, struct masks, job);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &masks->queue) == 0);
}

static void no_more(struct loop_job *job) {
    (void)job;
}

static void read_masks(void *arg) {
    struct masks *masks = arg;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &masks->loop) == 0);
    masks->job = (struct loop_job){.run = read_queue_mask, .done = no_more};
    loop_submit(masks->harness->loop, LOOP_LOG, &masks->job);
}

/* X-H1 */
static void threads_take_no_signal_of_the_host(void) {
    static struct sigaction before[32];
    sigset_t own, own_after;
    check_dispositions(NULL, true, before);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &own) == 0);

    struct harness harness;
    harness_open(&harness, "signals");
    struct masks masks = {.harness = &harness};
    harness_start(&harness);
    harness_call(&harness, read_masks, &masks);
    check_dispositions(before, false, NULL);
    harness_close(&harness);
    check_dispositions(before, false, NULL);

    static const int blocked[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1, SIGALRM};
    for (size_t i = 0; i < sizeof(blocked) / sizeof(blocked[0]); i++) {
        CHECK(sigismember(&masks.loop, blocked[i]) == 1);
        CHECK(sigismember(&masks.queue, blocked[i]) == 1);
    }
    CHECK(sigismember(&masks.loop, SIGSEGV) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &own_after) == 0);
    CHECK(sigismember(&own_after, SIGPIPE) == sigismember(&own, SIGPIPE));
}

static void clocks_and_randomness_are_of_the_system(void) {
    struct harness harness;
    harness_open(&harness, "clock");
    uint64_t now = loop_now_ns(harness.loop);
    CHECK(loop_now_ns(harness.loop) >= now);
    CHECK(loop_wall_ms(harness.loop) > 1600000000000u);
    CHECK(loop_random(harness.loop) != loop_random(harness.loop));
    harness_close(&harness); /* never started */
}

/* S28 */
static void open_out_of_memory_leaves_nothing(void) {
    struct loop_events events = {0};
    for (uint64_t n = 0;; n++) {
        struct loop *loop;
        struct net *net = NULL;
        struct reason why = {{0}};
        mem_fail_after(n);
        int rc = loop_uv_open(&loop, &events, "memory", true, &why);
        if (rc == 0) {
            rc = net_uv_open(&net, loop);
        }
        mem_fail_never();
        CHECK(rc == 0 || rc == LKV_ENOMEM);
        net_uv_close(net);
        loop_uv_close(loop);
        if (rc == 0) {
            CHECK(n > 1);
            return;
        }
    }
}

int main(void) {
    static const struct test tests[] = {
        {"timer fires once for each deadline and never early",
         timer_fires_once_for_each_deadline_and_never_early},
        {"timer that is off does not fire", timer_that_is_off_does_not_fire},
        {"no wake from another thread is lost", no_wake_from_another_thread_is_lost},
        {"single wakes into a sleeping loop arrive", single_wakes_into_a_sleeping_loop_arrive},
        {"jobs run in order and are done once on the loop",
         jobs_run_in_order_and_are_done_once_on_the_loop},
        {"stop waits for the jobs that were submitted",
         stop_waits_for_the_jobs_that_were_submitted},
        {"stop waits for a chain of jobs", stop_waits_for_a_chain_of_jobs},
        {"bulk work does not delay the log", bulk_work_does_not_delay_the_log},
        {"idle loop never wakes up", idle_loop_never_wakes_up},
        {"threads take no signal of the host (X-H1)", threads_take_no_signal_of_the_host},
        {"clocks and randomness are of the system", clocks_and_randomness_are_of_the_system},
        {"open out of memory leaves nothing (S28)", open_out_of_memory_leaves_nothing},
    };
    return RUN_TESTS(tests);
}
