/* kvctl bench put|get|mixed|append: operations in flight, and how long they take.
 *
 * One thread keeps N operations in flight on C connections and takes all answers from one queue. With
 * --rate operations are due at fixed times and a latency counts from when it was due, so a store that
 * stalls cannot hide it by being asked less (coordinated omission). Only operations that begin after
 * the warm-up and end within the measured time count.
 *
 * With --session each of the N is a client with a session of its own, whose writes are sent again until
 * their fate is known. With --history each value is another one and everything goes to a file.
 */
#include "histogram.h"
#include "history.h"
#include "interrupt.h"
#include "output.h"
#include "progress.h"
#include "report.h"
#include "store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS_MAX = 1000000,
    SESSIONS_MAX = 4096,
    SESSION_TTL_MS = 60000,
    NUMBER_SIZE = 20, /* of a value that is unlike all others, at least */
    CONNECTIONS_MAX = 10000,
    VALUE_SIZE_MAX = 4 << 20,
    KEY_SIZE_MAX = 128,
    PAUSE_US = 10000, /* after a refusal, so that a dead cluster is not asked a million times */
    TICK_US = 50000
};

struct slot {
    int64_t begun_us;
    struct lkv *db;
    struct lkv_session *session; /* owned, or NULL */
    uint64_t seq;                /* of its last write */

    struct history_op op; /* under way; with --history */
    char key[KEY_SIZE_MAX];
    char *value; /* owned; of appends as many as there are records */
};

struct bench {
    struct cli *cli;
    struct store store; /* the first connection, and the queue of all */
    struct lkv **connections;
    struct interrupt interrupt;
    struct progress progress;
    struct histogram *latencies;

    uint64_t clients, connection_count, value_size, keys, rate, count, reads;
    uint64_t batch;            /* records of one append; 0: keys and values */
    struct lkv_bytes *records; /* owned */
    int64_t duration_ms, warmup_ms;
    const char *prefix;

    struct slot *slots;
    size_t *idle; /* stack of slots */
    size_t idle_count;
    char *value;
    FILE *history; /* NULL: none */
    uint64_t next_process, next_value;
    uint64_t random, preloaded, submitted, ended;

    int64_t start_us, measure_us, end_us, next_due_us, pause_us, last_us;
    uint64_t errors, unknown, missing;
    int first_rc;
    bool preloading, interrupted;
};

/* ------------------------------------------------------------------ one operation */

static uint64_t next_random(struct bench *bench) { /* xorshift64* */
    uint64_t x = bench->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    bench->random = x;
    return x * UINT64_C(2685821657736338717);
}

static int submit_op(struct bench *bench, struct slot *slot, const struct history_op *op) {
    int64_t timeout_ms = bench->cli->timeout_ms;
    struct lkv_queue *queue = bench->store.queue;
    if (op->is_get) {
        return lkv_get_submit(slot->db, op->key, bench->store.how, timeout_ms, queue, slot);
    }
    if (slot->session != NULL) {
        return lkv_put_once_submit(slot->session, op->seq, op->key, op->value, timeout_ms, queue,
                                   slot);
    }
    return lkv_put_submit(slot->db, op->key, op->value, timeout_ms, queue, slot);
}

/* Every value is told apart by its number. */
static struct lkv_bytes unique_value(struct bench *bench, struct slot *slot) {
    memcpy(slot->value, bench->value, bench->value_size);
    int size =
        snprintf(slot->value, NUMBER_SIZE, "%0*" PRIu64, NUMBER_SIZE - 1, ++bench->next_value);
    slot->value[size] = '.';
    return (struct lkv_bytes){slot->value, (size_t)bench->value_size};
}

static int submit_recorded(struct bench *bench, struct slot *slot) {
    if (!slot->op.is_get) {
        slot->op.value = unique_value(bench, slot);
    }
    history_invoke(bench->history, &slot->op);
    int rc = submit_op(bench, slot, &slot->op);
    if (rc < 0) {
        history_return(bench->history, &slot->op, rc, NULL);
    }
    return rc;
}

