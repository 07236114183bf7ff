/* Sessions as they should be: the model's table, fed with entries as they commit, and what a simulated
 * client does with one: it repeats what it is in doubt about, through any node. */
#ifndef TESTS_SIM_WORLD_SESSIONS_H
#define TESTS_SIM_WORLD_SESSIONS_H

#include "kv/command.h"

enum { SIM_DOUBTS_MAX = 8 };

struct sim_session {
    uint64_t id, ttl_ms, acked_below;
    bool open;
    uint64_t *first; /* owned; [seq]: the entry that was carried out under it, 0: none */
    size_t capacity;
    uint64_t active_ns; /* submitted then, an operation of it was done */
};

struct sim_sessions {
    struct sim_session *items; /* owned; ascending by id, ended ones too */
    size_t count, capacity;
};

void sim_sessions_fini(struct sim_sessions *sessions);
struct sim_session *sim_session_find(const struct sim_sessions *sessions, uint64_t id);

/* What an entry with such a command must do, now that it is committed at `index`: 0 and `*first` =
 * index: it is carried out; 0 and another index: that one's answer; or an error. */
int sim_sessions_commit(struct sim_sessions *sessions, const struct kv_command *command,
                        uint64_t index, uint64_t *first);

/* A write whose outcome its client does not know. */
struct sim_doubt {
    uint64_t seq; /* 0: free */
    bool under_way;
    bool maybe_done; /* some attempt may have taken effect */
    unsigned told;   /* 1 + the life of the remote whose handle has said so; 0: none */
    int kind, shape;
    uint64_t rev;
    uint32_t key, end, count;
    uint64_t value, floor;
    size_t history; /* as in struct sim_call */
};

#endif
