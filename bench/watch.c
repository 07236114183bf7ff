/* What watches cost the puts of a whole node, in one process: nobody watches, 10,000 watches on prefixes of which no two
 * overlap and that nobody writes to, and as many of which each put meets one. The puts wait in a window; the log is synced
 * as always. One JSON line per figure, as bench_engine.
 *
 *      bench_watch DIR [PUTS [WATCHES]]     default 200000 puts, 10000 watches; DIR's parent is there
 *
 * Processor time is that of the whole process: the node's threads, and the program that reads every event. The three take
 * turns, so that whatever else the machine does meets all of them. */
#define BENCH_NAME "watch"
#include "bench/support/figures.h"
#include "lib/ledgerkv.h"

#include <stdatomic.h>

enum { WINDOW = 512, ROUNDS = 6, VALUE_SIZE = 256, WAIT_MS = 30000 };

struct bench {
    struct lkv *db;
    struct lkv_queue *queue;
    size_t puts, watches;
    size_t waiting; /* puts */
    size_t events, ended;
    size_t begun; /* watches */
};

static const struct lkv_bytes value = {(const char[VALUE_SIZE]){"v"}, VALUE_SIZE};

static void good(int rc, const char *what) {
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, lkv_error_name(rc), lkv_last_text());
        exit(1);
    }
}

static void open_node(struct bench *bench, const char *dir) {
    struct lkv_options *options = lkv_options_new();
    good(lkv_options_set(options, "dir", dir), "dir");
    good(lkv_open(&bench->db, NULL, options, NULL), "open");
    good(lkv_queue_new(&bench->queue), "queue");
    lkv_options_free(options);
    /* Watches and history begin at a feature level that is agreed on soon after the start. */
    uint64_t level = 0;
    while (level < 2) {
        struct lkv_msg *status = NULL;
        good(lkv_status(bench->db, WAIT_MS, &status), "status");
        (void)lkv_msg_u64(status, "feature_level", &level);
        lkv_msg_free(status);
    }
}

static void take_one(struct bench *bench) {
    struct lkv_msg *msg = lkv_queue_next(bench->queue, WAIT_MS);
    require(msg != NULL, "a message");
    enum lkv_kind kind = lkv_msg_kind(msg);
    if (kind == LKV_EVENTS) {
        bench->begun += lkv_msg_count(msg) == 0;
        bench->events += lkv_msg_count(msg);
    } else if (kind == LKV_END) {
        bench->ended++;
    } else {
        good(lkv_msg_rc(msg), "put");
        bench->waiting--;
    }
    lkv_msg_free(msg);
}

static uint64_t process_ns(void) {
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static struct timer put_all(struct bench *bench, size_t events) {
    static uint32_t number;
    struct timer total = {clock_ns(CLOCK_MONOTONIC), process_ns()};
    bench->events = 0;
    for (size_t i = 0; i < bench->puts; i++) {
        char key[KEY_SIZE];
        key_of(number++, key);
        good(lkv_put_submit(bench->db, (struct lkv_bytes){key, KEY_SIZE}, value, WAIT_MS,
                            bench->queue, NULL),
             "put");
        bench->waiting++;
        while (bench->waiting >= WINDOW) {
            take_one(bench);
        }
    }
    while (bench->waiting > 0 || bench->events < events) {
        take_one(bench);
    }
    return (struct timer){clock_ns(CLOCK_MONOTONIC) - total.wall_ns, process_ns() - total.cpu_ns};
}

static void watch_all(struct bench *bench, bool matching) {
    char ends[2][16];
    bench->begun = bench->ended = 0;
    for (size_t i = 0; i < bench->watches; i++) {
        for (size_t k = 0; k < 2; k++) {
            (void)snprintf(ends[k], sizeof(ends[k]), matching ? "%08x" : "/watched/%05x",
                           matching ? (unsigned)((i + k) * UINT32_MAX / bench->watches)
                                    : (unsigned)(i + k));
        }
        struct lkv_bytes to = i + 1 < bench->watches || !matching
                                  ? (struct lkv_bytes){ends[1], strlen(ends[1])}
                                  : LKV_STR("g");
        good(lkv_watch(bench->db, (struct lkv_bytes){ends[0], strlen(ends[0])}, to, 0, 0,
                       bench->queue, bench),
             "watch");
    }
    while (bench->begun < bench->watches) {
        take_one(bench);
    }
}

static void cancel_all(struct bench *bench) {
    good(lkv_cancel(bench->db, bench), "cancel");
    while (bench->ended < bench->watches) {
        take_one(bench);
    }
}

static void add(struct timer *total, struct timer taken) {
    total->wall_ns += taken.wall_ns;
    total->cpu_ns += taken.cpu_ns;
}

int main(int count, char **arguments) {
    require(count > 1, "bench_watch DIR [PUTS [WATCHES]]");
    struct bench bench = {.puts = (count > 2 ? strtoul(arguments[2], NULL, 10) : 200000) / ROUNDS,
                          .watches = count > 3 ? strtoul(arguments[3], NULL, 10) : 10000};
    struct timer alone = {0, 0}, beside = {0, 0}, each = {0, 0};
    open_node(&bench, arguments[1]);
    (void)put_all(&bench, 0);
    for (int i = 0; i < ROUNDS; i++) {
        add(&alone, put_all(&bench, 0));
        watch_all(&bench, false);
        add(&beside, put_all(&bench, 0));
        cancel_all(&bench);
        watch_all(&bench, true);
        add(&each, put_all(&bench, bench.puts));
        cancel_all(&bench);
    }
    report_rate("puts", ROUNDS * bench.puts, alone);
    report_rate("puts_beside_watches", ROUNDS * bench.puts, beside);
    report_rate("puts_each_watched", ROUNDS * bench.puts, each);
    report("throughput_beside_watches", 100.0 * (double)alone.wall_ns / (double)beside.wall_ns,
           "percent");
    report("throughput_each_watched", 100.0 * (double)alone.wall_ns / (double)each.wall_ns,
           "percent");
    report("cpu_beside_watches", 100.0 * (double)beside.cpu_ns / (double)alone.cpu_ns, "percent");
    report("cpu_each_watched", 100.0 * (double)each.cpu_ns / (double)alone.cpu_ns, "percent");
    good(lkv_close(bench.db, 0), "close");
    lkv_queue_free(bench.queue);
    return 0;
}