static int submit_records(struct bench *bench, struct slot *slot) {
    int64_t timeout_ms = bench->cli->timeout_ms;
    size_t count = (size_t)bench->batch;
    return slot->session != NULL
               ? lkv_append_once_submit(slot->session, slot->op.seq, bench->records, count, 0,
                                        timeout_ms, bench->store.queue, slot)
               : lkv_append_submit(slot->db, bench->records, count, 0, timeout_ms,
                                   bench->store.queue, slot);
}

/* Each record begins with a number of its own; the history has the first one's. */
static int append_recorded(struct bench *bench, struct slot *slot) {
    slot->op.records = bench->batch;
    slot->op.value = (struct lkv_bytes){slot->key, 0};
    for (uint64_t i = 0; i < bench->batch; i++) {
        char *record = slot->value + i * bench->value_size;
        memcpy(record, bench->value, bench->value_size);
        int size =
            snprintf(record, NUMBER_SIZE, "%0*" PRIu64, NUMBER_SIZE - 1, ++bench->next_value);
        if (i == 0) {
            memcpy(slot->key, record, (size_t)size);
            slot->op.value.size = (size_t)size;
        }
        record[size] = '.';
        bench->records[i] = (struct lkv_bytes){record, (size_t)bench->value_size};
    }
    history_invoke(bench->history, &slot->op);
    int rc = submit_records(bench, slot);
    if (rc < 0) {
        history_return(bench->history, &slot->op, rc, NULL);
    }
    return rc;
}

static int append(struct bench *bench, struct slot *slot) {
    slot->op.session = slot->session != NULL ? lkv_session_id(slot->session) : 0;
    slot->op.seq = slot->session != NULL ? ++slot->seq : 0;
    return bench->history != NULL ? append_recorded(bench, slot) : submit_records(bench, slot);
}

static int submit(struct bench *bench, struct slot *slot) {
    if (bench->batch > 0) {
        return append(bench, slot);
    }
    bool fill = bench->preloading;
    uint64_t number = fill ? bench->preloaded : next_random(bench) % bench->keys;
    int size = snprintf(slot->key, sizeof(slot->key), "%s%010" PRIu64, bench->prefix, number);
    slot->op.key = (struct lkv_bytes){slot->key, (size_t)size};
    slot->op.value = (struct lkv_bytes){bench->value, (size_t)bench->value_size};
    slot->op.is_get = !fill && next_random(bench) % 100 < bench->reads;
    bool once = slot->session != NULL && !slot->op.is_get;
    slot->op.session = once ? lkv_session_id(slot->session) : 0;
    slot->op.seq = once ? ++slot->seq : 0;
    return bench->history != NULL ? submit_recorded(bench, slot)
                                  : submit_op(bench, slot, &slot->op);
}

static void record_end(struct bench *bench, struct slot *slot, const struct lkv_msg *answer) {
    int rc = lkv_msg_rc(answer);
    if (bench->history == NULL) {
        return;
    }
    history_return(bench->history, &slot->op, rc, answer);
    if (lkv_outcome(rc) == LKV_UNKNOWN) {
        slot->op.process = bench->next_process++; /* the old one never returns */
    }
}

static void count_refusal(struct bench *bench, int rc) {
    if (lkv_outcome(rc) == LKV_UNKNOWN) {
        bench->unknown++;
    } else {
        bench->errors++;
    }
    bench->first_rc = bench->first_rc == 0 ? rc : bench->first_rc;
    bench->pause_us = clock_us() + PAUSE_US;
}

static bool start_one(struct bench *bench, int64_t due_us) {
    struct slot *slot = &bench->slots[bench->idle[bench->idle_count - 1]];
    slot->begun_us = due_us;
    int rc = submit(bench, slot);
    if (rc < 0) {
        count_refusal(bench, rc);
        return false;
    }
    bench->idle_count--;
    bench->submitted++;
    bench->preloaded += bench->preloading;
    return true;
}

