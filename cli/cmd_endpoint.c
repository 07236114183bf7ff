/* kvctl endpoint hash: the digest of every node, and whether they agree.
 *
 * Digests say something about each other only at the same applied index, so a round is repeated for a
 * while when the indexes differ.
 */
#include "output.h"
#include "report.h"
#include "store.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUND_WAIT_MS = 50, NODES_MAX = 64 };

struct node {
    char *endpoint; /* owned; NULL: the open store itself */
    struct text id, error, state;
    int rc;
    bool led; /* it knows a leader, so it is of the cluster */
    uint64_t revision, applied, digest;
};

struct hash {
    struct cli *cli;
    struct store store; /* the first way in */
    struct node nodes[NODES_MAX];
    size_t count;
    bool comparable, equal;
    size_t reached;
    size_t outside; /* of them: those that no leader takes, while others know one */
};

/* ------------------------------------------------------------------ who there is */

static void add_node(struct hash *hash, const char *endpoint, size_t length) {
    for (size_t i = 0; i < hash->count; i++) {
        const char *known = hash->nodes[i].endpoint;
        if (known != NULL && strlen(known) == length && memcmp(known, endpoint, length) == 0) {
            return;
        }
    }
    if (length == 0 || hash->count == NODES_MAX) {
        return;
    }
    struct node *node = &hash->nodes[hash->count++];
    node->endpoint = must_realloc(NULL, length + 1);
    memcpy(node->endpoint, endpoint, length);
    node->endpoint[length] = '\0';
}

static void add_list(struct hash *hash, const char *list) {
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        add_node(hash, list, length);
        list += length + (list[length] == ',');
    }
}

/* The endpoints that were named, and all members that the first of them to answer knows. */
static int find_nodes(struct hash *hash) {
    struct cli *cli = hash->cli;
    const char *endpoints = args_text(&cli->args, "endpoints");
    if (hash->store.embedded) {
        hash->count = 1;
        return 0;
    }
    if (args_source(&cli->args, "dir") < args_source(&cli->args, "endpoints") ||
        args_text(&cli->args, "dir") == NULL) {
        add_list(hash, endpoints != NULL ? endpoints : default_endpoint);
    }
    struct lkv_msg *status = NULL;
    int rc = lkv_status(hash->store.db, store_left(&hash->store), &status);
    struct lkv_member member;
    for (size_t i = 0; rc == 0 && lkv_msg_member(status, i, &member); i++) {
        add_node(hash, member.address, strlen(member.address));
    }
    int exit = rc < 0 ? report_rc(cli, rc, status, "endpoint hash") : 0;
    lkv_msg_free(status);
    return exit;
}

/* ------------------------------------------------------------------ one round */

static void ask_db(struct node *node, struct lkv *db, int64_t timeout_ms) {
    struct lkv_msg *answer = NULL;
    node->rc = lkv_digest(db, timeout_ms, &answer);
    if (node->rc == 0) {
        lkv_msg_u64(answer, "digest", &node->digest);
        lkv_msg_u64(answer, "index", &node->applied);
        lkv_msg_u64(answer, "rev", &node->revision);
    } else {
        const char *why = answer != NULL ? lkv_msg_text(answer) : "";
        text_clear(&node->error);
        text_add_string(&node->error, *why != '\0' ? why : lkv_error_text(node->rc));
    }
    lkv_msg_free(answer);

    struct lkv_msg *status = NULL;
    if (node->rc == 0 && lkv_status(db, timeout_ms, &status) == 0) {
        const char *id = lkv_msg_str(status, "id");
        const char *leader = lkv_msg_str(status, "leader");
        const char *state = lkv_msg_str(status, "state");
        text_clear(&node->id);
        text_add_string(&node->id, id != NULL ? id : "");
        text_clear(&node->state);
        text_add_string(&node->state, state != NULL ? state : "");
        node->led = leader != NULL && *leader != '\0';
    }
    lkv_msg_free(status);
}

static int ask_node(struct hash *hash, struct node *node, int64_t timeout_ms) {
    if (node->endpoint == NULL) {
        ask_db(node, hash->store.db, timeout_ms);
        return 0;
    }
    struct lkv *db;
    int exit = store_connect(hash->cli, node->endpoint, &db);
    if (exit == 0) {
        ask_db(node, db, timeout_ms);
        lkv_close(db, 0);
    }
    return exit;
}

static bool is_outside(const struct hash *hash, const struct node *node) {
    bool any = false;
    for (size_t i = 0; i < hash->count; i++) {
        any = any || (hash->nodes[i].rc == 0 && hash->nodes[i].led);
    }
    return any && !node->led;
}

