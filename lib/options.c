/* The table of options: everything that is known about one is in its line. */
#include "lib/options.h"

#include "base/assert.h"
#include "base/mem.h"
#include "kv/command.h"
#include "lib/option_value.h"

#include <stdio.h>
#include <string.h>

enum option_kind {
    KIND_PATH,
    KIND_NAME,
    KIND_LISTEN, /* an address, port 0 allowed; empty: none */
    KIND_PEERS,
    KIND_ENDPOINTS,
    KIND_SWITCH,
    KIND_ENGINE,
    KIND_MODEL,
    KIND_MOVED,
    KIND_NUMBER,
    KIND_BYTES,
    KIND_MS,
    KIND_HOURS /* kept in ms */
};

#define KiB UINT64_C(1024)
#define MiB (1024 * KiB)
#define GiB (1024 * MiB)

#define HOUR_MS UINT64_C(3600000)

/* The limits of a key and of a log record (16 MiB) are the formats'; a value leaves room for both. */
#define VALUE_MAX (15 * MiB)

/* X(name, kind, field, default, min, max, sentence) */
#define OPTIONS(X)                                                                                \
    X(dir, KIND_PATH, dir, "", 0, 0,                                                              \
      "directory of this node; created if its parent exists; one process at a time")              \
    X(id, KIND_NAME, id, "", 0, 0,                                                                \
      "name of this node, 1 to 63 of [A-Za-z0-9._-]; empty: the directory's, n1 in a new one")    \
    X(listen, KIND_LISTEN, listen, "", 0, 0,                                                      \
      "HOST:PORT or unix:PATH to accept peers and clients at; empty: as in peers, alone none")    \
    X(listen_alone, KIND_LISTEN, listen_alone, "", 0, 0,                                          \
      "where to listen when listen is empty and the node is alone; empty: nowhere")               \
    X(peers, KIND_PEERS, peers, "", 0, 0,                                                         \
      "ID=HOST:PORT,... the first members, this node among them, at most 7; empty: alone")        \
    X(endpoints, KIND_ENDPOINTS, endpoints, "127.0.0.1:7001", 0, 0,                               \
      "HOST:PORT,... nodes that a client may use, at most 16")                                    \
    X(forward, KIND_SWITCH, forward, "on", 0, 0,                                                  \
      "on: a follower passes requests to the leader; off: it refuses them with its address")      \
    X(offline, KIND_SWITCH, offline, "off", 0, 0,                                                 \
      "on: the directory of one member of several is opened for local reads, without the others") \
    X(moved, KIND_MOVED, moved, "off", 0, 0,                                                      \
      "for one start. on: the directory was moved or restored, or peers have other addresses; "   \
      "newest: and nothing was written after the copy was made")                                  \
    X(engine, KIND_ENGINE, engine, "memory", 0, 0,                                                \
      "where the keys lie, of model kv: memory, or rocksdb: on disk, in DIR/state; any member "   \
      "may use either, and change it with a restart")                                             \
    X(model, KIND_MODEL, model, "", 0, 0,                                                         \
      "kv: keys and values; log: records by index; empty: the directory's, kv in a new one")      \
    X(timeout_ms, KIND_MS, timeout_ms, "5s", 1, 24 * 3600 * 1000,                                 \
      "ms for a whole call that states no timeout of its own")                                    \
    X(heartbeat_ms, KIND_MS, heartbeat_ms, "50", 1, 60 * 1000,                                    \
      "ms between heartbeats of a leader; below half of election_ms")                             \
    X(election_ms, KIND_MS, election_ms, "300", 10, 600 * 1000,                                   \
      "ms without a leader before an election: delays are drawn from it to twice it")             \
    X(disk_hang_ms, KIND_MS, disk_hang_ms, "2s", 100, 600 * 1000,                                 \
      "ms after which a leader whose disk hangs hands over")                                      \
    X(key_bytes_max, KIND_BYTES, key_bytes_max, "8KiB", 1, 8 * KiB, "bytes of a key at most")     \
    X(value_bytes_max, KIND_BYTES, value_bytes_max, "4MiB", 1, VALUE_MAX,                         \
      "bytes of a value at most")                                                                 \
    X(segment_bytes, KIND_BYTES, segment_bytes, "64MiB", MiB, 2 * GiB,                            \
      "bytes of a log segment file")                                                              \
    X(inflight_bytes_max, KIND_BYTES, inflight_bytes_max, "64MiB", MiB, 16 * GiB,                 \
      "bytes of requests that wait or are under way in one handle; beyond it: busy")              \
    X(peer_inflight_bytes, KIND_BYTES, peer_inflight_bytes, "8MiB", 64 * KiB, GiB,                \
      "bytes sent to a follower and not acknowledged at most")                                    \
    X(peer_inflight_requests, KIND_NUMBER, peer_inflight_requests, "512", 1, 65536,               \
      "requests sent to a follower and not acknowledged at most")                                 \
    X(window_bytes, KIND_BYTES, window_bytes, "8MiB", 64 * KiB, 16 * GiB,                         \
      "bytes of applied entries kept in memory for followers that lag")                           \
    X(image_log_bytes, KIND_BYTES, image_log_bytes, "64MiB", 64 * KiB, 1024 * GiB,                \
      "bytes of log written since the last image before the next is made")                        \
    X(keep_entries, KIND_NUMBER, keep_entries, "10000", 0, UINT64_C(1) << 40,                     \
      "log entries kept behind an image for followers that lag, while the disk has room")         \
    X(sessions_max, KIND_NUMBER, sessions_max, "4096", 1, KV_SESSIONS_MAX,                        \
      "sessions that may be open in the cluster, as its leader's option says")                    \
    X(bounded_ms, KIND_MS, bounded_ms, "1s", 1, 600 * 1000,                                       \
      "ms by which the state may be old that a bounded read shows")                               \
    X(lease_reads, KIND_SWITCH, lease_reads, "off", 0, 0,                                         \
      "on: a leader answers leased reads without asking the others, as long as clocks keep to "   \
      "clock_drift_ppm")                                                                          \
    X(clock_drift_ppm, KIND_NUMBER, clock_drift_ppm, "200000", 0, 500000,                         \
      "millionths by which the clocks of two members may differ in rate, for leased reads")       \
    X(history_revisions, KIND_NUMBER, history_revisions, "100000", 0, UINT64_C(1) << 40,          \
      "revisions kept behind the newest one; older history is compacted; 0: no limit")            \
    X(history_ms, KIND_MS, history_ms, "0", 0, UINT64_C(366) * 24 * 3600 * 1000,                  \
      "ms that history is kept after it was superseded; 0: no limit")                             \
    X(history_bytes, KIND_BYTES, history_bytes, "64MiB", 0, UINT64_C(1) << 50,                    \
      "bytes of memory for history, about; beyond it half of the revisions go; 0: no limit")      \
    X(retention_ms, KIND_MS, retention_ms, "0", 0, UINT64_C(10) * 366 * 24 * 3600 * 1000,         \
      "ms after which records of model log may go, in whole segments; 0: never")                  \
    X(retention_bytes, KIND_BYTES, retention_bytes, "0", 0, UINT64_C(1) << 50,                    \
      "bytes of segment files of model log that are kept, the oldest go first; 0: all")           \
    X(hold_bytes_max, KIND_BYTES, hold_bytes_max, "1GiB", 0, UINT64_C(1) << 50,                   \
      "bytes of segment files of model log that are kept only because something holds them")      \
    X(ready_timeout_ms, KIND_MS, ready_timeout_ms, "10s", 100, 3600 * 1000,                       \
      "ms after which a leader whose gating tails are not done hands over")                       \
    X(scrub_hours, KIND_HOURS, scrub_ms, "24", 0, 24 * 366,                                       \
      "hours from one check of all that lies on the disk to the next; 0: never")                  \
    X(digest_hours, KIND_HOURS, digest_ms, "1", 0, 24 * 366,                                      \
      "hours from one comparison of all members' states to the next; 0: never")                   \
    X(connections_max, KIND_NUMBER, connections_max, "1024", 1, 65536,                            \
      "connections of clients at most")                                                           \
    X(connections, KIND_NUMBER, connections, "1", 1, 64,                                          \
      "connections of one client handle to its node")

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t offset; /* of the field in struct lkv_options */
    const char *fallback;
    uint64_t min, max;
    const char *sentence;
};

