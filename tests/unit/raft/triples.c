/* Every damage to every small cluster (rule 11): all triples of logs of up to three entries that three terms of
 * consensus can leave behind, with what is committed in them; any entries of two or all three nodes unreadable;
 * no leader; in the end all nodes are up.
 *
 * A leader must come out of it, and have all that is committed. The one excuse is that, for all the nodes can
 * know, a quorum may have had an entry that is readable nowhere.
 *
 * LKV_TRIPLES=1 plays all of them; usually one in eight. LKV_TRIPLES_TRACE=n prints play n. */
#include "base/prng.h"
#include "tests/sim/raft_world.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, TERMS = 3, SLOTS = 3, STATES_MAX = 65536, TABLE = 4 * STATES_MAX };

struct list {
    uint8_t terms[SLOTS], count;
};

struct state {
    struct list logs[NODES], committed;
    uint8_t term, leader, members; /* leader NODES: none; members: those that follow it, as bits */
};

struct states {
    struct state items[STATES_MAX];
    size_t count;
    uint32_t table[TABLE]; /* positions + 1, by hash */
};

/* ------------------------------------------------------------------ what consensus can leave behind */

static void add(struct states *states, const struct state *state) {
    const uint8_t *bytes = (const uint8_t *)state; /* bytes alone, so nothing lies between them */
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *state; i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    uint32_t *slot = &states->table[hash % TABLE];
    for (; *slot != 0; slot = slot + 1 < states->table + TABLE ? slot + 1 : states->table) {
        if (memcmp(&states->items[*slot - 1], state, sizeof *state) == 0) {
            return;
        }
    }
    cr_assert(states->count < STATES_MAX);
    states->items[states->count++] = *state;
    *slot = (uint32_t)states->count;
}

static void push(struct list *list, uint8_t term) {
    list->terms[list->count++] = term;
}

static int end_of(const struct list *list) {
    return list->count == 0 ? 0 : list->terms[list->count - 1] * 16 + list->count;
}

static uint8_t common(const struct list *a, const struct list *b) {
    uint8_t count = 0;
    while (count < a->count && count < b->count && a->terms[count] == b->terms[count]) {
        count++;
    }
    return count;
}

/* In the next term, or after terms in which nobody was elected. */
static void elections(struct states *states, struct state state) {
    for (uint8_t c = 0; c < NODES && state.term < TERMS; c++) {
        for (unsigned voters = 1; voters < 1u << NODES; voters++) {
            bool valid = (voters >> c & 1) != 0 && __builtin_popcount(voters) >= 2 &&
                         state.logs[c].count < SLOTS;
            for (uint8_t v = 0; v < NODES; v++) {
                valid = valid && ((voters >> v & 1) == 0 ||
                                  end_of(&state.logs[v]) <= end_of(&state.logs[c]));
            }
            if (valid) {
                for (uint8_t term = (uint8_t)(state.term + 1); term <= TERMS; term++) {
                    struct state next = state;
                    next.term = term;
                    next.leader = c;
                    next.members = (uint8_t)voters;
                    push(&next.logs[c], term);
                    add(states, &next);
                }
            }
        }
    }
}

static void replication(struct states *states, struct state state) {
    const struct list *mine = &state.logs[state.leader];
    for (uint8_t v = 0; v < NODES; v++) {
        uint8_t same = common(mine, &state.logs[v]);
        if (v != state.leader && same < mine->count) {
            struct state next = state;
            next.logs[v] = *mine;
            next.logs[v].count = (uint8_t)(same + 1);
            memset(next.logs[v].terms + same + 1, 0, (size_t)(SLOTS - same - 1));
            next.members |= (uint8_t)(1u << v);
            add(states, &next);
        }
    }
}

static void commits(struct states *states, struct state state) {
    const struct list *mine = &state.logs[state.leader];
    for (uint8_t k = (uint8_t)(state.committed.count + 1); k <= mine->count; k++) {
        int have = 0;
        for (uint8_t v = 0; v < NODES; v++) {
            have += (state.members >> v & 1) != 0 && common(mine, &state.logs[v]) >= k;
        }
        if (mine->terms[k - 1] == state.term && have >= 2) {
            struct state next = state;
            next.committed = *mine;
            next.committed.count = k;
            memset(next.committed.terms + k, 0, (size_t)(SLOTS - k));
            add(states, &next);
        }
    }
}

static struct states *all_states(void) {
    struct states *states = calloc(1, sizeof *states);
    cr_assert(states != NULL);
    add(states, &(struct state){.leader = NODES});
    for (size_t i = 0; i < states->count; i++) {
        struct state state = states->items[i];
        elections(states, state);
        if (state.leader == NODES) {
            continue;
        }
        if (state.logs[state.leader].count < SLOTS) {
            struct state next = state;
            push(&next.logs[state.leader], state.term);
            add(states, &next);
        }
        replication(states, state);
        commits(states, state);
    }
    return states;
}

/* The most that can be committed in these logs, and nothing else of the state matters: keeps that one. */
static size_t keep_longest(struct states *states) {
    size_t kept = 0;
    for (size_t i = 0; i < states->count; i++) {
        const struct state *state = &states->items[i];
        size_t k = 0;
        while (k < kept && memcmp(states->items[k].logs, state->logs, sizeof state->logs) != 0) {
            k++;
        }
        if (k == kept) {
            states->items[kept++] = *state;
        } else if (state->committed.count > states->items[k].committed.count) {
            states->items[k] = *state;
        }
    }
    return kept;
}

/* ------------------------------------------------------------------ one damage */