static void end_one(struct bench *bench, const struct lkv_msg *answer) {
    struct slot *slot = lkv_msg_tag(answer);
    int64_t now = clock_us();
    int rc = lkv_msg_rc(answer);
    bench->idle[bench->idle_count++] = (size_t)(slot - bench->slots);
    record_end(bench, slot, answer);
    if (rc < 0 && rc != LKV_ENOTFOUND) {
        count_refusal(bench, rc);
        return;
    }
    bench->ended++;
    bench->missing += rc == LKV_ENOTFOUND;
    bool measured = slot->begun_us >= bench->measure_us && now <= bench->end_us;
    if (measured && !bench->preloading) {
        histogram_add(bench->latencies, (uint64_t)(now - slot->begun_us));
        bench->last_us = now;
    }
}

/* ------------------------------------------------------------------ the loop */

static bool all_started(const struct bench *bench, int64_t now) {
    if (bench->interrupted) {
        return true;
    }
    if (bench->preloading) {
        return bench->preloaded >= bench->keys;
    }
    return now >= bench->end_us || (bench->count > 0 && bench->submitted >= bench->count);
}

/* Starts what is due; returns how long nothing more will be, in microseconds. */
static int64_t start_due(struct bench *bench) {
    int64_t now = clock_us();
    while (bench->idle_count > 0 && !all_started(bench, now)) {
        if (now < bench->pause_us) {
            return bench->pause_us - now;
        }
        int64_t due = now;
        if (bench->rate > 0 && !bench->preloading) {
            due = bench->next_due_us;
            if (due > now) {
                return due - now;
            }
        }
        if (start_one(bench, due) && due == bench->next_due_us) {
            uint64_t begun = bench->submitted;
            bench->next_due_us = bench->start_us + (int64_t)(begun * 1000000 / bench->rate);
        }
        now = clock_us();
    }
    return TICK_US;
}

static void take_answers(struct bench *bench, int64_t wait_us) {
    struct lkv_msg *answer =
        lkv_queue_next(bench->store.queue, wait_us >= 1000 ? wait_us / 1000 : 0);
    while (answer != NULL) {
        end_one(bench, answer);
        lkv_msg_free(answer);
        answer = lkv_queue_next(bench->store.queue, 0);
    }
}

static void show_progress(struct bench *bench, int64_t now) {
    if (bench->preloading) {
        progress_update(&bench->progress, bench->ended, bench->ended, bench->keys);
    } else if (bench->count > 0) {
        progress_update(&bench->progress, bench->ended, bench->ended, bench->count);
    } else {
        int64_t done =
            now < bench->end_us ? now - bench->start_us : bench->end_us - bench->start_us;
        progress_update(&bench->progress, bench->ended, (uint64_t)done,
                        (uint64_t)(bench->end_us - bench->start_us));
    }
}

static void run_loop(struct bench *bench) {
    int64_t look_us = 0;
    for (;;) {
        int64_t wait = start_due(bench);
        int64_t now = clock_us();
        if (all_started(bench, now) && bench->idle_count == bench->clients) {
            return;
        }
        take_answers(bench, wait);
        if (now >= look_us) {
            look_us = now + TICK_US;
            show_progress(bench, now);
            bench->interrupted = bench->interrupted || interrupt_came(&bench->interrupt);
        }
        if (bench->ended == 0 && bench->errors + bench->unknown > 0 &&
            now - bench->start_us > bench->cli->timeout_ms * 1000) {
            bench->interrupted = true; /* nothing answers at all */
        }
    }
}

static void run_phase(struct bench *bench, bool preloading) {
    bench->preloading = preloading;
    bench->submitted = bench->ended = 0;
    bench->start_us = bench->next_due_us = clock_us();
    bench->measure_us = bench->start_us + bench->warmup_ms * 1000;
    bench->end_us =
        bench->count > 0 || preloading ? INT64_MAX : bench->measure_us + bench->duration_ms * 1000;
    progress_start(&bench->progress, preloading ? "preload" : bench->cli->command->name);
    run_loop(bench);
    progress_end(&bench->progress);
}

/* ------------------------------------------------------------------ figures */

static double measured_seconds(const struct bench *bench) {
    int64_t us = bench->end_us - bench->measure_us;
    if (bench->count > 0 || bench->interrupted) {
        us = bench->last_us - bench->measure_us;
    }
    return us > 0 ? (double)us / 1e6 : 0;
}

