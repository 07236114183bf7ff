/* Repair: what three nodes do when entries of their logs cannot be read. Rule 11, its clauses without the
 * messages that carry them.
 *
 * State. Three logs as lists of terms, the newest term, its leader and who has acknowledged something in
 * it, and the committed entries. Searched are all that can come to be by elections, appends, replication
 * and commits.
 *
 * Then, of each triple of logs that is reached, every damage: on each node any set of entries unreadable
 * with the log's end known, or everything from some entry on lost with the end unknown. Then the rules of
 * repair are applied for as long as one applies:
 *   fill     a peer that can read an entry gives it to one that cannot, if at or after it both know the
 *            same term of one index. The term of an entry is known if it or its successor (its prev_term)
 *            can be read, or it is the end. What follows the entry stays, and so does the end.
 *   vote     a damaged node votes with its end, and does not campaign; one that lost its end does not vote.
 *   discard  when all have answered and nobody can lead: an entry that nobody can read, and that fewer
 *            than a quorum can hold, is cut off. Who may hold it: everybody of whom it is not known that
 *            it ends before, or has another term at or before it.
 *
 * Holds:
 *   same         what is filled in is what was there.
 *   kept         at every moment, whoever could be elected by any two or three of the nodes has all that
 *                is committed.
 *   uncommitted  what is discarded was not committed.
 *   no_stall     with all ends known, nobody can lead only if some entry that a quorum held is unreadable
 *                wherever it was.
 *
 * Bounds: LENGTH, TERMS.
 *
 * Mutants, each without a clause: FILL_CUTS (an unreadable entry counts as a conflict), DONOR_IS_ANYBODY,
 * AMNESIA (a damaged node votes with what it can read), LOST_END_VOTES, DISCARD_UNREAD (only those that
 * can read an entry count as its holders), NO_DISCARD. */
#include "mutant.h"
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef LENGTH
#define LENGTH 3
#endif
#ifndef TERMS
#define TERMS 3
#endif

enum { NODES = 3, QUORUM = 2, NOBODY = 3, ALL = 7 };

struct log {
    uint8_t last;
    uint8_t terms[LENGTH + 1]; /* [index]; [0] is 0 */
};

struct state {
    struct log logs[NODES];
    struct log committed;
    uint8_t term, leader;
    uint8_t followers; /* set: itself, its voters, and who took entries of it */
};

static bool same_up_to(const struct log *a, const struct log *b, unsigned index) {
    return a->last >= index && b->last >= index &&
           memcmp(a->terms, b->terms, (size_t)index + 1) == 0;
}

static bool is_behind(const struct log *a, const struct log *b) {
    uint8_t of_a = a->terms[a->last], of_b = b->terms[b->last];
    return of_a != of_b ? of_a < of_b : a->last < b->last;
}

static unsigned size_of(unsigned set) {
    return (set & 1) + (set >> 1 & 1) + (set >> 2 & 1);
}

/* ------------------------------------------------------------------ damage */

struct node {
    struct log log; /* what it was; the rules look at it through the functions below only */
    uint8_t unread; /* bit: index */
    bool end_known;
    uint8_t kept; /* with the end unknown: entries that are left */
};

struct cluster {
    struct node nodes[NODES];
    const struct log *committed;
};

static unsigned visible(const struct node *node) {
    return node->end_known ? node->log.last : node->kept;
}

static bool can_read(const struct node *node, unsigned index) {
    return index <= visible(node) && (node->unread >> index & 1) == 0;
}

static bool knows_term(const struct node *node, unsigned index) {
    bool is_end = node->end_known && index == node->log.last;
    return index <= visible(node) && (can_read(node, index) || can_read(node, index + 1) || is_end);
}

static bool agree_at(const struct node *a, const struct node *b, unsigned index) {
    return knows_term(a, index) && knows_term(b, index) &&
           a->log.terms[index] == b->log.terms[index];
}

static bool is_related(const struct node *a, const struct node *b, unsigned index) {
    if (LEFT_OUT(DONOR_IS_ANYBODY)) {
        return true;
    }
    for (unsigned i = index; i <= LENGTH; i++) {
        if (agree_at(a, b, i)) {
            return true;
        }
    }
    return false;
}

/* Not known to be without this very entry of `node`. */
static bool may_hold(const struct node *other, const struct node *node, unsigned index) {
    if (LEFT_OUT(DISCARD_UNREAD) && !can_read(other, index)) {
        return false;
    }
    if (other->end_known && other->log.last < index) {
        return false;
    }
    for (unsigned i = 1; i <= index; i++) {
        if (knows_term(other, i) && knows_term(node, i) && !agree_at(other, node, i)) {
            return false;
        }
    }
    return true;
}

static bool may_campaign(const struct node *node) {
    return node->end_known && node->unread == 0;
}

static struct log voting_log(const struct node *node) {
    struct log log = node->log;
    log.last = (uint8_t)visible(node);
    if (LEFT_OUT(AMNESIA)) {
        unsigned readable = 0;
        while (can_read(node, readable + 1)) {
            readable++;
        }
        log.last = (uint8_t)readable;
    }
    return log;
}

