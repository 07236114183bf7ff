#include "tests/sim/shrink.h"

#include "tests/sim/plan_text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_MAX = 120 };

static _Noreturn void play_and_tell(const struct sim_plan *plan, int fd) {
    struct sim_summary summary;
    (void)signal(SIGINT, SIG_DFL);
    (void)alarm(SECONDS_MAX);
    sim_play_plan(plan, NULL, &summary);
    bool told = write(fd, &summary, sizeof(summary)) == (ssize_t)sizeof(summary);
    _exit(told ? 0 : 1);
}

void sim_play_apart(const struct sim_plan *plan, struct sim_summary *out) {
    int fds[2], status = 0;
    *out = (struct sim_summary){.seed = plan->seed};
    (void)fflush(NULL);
    pid_t pid = pipe(fds) == 0 ? fork() : -1;
    if (pid < 0) {
        (void)snprintf(out->failure, sizeof(out->failure), "cannot start a process: %s",
                       strerror(errno));
        return;
    }
    if (pid == 0) {
        (void)close(fds[0]);
        play_and_tell(plan, fds[1]);
    }
    (void)close(fds[1]);
    bool told = read(fds[0], out, sizeof(*out)) == (ssize_t)sizeof(*out);
    (void)close(fds[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!told) {
        *out = (struct sim_summary){.seed = plan->seed};
        (void)snprintf(out->failure, sizeof(out->failure), "ended by signal %d",
                       WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
}

/* Numbers and names of nodes differ from run to run; what comes before them tells one fault from
 * another. */
static bool alike(const char *a, const char *b) {
    size_t length = strcspn(a, "0123456789");
    return length == strcspn(b, "0123456789") && memcmp(a, b, length) == 0;
}

struct shrink {
    struct sim_plan *plan;
    const char *failure;
    size_t left, kept;
    FILE *progress;
};

static bool try_number(struct shrink *shrink, size_t i, int64_t value) {
    int64_t before = sim_plan_number(shrink->plan, i);
    if (value == before || shrink->left == 0) {
        return false;
    }
    shrink->left--;
    struct sim_plan plan = *shrink->plan;
    sim_plan_set_number(&plan, i, value);
    struct sim_summary summary;
    sim_play_apart(&plan, &summary);
    if (!alike(summary.failure, shrink->failure)) {
        return false;
    }
    (void)fprintf(shrink->progress, "  %s %" PRId64 " -> %" PRId64 "\n", sim_plan_name(i), before,
                  value);
    *shrink->plan = plan;
    shrink->kept++;
    return true;
}

size_t sim_shrink(struct sim_plan *plan, const char *failure, size_t trials, FILE *progress) {
    struct shrink shrink = {.plan = plan, .failure = failure, .left = trials, .progress = progress};
    const struct sim_plan calm = sim_plan_calm(plan->seed);
    size_t before;
    do {
        before = shrink.kept;
        for (size_t n = sim_plan_numbers(); n > 0; n--) { /* whole kinds of faults first */
            size_t i = n - 1;
            int64_t simple = sim_plan_number(&calm, i);
            while (!try_number(&shrink, i, simple)) {
                int64_t halfway = simple + (sim_plan_number(plan, i) - simple) / 2;
                if (halfway == simple || !try_number(&shrink, i, halfway)) {
                    break;
                }
            }
        }
    } while (shrink.kept > before && shrink.left > 0);
    return shrink.kept;
}