static double megabytes(const struct bench *bench, double per_second) {
    return per_second * (double)bench->batch * (double)bench->value_size / 1e6;
}

static void print_figures_json(const struct bench *bench, double seconds, double per_second) {
    static const struct {
        const char *name;
        double part;
    } parts[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}};
    struct text line = {0};
    json_open(&line);
    json_string(&line, "op", strrchr(bench->cli->command->name, ' ') + 1);
    json_number(&line, "clients", bench->clients);
    json_number(&line, "connections", bench->connection_count);
    json_number(&line, "value_size", bench->value_size);
    json_number(&line, "keys", bench->keys);
    json_real(&line, "seconds", seconds);
    json_number(&line, "ops", bench->latencies->count);
    json_real(&line, "ops_per_s", per_second);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        json_number(&line, parts[i].name, histogram_at(bench->latencies, parts[i].part));
    }
    json_number(&line, "max_us", bench->latencies->max);
    if (bench->batch > 0) {
        json_number(&line, "batch", bench->batch);
        json_real(&line, "records_per_s", per_second * (double)bench->batch);
        json_real(&line, "mb_per_s", megabytes(bench, per_second));
    }
    json_number(&line, "errors", bench->errors);
    json_number(&line, "unknown", bench->unknown);
    json_number(&line, "missing", bench->missing);
    json_print(&line);
    text_free(&line);
}

static void print_figures(const struct bench *bench) {
    double seconds = measured_seconds(bench);
    const struct histogram *latencies = bench->latencies;
    double per_second = seconds > 0 ? (double)latencies->count / seconds : 0;
    if (bench->cli->format == FORMAT_JSON) {
        print_figures_json(bench, seconds, per_second);
        return;
    }
    printf("%s: %.0f/s, %" PRIu64 " in %.1f s, %" PRIu64 " in flight on %" PRIu64 " connection%s\n",
           strrchr(bench->cli->command->name, ' ') + 1, per_second, latencies->count, seconds,
           bench->clients, bench->connection_count, bench->connection_count > 1 ? "s" : "");
    printf("p50=%.2fms p90=%.2fms p99=%.2fms p99.9=%.2fms max=%.2fms\n",
           (double)histogram_at(latencies, 0.5) / 1e3, (double)histogram_at(latencies, 0.9) / 1e3,
           (double)histogram_at(latencies, 0.99) / 1e3,
           (double)histogram_at(latencies, 0.999) / 1e3, (double)latencies->max / 1e3);
    if (bench->batch > 0) {
        printf("%.0f records/s, %.1f MB/s, %" PRIu64 " records an append\n",
               per_second * (double)bench->batch, megabytes(bench, per_second), bench->batch);
    }
    printf("errors=%" PRIu64 " unknown=%" PRIu64, bench->errors, bench->unknown);
    if (bench->reads > 0) {
        printf(" missing=%" PRIu64, bench->missing);
    }
    putchar('\n');
}

/* ------------------------------------------------------------------ setting up */

static int take_numbers(struct bench *bench) {
    struct args *args = &bench->cli->args;
    bool good = args_number(args, "clients", 1, CLIENTS_MAX, &bench->clients) &&
                args_number(args, "connections", 1, CONNECTIONS_MAX, &bench->connection_count) &&
                args_number(args, "value-size", 0, VALUE_SIZE_MAX, &bench->value_size) &&
                args_number(args, "keys", 1, UINT64_C(10000000000), &bench->keys) &&
                args_number(args, "rate", 1, 100000000, &bench->rate) &&
                args_number(args, "count", 1, UINT64_MAX, &bench->count) &&
                args_number(args, "reads", 0, 100, &bench->reads) &&
                args_number(args, "batch", 1, LKV_APPEND_RECORDS_MAX, &bench->batch) &&
                args_number(args, "seed", 1, UINT64_MAX, &bench->random) &&
                args_duration(args, "duration", &bench->duration_ms) &&
                args_duration(args, "warmup", &bench->warmup_ms);
    if (!good) {
        return report_usage(bench->cli, "%s", text_string(&args->error));
    }
    const char *prefix = args_text(args, "prefix");
    bench->prefix = prefix != NULL ? prefix : "bench/";
    if (strlen(bench->prefix) > KEY_SIZE_MAX - 32) {
        return report_usage(bench->cli, "--prefix is longer than %d bytes", KEY_SIZE_MAX - 32);
    }
    if (bench->count > 0 && args_text(args, "duration") != NULL) {
        return report_usage(bench->cli, "--count and --duration exclude each other");
    }
    if (bench->count > 0 && args_text(args, "warmup") == NULL) {
        bench->warmup_ms = 0;
    }
    return 0;
}

