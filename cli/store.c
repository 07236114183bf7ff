/* The store that a data command works on: see store.h. */
#include "store.h"

#include "report.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

const char default_endpoint[] = "127.0.0.1:7001";

enum { REPLAY_LOOK_MS = 5 };

/* ------------------------------------------------------------------ options */

int option_set(struct cli *cli, struct lkv_options *options, const char *name, const char *text) {
    if (lkv_options_set(options, name, text) == 0) {
        return 0;
    }
    const char *why = lkv_options_error(options);
    return report_found(cli, KVCTL_USAGE, LKV_EOPTION, "%s",
                        why != NULL && *why != '\0' ? why : lkv_error_text(LKV_EOPTION));
}

/* One write for each line: several threads of the library trace at once. */
static void trace_line(void *arg, int level, const char *json) {
    (void)arg;
    (void)level;
    struct iovec parts[2] = {{(void *)(uintptr_t)json, strlen(json)},
                             {(void *)(uintptr_t) "\n", 1}};
    ssize_t written = writev(STDERR_FILENO, parts, 2);
    (void)written; /* there is nowhere to tell it */
}

int option_trace(struct cli *cli, struct lkv_options *options, const char *fallback) {
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    const char *name = args_text(&cli->args, "trace");
    name = name != NULL ? name : fallback;
    if (name == NULL || strcmp(name, "off") == 0) {
        return 0;
    }
    for (int level = 0; level < 4; level++) {
        if (strcmp(levels[level], name) == 0) {
            lkv_options_trace(options, trace_line, NULL, level);
            return 0;
        }
    }
    return report_usage(cli, "--trace is error, warn, info, debug or off, not '%s'", name);
}

static int options_new(struct cli *cli, struct lkv_options **out) {
    *out = lkv_options_new();
    if (*out == NULL) {
        return report_rc(cli, LKV_ENOMEM, NULL, "options");
    }
    char timeout[24];
    snprintf(timeout, sizeof(timeout), "%lld", (long long)cli->timeout_ms);
    int exit = option_set(cli, *out, "timeout_ms", timeout);
    exit = exit == 0 ? option_trace(cli, *out, NULL) : exit;
    if (exit != 0) {
        lkv_options_free(*out);
        *out = NULL;
    }
    return exit;
}

/* ------------------------------------------------------------------ endpoints */

int store_connect(struct cli *cli, const char *endpoints, struct lkv **out) {
    struct lkv_options *options;
    int exit = options_new(cli, &options);
    if (exit != 0) {
        return exit;
    }
    exit = option_set(cli, options, "endpoints", endpoints);
    if (exit == 0) {
        struct lkv_msg *why = NULL;
        int rc = lkv_connect(out, options, &why);
        exit = rc < 0 ? report_rc(cli, rc, why, "%s", endpoints) : 0;
        lkv_msg_free(why);
    }
    lkv_options_free(options);
    return exit;
}

static int connect_socket(struct store *store, const char *dir) {
    struct text endpoint = {0};
    text_printf(&endpoint, "unix:%s/ctl.sock", dir);
    int exit = store_connect(store->cli, text_string(&endpoint), &store->db);
    text_free(&endpoint);
    return exit;
}

/* ------------------------------------------------------------------ a directory */

static size_t member_count(const struct store *store) {
    struct lkv_msg *status = NULL;
    size_t count = 0;
    struct lkv_member member;
    if (lkv_status(store->db, store_left(store), &status) == 0) {
        while (lkv_msg_member(status, count, &member)) {
            count++;
        }
    }
    lkv_msg_free(status);
    return count;
}

/* A store that was just opened still replays its log; a local read would not wait for it. */
static void await_replay(struct store *store) {
    bool replayed = false;
    while (!replayed && !deadline_passed(store->cli->deadline)) {
        struct lkv_msg *status = NULL;
        uint64_t commit = 0;
        uint64_t applied = 0;
        int rc = lkv_status(store->db, store_left(store), &status);
        if (rc == 0) {
            const char *leader = lkv_msg_str(status, "leader");
            lkv_msg_u64(status, "commit", &commit);
            lkv_msg_u64(status, "applied", &applied);
            replayed = leader != NULL && *leader != '\0' && applied >= commit;
        }
        lkv_msg_free(status);
        if (rc < 0) {
            return; /* the command itself will tell */
        }
        clock_wait(replayed ? 0 : REPLAY_LOOK_MS);
    }
}