static const struct option_row rows[] = {
#define OPTION_ROW(name, kind, field, fallback, min, max, sentence) \
    {#name, kind, offsetof(struct lkv_options, field), fallback, min, max, sentence},
    OPTIONS(OPTION_ROW)
#undef OPTION_ROW
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const struct option_row *find_row(const char *name) {
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static int set_path(struct lkv_options *options, const char *text, struct reason *why) {
    size_t size = strlen(text);
    if (size >= sizeof(options->dir)) {
        return reason_set(why, LKV_EOPTION, "expected a path of at most %zu bytes, not %zu",
                          sizeof(options->dir) - 1, size);
    }
    memcpy(options->dir, text, size + 1);
    return 0;
}

static int set_name(struct lkv_options *options, const char *text, struct reason *why) {
    if (*text == '\0') {
        options->id[0] = '\0';
        return 0;
    }
    return option_name(slice_text(text), options->id, why);
}

static int set_listen(const char *text, char address[static ADDRESS_SIZE], struct reason *why) {
    if (*text == '\0') {
        address[0] = '\0';
        return 0;
    }
    return option_address(slice_text(text), true, address, why);
}

static int set_engine(struct lkv_options *options, const char *text, struct reason *why) {
    bool rocksdb = strcmp(text, "rocksdb") == 0;
    if (!rocksdb && strcmp(text, "memory") != 0) {
        return reason_set(why, LKV_EOPTION, "expected memory or rocksdb");
    }
    options->engine = rocksdb ? ENGINE_ROCKSDB : ENGINE_MEMORY;
    return 0;
}

const char *model_name(enum model model) {
    switch (model) {
    case MODEL_ANY: return "";
    case MODEL_KV: return "kv";
    case MODEL_LOG: return "log";
    case MODEL_OWN: return "own";
    }
    return "";
}

static int set_model(struct lkv_options *options, const char *text, struct reason *why) {
    for (enum model model = MODEL_ANY; model <= MODEL_OWN; model++) {
        if (strcmp(text, model_name(model)) == 0) {
            options->model = model;
            return 0;
        }
    }
    return reason_set(why, LKV_EOPTION, "expected kv, log or own");
}

static int set_number(const struct option_row *row, enum option_unit unit, const char *text,
                      struct lkv_options *options, struct reason *why) {
    uint64_t *field = (uint64_t *)(void *)((char *)options + row->offset);
    return option_number(text, unit, row->min, row->max, field, why);
}

static int set_hours(const struct option_row *row, const char *text, struct lkv_options *options,
                     struct reason *why) {
    int rc = set_number(row, UNIT_NONE, text, options, why);
    if (rc == 0) {
        *(uint64_t *)(void *)((char *)options + row->offset) *= HOUR_MS;
    }
    return rc;
}

static int set_moved(struct lkv_options *options, const char *text, struct reason *why) {
    static const char *const words[] = {
        [MOVED_OFF] = "off", [MOVED_ON] = "on", [MOVED_NEWEST] = "newest"};
    for (enum moved moved = MOVED_OFF; moved <= MOVED_NEWEST; moved++) {
        if (strcmp(text, words[moved]) == 0) {
            options->moved = moved;
            return 0;
        }
    }
    return reason_set(why, LKV_EOPTION, "expected off, on or newest");
}

static int set_row(const struct option_row *row, const char *text, struct lkv_options *options,
                   struct reason *why) {
    switch (row->kind) {
    case KIND_PATH: return set_path(options, text, why);
    case KIND_NAME: return set_name(options, text, why);
    case KIND_LISTEN: return set_listen(text, (char *)options + row->offset, why);
    case KIND_PEERS: return option_peers(text, options->peers, &options->peer_count, why);
    case KIND_ENDPOINTS:
        return option_endpoints(text, options->endpoints, &options->endpoint_count, why);
    case KIND_SWITCH: return option_switch(text, (bool *)((char *)options + row->offset), why);
    case KIND_ENGINE: return set_engine(options, text, why);
    case KIND_MODEL: return set_model(options, text, why);
    case KIND_MOVED: return set_moved(options, text, why);
    case KIND_NUMBER: return set_number(row, UNIT_NONE, text, options, why);
    case KIND_BYTES: return set_number(row, UNIT_BYTES, text, options, why);
    case KIND_MS: return set_number(row, UNIT_MS, text, options, why);
    case KIND_HOURS: return set_hours(row, text, options, why);
    }
    return LKV_EOPTION;
}

struct lkv_options *lkv_options_new(void) {
    struct lkv_options *options = mem_calloc(1, sizeof(*options));
    if (options == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < ROW_COUNT; i++) {
        int rc = set_row(&rows[i], rows[i].fallback, options, NULL);
        ASSERT(rc == 0); /* the table's own defaults */
    }
    return options;
}

void lkv_options_free(struct lkv_options *options) {
    mem_free(options);
}

int lkv_options_set(struct lkv_options *options, const char *name, const char *text) {
    if (options == NULL) {
        return LKV_EINVAL; /* of lkv_options_new without memory */
    }
    options->error[0] = '\0';
    if (name == NULL || text == NULL) {
        (void)snprintf(options->error, sizeof(options->error), "%.100s is NULL",
                       name == NULL ? "the name of an option" : name);
        return LKV_EOPTION;
    }
    const struct option_row *row = find_row(name);
    if (row == NULL) {
        (void)snprintf(options->error, sizeof(options->error), "there is no option \"%.100s\"",
                       name);
        return LKV_EOPTION;
    }
    struct reason why = {{0}};
    int rc = set_row(row, text, options, &why);
    if (rc != 0) {
        (void)snprintf(options->error, sizeof(options->error), "%s: %.300s; got \"%.100s\"", name,
                       why.text, text);
    }
    return rc;
}

const char *lkv_options_error(const struct lkv_options *options) {
    if (options == NULL) {
        return "the options are NULL: out of memory";
    }
    return options->error;
}

bool lkv_options_help(size_t i, const char **name, const char **fallback, const char **sentence) {
    if (i >= ROW_COUNT) {
        return false;
    }
    *name = rows[i].name;
    *fallback = rows[i].fallback;
    *sentence = rows[i].sentence;
    return true;
}

void lkv_options_trace(struct lkv_options *options,
                       void (*sink)(void *arg, int level, const char *json), void *arg, int level) {
    bool known = level >= TRACE_ERROR && level <= TRACE_DEBUG;
    options->trace.sink = sink;
    options->trace.arg = arg;
    options->trace.level = known ? (enum trace_level)level : TRACE_INFO;
}