/* An embedded store is one connection by itself. */
static int connect_all(struct bench *bench) {
    const char *endpoints = args_text(&bench->cli->args, "endpoints");
    bench->connection_count = bench->store.embedded ? 1 : bench->connection_count;
    size_t size = (size_t)bench->connection_count * sizeof(*bench->connections);
    bench->connections = must_realloc(NULL, size);
    memset(bench->connections, 0, size);
    bench->connections[0] = bench->store.db;
    for (uint64_t i = 1; i < bench->connection_count; i++) {
        int exit = store_connect(bench->cli, endpoints != NULL ? endpoints : default_endpoint,
                                 &bench->connections[i]);
        if (exit != 0) {
            return exit;
        }
    }
    return 0;
}

static void make_slots(struct bench *bench) {
    size_t count = (size_t)bench->clients;
    bench->slots = must_realloc(NULL, count * sizeof(*bench->slots));
    bench->idle = must_realloc(NULL, count * sizeof(*bench->idle));
    for (size_t i = 0; i < count; i++) {
        bench->slots[i] = (struct slot){.db = bench->connections[i % bench->connection_count],
                                        .op = {.process = i}};
        bench->idle[i] = count - 1 - i;
        if (bench->history != NULL) {
            size_t values = bench->batch > 0 ? (size_t)bench->batch : 1;
            bench->slots[i].value = must_realloc(NULL, values * (size_t)bench->value_size);
        }
    }
    bench->next_process = count;
    bench->idle_count = count;
    bench->value = must_realloc(NULL, (size_t)bench->value_size);
    for (size_t i = 0; i < bench->value_size; i++) {
        bench->value[i] = (char)next_random(bench);
    }
    bench->records = must_realloc(NULL, (size_t)(bench->batch + 1) * sizeof(*bench->records));
    for (uint64_t i = 0; i < bench->batch; i++) {
        bench->records[i] = (struct lkv_bytes){bench->value, (size_t)bench->value_size};
    }
    bench->latencies = must_realloc(NULL, sizeof(*bench->latencies));
    memset(bench->latencies, 0, sizeof(*bench->latencies));
}

static int open_sessions(struct bench *bench) {
    for (size_t i = 0; args_switch(&bench->cli->args, "session") && i < bench->clients; i++) {
        struct slot *slot = &bench->slots[i];
        int rc = lkv_session_open(slot->db, 0, SESSION_TTL_MS, &slot->session);
        if (rc < 0) {
            return report_rc(bench->cli, rc, NULL, "session %zu: %s", i + 1, lkv_last_text());
        }
    }
    return 0;
}

static int measure(struct bench *bench) {
    make_slots(bench);
    int exit = open_sessions(bench);
    if (exit != 0) {
        return exit;
    }
    if (args_switch(&bench->cli->args, "preload")) {
        run_phase(bench, true);
    }
    if (!bench->interrupted) {
        run_phase(bench, false);
    }
    print_figures(bench);
    if (bench->ended == 0 && bench->first_rc != 0) {
        return report_rc(bench->cli, bench->first_rc, NULL, "nothing was answered");
    }
    return bench->interrupted ? KVCTL_INTERRUPTED : KVCTL_DONE;
}

static void close_sessions(struct bench *bench) {
    for (size_t i = 0; bench->slots != NULL && i < bench->clients; i++) {
        int rc = lkv_session_close(bench->slots[i].session, bench->cli->timeout_ms);
        (void)rc; /* it ends by itself */
    }
}

