/* The inside of raft_world, shared by its files only. */
#ifndef TESTS_SIM_RAFT_WORLD_PARTS_H
#define TESTS_SIM_RAFT_WORLD_PARTS_H

#include "base/prng.h"
#include "tests/sim/raft_world.h"

#include <stdarg.h>

/* An entry as the model sees it: `id` stands for the payload, 0 for a no-op. */
struct w_entry {
    uint64_t term, id;
    uint32_t size;
    bool bad;    /* cannot be read; in memory: that is known */
    bool header; /* its header can */
    bool gone;   /* bad, and on this disk it is no more: it was in an image only */
};

/* A log from index 1; what lies below `first` is not there. */
struct w_log {
    struct w_entry *items;
    size_t capacity;
    uint64_t first, last;
};

struct w_packet {
    struct raft_message message;
    struct raft_entry_meta *metas;
    uint64_t *ids;
    uint64_t token; /* at the receiver */
    uint64_t boot;  /* of the sender */
    bool resent;
};

struct w_write {
    struct raft_write write; /* its `no` is 0 for a settled end */
    struct w_entry *entries;
    uint64_t fill_first, fill_last; /* 0: no fill; entries are these then */
};

struct w_disk {
    struct w_log log;
    uint64_t term, voted_for;
    uint32_t promised_ms;
    uint64_t image_index, image_term;
    bool end_unknown;
    uint64_t lost_end_boot; /* what was sent in it or before is of a life that is over */
    struct w_write *queue;  /* the first `busy` of them are being synced */
    size_t count, capacity, busy;
    uint64_t done_ns; /* when; UINT64_MAX: not */
    bool hung, failing;
    enum raft_room room;
    uint32_t min_us, max_us;
};

struct w_read {
    uint64_t context, floor;
};

struct w_fetched {
    struct raft_fetch fetch;
    struct w_entry *entries;
    uint32_t *sizes;
    size_t count;
    bool damaged; /* the first one cannot be read */
};

struct w_node {
    uint64_t id;
    struct raft *raft; /* NULL: down */
    struct raft_update update;
    uint64_t boot, deadline_ns;
    struct w_log log; /* in memory */
    uint64_t window_first;
    struct w_disk disk;
    struct w_packet **kept;
    size_t kept_count, kept_capacity;
    uint64_t applied, told_applied, known_commit;
    bool had_gaps;                     /* in this life */
    uint64_t greeted[WORLD_NODES_MAX]; /* the boots of those that lost their end, as heard of */
    struct w_read *reads;
    size_t read_count, read_capacity;
    const struct w_fetched *fetched; /* of the step that runs */
    enum raft_role role;
    uint64_t term, leader;
    uint64_t set_at_ns, set_to_ns; /* its clock was so, then */
    int64_t drift_ppm;
    uint64_t paused_until_ns; /* of the world's time */
};

enum w_kind { W_MESSAGE, W_FETCHED, W_IMAGE, W_HELLO };

struct w_event {
    uint64_t at_ns, order;
    enum w_kind kind;
    uint64_t node, boot; /* boot 0: any */
    struct w_packet *packet;
    struct w_fetched *fetched;
    uint64_t peer;                    /* hello, image: the other one */
    uint64_t image_index, image_term; /* image: as it was when it was asked for */
};

struct w_known {
    uint64_t index, term, id, prev_term;
    bool used;
};

struct world {
    struct world_options options;
    struct prng prng;
    struct prng clock_prng; /* of clocks and promises */
    uint64_t now_ns, order;
    struct w_node nodes[WORLD_NODES_MAX];
    struct raft_config config;
    bool cut[WORLD_NODES_MAX][WORLD_NODES_MAX];
    uint64_t link_ns[WORLD_NODES_MAX][WORLD_NODES_MAX]; /* last delivery of an ordered link */
    struct w_event *heap;
    size_t heap_count, heap_capacity;
    uint64_t next_id, next_token, next_context;

    /* what is known to all: the checks */
    struct w_entry *committed; /* [0] unused */
    uint64_t committed_last;
    size_t committed_capacity;
    uint64_t *leaders; /* by term */
    size_t leader_capacity;
    struct w_known *known; /* every (index, term) ever seen */
    size_t known_count, known_capacity;
    char violation[512];
    struct world_counts counts;
};

/* raft_world.c */
void w_trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct w_node *w_node(const struct world *world, uint64_t id);
void w_push(struct world *world, struct w_event event);
void w_packet_free(struct w_packet *packet);
uint32_t w_packet_entries(const struct raft_message *m,
                          uint64_t *first);   /* how many, and from where */
void w_packet_point(struct w_packet *packet); /* its message to its metas */
void *w_grow(void *items, size_t *capacity, size_t needed, size_t size);

void w_message_text(const struct raft_message *m, char *text, size_t size); /* _text.c */
void w_send(struct world *world, struct w_packet *packet);

/* raft_world_time.c: each node's clock */
void w_clock_begin(struct world *world, struct w_node *node);
uint64_t w_clock(const struct world *world, const struct w_node *node);
uint64_t w_when(const struct w_node *node,
                uint64_t clock_ns); /* in the world's time, not too early */
uint64_t w_awake(const struct w_node *node, uint64_t at_ns); /* then, or when its pause is over */
void w_draw_times(struct world *world, struct raft_options *options); /* of one life */
void w_check_leases(struct world *world, const struct w_node *leader);

/* raft_world_node.c: one step of a node, and the carrying out of its update */
void w_step(struct world *world, struct w_node *node, struct raft_event *event,
            struct w_packet *packet);
void w_start(struct world *world, struct w_node *node);

/* raft_world_disk.c */
void w_log_put(struct w_log *log, uint64_t index, struct w_entry entry);
const struct w_entry *w_log_at(const struct w_log *log, uint64_t index); /* NULL: not there */
void w_log_items(struct w_log *log, uint64_t index);                     /* room up to it */
void w_disk_write(struct world *world, struct w_node *node, const struct raft_write *write,
                  const struct raft_fill *fill);
void w_disk_settle(struct world *world, struct w_node *node);
void w_disk_begin(struct world *world, struct w_node *node);
void w_disk_done(struct world *world, struct w_node *node);
void w_disk_crash(struct world *world, struct w_node *node, bool keep_some);
void w_disk_forget(struct w_disk *disk);

/* raft_world_damage.c */
void w_found(struct world *world, struct w_node *node, uint64_t index);
struct raft_gap *w_gaps_of(const struct w_disk *disk, size_t *count);
struct raft_run *w_runs_of(struct world *world, const struct w_disk *disk, size_t *count);

/* raft_world_checks.c */
void w_violate(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void w_check_entry(struct world *world, const struct w_node *node, uint64_t index);
void w_check_message(struct world *world, const struct w_node *node, const struct raft_message *m);
void w_check_vote_write(struct world *world, const struct w_node *node,
                        const struct raft_write *write);
void w_check_step(struct world *world, struct w_node *node);
void w_check_read(struct world *world, struct w_node *node, const struct raft_read_result *result);

#endif