/* A member of a cluster, alone: what it holds may be old, and what it took would be lost. */
static int check_member(struct store *store, const char *dir, enum purpose purpose) {
    size_t members = member_count(store);
    if (members <= 1) {
        if (store->how == LKV_LOCAL) {
            await_replay(store);
        }
        return 0;
    }
    if (purpose != TO_READ) {
        return report_found(store->cli, KVCTL_USAGE, LKV_EREADONLY,
                            "%s belongs to a member of a cluster of %zu: start it with `kvctl "
                            "serve`, then write through --endpoints",
                            dir, members);
    }
    report_warning(store->cli,
                   "%s belongs to a member of a cluster of %zu that is not running: what it shows "
                   "may be old, or was never acknowledged",
                   dir, members);
    store->how = LKV_LOCAL;
    return 0;
}

static int open_directory(struct store *store, const char *dir, enum purpose purpose) {
    struct lkv_options *options;
    int exit = options_new(store->cli, &options);
    if (exit != 0) {
        return exit;
    }
    exit = option_set(store->cli, options, "dir", dir);
    /* A member of several takes no part in its cluster for the sake of one command. */
    exit = exit == 0 ? option_set(store->cli, options, "offline", "on") : exit;
    const char *model = store->cli->command->model;
    exit = exit == 0 && model != NULL ? option_set(store->cli, options, "model", model) : exit;
    if (exit != 0) {
        lkv_options_free(options);
        return exit;
    }
    struct lkv_msg *why = NULL;
    int rc = lkv_open(&store->db, NULL, options, &why);
    lkv_options_free(options);
    store->embedded = rc == 0;
    if (rc == LKV_ELOCKED) {
        exit = connect_socket(store, dir);
    } else if (rc < 0) {
        exit = report_rc(store->cli, rc, why, "%s", dir);
    } else {
        exit = check_member(store, dir, purpose);
    }
    lkv_msg_free(why);
    return exit;
}

static int open_named(struct store *store, const char *dir, enum purpose purpose) {
    struct stat info;
    /* A mistyped directory must not become an empty store that answers "no such key". */
    if (purpose != TO_WRITE && (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode))) {
        return report_found(store->cli, KVCTL_USAGE, LKV_ENOENT, "%s: no such directory", dir);
    }
    return open_directory(store, dir, purpose);
}

/* ------------------------------------------------------------------ either */

int store_open(struct cli *cli, enum purpose purpose, struct store *store) {
    *store = (struct store){.cli = cli, .how = LKV_LINEARIZABLE};
    const char *dir = args_text(&cli->args, "dir");
    const char *endpoints = args_text(&cli->args, "endpoints");
    enum source dir_source = args_source(&cli->args, "dir");
    enum source endpoints_source = args_source(&cli->args, "endpoints");
    if (dir_source != SOURCE_NONE && dir_source == endpoints_source) {
        return report_usage(cli, "--dir and --endpoints exclude each other");
    }
    int rc = lkv_queue_new(&store->queue);
    if (rc < 0) {
        return report_rc(cli, rc, NULL, "queue");
    }
    if (args_switch(&cli->args, "local")) {
        store->how = LKV_LOCAL;
    } else if (args_switch(&cli->args, "leased")) {
        store->how = LKV_LEASED;
    } else if (args_switch(&cli->args, "bounded")) {
        store->how = LKV_BOUNDED;
    }
    int exit =
        dir_source > endpoints_source
            ? open_named(store, dir, purpose)
            : store_connect(cli, endpoints != NULL ? endpoints : default_endpoint, &store->db);
    if (exit != 0) {
        store_close(store);
    }
    return exit;
}

void store_close(struct store *store) {
    lkv_close(store->db, 0);
    lkv_queue_free(store->queue);
    *store = (struct store){0};
}

int64_t store_left(const struct store *store) {
    return deadline_left(store->cli->deadline, store->cli->timeout_ms);
}

struct lkv_msg *store_answer(struct store *store) {
    return lkv_queue_next(store->queue, LKV_DEFAULT);
}
