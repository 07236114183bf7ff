/* simulate: whole clusters in virtual time, one for each seed.
 *
 *   simulate --seed S [--story]     plays one seed; prints its trace hash, or the story's end
 *   simulate --seeds A..B           plays these, one process for each
 *   simulate --minutes N            plays fresh ones for so long, on all cores
 *   simulate --calm M               no faults: three nodes, 20 operations a second, M virtual minutes
 *   ... --jobs J                    processes at once; by default one for each core
 *
 * Exit code 1 when a seed fails: the seed, what is wrong, and the last events before it are printed. */
#include "tests/sim/world_story.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { JOBS_MAX = 64, CPU_SECONDS_MAX = 300, STORY_LINES = 120 };

struct child {
    pid_t pid; /* 0: free */
    uint64_t seed;
    int result_fd;
};

struct hunt {
    uint64_t next, last; /* seeds */
    double until;        /* on the clock; 0: no limit */
    struct sim_summary total;
    uint64_t seeds, failures;
    uint64_t failed[32];
    struct child children[JOBS_MAX];
    size_t jobs;
};

static volatile sig_atomic_t enough; /* asked to end: no new seed, but the report */

static void on_signal(int number) {
    (void)number;
    enough = 1;
}

static double now_s(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ------------------------------------------------------------------ one seed */

static int play_one(uint64_t seed, bool story) {
    struct sim_story *lines = sim_story_new(story ? SIZE_MAX : STORY_LINES, stdout);
    struct sim_summary summary;
    sim_play(seed, lines, &summary);
    if (summary.failure[0] != '\0') {
        sim_story_print(lines);
        printf("seed %" PRIu64 ": %s\n", seed, summary.failure);
    } else {
        printf("seed %" PRIu64 ": ok, hash %016" PRIx64 ", %.1f s, %" PRIu64 " events, %" PRIu64
               " operations\n",
               seed, summary.hash, (double)summary.virtual_ns / 1e9, summary.events,
               summary.counts.ops);
    }
    sim_story_free(lines);
    return summary.failure[0] != '\0';
}

/* How quick the simulation is. */
static int play_calm(uint64_t minutes) {
    struct sim_plan plan = sim_plan_calm(1);
    plan.clients = 4;
    plan.op_pause_ns = 200 * MS_NS;
    plan.chaos_ms = minutes * 60000;
    struct sim_summary summary;
    double begun = now_s();
    sim_play_plan(&plan, NULL, &summary);
    double seconds = now_s() - begun;
    double hours = (double)summary.virtual_ns / 3600e9;
    printf("%.2f hours simulated in %.2f s: %.1f hours a minute, %" PRIu64 " operations\n", hours,
           seconds, hours / seconds * 60, summary.counts.ops);
    return summary.failure[0] != '\0';
}

/* ------------------------------------------------------------------ many */

static void start(struct hunt *hunt, struct child *child) {
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
        (void)alarm(CPU_SECONDS_MAX);
        sim_play(child->seed, NULL, &summary);
        bool told = write(fds[1], &summary, sizeof(summary)) == (ssize_t)sizeof(summary);
        _exit(!told || summary.failure[0] != '\0');
    }
    (void)close(fds[1]);
    child->result_fd = fds[0];
}

static void add(struct sim_summary *total, const struct sim_summary *one) {
    total->virtual_ns += one->virtual_ns;
    total->events += one->events;
    total->counts.ops += one->counts.ops;
    total->counts.done += one->counts.done;
    total->counts.negative += one->counts.negative;
    total->counts.not_done += one->counts.not_done;
    total->counts.unknown += one->counts.unknown;
    total->counts.leaders += one->counts.leaders;
    total->counts.starts += one->counts.starts;
    total->counts.images += one->counts.images;
    total->counts.sessions += one->counts.sessions;
    total->counts.repeated += one->counts.repeated;
    total->counts.expired += one->counts.expired;
    for (size_t i = 0; i < SIM_FAULTS; i++) {
        total->counts.faults[i] += one->counts.faults[i];
    }
}

static void fail(struct hunt *hunt, uint64_t seed, int status, const char *what) {
    printf("seed %" PRIu64 " FAILED: %s (status %x)\n", seed, what, (unsigned)status);
    if (hunt->failures < sizeof(hunt->failed) / sizeof(hunt->failed[0])) {
        hunt->failed[hunt->failures] = seed;
    }
    hunt->failures++;
}

