/* simulate: whole clusters in virtual time, one for each seed.
 *
 *   simulate --seed S [--story] [--set NAME=VALUE ...]
 *                                   plays one seed, or what is left of it with these numbers of its plan;
 *                                   prints its trace hash, or the story's end
 *   simulate --shrink S             looks for the simplest plan that fails as this seed does
 *   simulate --seeds A..B           plays these, one process for each
 *   simulate --minutes N            plays fresh ones for so long, on all cores
 *   simulate --named TEXT --count N plays so many, which ones is the text's business; with --twice each
 *                                   one two times, and the two must be the same
 *   simulate --calm M               no faults: three nodes, 20 operations a second, M virtual minutes
 *   ... --jobs J                    processes at once; by default one for each core
 *   ... --rot, --log                only those of the seeds whose disks rot; that are of log mode
 *   ... --world NAME                another world than `mixed`, where each seed draws what there is:
 *                                   plain, rot, log, log-rot; a seed is another story in each of them
 *
 * Exit code 1 when a seed fails: the seed, what is wrong, and the last events before it are printed. */
#include "tests/sim/hunt.h"
#include "tests/sim/plan_text.h"
#include "tests/sim/shrink.h"
#include "tests/sim/world_story.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STORY_LINES = 120, SHRINK_TRIALS = 400, SETS_MAX = 64 };

/* What a seed stands for. */
static sim_plan_maker *plan_of = sim_plan_mixed;
static bool only_rot, only_log;

static bool wanted(const struct sim_plan *plan) {
    return (!only_rot || plan->rot_budget != SIM_ROT_NONE) && (!only_log || plan->log_mode);
}

/* For a command line; empty when it need not be said. */
static const char *world_text(void) {
    static char text[32];
    (void)snprintf(text, sizeof(text), " --world %s", sim_world_name(plan_of));
    return plan_of == sim_plan_mixed ? "" : text;
}

/* ------------------------------------------------------------------ one seed */

static int play_one(const struct sim_plan *plan, bool story) {
    uint64_t seed = plan->seed;
    struct sim_story *lines = sim_story_new(story ? SIZE_MAX : STORY_LINES, stdout);
    struct sim_summary summary;
    sim_play_plan(plan, lines, &summary);
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

/* The end of the story of the simplest plan that still fails, and how to play it again. */
static int shrink(uint64_t seed) {
    const struct sim_plan whole = plan_of(seed);
    struct sim_plan plan = whole;
    struct sim_summary summary;
    sim_play_apart(&plan, &summary);
    if (summary.failure[0] == '\0') {
        printf("seed %" PRIu64 ": does not fail\n", seed);
        return 0;
    }
    printf("seed %" PRIu64 ": %s\n", seed, summary.failure);
    size_t kept = sim_shrink(&plan, summary.failure, SHRINK_TRIALS, stdout);
    printf("%zu steps simpler, again with:\nsimulate --seed %" PRIu64 "%s", kept, seed,
           world_text());
    sim_plan_print_difference(&plan, &whole, stdout);
    printf("\n");
    (void)play_one(&plan, false);
    return 1;
}

/* How quick the simulation is. */
static int play_calm(uint64_t minutes) {
    struct sim_plan plan = sim_plan_calm(1);
    plan.clients = 4;
    plan.op_pause_ns = 200 * MS_NS;
    plan.chaos_ms = minutes * 60000;
    struct sim_summary summary;
    double begun = sim_clock_s();
    sim_play_plan(&plan, NULL, &summary);
    double seconds = sim_clock_s() - begun;
    double hours = (double)summary.virtual_ns / 3600e9;
    printf("%.2f hours simulated in %.2f s: %.1f hours a minute, %" PRIu64 " operations\n", hours,
           seconds, hours / seconds * 60, summary.counts.ops);
    return summary.failure[0] != '\0';
}

static int usage(void) {
    fprintf(stderr, "usage: simulate --seed S [--story] [--set NAME=VALUE ...] | --shrink S | "
                    "--seeds A..B [--twice] | --named TEXT --count N [--twice] | "
                    "--minutes N | --calm M [--jobs J] [--rot] [--log]\n"
                    "       [--world mixed|plain|rot|log|log-rot|own|own-rot]\n");
    return 2;
}

struct arguments {
    const char *seed, *shrink, *seeds, *minutes, *named, *count, *calm;
    const char *set[SETS_MAX];
    size_t sets, jobs;
    bool story, twice;
};

static int hunt_seeds(uint64_t first, uint64_t last, double minutes,
                      const struct arguments *arguments) {
    struct sim_hunt hunt = {.next = first,
                            .last = last,
                            .jobs = arguments->jobs,
                            .twice = arguments->twice,
                            .plan_of = plan_of,
                            .wanted = wanted};
    hunt.until = minutes > 0 ? sim_clock_s() + minutes * 60 : 0;
    int failed = sim_hunt_run(&hunt);
    if (failed != 0) {
        printf("the first one's story, again with: simulate --seed %" PRIu64 "%s --story\n",
               hunt.failed[0], world_text());
        struct sim_plan plan = plan_of(hunt.failed[0]);
        (void)play_one(&plan, false);
    }
    return failed;
}

/* False: no such option. */
static bool take(struct arguments *arguments, const char *name, const char *value) {
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"--seed", &arguments->seed},   {"--shrink", &arguments->shrink},
                 {"--seeds", &arguments->seeds}, {"--minutes", &arguments->minutes},
                 {"--named", &arguments->named}, {"--count", &arguments->count},
                 {"--calm", &arguments->calm}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].value = value;
            return true;
        }
    }
    if (strcmp(name, "--set") == 0 && arguments->sets < SETS_MAX) {
        arguments->set[arguments->sets++] = value;
        return true;
    }
    if (strcmp(name, "--world") == 0) {
        return sim_world_named(value, &plan_of);
    }
    if (strcmp(name, "--jobs") == 0) {
        arguments->jobs = strtoul(value, NULL, 10);
        return arguments->jobs >= 1 && arguments->jobs <= SIM_JOBS_MAX;
    }
    return false;
}

