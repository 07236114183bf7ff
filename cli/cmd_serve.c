/* kvctl serve: one node as a process of its own.
 *
 * It runs until SIGTERM, SIGINT or SIGHUP, then hands leadership over and ends with 0; or until the
 * node stops by itself (its disk failed, it found damage), then says why and ends with 5 or 7.
 */
#include "interrupt.h"
#include "output.h"
#include "report.h"
#include "store.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { HANDOVER_MS = 1000, READY_MS = 1000 };

struct serve {
    struct cli *cli;
    struct lkv *db;
    struct lkv_queue *roles;
    struct interrupt interrupt;
};

/* ------------------------------------------------------------------ opening */

static int take_options(struct cli *cli, struct lkv_options *options) {
    for (size_t i = 0; i < cli->args.setting_count; i++) {
        const struct setting *setting = &cli->args.settings[i];
        /* "endpoints" is where clients look for nodes, and may well be exported. */
        if (strcmp(setting->name, "endpoints") == 0 || !library_has_option(setting->name)) {
            continue;
        }
        int exit = option_set(cli, options, setting->name, setting->text);
        if (exit != 0) {
            return exit;
        }
    }
    /* A node that is alone and was told nothing serves where clients look first. */
    bool told = args_text(&cli->args, "listen_alone") != NULL;
    int exit = told ? 0 : option_set(cli, options, "listen_alone", default_endpoint);
    return exit == 0 ? option_trace(cli, options, "warn") : exit;
}

static int open_node(struct serve *serve) {
    struct cli *cli = serve->cli;
    struct lkv_options *options = lkv_options_new();
    if (options == NULL) {
        return report_rc(cli, LKV_ENOMEM, NULL, "options");
    }
    int exit = take_options(cli, options);
    if (exit == 0) {
        struct lkv_msg *why = NULL;
        int rc = lkv_open(&serve->db, NULL, options, &why);
        exit =
            rc < 0 ? report_rc(cli, rc, why, "cannot serve %s", args_text(&cli->args, "dir")) : 0;
        lkv_msg_free(why);
    }
    lkv_options_free(options);
    return exit;
}

/* ------------------------------------------------------------------ running */

static void print_ready(struct serve *serve) {
    struct lkv_msg *status = NULL;
    const char *id = args_text(&serve->cli->args, "id");
    const char *listen = args_text(&serve->cli->args, "listen");
    if (lkv_status(serve->db, READY_MS, &status) == 0) {
        const char *known = lkv_msg_str(status, "id");
        id = known != NULL ? known : id;
        known = lkv_msg_str(status, "listen");
        listen = known != NULL && *known != '\0' ? known : listen;
    }
    bool alone = args_text(&serve->cli->args, "peers") == NULL;
    const char *otherwise = alone ? default_endpoint : "-";
    printf("ready id=%s listen=%s\n", id != NULL ? id : "n1", listen != NULL ? listen : otherwise);
    fflush(stdout);
    lkv_msg_free(status);
}

/* True when the node has stopped by itself; *exit is then the code, and why was told. */
static bool take_role(struct serve *serve, const struct lkv_msg *role, int *exit) {
    const char *name = lkv_msg_str(role, "role");
    if (name == NULL || strcmp(name, "stopped") != 0) {
        return false;
    }
    struct lkv_msg *status = NULL; /* its state says why */
    int rc = lkv_status(serve->db, READY_MS, &status);
    const char *state = rc == 0 ? lkv_msg_str(status, "state") : NULL;
    *exit = report_found(serve->cli, KVCTL_UNHEALTHY, LKV_ESTOPPED, "the node has %s",
                         state != NULL ? state : "stopped");
    lkv_msg_free(status);
    return true;
}

static bool take_roles(struct serve *serve, int *exit) {
    bool stopped = false;
    struct lkv_msg *role;
    while (!stopped && (role = lkv_queue_next(serve->roles, 0)) != NULL) {
        stopped = take_role(serve, role, exit);
        lkv_msg_free(role); /* a node that steps down waits for this */
    }
    return stopped;
}

static int run_until_stopped(struct serve *serve) {
    struct pollfd fds[2] = {{.fd = serve->interrupt.fd, .events = POLLIN},
                            {.fd = lkv_queue_fd(serve->roles), .events = POLLIN}};
    int exit = KVCTL_DONE;
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            return report_found(serve->cli, KVCTL_UNHEALTHY, LKV_EIO, "poll: %s", strerror(errno));
        }
        if (take_roles(serve, &exit) || interrupt_came(&serve->interrupt)) {
            return exit;
        }
    }
}

static int run_node(struct serve *serve) {
    int rc = lkv_role_watch(serve->db, serve->roles, NULL);
    if (rc < 0) {
        return report_rc(serve->cli, rc, NULL, "cannot watch the node's role");
    }
    print_ready(serve);
    return run_until_stopped(serve);
}

/* A server may use what the administrator allows; the library itself changes no limits. */
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int run_serve(struct cli *cli) {
    if (args_text(&cli->args, "dir") == NULL) {
        return report_usage(cli, "serve wants --dir DIR");
    }
    struct serve serve = {.cli = cli};
    raise_descriptor_limit();
    signal(SIGPIPE, SIG_IGN); /* whoever read our stdout may be gone */
    interrupt_start(&serve.interrupt);
    int rc = lkv_queue_new(&serve.roles);
    if (rc < 0) {
        return report_rc(cli, rc, NULL, "queue");
    }
    int exit = open_node(&serve);
    if (exit == 0) {
        exit = run_node(&serve);
        rc = lkv_close(serve.db, HANDOVER_MS);
        if (rc == LKV_EDAMAGED) {
            exit = KVCTL_INTEGRITY;
        } else if (rc < 0 && exit == 0) {
            exit = report_rc(cli, rc, NULL, "the last write to disk");
        }
    }
    lkv_queue_free(serve.roles);
    interrupt_end(&serve.interrupt);
    return exit;
}

const struct command command_serve = {
    .name = "serve",
    .words =
        "--dir DIR [--id ID] [--listen HOST:PORT] [--peers ID=HOST:PORT,...] [--moved on|newest]",
    .summary = "Run one node.",
    .details =
        "Prints `ready id=ID listen=HOST:PORT` once the log is recovered and the listener\n"
        "accepts. --peers names the first members, this node among them, and where each listens;\n"
        "without it they are those that the directory knows. A node that knows none is alone, and\n"
        "listens at 127.0.0.1:7001 unless --listen says where.\n"
        "A node that was alone may be given peers later: it waits for all of them, then they are\n"
        "one cluster with its data. --moved on, for one start, keeps a directory that was moved\n"
        "or restored, or gives members other addresses; one of several then waits until the other\n"
        "members have given it what it lacks. --moved newest does not wait: only if nothing was\n"
        "written after the copy was made, as when a whole stopped cluster moves. Traces are JSON\n"
        "lines on stderr (--trace, default warn). SIGTERM hands leadership over, then stops.",
    .examples = "  kvctl serve --dir ./data\n"
                "  kvctl serve --dir ./log --model log --listen 127.0.0.1:7011\n"
                "  kvctl serve --id n1 --dir ./n1 --listen 10.0.0.1:7001 \\\n"
                "      --peers n1=10.0.0.1:7001,n2=10.0.0.2:7001,n3=10.0.0.3:7001",
    .library_options = true,
    .run = run_serve,
};
