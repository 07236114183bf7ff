/* kvctl lease grant, revoke, keep-alive, ttl and list. Ids are hexadecimal. */
#include "input.h"
#include "lease_id.h"
#include "output.h"
#include "report.h"

#include <stdio.h>

enum { PAGE = 1000, ID_SIZE = 20 };

static int take_id(struct cli *cli, int64_t *id) {
    const char *word = cli->args.words[0];
    return lease_id_take(word, id)
               ? 0
               : report_usage(cli, "a lease's id is hexadecimal, 1 to 7fffffffffffffff, not '%s'",
                              shown(word).text);
}

static const char *id_text(int64_t id, char into[ID_SIZE]) {
    (void)snprintf(into, ID_SIZE, "%" PRIx64, (uint64_t)id);
    return into;
}

/* lease=5 ttl_ms=15000, and what else is known of it. */
static void print_lease(const struct cli *cli, const struct lkv_lease *lease, bool with_left) {
    char id[ID_SIZE];
    id_text(lease->id, id);
    if (cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_string(&line, "lease", id);
        json_u64(&line, "ttl_ms", (uint64_t)lease->ttl_ms);
        if (with_left) {
            json_u64(&line, "remaining_ms", (uint64_t)lease->remaining_ms);
        }
        json_print(&line);
        text_free(&line);
    } else if (cli->format == FORMAT_FIELDS) {
        field_string("lease", id);
        field_u64("ttl_ms", (uint64_t)lease->ttl_ms);
        if (with_left) {
            field_u64("remaining_ms", (uint64_t)lease->remaining_ms);
        }
    } else if (cli->format == FORMAT_RAW) {
        fputs(id, stdout);
    } else if (with_left) {
        printf("%s\tttl=%.1fs\tremaining=%.1fs\n", id, (double)lease->ttl_ms / 1000,
               (double)lease->remaining_ms / 1000);
    } else {
        printf("%s\tttl=%.1fs\n", id, (double)lease->ttl_ms / 1000);
    }
}

/* What a command does at the store that it has opened. */
typedef int lease_fn(struct store *store, int64_t id);

static int run_at(struct cli *cli, enum purpose purpose, int64_t id, lease_fn *act) {
    struct store store;
    int exit = store_open(cli, purpose, &store);
    if (exit == 0) {
        exit = act(&store, id);
        store_close(&store);
    }
    return exit;
}

static int run_with_id(struct cli *cli, enum purpose purpose, lease_fn *act) {
    int64_t id;
    int exit = take_id(cli, &id);
    return exit == 0 ? run_at(cli, purpose, id, act) : exit;
}

/* ------------------------------------------------------------------ grant */

