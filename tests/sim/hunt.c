#include "tests/sim/hunt.h"

#include "tests/sim/world_call.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS_MAX = 300 };

static volatile sig_atomic_t enough; /* asked to end: no new seed, but the report */

static void on_signal(int number) {
    (void)number;
    enough = 1;
}

double sim_clock_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void play(const struct sim_hunt *hunt, uint64_t seed, struct sim_summary *summary) {
    struct sim_plan plan = hunt->plan_of(seed);
    sim_play_plan(&plan, NULL, summary);
    if (hunt->twice && summary->failure[0] == '\0') {
        struct sim_summary again;
        sim_play_plan(&plan, NULL, &again);
        if (again.hash != summary->hash) {
            (void)snprintf(summary->failure, sizeof(summary->failure),
                           "played twice, it gave hash %016" PRIx64 " and then %016" PRIx64,
                           summary->hash, again.hash);
        }
    }
}

static void start(struct sim_hunt *hunt, struct sim_hunt_child *child) {
    int fds[2];
    if (pipe(fds) != 0) {
        exit(2);
    }
    child->seed = hunt->next++;
    (void)fflush(stdout);
    child->pid = fork();
    if (child->pid == 0) {
        struct sim_summary summary;
        (void)close(fds[0]);
        (void)signal(SIGINT, SIG_IGN);
        (void)alarm(SECONDS_MAX);
        play(hunt, child->seed, &summary);
        bool told = write(fds[1], &summary, sizeof(summary)) == (ssize_t)sizeof(summary);
        _exit(!told || summary.failure[0] != '\0');
    }
    (void)close(fds[1]);
    child->result_fd = fds[0];
}

static void fail(struct sim_hunt *hunt, uint64_t seed, int status, const char *what) {
    printf("seed %" PRIu64 " FAILED: %s (status %x)\n", seed, what, (unsigned)status);
    if (hunt->failures < sizeof(hunt->failed) / sizeof(hunt->failed[0])) {
        hunt->failed[hunt->failures] = seed;
    }
    hunt->failures++;
}

static void finish(struct sim_hunt *hunt, struct sim_hunt_child *child, int status) {
    struct sim_summary summary = {0};
    bool told = read(child->result_fd, &summary, sizeof(summary)) == (ssize_t)sizeof(summary);
    (void)close(child->result_fd);
    child->pid = 0;
    hunt->seeds++;
    struct sim_plan plan = hunt->plan_of(child->seed);
    hunt->log_seeds += plan.log_mode;
    hunt->rot_seeds += plan.rot_budget != SIM_ROT_NONE;
    hunt->any_seeds += plan.rot_budget == SIM_ROT_ANY;
    sim_summary_add(&hunt->total, &summary);
    if (status != 0) {
        fail(hunt, child->seed, status, told ? summary.failure : "it crashed or did not end");
    }
}

static struct sim_hunt_child *find(struct sim_hunt *hunt, pid_t pid) {
    for (size_t i = 0; i < hunt->jobs; i++) {
        if (hunt->children[i].pid == pid) {
            return &hunt->children[i];
        }
    }
    return NULL;
}

static bool goes_on(const struct sim_hunt *hunt) {
    return hunt->next <= hunt->last && (hunt->until == 0 || sim_clock_s() < hunt->until) &&
           hunt->failures < 8 && enough == 0;
}

static bool is_wanted(const struct sim_hunt *hunt) {
    struct sim_plan plan = hunt->plan_of(hunt->next);
    return hunt->wanted == NULL || hunt->wanted(&plan);
}

/* Passes over what the filter does not let through. */
static bool more(struct sim_hunt *hunt) {
    while (goes_on(hunt) && !is_wanted(hunt)) {
        hunt->next++;
    }
    return goes_on(hunt);
}