static void bench_free(struct bench *bench) {
    close_sessions(bench);
    for (uint64_t i = 1; bench->connections != NULL && i < bench->connection_count; i++) {
        lkv_close(bench->connections[i], 0);
    }
    free(bench->connections);
    for (size_t i = 0; bench->slots != NULL && i < bench->clients; i++) {
        free(bench->slots[i].value);
    }
    free(bench->slots);
    free(bench->idle);
    free(bench->value);
    free(bench->records);
    free(bench->latencies);
}

static int open_history(struct bench *bench) {
    struct cli *cli = bench->cli;
    const char *path = args_text(&cli->args, "history");
    if (args_switch(&cli->args, "session") && bench->clients > SESSIONS_MAX) {
        return report_usage(cli, "--session is for %d --clients at most", SESSIONS_MAX);
    }
    if (path == NULL) {
        return 0;
    }
    if (bench->value_size < NUMBER_SIZE) {
        return report_usage(cli, "--history needs a --value-size of %d at least", NUMBER_SIZE);
    }
    if (args_switch(&cli->args, "local")) {
        return report_usage(cli, "--history and --local exclude each other");
    }
    bench->history = fopen(path, "we");
    if (bench->history == NULL) {
        return report_found(cli, KVCTL_USAGE, LKV_EIO, "cannot write %s: %s", path,
                            strerror(errno));
    }
    history_head(bench->history, cli->command->name, bench->random);
    return 0;
}

static int close_history(struct bench *bench, int exit) {
    if (bench->history == NULL) {
        return exit;
    }
    bool bad = ferror(bench->history) != 0;
    if (fclose(bench->history) != 0 || bad) {
        return report_found(bench->cli, KVCTL_REJECTED, LKV_EIO, "cannot write the history: %s",
                            strerror(errno));
    }
    return exit;
}

static int run_bench(struct cli *cli, uint64_t reads, uint64_t batch) {
    struct bench bench = {.cli = cli,
                          .interrupt = {.fd = -1},
                          .clients = 64,
                          .connection_count = 1,
                          .value_size = 256,
                          .keys = 100000,
                          .reads = reads,
                          .batch = batch,
                          .random = UINT64_C(88172645463325252),
                          .duration_ms = 10000,
                          .warmup_ms = 1000};
    int exit = take_numbers(&bench);
    exit = exit == 0 ? open_history(&bench) : exit;
    if (exit != 0) {
        return exit;
    }
    interrupt_start(&bench.interrupt);
    exit = store_open(cli, TO_WRITE, &bench.store);
    if (exit == 0) {
        exit = connect_all(&bench);
        exit = exit == 0 ? measure(&bench) : exit;
        bench_free(&bench); /* connections before the queue of all */
        store_close(&bench.store);
    }
    interrupt_end(&bench.interrupt);
    return close_history(&bench, exit);
}

static int run_put(struct cli *cli) {
    return run_bench(cli, 0, 0);
}

static int run_get(struct cli *cli) {
    return run_bench(cli, 100, 0);
}

static int run_mixed(struct cli *cli) {
    return run_bench(cli, 80, 0);
}

static int run_append(struct cli *cli) {
    return run_bench(cli, 0, 1);
}

/* ------------------------------------------------------------------ the commands */

#define LOAD_FLAGS                                                                                  \
    {"clients", FLAG_VALUE, 0, false, "N", "operations in flight (default 64)"},                    \
        {"connections", FLAG_VALUE, 0, false, "N", "client handles they share (default 1)"},        \
        {"duration", FLAG_VALUE, 0, false, "DURATION", "measured time (default 10s)"},              \
        {"count", FLAG_VALUE, 0, false, "N", "so many operations, whatever time they take"},        \
        {"warmup", FLAG_VALUE, 0, false, "DURATION", "before it (default 1s; 0 with --count)"},     \
        {"rate", FLAG_VALUE, 0, false, "N", "start N a second (default: as fast as answers come)"}, \
    {                                                                                               \
        "value-size", FLAG_VALUE, 0, false, "BYTES", "of each value (default 256)"                  \
    }