/* What a refused or wiped directory holds says nothing about the cluster. */
static void compare(struct hash *hash) {
    const struct node *first = NULL;
    hash->comparable = hash->equal = true;
    hash->reached = hash->outside = 0;
    for (size_t i = 0; i < hash->count; i++) {
        const struct node *node = &hash->nodes[i];
        if (node->rc < 0) {
            continue;
        }
        hash->reached++;
        if (is_outside(hash, node)) {
            hash->outside++;
            continue;
        }
        first = first != NULL ? first : node;
        if (node->applied != first->applied) {
            hash->comparable = false;
        } else if (node->digest != first->digest) {
            hash->equal = false;
        }
    }
}

static int ask_all(struct hash *hash) {
    for (;;) {
        for (size_t i = 0; i < hash->count; i++) {
            int64_t share = store_left(&hash->store) / (int64_t)(hash->count - i + 1);
            int exit = ask_node(hash, &hash->nodes[i], share > 100 ? share : 100);
            if (exit != 0) {
                return exit;
            }
        }
        compare(hash);
        bool time_left = store_left(&hash->store) > hash->cli->timeout_ms / 2;
        if (hash->comparable || !hash->equal || !time_left) {
            return 0;
        }
        clock_wait(ROUND_WAIT_MS);
    }
}

/* ------------------------------------------------------------------ telling */

static void print_json(const struct node *node) {
    struct text line = {0};
    char digest[20];
    json_open(&line);
    json_string(&line, "endpoint", node->endpoint != NULL ? node->endpoint : "");
    json_string(&line, "id", text_string(&node->id));
    if (node->rc == 0) {
        snprintf(digest, sizeof(digest), "%016" PRIx64, node->digest);
        json_u64(&line, "revision", node->revision);
        json_u64(&line, "applied", node->applied);
        json_string(&line, "digest", digest);
    } else {
        json_string(&line, "error", text_string(&node->error));
        json_string(&line, "code", lkv_error_name(node->rc));
    }
    json_print(&line);
    text_free(&line);
}

static void print_table(const struct hash *hash) {
    struct table table;
    table_start(&table, "NODE ENDPOINT REVISION APPLIED DIGEST");
    for (size_t i = 0; i < hash->count; i++) {
        const struct node *node = &hash->nodes[i];
        table_cell(&table, "%s", node->id.size > 0 ? text_string(&node->id) : "-");
        table_cell(&table, "%s", node->endpoint != NULL ? node->endpoint : "-");
        if (node->rc == 0) {
            table_cell(&table, "%" PRIu64, node->revision);
            table_cell(&table, "%" PRIu64, node->applied);
            table_cell(&table, "%016" PRIx64, node->digest);
        } else {
            table_cell(&table, "-");
            table_cell(&table, "-");
            table_cell(&table, "%s", text_string(&node->error));
        }
    }
    table_print(&table, stdout);
    table_free(&table);
}

static int tell(struct hash *hash) {
    if (hash->cli->format == FORMAT_JSON) {
        for (size_t i = 0; i < hash->count; i++) {
            print_json(&hash->nodes[i]);
        }
    } else {
        print_table(hash);
    }
    for (size_t i = 0; hash->outside > 0 && i < hash->count; i++) {
        const struct node *node = &hash->nodes[i];
        if (node->rc == 0 && is_outside(hash, node)) {
            report_warning(hash->cli, "%s takes no part in the cluster and is not compared: %s",
                           text_string(&node->id), text_string(&node->state));
        }
    }
    if (hash->reached == 0) {
        return report_found(hash->cli, KVCTL_UNREACHABLE, LKV_EUNREACHABLE, "no node answered");
    }
    if (!hash->equal) {
        return report_found(hash->cli, KVCTL_INTEGRITY, LKV_EDAMAGED,
                            "nodes at the same applied index differ: one of them is wrong");
    }
    if (!hash->comparable) {
        report_warning(hash->cli, "the nodes were never at one applied index: nothing is compared");
    }
    return hash->reached - hash->outside == hash->count ? KVCTL_DONE : KVCTL_UNHEALTHY;
}

static int run_hash(struct cli *cli) {
    struct hash hash = {.cli = cli};
    int exit = store_open(cli, TO_READ, &hash.store);
    if (exit != 0) {
        return exit;
    }
    exit = find_nodes(&hash);
    exit = exit == 0 ? ask_all(&hash) : exit;
    exit = exit == 0 ? tell(&hash) : exit;
    for (size_t i = 0; i < hash.count; i++) {
        free(hash.nodes[i].endpoint);
        text_free(&hash.nodes[i].id);
        text_free(&hash.nodes[i].error);
        text_free(&hash.nodes[i].state);
    }
    store_close(&hash.store);
    return exit;
}

const struct command command_endpoint_hash = {
    .name = "endpoint hash",
    .words = "",
    .summary = "The digest of every node, and whether they agree.",
    .details =
        "Asks --endpoints and every member that they know. Exit code 7 when two nodes at the\n"
        "same applied index have different digests, 5 when a node did not answer or takes no part\n"
        "in the cluster of the others.",
    .examples = "  kvctl endpoint hash\n  kvctl endpoint hash -o json | jq -r .digest | sort -u",
    .run = run_hash,
};
