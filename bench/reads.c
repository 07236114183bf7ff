/* One reader, one key, each way to read, at three nodes with leases in one process: one JSON line a figure.
 *
 *      bench_reads DIR [READS]        default 5000 of each that another thread or node answers
 *
 * "where": the handle of the leader or of a follower, or a client that is connected to one of them. Of what is
 * answered on the caller's thread a hundred times as many. */
#define BENCH_NAME "reads"
#include "bench/support/figures.h"
#include "lib/ledgerkv.h"

enum { NODES = 3, PORT = 17901, WAIT_MS = 20000 };

static size_t reads = 5000;

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void measure(struct lkv *db, const char *where, const char *name, enum lkv_read how,
                    size_t count) {
    uint64_t *took = malloc(count * sizeof(*took));
    require(took != NULL, "no memory");
    for (size_t i = 0; i < count; i++) {
        struct lkv_msg *msg = NULL;
        uint64_t begun_ns = clock_ns(CLOCK_MONOTONIC);
        require(lkv_get(db, LKV_STR("k"), how, WAIT_MS, &msg) == 0, "a read failed");
        took[i] = clock_ns(CLOCK_MONOTONIC) - begun_ns;
        lkv_msg_free(msg);
    }
    qsort(took, count, sizeof(*took), by_size);
    (void)printf("{\"where\":\"%s\",\"how\":\"%s\",\"p50_us\":%.2f,\"p99_us\":%.2f}\n", where, name,
                 (double)took[count / 2] / 1e3, (double)took[count / 100 * 99] / 1e3);
    free(took);
}

static struct lkv *open_node(const char *top, int i, const char *peers) {
    char dir[1024], id[16];
    struct lkv *db = NULL;
    struct lkv_options *options = lkv_options_new();
    (void)snprintf(dir, sizeof(dir), "%.900s/n%d", top, i + 1);
    (void)snprintf(id, sizeof(id), "n%d", i + 1);
    require(options != NULL && lkv_options_set(options, "dir", dir) == 0 &&
                lkv_options_set(options, "id", id) == 0 &&
                lkv_options_set(options, "peers", peers) == 0 &&
                lkv_options_set(options, "lease_reads", "on") == 0 &&
                lkv_open(&db, NULL, options, NULL) == 0,
            "a node does not open");
    lkv_options_free(options);
    return db;
}

static struct lkv *connect_to(int i) {
    char address[32];
    struct lkv *db = NULL;
    struct lkv_options *options = lkv_options_new();
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", PORT + i);
    require(options != NULL && lkv_options_set(options, "endpoints", address) == 0 &&
                lkv_connect(&db, options, NULL) == 0,
            "a client does not open");
    lkv_options_free(options);
    return db;
}

/* Who has a lease by now. */
static int await_lease(struct lkv *nodes[NODES]) {
    for (int tries = 0; tries < 1000; tries++) {
        for (int i = 0; i < NODES; i++) {
            struct lkv_msg *msg = NULL;
            uint64_t left_ms = 0;
            require(lkv_status(nodes[i], WAIT_MS, &msg) == 0, "no status");
            bool has = lkv_msg_u64(msg, "read_lease_ms", &left_ms) && left_ms > 0;
            lkv_msg_free(msg);
            if (has) {
                return i;
            }
        }
        (void)usleep(10000);
    }
    require(false, "nobody has a lease");
    return 0;
}

int main(int argc, char **argv) {
    require(argc >= 2, "bench_reads DIR [READS]");
    reads = argc > 2 ? strtoull(argv[2], NULL, 10) : reads;
    char peers[256];
    (void)snprintf(peers, sizeof(peers), "n1=127.0.0.1:%d,n2=127.0.0.1:%d,n3=127.0.0.1:%d", PORT,
                   PORT + 1, PORT + 2);
    struct lkv *nodes[NODES];
    for (int i = 0; i < NODES; i++) {
        nodes[i] = open_node(argv[1], i, peers);
    }
    require(lkv_put(nodes[0], LKV_STR("k"), LKV_STR("0123456789abcdef"), WAIT_MS, NULL) == 0,
            "a put failed");
    int leader = await_lease(nodes), follower = (leader + 1) % NODES;
    struct lkv *handles[] = {nodes[leader], nodes[follower], connect_to(leader),
                             connect_to(follower)};
    static const char *const places[] = {"leader", "follower", "client-of-leader",
                                         "client-of-follower"};
    for (size_t i = 0; i < 4; i++) {
        measure(handles[i], places[i], "linearizable", LKV_LINEARIZABLE, reads);
        measure(handles[i], places[i], "leased", LKV_LEASED, i == 0 ? 100 * reads : reads);
        measure(handles[i], places[i], "local", LKV_LOCAL, i < 2 ? 100 * reads : reads);
    }
    for (size_t i = 2; i < 4; i++) {
        require(lkv_close(handles[i], 0) == 0, "a client does not close");
    }
    for (int i = 0; i < NODES; i++) {
        require(lkv_close(nodes[i], 0) == 0, "a node does not close");
    }
    return 0;
}
