/* kvctl lock and kvctl elect: a program that runs only while a lock is held. */
#include "input.h"
#include "interrupt.h"
#include "output.h"
#include "report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TTL_MS = 15000, LOOK_MS = 100, WORDS_MAX = 1000, RUN_FAILED = 127 };

struct held {
    struct store *store;
    const char *name;
    int64_t lease;
    uint64_t token;
    bool lost;
    struct interrupt interrupt;
};

/* ------------------------------------------------------------------ the program */

static pid_t run_program(const struct held *held, char *const *words) {
    char token[24], lease[24];
    (void)snprintf(token, sizeof(token), "%" PRIu64, held->token);
    (void)snprintf(lease, sizeof(lease), "%" PRIx64, (uint64_t)held->lease);
    fflush(NULL);
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    /* The lock may be another's soon after this process is gone, however it ended: kill -9 tells nobody. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(RUN_FAILED);
    }
    sigset_t none; /* interrupt.h has blocked what is to end the program */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (setenv("KVCTL_LOCK_TOKEN", token, 1) == 0 && setenv("KVCTL_LOCK_LEASE", lease, 1) == 0) {
        execvp(words[0], words);
    }
    fprintf(stderr, "kvctl: %s: %s\n", words[0], strerror(errno));
    _exit(RUN_FAILED);
}

/* A lost lease is told by this process's own clock: the program is to stop at once. */
static void look(struct held *held, pid_t pid) {
    struct lkv_msg *msg = lkv_queue_next(held->store->queue, LOOK_MS);
    if (msg != NULL && lkv_msg_kind(msg) == LKV_LEASE_LOST) {
        held->lost = true;
        (void)report_found(held->store->cli, KVCTL_NEGATIVE, lkv_msg_rc(msg), "lock lost: %s",
                           lkv_msg_text(msg));
        (void)kill(pid, SIGTERM);
    }
    lkv_msg_free(msg);
    if (interrupt_came(&held->interrupt)) {
        (void)kill(pid, SIGTERM);
    }
}