static void finish(struct hunt *hunt, struct child *child, int status) {
    struct sim_summary summary = {0};
    bool told = read(child->result_fd, &summary, sizeof(summary)) == (ssize_t)sizeof(summary);
    (void)close(child->result_fd);
    child->pid = 0;
    hunt->seeds++;
    add(&hunt->total, &summary);
    if (status != 0) {
        fail(hunt, child->seed, status, told ? summary.failure : "it crashed or did not end");
    }
}

static struct child *find(struct hunt *hunt, pid_t pid) {
    for (size_t i = 0; i < hunt->jobs; i++) {
        if (hunt->children[i].pid == pid) {
            return &hunt->children[i];
        }
    }
    return NULL;
}

static bool more(const struct hunt *hunt) {
    return hunt->next <= hunt->last && (hunt->until == 0 || now_s() < hunt->until) &&
           hunt->failures < 8 && enough == 0;
}

static void report(const struct hunt *hunt, double seconds) {
    const struct sim_counts *counts = &hunt->total.counts;
    printf("%" PRIu64 " seeds, %.2f hours simulated in %.1f s, %" PRIu64 " events, %" PRIu64
           " operations: %" PRIu64 " done, %" PRIu64 " negative, %" PRIu64 " not done, %" PRIu64
           " unknown\n%" PRIu64 " leaders, %" PRIu64 " starts of nodes, %" PRIu64
           " images installed; %" PRIu64 " sessions, %" PRIu64 " writes repeated, %" PRIu64
           " expired; faults:",
           hunt->seeds, (double)hunt->total.virtual_ns / 3600e9, seconds, hunt->total.events,
           counts->ops, counts->done, counts->negative, counts->not_done, counts->unknown,
           counts->leaders, counts->starts, counts->images, counts->sessions, counts->repeated,
           counts->expired);
    for (size_t i = 0; i < SIM_FAULTS; i++) {
        printf(" %s %" PRIu64, sim_fault_name((enum sim_fault_kind)i), counts->faults[i]);
    }
    printf("\n");
}

static int play_many(struct hunt *hunt) {
    double begun = now_s();
    size_t running = 0;
    while (more(hunt) || running > 0) {
        struct child *free_child = find(hunt, 0);
        if (free_child != NULL && more(hunt)) {
            start(hunt, free_child);
            running++;
            continue;
        }
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        struct child *child = pid > 0 ? find(hunt, pid) : NULL;
        if (child != NULL) {
            finish(hunt, child, status);
            running--;
        } else if (errno != EINTR) {
            break;
        }
    }
    report(hunt, now_s() - begun);
    if (hunt->failures > 0) {
        printf("the first one's story, again with: simulate --seed %" PRIu64 " --story\n",
               hunt->failed[0]);
        (void)fflush(stdout);
        (void)play_one(hunt->failed[0], false);
    }
    return hunt->failures > 0;
}

static int usage(void) {
    fprintf(stderr, "usage: simulate --seed S [--story] | --seeds A..B | --minutes N | --calm M "
                    "[--jobs J]\n");
    return 2;
}

int main(int argc, char **argv) {
    struct hunt hunt = {.next = 1, .last = 0};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    hunt.jobs = cores > 0 && cores < JOBS_MAX ? (size_t)cores : 1;
    const char *seed = NULL;
    bool story = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--story") == 0) {
            story = true;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            seed = value;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            if (sscanf(value, "%" SCNu64 "..%" SCNu64, &hunt.next, &hunt.last) != 2) {
                return usage();
            }
        } else if (strcmp(argv[i], "--minutes") == 0) {
            hunt.until = now_s() + strtod(value, NULL) * 60;
            hunt.next = (uint64_t)time(NULL) * 1000003;
            hunt.last = UINT64_MAX;
        } else if (strcmp(argv[i], "--calm") == 0) {
            return play_calm(strtoull(value, NULL, 10));
        } else if (strcmp(argv[i], "--jobs") == 0) {
            hunt.jobs = strtoul(value, NULL, 10);
        } else {
            return usage();
        }
        i++;
    }
    if (seed != NULL) {
        return play_one(strtoull(seed, NULL, 0), story);
    }
    if (hunt.jobs < 1 || hunt.jobs > JOBS_MAX || hunt.last < hunt.next) {
        return usage();
    }
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    return play_many(&hunt);
}