#define BENCH_FLAGS                                                                             \
    LOAD_FLAGS, {"keys", FLAG_VALUE, 0, false, "N", "choose among N keys (default 100000)"},    \
        {"prefix", FLAG_VALUE, 0, false, "TEXT", "in front of each key's ten digits (bench/)"}, \
        {"seed", FLAG_VALUE, 0, false, "N", "of the choice of keys"}, {                         \
        "preload", FLAG_SWITCH, 0, false, NULL, "first write every key once"                    \
    }

static const char bench_details[] =
    "Figures: operations per second and latency percentiles, errors, and outcomes unknown.\n"
    "-o json: ops_per_s, p50_us, p90_us, p99_us, p999_us, max_us, errors, unknown. The keys stay "
    "in\n"
    "the store: kvctl del --prefix bench/\n"
    "A history has a line for each operation and each answer: t_ns, process, event, put or get,\n"
    "key, value, revision, index, session:number, node; and it takes a --prefix that holds no "
    "keys.";

#define WRITE_FLAGS                                                                        \
    {"session", FLAG_SWITCH,                                                               \
     0,         false,                                                                     \
     NULL,      "each client has a session: writes are sent again, and take effect once"}, \
    {                                                                                      \
        "history", FLAG_VALUE, 0, false, "FILE", "write each operation and answer there"   \
    }

static const struct flag put_flags[] = {BENCH_FLAGS, WRITE_FLAGS, FLAG_END};

#define LEASED_FLAG                                                          \
    {                                                                        \
        "leased", FLAG_SWITCH, 0, false, NULL,                               \
            "answered by leases where the leader has the option lease_reads" \
    }

static const struct flag get_flags[] = {BENCH_FLAGS,
                                        LEASED_FLAG,
                                        {"local", FLAG_SWITCH, 0, false, NULL,
                                         "what the node asked has applied, at any time, maybe old"},
                                        FLAG_END};

static const struct flag mixed_flags[] = {
    BENCH_FLAGS,
    WRITE_FLAGS,
    {"reads", FLAG_VALUE, 0, false, "PERCENT", "how many are reads (default 80)"},
    LEASED_FLAG,
    {"local", FLAG_SWITCH, 0, false, NULL,
     "what the node asked has applied, at any time, maybe old"},
    FLAG_END};

const struct command command_bench_put = {
    .name = "bench put",
    .words = "",
    .summary = "Measure writes.",
    .details = bench_details,
    .examples = "  kvctl bench put --clients 64 --duration 10s\n"
                "  kvctl bench put --clients 16 --rate 1000 -o json",
    .flags = put_flags,
    .run = run_put,
};

const struct command command_bench_get = {
    .name = "bench get",
    .words = "",
    .summary = "Measure reads.",
    .details = bench_details,
    .examples = "  kvctl bench get --preload --clients 64\n  kvctl --dir ./data bench get --local",
    .flags = get_flags,
    .run = run_get,
};

const struct command command_bench_mixed = {
    .name = "bench mixed",
    .words = "",
    .summary = "Measure reads and writes together.",
    .details = bench_details,
    .examples = "  kvctl bench mixed --reads 95 --clients 64",
    .flags = mixed_flags,
    .run = run_mixed,
};

static const struct flag append_flags[] = {
    LOAD_FLAGS,
    {"batch", FLAG_VALUE, 0, false, "N", "records of one append (default 1)"},
    WRITE_FLAGS,
    FLAG_END};

const struct command command_bench_append = {
    .name = "bench append",
    .words = "",
    .summary = "Measure appends to a log (serve --model log).",
    .details =
        "An operation is one append of --batch records of --value-size bytes each; the records\n"
        "stay in the log. -o json: as the other benches, and records_per_s, mb_per_s.\n"
        "A history has a line for each append and each answer: t_ns, process, event, append, -,\n"
        "number that the first record begins with, records, index, session:number, node.",
    .examples = "  kvctl bench append --clients 64 --value-size 1024 --batch 16",
    .flags = append_flags,
    .model = "log",
    .run = run_append,
};