static int wait_for(struct held *held, pid_t pid) {
    int status = 0;
    pid_t ended = 0;
    while (ended == 0) {
        look(held, pid);
        ended = waitpid(pid, &status, WNOHANG);
        ended = ended < 0 && errno == EINTR ? 0 : ended;
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return held->lost ? KVCTL_NEGATIVE : code;
}

/* Without a program: until it is interrupted, or lost. */
static int hold_on(struct held *held) {
    while (!held->lost && !interrupt_came(&held->interrupt)) {
        struct lkv_msg *msg = lkv_queue_next(held->store->queue, LOOK_MS);
        if (msg != NULL && lkv_msg_kind(msg) == LKV_LEASE_LOST) {
            held->lost = true;
            (void)report_found(held->store->cli, KVCTL_NEGATIVE, lkv_msg_rc(msg), "lock lost: %s",
                               lkv_msg_text(msg));
        }
        lkv_msg_free(msg);
    }
    return held->lost ? KVCTL_NEGATIVE : KVCTL_DONE;
}

static void print_held(const struct held *held) {
    const struct cli *cli = held->store->cli;
    if (cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_string(&line, "lock", held->name);
        json_u64(&line, "token", held->token);
        json_print(&line);
        text_free(&line);
    } else {
        printf("%s token=%" PRIu64 "\n", held->name, held->token);
    }
    fflush(stdout);
}

/* ------------------------------------------------------------------ holding */

static int while_held(struct held *held, char *const *words) {
    if (words[0] == NULL) {
        print_held(held);
        return hold_on(held);
    }
    pid_t pid = run_program(held, words);
    if (pid < 0) {
        return report_found(held->store->cli, KVCTL_REJECTED, LKV_ENOMEM, "cannot start %s: %s",
                            words[0], strerror(errno));
    }
    return wait_for(held, pid);
}

/* `value` is what observers see. */
static int take_and_hold(struct store *store, struct lkv_bytes value, char *const *words,
                         int64_t ttl_ms) {
    struct cli *cli = store->cli;
    struct held held = {.store = store, .name = cli->args.words[0]};
    int64_t wait_ms = cli->timeout_given ? store_left(store) : INT64_C(1) << 40;
    int rc = lkv_lease_open(store->db, ttl_ms, store->queue, NULL, &held.lease);
    if (rc == 0) {
        rc = lkv_campaign(store->db, bytes_of(held.name), held.lease, value, wait_ms, &held.token);
    }
    int exit;
    if (rc == 0) { /* before, a signal ends this process, and the lease ends by itself */
        interrupt_start(&held.interrupt);
        exit = while_held(&held, words);
        interrupt_end(&held.interrupt);
    } else {
        exit = report_call(cli, rc, NULL, "%s %s", cli->command->name, shown(held.name).text);
    }
    if (held.lease != 0) { /* its key goes with it */
        (void)lkv_lease_close(store->db, held.lease, held.lost ? 0 : cli->timeout_ms);
    }
    return exit;
}

static int run_held(struct cli *cli, size_t first, struct lkv_bytes value) {
    int64_t ttl_ms = TTL_MS;
    if (!args_duration(&cli->args, "ttl", &ttl_ms)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    size_t count = cli->args.word_count - first;
    char **words = must_realloc(NULL, (count + 1) * sizeof(*words));
    for (size_t i = 0; i < count; i++) {
        words[i] = must_strdup(cli->args.words[first + i]);
    }
    words[count] = NULL;
    struct store store;
    int exit = store_open(cli, TO_WRITE, &store);
    if (exit == 0) {
        exit = take_and_hold(&store, value, words, ttl_ms);
        store_close(&store);
    }
    for (size_t i = 0; i < count; i++) {
        free(words[i]);
    }
    free(words);
    return exit;
}

/* ------------------------------------------------------------------ lock */

static int run_lock(struct cli *cli) {
    return run_held(cli, 1, (struct lkv_bytes){0});
}

static const struct flag held_flags[] = {
    {"ttl", FLAG_VALUE, 0, false, "DURATION", "how long it is held without a sign of life (15s)"},
    FLAG_END,
};

const struct command command_lock = {
    .name = "lock",
    .words = "NAME [-- PROGRAM [ARGUMENT...]]",
    .summary = "Run a program while a lock is held.",
    .details =
        "Waits for the lock, without limit unless --timeout is given, in the order of asking.\n"
        "The program has the fencing token in KVCTL_LOCK_TOKEN and the lease in\n"
        "KVCTL_LOCK_LEASE. If the lock is lost the program gets SIGTERM; if kvctl is\n"
        "killed the program (not what it has started) gets SIGKILL. Without a program the lock is\n"
        "held until interrupted.\n"
        "Exit code: the program's; 1: the lock was lost.",
    .examples = "  kvctl lock /jobs/nightly --ttl 15s -- ./job.sh",
    .flags = held_flags,
    .words_min = 1,
    .words_max = WORDS_MAX,
    .run = run_lock,
};

/* ------------------------------------------------------------------ elect */

static void print_leader(const struct cli *cli, const struct lkv_kv *item) {
    if (cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_bytes(&line, "value", item->value, cli->hex);
        json_u64(&line, "token", item->create_rev);
        json_print(&line);
        text_free(&line);
    } else {
        print_shown(item->value, cli->hex);
        printf(" token=%" PRIu64 "\n", item->create_rev);
    }
    fflush(stdout);
}

/* Each leader, one after the other, until the time is up; the first one alone without --timeout. */
static int observe(struct store *store) {
    struct cli *cli = store->cli;
    uint64_t known = 0;
    int rc = 0;
    do {
        struct lkv_msg *msg = NULL;
        struct lkv_kv item;
        rc = lkv_observe(store->db, bytes_of(cli->args.words[0]), known, store_left(store), &msg);
        if (rc == 0 && lkv_msg_kv(msg, 0, &item)) {
            print_leader(cli, &item);
            known = item.create_rev;
        }
        lkv_msg_free(msg);
    } while (rc == 0 && cli->timeout_given);
    if (rc == LKV_ETIMEOUT) {
        return known != 0 ? KVCTL_DONE : KVCTL_NEGATIVE;
    }
    return rc == 0 ? KVCTL_DONE : report_call(cli, rc, NULL, "elect");
}

static int run_elect(struct cli *cli) {
    if (!args_switch(&cli->args, "observe")) {
        return cli->args.word_count < 2
                   ? report_usage(cli, "elect wants NAME VALUE, or --observe NAME")
                   : run_held(cli, 2, bytes_of(cli->args.words[1]));
    }
    struct store store;
    int exit = store_open(cli, TO_READ, &store);
    if (exit == 0) {
        exit = observe(&store);
        store_close(&store);
    }
    return exit;
}

static const struct flag elect_flags[] = {
    {"ttl", FLAG_VALUE, 0, false, "DURATION", "how long it leads without a sign of life (15s)"},
    {"observe", FLAG_SWITCH, 0, false, NULL, "print who leads; with --timeout each who comes, too"},
    FLAG_END,
};

const struct command command_elect = {
    .name = "elect",
    .words = "NAME VALUE [-- PROGRAM [ARGUMENT...]] | --observe NAME",
    .summary = "Run a program while elected, or tell who is.",
    .details = "As kvctl lock; observers see VALUE.\nExit code 1: nobody leads, or it was lost.",
    .examples = "  kvctl elect /svc/primary 10.0.0.1:80 -- ./serve.sh\n"
                "  kvctl elect --observe /svc/primary",
    .flags = elect_flags,
    .words_min = 1,
    .words_max = WORDS_MAX,
    .run = run_elect,
};