/* An entry that a quorum had and that is readable nowhere. */
static bool lost(const struct state *state, const unsigned bad[NODES]) {
    for (uint8_t v = 0; v < NODES; v++) {
        for (uint8_t i = 0; i < state->logs[v].count; i++) {
            int holders = 0;
            bool readable = false;
            for (uint8_t d = 0; d < NODES; d++) {
                bool holds = common(&state->logs[v], &state->logs[d]) > i;
                holders += holds;
                readable = readable || (holds && (bad[d] >> i & 1) == 0);
            }
            if (holders >= 2 && !readable) {
                return true;
            }
        }
    }
    return false;
}

/* What the nodes know allows this state as well: the same lengths, and the same terms but for unreadable entries
 * with an unreadable one behind them. */
static bool looks_like(const struct state *a, const struct state *b, const unsigned bad[NODES]) {
    for (uint8_t v = 0; v < NODES; v++) {
        if (a->logs[v].count != b->logs[v].count) {
            return false;
        }
        for (uint8_t i = 0; i < a->logs[v].count; i++) {
            bool last = i + 1 == a->logs[v].count;
            bool known = (bad[v] >> i & 1) == 0 || last || (bad[v] >> (i + 1) & 1) == 0;
            if (known && a->logs[v].terms[i] != b->logs[v].terms[i]) {
                return false;
            }
        }
    }
    return true;
}

/* For all that anybody can know, an entry that may be committed is lost. */
static bool excused(const struct states *states, size_t count, const struct state *state,
                    const unsigned bad[NODES]) {
    for (size_t i = 0; i < count; i++) {
        if (looks_like(&states->items[i], state, bad) && lost(&states->items[i], bad)) {
            return true;
        }
    }
    return false;
}

static bool leads(struct world *world, void *arg) {
    (void)arg;
    uint64_t leader = world_leader(world);
    return leader != 0 && world_status(world, leader).commit == world_status(world, leader).last;
}

static bool all_well(struct world *world, void *arg) {
    (void)arg;
    for (uint64_t id = 1; id <= NODES; id++) {
        if (world_status(world, id).gap_count > 0) {
            return false;
        }
    }
    return true;
}

static void describe(const struct state *state, const unsigned bad[NODES], char *text,
                     size_t size) {
    size_t at = 0;
    for (uint8_t v = 0; v < NODES; v++) {
        at += (size_t)snprintf(text + at, size - at, " n%d:", v + 1);
        for (uint8_t i = 0; i < state->logs[v].count; i++) {
            at += (size_t)snprintf(text + at, size - at, "%s%d", (bad[v] >> i & 1) != 0 ? "?" : "",
                                   state->logs[v].terms[i]);
        }
    }
    (void)snprintf(text + at, size - at, ", %d committed, term %d", state->committed.count,
                   state->term);
}

static uint64_t played, stuck;

static void print_line(void *arg, const char *line) {
    (void)arg;
    printf("%s\n", line);
}

static void play(const struct states *states, size_t count, const struct state *state,
                 const unsigned bad[NODES]) {
    struct world_options options = world_options_default(NODES, ++played);
    const char *traced = getenv("LKV_TRIPLES_TRACE"); /* the number of a play */
    options.trace = traced != NULL && strtoull(traced, NULL, 10) == played ? print_line : NULL;
    options.trace_messages = true;
    struct world *world = world_new(&options);
    for (uint64_t id = 1; id <= NODES; id++) {
        world_crash(world, id, false);
        const struct list *log = &state->logs[id - 1];
        world_place(world, id, log->terms, log->count, state->term);
        for (uint64_t i = 1; i <= log->count; i++) {
            if ((bad[id - 1] >> (i - 1) & 1) != 0) {
                world_rot_whole(world, id, i, i);
            }
        }
    }
    world_place_committed(world, state->committed.terms, state->committed.count);
    /* Mostly one comes late, so that the other two find a leader, or do not, without it. */
    uint64_t late = played % 4;
    for (uint64_t id = 1; id <= NODES; id++) {
        if (id != late) {
            world_restart(world, id);
        }
    }
    world_run_ms(world, late == 0 ? 0 : 2000);
    for (uint64_t id = 1; id <= NODES; id++) {
        world_restart(world, id);
    }
    char text[200];
    int at = snprintf(text, sizeof text, "play %" PRIu64 ":", played);
    describe(state, bad, text + at, sizeof text - (size_t)at);
    bool led = world_until(world, leads, NULL, 8000);
    bool excuse = excused(states, count, state, bad);
    cr_expect(world_violation(world) == NULL, "%s: %s", text, world_violation(world));
    cr_expect(led || excuse, "%s: nobody leads", text);
    cr_expect(!led || excuse || world_until(world, all_well, NULL, 4000), "%s: not repaired", text);
    stuck += !led;
    world_free(world);
}

static void damage_all(const struct states *states, size_t count, const struct state *state,
                       struct prng *prng, bool all) {
    unsigned bad[NODES];
    for (bad[0] = 0; bad[0] < 1u << state->logs[0].count; bad[0]++) {
        for (bad[1] = 0; bad[1] < 1u << state->logs[1].count; bad[1]++) {
            for (bad[2] = 0; bad[2] < 1u << state->logs[2].count; bad[2]++) {
                if (all || prng_below(prng, 8) == 0) {
                    play(states, count, state, bad);
                }
            }
        }
    }
}

Test(raft_triples, every_damage_to_every_small_cluster_is_repaired_or_reported) {
    struct states *states = all_states();
    size_t count = keep_longest(states);
    struct prng prng = prng_of(11);
    for (size_t i = 0; i < count; i++) {
        damage_all(states, count, &states->items[i], &prng, getenv("LKV_TRIPLES") != NULL);
    }
    printf("%zu triples of logs, %" PRIu64 " damages, %" PRIu64 " without a leader\n", count,
           played, stuck);
    free(states);
}
