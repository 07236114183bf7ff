/* check-history FILE...: is each history (tests/support/history.h) linearizable? Judged from outside, by what was
 * asked and answered and when. One line for each, and for one that is not, the operations that have no order.
 *
 * Exit code 0: all are. 1: one is not. 2: one could not be read or decided. */
#include "tests/support/history.h"

static int check(const char *path) {
    char why[512];
    struct history *history = history_read(path, why);
    if (history == NULL) {
        fprintf(stderr, "%s\n", why);
        return 2;
    }
    struct lin_result result;
    lin_check(history->ops, history->count, LIN_STATES_MAX, &result);
    if (result.verdict == LIN_LINEARIZABLE) {
        printf("%s: linearizable: %zu operations on %zu keys, at most %zu states\n", path,
               result.operations, result.keys, result.states_max);
    } else {
        printf("%s: ", path);
        lin_print(&result, history->ops, history->count, &history->names, stdout);
    }
    int status = result.verdict == LIN_LINEARIZABLE ? 0 : result.verdict == LIN_VIOLATED ? 1 : 2;
    lin_result_fini(&result);
    history_free(history);
    return status;
}

int main(int argc, char **argv) {
    int worst = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: check-history FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        int status = check(argv[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}