static void report_worlds(const struct sim_hunt *hunt) {
    const struct sim_counts *counts = &hunt->total.counts;
    for (size_t i = 0; i < sim_fired_kinds(); i++) {
        if (sim_fired(&hunt->total, i) == 0) {
            printf("never: %s\n", sim_fired_name(i));
        }
    }
    printf("%" PRIu64 " seeds of log mode, %" PRIu64 " with rot, %" PRIu64
           " without a budget (%" PRIu64 " ended with a report); %" PRIu64
           " majorities healed alone (%" PRIu64 " could do nothing without the others)\n",
           hunt->log_seeds, hunt->rot_seeds, hunt->any_seeds, counts->reports, counts->majorities,
           counts->excused);
    printf("%" PRIu64 " leases kept alive, %" PRIu64 " run out\n", counts->lease_kept,
           counts->lapsed);
    struct rusage used;
    if (getrusage(RUSAGE_CHILDREN, &used) == 0) {
        printf("%.0f s of processor time\n",
               (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    }
}

static void report(const struct sim_hunt *hunt, double seconds) {
    const struct sim_counts *counts = &hunt->total.counts;
    printf("%" PRIu64 " seeds, %.2f hours simulated in %.1f s, %" PRIu64 " events, %" PRIu64
           " operations: %" PRIu64 " done, %" PRIu64 " negative, %" PRIu64 " not done, %" PRIu64
           " unknown\n%" PRIu64 " leaders, %" PRIu64 " starts of nodes, %" PRIu64
           " images installed; %" PRIu64 " sessions, %" PRIu64 " writes repeated, %" PRIu64
           " expired, %" PRIu64 " keep-alives; faults:",
           hunt->seeds, (double)hunt->total.virtual_ns / 3600e9, seconds, hunt->total.events,
           counts->ops, counts->done, counts->negative, counts->not_done, counts->unknown,
           counts->leaders, counts->starts, counts->images, counts->sessions, counts->repeated,
           counts->expired, counts->kept);
    for (size_t i = 0; i < sim_fired_kinds(); i++) {
        printf(" %s %" PRIu64, sim_fired_name(i), sim_fired(&hunt->total, i));
    }
    printf("; %" PRIu64 " places rotted, %" PRIu64 " entries came back from peers, %" PRIu64
           " times a state was compared\n",
           counts->rots, counts->filled, counts->compared);
    printf("by the client protocol: %" PRIu64 " operations, %" PRIu64 " done, %" PRIu64
           " sessions taken up again, %" PRIu64 " streams repeated; %" PRIu64
           " sessions closed, %" PRIu64 " digests, %" PRIu64 " tails canceled\n",
           counts->remote_ops, counts->remote_done, counts->resumed, counts->repeats, counts->ended,
           counts->digests, counts->canceled);
    report_worlds(hunt);
    printf("%" PRIu64 " writes with conditions, %" PRIu64 " adds, %" PRIu64
           " transactions, %" PRIu64 " compactions, %" PRIu64 " of them refused by their entry\n",
           counts->writes[SIM_IF_ABSENT] + counts->writes[SIM_IF_REV] + counts->writes[SIM_KEEP] +
               counts->writes[SIM_DROP] + counts->writes[SIM_DROP_RANGE],
           counts->writes[SIM_ADD], counts->writes[SIM_TXN] + counts->writes[SIM_TXN_BAD],
           counts->writes[SIM_COMPACT], counts->writes_refused);
    printf("%" PRIu64 " reads of older revisions, %" PRIu64 " refused; %" PRIu64 " views, %" PRIu64
           " too old, %" PRIu64 " items; %" PRIu64 " bounded reads, %" PRIu64
           " of an older state\n",
           counts->past_reads, counts->past_refusals, counts->views, counts->views_old,
           counts->view_items, counts->bounded, counts->bounded_old);
    printf("%" PRIu64 " leased reads, and %" PRIu64 " on their callers' threads\n", counts->leased,
           counts->leased_here);
    printf("%" PRIu64 " watches were told %" PRIu64 " events, %" PRIu64
           " were overtaken by compactions\n",
           counts->watches, counts->watched, counts->overtaken);
    if (counts->undecided > 0) {
        printf("%" PRIu64 " histories were too wide to be judged without their indices\n",
               counts->undecided);
    }
    if (counts->records > 0) {
        printf("log mode: %" PRIu64 " records appended, %" PRIu64 " appends cut, %" PRIu64
               " records seen by tails, %" PRIu64 " reads below the log's first, %" PRIu64
               " holds, %" PRIu64 " prefixes dropped\n",
               counts->records, counts->voids, counts->tailed, counts->truncated, counts->held,
               counts->drops);
    }
}

int sim_hunt_run(struct sim_hunt *hunt) {
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    double begun = sim_clock_s();
    size_t running = 0;
    while (more(hunt) || running > 0) {
        struct sim_hunt_child *free_child = find(hunt, 0);
        if (free_child != NULL && more(hunt)) {
            start(hunt, free_child);
            running++;
            continue;
        }
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        struct sim_hunt_child *child = pid > 0 ? find(hunt, pid) : NULL;
        if (child != NULL) {
            finish(hunt, child, status);
            running--;
        } else if (errno != EINTR) {
            break;
        }
    }
    report(hunt, sim_clock_s() - begun);
    return hunt->failures > 0;
}