static bool votes(const struct node *node) {
    return node->end_known || LEFT_OUT(LOST_END_VOTES);
}

/* Somebody can be elected by the nodes of `up`; each who can must have what is committed. */
static bool elects(const struct cluster *cluster, unsigned up) {
    bool elected = false;
    for (unsigned c = 0; c < NODES; c++) {
        const struct node *candidate = &cluster->nodes[c];
        unsigned voters = 0;
        if ((up >> c & 1) == 0 || !may_campaign(candidate)) {
            continue;
        }
        for (unsigned v = 0; v < NODES; v++) {
            struct log log = voting_log(&cluster->nodes[v]);
            voters +=
                (up >> v & 1) && votes(&cluster->nodes[v]) && !is_behind(&candidate->log, &log);
        }
        elected = elected || voters >= QUORUM;
        if (voters >= QUORUM &&
            !same_up_to(&candidate->log, cluster->committed, cluster->committed->last)) {
            search_violated("kept: node %u can be elected without what is committed", c);
        }
    }
    return elected;
}

static bool fill(struct cluster *cluster) {
    for (unsigned v = 0; v < NODES; v++) {
        for (unsigned index = 1; index <= LENGTH; index++) {
            struct node *node = &cluster->nodes[v];
            for (unsigned d = 0; d < NODES && index <= visible(node) && !can_read(node, index);
                 d++) {
                const struct node *donor = &cluster->nodes[d];
                if (!can_read(donor, index) || !is_related(node, donor, index)) {
                    continue;
                }
                if (donor->log.terms[index] != node->log.terms[index]) {
                    search_violated("same: node %u gives node %u another entry %u", d, v, index);
                }
                node->unread &= (uint8_t) ~(1u << index);
                if (LEFT_OUT(FILL_CUTS)) {
                    node->log.last = (uint8_t)index;
                    node->unread &= (uint8_t)((2u << index) - 1);
                }
                return true;
            }
        }
    }
    return false;
}

static bool discard(struct cluster *cluster) {
    for (unsigned v = 0; v < NODES && !LEFT_OUT(NO_DISCARD); v++) {
        for (unsigned index = 1; index <= visible(&cluster->nodes[v]); index++) {
            struct node *node = &cluster->nodes[v];
            unsigned holders = 0, readers = 0;
            for (unsigned d = 0; d < NODES; d++) {
                const struct node *other = &cluster->nodes[d];
                bool holds = may_hold(other, node, index);
                holders += holds;
                readers += holds && can_read(other, index);
            }
            if (can_read(node, index) || readers > 0 || holders >= QUORUM) {
                continue;
            }
            if (same_up_to(&node->log, cluster->committed, index)) {
                search_violated("uncommitted: node %u discards entry %u", v, index);
            }
            node->log.last = (uint8_t)(index - 1);
            node->unread &= (uint8_t)((1u << index) - 1);
            return true;
        }
    }
    return false;
}

/* Some entry that a quorum held can be read nowhere. */
static bool is_lost(const struct cluster *before) {
    for (unsigned v = 0; v < NODES; v++) {
        for (unsigned index = 1; index <= before->nodes[v].log.last; index++) {
            unsigned holders = 0, readers = 0;
            for (unsigned d = 0; d < NODES; d++) {
                const struct node *other = &before->nodes[d];
                bool holds = same_up_to(&other->log, &before->nodes[v].log, index);
                holders += holds;
                readers += holds && can_read(other, index);
            }
            if (holders >= QUORUM && readers == 0) {
                return true;
            }
        }
    }
    return false;
}

static uint64_t damages, repaired, stopped, lost_ends;

static void repair(struct cluster cluster) {
    const struct cluster before = cluster;
    damages++;
    for (;;) {
        bool pairs = elects(&cluster, 3) | elects(&cluster, 5) | elects(&cluster, 6);
        if (elects(&cluster, ALL) || pairs) {
            /* What is not repaired yet must not go wrong later either. */
            if (!fill(&cluster)) {
                repaired++;
                return;
            }
        } else if (!fill(&cluster) && !discard(&cluster)) {
            break;
        }
    }
    stopped++;
    bool ends_known = true;
    for (unsigned v = 0; v < NODES; v++) {
        ends_known = ends_known && before.nodes[v].end_known;
    }
    lost_ends += !ends_known;
    if (ends_known && !is_lost(&before)) {
        search_violated("no_stall: nobody can lead, and nothing that a quorum held is lost");
    }
}

static void damage_node(struct cluster *cluster, unsigned v) {
    if (v == NODES) {
        repair(*cluster);
        return;
    }
    struct node *node = &cluster->nodes[v];
    for (unsigned unread = 0; unread < 1u << node->log.last; unread++) {
        node->unread = (uint8_t)(unread << 1);
        node->end_known = true;
        damage_node(cluster, v + 1);
    }
    node->unread = 0;
    node->end_known = false;
    for (unsigned kept = 0; kept <= node->log.last; kept++) {
        node->kept = (uint8_t)kept;
        damage_node(cluster, v + 1);
    }
}

