/* A broker's commit log: three of these processes keep one log of numbered orders. One of them is the
 * master and takes orders; all of them read what was taken. Kill any of them at any time, and start it
 * again: no order is lost, and none is taken twice.
 *
 *     broker n1 ./n1 n1=127.0.0.1:7001,n2=127.0.0.1:7002,n3=127.0.0.1:7003
 *
 * How it stays exact without a session of the library:
 *   - the reader gates readiness: this node becomes master only when it has read everything that was
 *     there, so it knows the last number;
 *   - appends are fenced by the master's term: what an old master still had under way is in the log
 *     before a new master is ready, or never will be;
 *   - on stepping_down, and on the first answer that is not "done", the master stops taking orders.
 *
 * That covers a broker that makes the numbers itself. A producer elsewhere, which does not know whether
 * its last order was taken when its broker dies, has to look for it in the log before it sends the order
 * again; a replicated session (client id and sequence with each append) will do that for it. */
#include <ledgerkv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN_FLIGHT_MAX = 16, CREDIT_BYTES = 1 << 20, WAIT_MS = 50 };

struct broker {
    const char *id;
    struct lkv *db;
    struct lkv_queue *queue; /* of everything: roles, records, answers */
    bool master;
    uint64_t term;   /* in which it is */
    uint64_t read;   /* number of the last order that was read */
    uint64_t taken;  /* number of the last one that was appended */
    unsigned flying; /* appends without an answer */
    bool ended;
};

static volatile sig_atomic_t stop;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

static void fail(const char *what, int rc) {
    fprintf(stderr, "%s: %s (%s)\n", what, lkv_error_name(rc), lkv_last_text());
    exit(1);
}

/* ------------------------------------------------------------------ what arrives */

static void on_role(struct broker *broker, const struct lkv_msg *msg) {
    const char *role = lkv_msg_str(msg, "role");
    bool master = strcmp(role, "leader_ready") == 0;
    if (master) {
        lkv_msg_u64(msg, "term", &broker->term);
        broker->taken = broker->read; /* complete: the reader has gated us */
        printf("%s is master in term %lu, %lu orders so far\n", broker->id,
               (unsigned long)broker->term, (unsigned long)broker->read);
    } else if (broker->master || strcmp(role, "stopped") == 0) {
        printf("%s is slave (%s)\n", broker->id, role);
    }
    broker->master = master;
    broker->ended = strcmp(role, "stopped") == 0;
    fflush(stdout);
}

static void on_records(struct broker *broker, const struct lkv_msg *msg) {
    struct lkv_record record;
    for (size_t i = 0; lkv_msg_record(msg, i, &record); i++) {
        char text[64];
        size_t size = record.data.size < sizeof(text) - 1 ? record.data.size : sizeof(text) - 1;
        memcpy(text, record.data.data, size);
        text[size] = '\0';
        uint64_t number = strtoull(text + strlen("order "), NULL, 10);
        if (number != broker->read + 1) {
            printf("%s: order %lu behind order %lu at index %lu\n", broker->id,
                   (unsigned long)number, (unsigned long)broker->read, (unsigned long)record.index);
            exit(2); /* a lost or a doubled one: this must never happen */
        }
        broker->read = number;
    }
}

static void on_answer(struct broker *broker, const struct lkv_msg *msg) {
    int rc = lkv_msg_rc(msg);
    broker->flying--;
    if (rc != 0 && broker->master) {
        /* Not done, or unknown: either way those behind it must not be tried before everything has been
         * read again. Leadership is about to be lost, and the next leader_ready starts anew. */
        printf("%s stops taking orders: %s\n", broker->id, lkv_msg_text(msg));
        fflush(stdout);
        broker->master = false;
    }
}

static void take_messages(struct broker *broker, int64_t wait_ms) {
    struct lkv_msg *msg = lkv_queue_next(broker->queue, wait_ms);
    for (; msg != NULL; msg = lkv_queue_next(broker->queue, 0)) {
        switch (lkv_msg_kind(msg)) {
        case LKV_ROLE: on_role(broker, msg); break;
        case LKV_RECORDS: on_records(broker, msg); break;
        case LKV_REPLY: on_answer(broker, msg); break;
        case LKV_END: broker->ended = true; break;
        case LKV_EVENTS:     /* there are none, */
        case LKV_LEASE_LOST: /* nor of these */
        default: break;      /* of a later version */
        }
        lkv_msg_free(msg); /* of stepping_down: "I have stopped acting" */
    }
}

/* ------------------------------------------------------------------ what is done */

static void take_orders(struct broker *broker) {
    while (broker->master && broker->flying < IN_FLIGHT_MAX) {
        char text[64];
        int size = snprintf(text, sizeof(text), "order %lu taken by %s",
                            (unsigned long)broker->taken + 1, broker->id);
        struct lkv_bytes record = {text, (size_t)size};
        int rc = lkv_append_submit(broker->db, &record, 1, broker->term, LKV_DEFAULT, broker->queue,
                                   NULL);
        if (rc != 0) {
            return; /* LKV_EBUSY, for instance: later */
        }
        broker->taken++;
        broker->flying++;
    }
}

static struct lkv *open_node(char **argv) {
    struct lkv_options *options = lkv_options_new();
    const char *const settings[][2] = {
        {"id", argv[1]}, {"dir", argv[2]}, {"peers", argv[3]}, {"model", "log"}};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (lkv_options_set(options, settings[i][0], settings[i][1]) != 0) {
            fprintf(stderr, "%s\n", lkv_options_error(options));
            exit(3);
        }
    }
    struct lkv *db = NULL;
    int rc = lkv_open(&db, NULL, options, NULL);
    lkv_options_free(options);
    if (rc != 0) {
        fail("open", rc);
    }
    return db;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s ID DIR PEERS\n", argv[0]);
        return 3;
    }
    struct broker broker = {.id = argv[1], .db = open_node(argv)};
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    int rc = lkv_queue_new(&broker.queue);
    rc = rc == 0 ? lkv_log_tail(broker.db, 0, CREDIT_BYTES, LKV_GATES_READY, broker.queue, NULL)
                 : rc;
    rc = rc == 0 ? lkv_role_watch(broker.db, broker.queue, NULL) : rc;
    if (rc != 0) {
        fail("start", rc);
    }
    printf("%s is slave (started)\n", broker.id);
    fflush(stdout);
    while (!stop && !broker.ended) {
        take_messages(&broker, WAIT_MS);
        take_orders(&broker);
    }
    rc = lkv_close(broker.db, 2000); /* hands over first */
    take_messages(&broker, 0);
    printf("%s has read %lu orders\n", broker.id, (unsigned long)broker.read);
    lkv_queue_free(broker.queue);
    return rc == 0 ? 0 : 1;
}