/* A seed that is another for each text. */
static uint64_t seed_named(const char *text) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(1099511628211);
    }
    return hash >> 16;
}

static int play_seed(const struct arguments *arguments) {
    struct sim_plan plan = plan_of(strtoull(arguments->seed, NULL, 0));
    for (size_t i = 0; i < arguments->sets; i++) {
        if (!sim_plan_set(&plan, arguments->set[i])) {
            fprintf(stderr, "simulate: --set %s: no such number of a plan\n", arguments->set[i]);
            return 2;
        }
    }
    return play_one(&plan, arguments->story);
}

int main(int argc, char **argv) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct arguments arguments = {.jobs = cores > 0 && cores < SIM_JOBS_MAX ? (size_t)cores : 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--story") == 0) {
            arguments.story = true;
        } else if (strcmp(argv[i], "--twice") == 0) {
            arguments.twice = true;
        } else if (strcmp(argv[i], "--rot") == 0) {
            only_rot = true;
        } else if (strcmp(argv[i], "--log") == 0) {
            only_log = true;
        } else if (i + 1 >= argc || !take(&arguments, argv[i], argv[i + 1])) {
            return usage();
        } else {
            i++;
        }
    }
    if (arguments.seed != NULL) {
        return play_seed(&arguments);
    }
    if (arguments.shrink != NULL) {
        return shrink(strtoull(arguments.shrink, NULL, 0));
    }
    if (arguments.calm != NULL) {
        return play_calm(strtoull(arguments.calm, NULL, 10));
    }
    uint64_t first, last;
    if (arguments.seeds != NULL) {
        if (sscanf(arguments.seeds, "%" SCNu64 "..%" SCNu64, &first, &last) != 2 || last < first) {
            return usage();
        }
        return hunt_seeds(first, last, 0, &arguments);
    }
    if (arguments.named != NULL && arguments.count != NULL) {
        first = seed_named(arguments.named);
        uint64_t count = strtoull(arguments.count, NULL, 10);
        return count > 0 ? hunt_seeds(first, first + count - 1, 0, &arguments) : usage();
    }
    double minutes = arguments.minutes != NULL ? strtod(arguments.minutes, NULL) : 0;
    if (minutes <= 0) {
        return usage();
    }
    return hunt_seeds((uint64_t)time(NULL) * 1000003, UINT64_MAX, minutes, &arguments);
}
