/* Three nodes in one program: writes, the end of the leader, and reads from those that are left.
 *
 *     three_nodes DIR [FIRST_PORT]
 *
 * In earnest each node is a process on a machine of its own. All that changes then is that each
 * process opens one node, with its own "id" and the same "peers". */
#include <ledgerkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NODES = 3 };

/* Prints what failed, with the sentence that the library has for it, and ends the program. */
static void must(int rc, const char *what) {
    if (rc != 0) {
        fprintf(stderr, "%s: %s (%s)\n", what, lkv_error_name(rc), lkv_last_text());
        exit(1);
    }
}

static struct lkv *open_node(int i, const char *dir, int first_port) {
    char id[16], path[512], peers[256];
    snprintf(id, sizeof(id), "n%d", i + 1);
    snprintf(path, sizeof(path), "%s/%s", dir, id);
    snprintf(peers, sizeof(peers), "n1=127.0.0.1:%d,n2=127.0.0.1:%d,n3=127.0.0.1:%d", first_port,
             first_port + 1, first_port + 2);

    struct lkv_options *options = lkv_options_new();
    must(lkv_options_set(options, "id", id), "id");
    must(lkv_options_set(options, "dir", path), "dir");
    must(lkv_options_set(options, "peers", peers), "peers");

    struct lkv *db;
    struct lkv_msg *why = NULL;
    int rc = lkv_open(&db, NULL, options, &why);
    lkv_options_free(options);
    if (rc != 0) {
        fprintf(stderr, "open %s: %s\n", id, lkv_msg_text(why));
        lkv_msg_free(why);
        exit(1);
    }
    return db;
}

/* The number of the node that leads, or -1: each node knows its own role at once. */
static int find_leader(struct lkv *nodes[NODES]) {
    for (int i = 0; i < NODES; i++) {
        struct lkv_msg *status = NULL;
        if (nodes[i] == NULL || lkv_status(nodes[i], LKV_DEFAULT, &status) != 0) {
            continue;
        }
        int leads = strcmp(lkv_msg_str(status, "role"), "leader") == 0;
        lkv_msg_free(status);
        if (leads) {
            return i;
        }
    }
    return -1;
}

static void print_value(struct lkv *db, int i) {
    struct lkv_msg *answer = NULL;
    struct lkv_kv item;
    must(lkv_get(db, LKV_STR("colour"), LKV_LINEARIZABLE, LKV_DEFAULT, &answer), "get");
    if (lkv_msg_kv(answer, 0, &item)) {
        printf("n%d reads %.*s\n", i + 1, (int)item.value.size, (const char *)item.value.data);
    }
    lkv_msg_free(answer);
}

int main(int argc, char **argv) {
    const char *dir = argc > 1 ? argv[1] : "./three-nodes";
    int first_port = argc > 2 ? atoi(argv[2]) : 7101;
    struct lkv *nodes[NODES];
    mkdir(dir, 0700);

    for (int i = 0; i < NODES; i++) {
        nodes[i] = open_node(i, dir, first_port);
    }

    /* Any node takes the write: it waits until a leader is known, and passes it on. */
    must(lkv_put(nodes[0], LKV_STR("colour"), LKV_STR("red"), LKV_DEFAULT, NULL), "put");
    for (int i = 0; i < NODES; i++) {
        print_value(nodes[i], i);
    }

    /* The leader goes, without handing over. The others notice, elect, and go on. */
    int leader = find_leader(nodes);
    if (leader >= 0) {
        must(lkv_close(nodes[leader], 0), "close");
        nodes[leader] = NULL;
        printf("n%d, the leader, is gone\n", leader + 1);
    }
    for (int i = 0, written = 0; i < NODES; i++) {
        if (nodes[i] != NULL && !written++) {
            must(lkv_put(nodes[i], LKV_STR("colour"), LKV_STR("green"), LKV_DEFAULT, NULL), "put");
        }
    }
    for (int i = 0; i < NODES; i++) {
        if (nodes[i] != NULL) {
            print_value(nodes[i], i);
        }
    }
    for (int i = 0; i < NODES; i++) {
        must(lkv_close(nodes[i], 0), "close"); /* NULL is fine */
    }
    return 0;
}
