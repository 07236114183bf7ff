/* Options by name: one table gives name, default, range, unit and sentence to C, kvctl and files. */
#ifndef LIB_OPTIONS_H
#define LIB_OPTIONS_H

#include "base/trace.h"
#include "lib/ledgerkv.h"

enum { OPTION_PEERS_MAX = 7, OPTION_ENDPOINTS_MAX = 16, NAME_SIZE = 64, ADDRESS_SIZE = 272 };

/* What the replicated log is for. */
enum model {
    MODEL_ANY, /* of the option: as the directory says, MODEL_KV in a new one */
    MODEL_KV,  /* entries are commands of the state machine */
    MODEL_LOG, /* entries are the caller's records: the log is the final state */
    MODEL_OWN  /* the same, and what they make is the caller's state, of which images come */
};
/* Where the state of model kv lies. */
enum engine {
    ENGINE_MEMORY,
    ENGINE_ROCKSDB /* in DIR/state, by a module (kv/ordered.h) */
};
/* The operator's word on a directory that was copied, restored or moved (rule 17). */
enum moved {
    MOVED_OFF,
    MOVED_ON,    /* it is the one to keep; it may lack what it acknowledged later */
    MOVED_NEWEST /* and nothing was written after the copy was made */
};

const char *model_name(enum model model); /* "kv", "log", "own", "" */

/* Entries are records: everything of log mode holds but what its images are. */
static inline bool model_has_records(enum model model) {
    return model == MODEL_LOG || model == MODEL_OWN;
}

struct option_peer {
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE]; /* HOST:PORT */
};

struct lkv_options {
    char dir[1024];
    char id[NAME_SIZE];              /* empty: as the directory says */
    char listen[ADDRESS_SIZE];       /* "127.0.0.1:7001"; empty = none (a lone embedded node) */
    char listen_alone[ADDRESS_SIZE]; /* instead of an empty one, of a node that is alone */
    struct option_peer peers[OPTION_PEERS_MAX]; /* in the order given */
    size_t peer_count;
    char endpoints[OPTION_ENDPOINTS_MAX][ADDRESS_SIZE];
    size_t endpoint_count;
    bool forward;                    /* on */
    bool offline;                    /* off */
    enum moved moved;                /* off */
    enum model model;                /* MODEL_ANY */
    enum engine engine;              /* ENGINE_MEMORY */
    uint64_t timeout_ms;             /* 5000 */
    uint64_t heartbeat_ms;           /* 50 */
    uint64_t election_ms;            /* 300: delays are drawn from [it, twice it] */
    uint64_t disk_hang_ms;           /* 2000 */
    uint64_t key_bytes_max;          /* 8 KiB */
    uint64_t value_bytes_max;        /* 4 MiB */
    uint64_t segment_bytes;          /* 64 MiB */
    uint64_t inflight_bytes_max;     /* proposals, 64 MiB */
    uint64_t peer_inflight_bytes;    /* 8 MiB */
    uint64_t peer_inflight_requests; /* 512 */
    uint64_t window_bytes;           /* applied entries kept in memory for followers, 8 MiB */
    uint64_t image_log_bytes;        /* log written since the last image before the next, 64 MiB */
    uint64_t keep_entries;      /* log entries kept behind an image for slow followers, 10000 */
    uint64_t sessions_max;      /* 4096 */
    uint64_t bounded_ms;        /* how old the state may be that LKV_BOUNDED shows, 1000 */
    bool lease_reads;           /* off: leaders ask for promises, and answer LKV_LEASED by them */
    uint64_t clock_drift_ppm;   /* by which members' clocks may differ in rate, 200000 */
    uint64_t history_revisions; /* kept behind the newest, 100000; 0: no limit */
    uint64_t history_ms;        /* 0: no limit */
    uint64_t history_bytes;     /* of superseded versions in memory, 64 MiB; 0: no limit */
    uint64_t retention_ms;      /* of records in log mode; 0: for ever */
    uint64_t retention_bytes;   /* 0: no limit */
    uint64_t hold_bytes_max;    /* kept only because of holds, 1 GiB */
    uint64_t ready_timeout_ms; /* a leader that its tails keep from being ready hands over, 10000 */
    uint64_t scrub_ms;  /* from one check of what lies on the disk to the next, 24 h; 0: off */
    uint64_t digest_ms; /* from one comparison of the members' states to the next, 1 h; 0: off */
    uint64_t connections_max; /* 1024 */
    uint64_t connections;     /* a client's, to its node; 1 */
    struct trace trace;
    char error[REASON_SIZE]; /* of the last failed set */
};

#endif