static int grant(struct store *store, int64_t wanted) {
    struct cli *cli = store->cli;
    struct lkv_lease lease = {.ttl_ms = 0};
    if (!args_duration(&cli->args, "ttl", &lease.ttl_ms)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    int rc = lkv_lease_grant(store->db, wanted, lease.ttl_ms, store_left(store), &lease.id);
    if (rc < 0) {
        return report_call(cli, rc, NULL, "lease grant");
    }
    print_lease(cli, &lease, false);
    return 0;
}

static int run_grant(struct cli *cli) {
    int64_t id = 0;
    int exit = cli->args.word_count > 0 ? take_id(cli, &id) : 0;
    if (exit == 0 && args_text(&cli->args, "ttl") == NULL) {
        exit = report_usage(cli, "lease grant wants --ttl DURATION");
    }
    return exit == 0 ? run_at(cli, TO_WRITE, id, grant) : exit;
}

static const struct flag grant_flags[] = {
    {"ttl", FLAG_VALUE, 0, false, "DURATION", "how long it lives without a keep-alive, from 1s on"},
    FLAG_END,
};

const struct command command_lease_grant = {
    .name = "lease grant",
    .words = "[ID] --ttl DURATION",
    .summary = "Grant a lease; prints its id.",
    .details = "Keys that are put with it are deleted when it ends. Without an ID one is chosen.",
    .examples = "  kvctl lease grant --ttl 30s\n"
                "  kvctl put /svc/a/1 10.0.0.1:80 --lease $(kvctl lease grant --ttl 30s -o raw)",
    .flags = grant_flags,
    .words_max = 1,
    .run = run_grant,
};

/* ------------------------------------------------------------------ revoke, keep-alive */

static int revoke(struct store *store, int64_t id) {
    uint64_t rev = 0, count = 0;
    char text[ID_SIZE];
    int rc = lkv_lease_revoke(store->db, id, store_left(store), &rev, &count);
    if (rc < 0) {
        return report_call(store->cli, rc, NULL, "lease revoke %s", id_text(id, text));
    }
    output_written(store->cli, rev, &count);
    return 0;
}

static int run_revoke(struct cli *cli) {
    return run_with_id(cli, TO_DELETE, revoke);
}

const struct command command_lease_revoke = {
    .name = "lease revoke",
    .words = "ID",
    .summary = "End a lease and delete its keys.",
    .examples = "  kvctl lease revoke 5af30c0de",
    .words_min = 1,
    .words_max = 1,
    .run = run_revoke,
};

static int keep_alive(struct store *store, int64_t id) {
    struct lkv_lease lease = {.id = id};
    char text[ID_SIZE];
    int rc = lkv_lease_keep_alive(store->db, id, store_left(store), &lease.ttl_ms);
    if (rc < 0) {
        return report_call(store->cli, rc, NULL, "lease keep-alive %s", id_text(id, text));
    }
    print_lease(store->cli, &lease, false);
    return 0;
}

static int run_keep_alive(struct cli *cli) {
    return run_with_id(cli, TO_READ, keep_alive);
}

const struct command command_lease_keep_alive = {
    .name = "lease keep-alive",
    .words = "ID",
    .summary = "Say once that a lease is still wanted; it lives for its ttl from then on.",
    .details = "Exit code 1: there is no such lease, it has ended.",
    .examples = "  while kvctl lease keep-alive 5af30c0de; do sleep 5; done",
    .words_min = 1,
    .words_max = 1,
    .run = run_keep_alive,
};

/* ------------------------------------------------------------------ ttl */

static void print_key(const struct cli *cli, const struct lkv_kv *item) {
    if (cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_bytes(&line, "key", item->key, cli->hex);
        json_print(&line);
        text_free(&line);
    } else if (cli->format == FORMAT_FIELDS) {
        field_bytes("key", item->key, cli->hex);
    } else {
        print_shown(item->key, cli->hex);
        putchar('\n');
    }
}

/* One page; *more says whether there is another one, behind `after`. */
static int ttl_page(struct store *store, int64_t id, size_t limit, struct text *after, bool *more) {
    struct lkv_msg *answer = NULL;
    char text[ID_SIZE];
    uint64_t ttl_ms = 0, left_ms = 0, others = 0;
    int rc = lkv_lease_ttl(store->db, id, text_bytes(after), limit, store_left(store), &answer);
    if (rc < 0) {
        int exit = report_call(store->cli, rc, answer, "lease ttl %s", id_text(id, text));
        lkv_msg_free(answer);
        return exit;
    }
    lkv_msg_u64(answer, "ttl_ms", &ttl_ms);
    lkv_msg_u64(answer, "remaining_ms", &left_ms);
    lkv_msg_u64(answer, "more", &others);
    const struct lkv_lease lease = {
        .id = id, .ttl_ms = (int64_t)ttl_ms, .remaining_ms = (int64_t)left_ms};
    if (after->size == 0) {
        print_lease(store->cli, &lease, true);
    }
    struct lkv_kv item;
    for (size_t i = 0; lkv_msg_kv(answer, i, &item); i++) {
        print_key(store->cli, &item);
        text_clear(after);
        text_add(after, item.key.data, item.key.size);
    }
    *more = others != 0 && limit > 0 && lkv_msg_count(answer) > 0;
    lkv_msg_free(answer);
    return 0;
}

static int ttl(struct store *store, int64_t id) {
    struct text after = {0};
    size_t limit = args_switch(&store->cli->args, "keys") ? PAGE : 0;
    bool more = true;
    int exit = 0;
    while (exit == 0 && more) {
        exit = ttl_page(store, id, limit, &after, &more);
    }
    text_free(&after);
    return exit;
}

static int run_ttl(struct cli *cli) {
    return run_with_id(cli, TO_READ, ttl);
}

static const struct flag ttl_flags[] = {
    {"keys", FLAG_SWITCH, 0, false, NULL, "its keys, too, one a line"},
    FLAG_END,
};

const struct command command_lease_ttl = {
    .name = "lease ttl",
    .words = "ID",
    .summary = "Tell how long a lease was granted for and what is left of it.",
    .details = "Exit code 1: there is no such lease, it has ended.",
    .examples = "  kvctl lease ttl 5af30c0de\n  kvctl lease ttl 5af30c0de --keys",
    .flags = ttl_flags,
    .words_min = 1,
    .words_max = 1,
    .run = run_ttl,
};

/* ------------------------------------------------------------------ list */

static int list_page(struct store *store, int64_t *after, bool *more) {
    struct lkv_msg *answer = NULL;
    struct lkv_lease lease;
    uint64_t others = 0;
    int rc = lkv_lease_list(store->db, *after, PAGE, store_left(store), &answer);
    if (rc < 0) {
        int exit = report_call(store->cli, rc, answer, "lease list");
        lkv_msg_free(answer);
        return exit;
    }
    for (size_t i = 0; lkv_msg_lease(answer, i, &lease); i++) {
        print_lease(store->cli, &lease, true);
        *after = lease.id;
    }
    lkv_msg_u64(answer, "more", &others);
    *more = others != 0 && lkv_msg_count(answer) > 0;
    lkv_msg_free(answer);
    return 0;
}

static int list(struct store *store, int64_t after) {
    bool more = true;
    int exit = 0;
    while (exit == 0 && more) {
        exit = list_page(store, &after, &more);
    }
    return exit;
}

static int run_list(struct cli *cli) {
    return run_at(cli, TO_READ, 0, list);
}

const struct command command_lease_list = {
    .name = "lease list",
    .words = "",
    .summary = "List the leases, one a line.",
    .examples = "  kvctl lease list -o json",
    .run = run_list,
};