/* ------------------------------------------------------------------ how logs come to be */

/* Logs and what is committed, whatever term and leader. */
static bool is_new_triple(const struct state *state) {
    enum { SIZE = 1 << 20 };
    static struct {
        struct log logs[NODES], committed;
        uint8_t used;
    } * seen;
    if (seen == NULL) {
        seen = calloc(SIZE, sizeof(*seen));
    }
    uint64_t hash = 0;
    const uint8_t *bytes = (const uint8_t *)state;
    size_t size = sizeof(state->logs) + sizeof(state->committed);
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    for (size_t at = hash % SIZE;; at = (at + 1) % SIZE) {
        if (seen == NULL || !seen[at].used) {
            if (seen != NULL) {
                memcpy(&seen[at], state, size);
                seen[at].used = 1;
            }
            return true;
        }
        if (memcmp(&seen[at], state, size) == 0) {
            return false;
        }
    }
}

static void elect(const struct state *state, unsigned c) {
    for (unsigned voters = 1; voters <= ALL; voters++) {
        bool all_vote = (voters >> c & 1) && size_of(voters) >= QUORUM;
        for (unsigned v = 0; v < NODES; v++) {
            all_vote =
                all_vote && (!(voters >> v & 1) || !is_behind(&state->logs[c], &state->logs[v]));
        }
        if (all_vote && state->logs[c].last < LENGTH) {
            struct state next = *state;
            next.term++;
            next.leader = (uint8_t)c;
            next.followers = (uint8_t)voters;
            next.logs[c].terms[++next.logs[c].last] = next.term;
            search_next(&next, "node %u is elected by the set %u, and appends an entry", c, voters);
        }
    }
}

static void replicate(const struct state *state, unsigned v) {
    const struct log *from = &state->logs[state->leader];
    unsigned match = 0;
    while (same_up_to(from, &state->logs[v], match + 1)) {
        match++;
    }
    if (match < from->last) {
        struct state next = *state;
        struct log *to = &next.logs[v];
        memset(to->terms + match + 1, 0, LENGTH - match);
        to->last = (uint8_t)(match + 1);
        to->terms[to->last] = from->terms[to->last];
        next.followers |= (uint8_t)(1u << v);
        search_next(&next, "node %u takes entry %u", v, match + 1);
    }
}

static void commit(const struct state *state, unsigned index) {
    const struct log *log = &state->logs[state->leader];
    unsigned holders = 0;
    for (unsigned v = 0; v < NODES; v++) {
        holders += (state->followers >> v & 1) && same_up_to(&state->logs[v], log, index);
    }
    if (holders >= QUORUM && log->terms[index] == state->term) {
        struct state next = *state;
        memset(&next.committed, 0, sizeof(next.committed));
        next.committed.last = (uint8_t)index;
        memcpy(next.committed.terms, log->terms, (size_t)index + 1);
        search_next(&next, "entry %u is committed", index);
    }
}

static uint64_t triples;

static void list_next(const void *from) {
    const struct state *state = from;
    if (is_new_triple(state)) {
        struct cluster cluster = {.committed = &state->committed};
        triples++;
        for (unsigned v = 0; v < NODES; v++) {
            cluster.nodes[v] = (struct node){.log = state->logs[v], .end_known = true};
        }
        damage_node(&cluster, 0);
    }
    for (unsigned c = 0; c < NODES && state->term < TERMS; c++) {
        elect(state, c);
    }
    if (state->leader == NOBODY) {
        return;
    }
    const struct log *log = &state->logs[state->leader];
    if (log->last < LENGTH) {
        struct state next = *state;
        struct log *longer = &next.logs[state->leader];
        longer->terms[++longer->last] = state->term;
        search_next(&next, "node %u appends an entry", state->leader);
    }
    for (unsigned v = 0; v < NODES; v++) {
        if (v != state->leader) {
            replicate(state, v);
        }
    }
    for (unsigned index = state->committed.last + 1u; index <= log->last; index++) {
        commit(state, index);
    }
}

static void print(const void *what) {
    const struct state *state = what;
    for (unsigned v = 0; v < NODES; v++) {
        printf("  log of node %u: terms", v);
        for (unsigned i = 1; i <= state->logs[v].last; i++) {
            printf(" %u", state->logs[v].terms[i]);
        }
        printf("\n");
    }
    printf("  committed: %u entries\n", state->committed.last);
}

int main(void) {
    struct state initial;
    memset(&initial, 0, sizeof(initial));
    initial.leader = NOBODY;
    const struct search_model model = {"repair", sizeof(initial), &initial, list_next, print};
    int code = search_run(&model, 50000000);
    if (code == 0) {
        printf("repair: %llu triples of logs, %llu damages: %llu repaired, %llu stopped, of which "
               "%llu lost an end\n",
               (unsigned long long)triples, (unsigned long long)damages,
               (unsigned long long)repaired, (unsigned long long)stopped,
               (unsigned long long)lost_ends);
    }
    return code;
}
