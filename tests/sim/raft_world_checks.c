/* What must hold after every step of every node. */
#include "tests/sim/raft_world_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

void w_violate(struct world *world, const char *format, ...) {
    if (world->violation[0] != '\0') {
        return;
    }
    va_list args;
    va_start(args, format);
    int at = snprintf(world->violation, sizeof world->violation,
                      "at %.3f ms: ", (double)world->now_ns / 1e6);
    (void)vsnprintf(world->violation + at, sizeof world->violation - (size_t)at, format, args);
    va_end(args);
    w_trace(world, "VIOLATION %s", world->violation);
}

/* ------------------------------------------------------------------ log matching */

static struct w_known *find_known(struct w_known *table, size_t capacity, uint64_t index,
                                  uint64_t term) {
    size_t at = (size_t)((index * 0x9e3779b97f4a7c15u) ^ (term * 0xc2b2ae3d27d4eb4fu));
    at ^= at >> 29;
    while (table[at & (capacity - 1)].used &&
           (table[at & (capacity - 1)].index != index || table[at & (capacity - 1)].term != term)) {
        at++;
    }
    return &table[at & (capacity - 1)];
}

static void grow_known(struct world *world) {
    size_t capacity = world->known_capacity > 0 ? world->known_capacity * 2 : 4096;
    struct w_known *table = calloc(capacity, sizeof *table);
    if (table == NULL) {
        abort();
    }
    for (size_t i = 0; i < world->known_capacity; i++) {
        const struct w_known *old = &world->known[i];
        if (old->used) {
            *find_known(table, capacity, old->index, old->term) = *old;
        }
    }
    free(world->known);
    world->known = table;
    world->known_capacity = capacity;
}

/* (index, term) decides the payload and the term before: by induction, all entries before too. */
void w_check_entry(struct world *world, const struct w_node *node, uint64_t index) {
    if (world->known_count * 2 >= world->known_capacity) {
        grow_known(world);
    }
    const struct w_entry *entry = w_log_at(&node->log, index);
    const struct w_entry *prev = w_log_at(&node->log, index - 1);
    struct w_known *known = find_known(world->known, world->known_capacity, index, entry->term);
    uint64_t prev_term = prev != NULL ? prev->term : 0;
    if (!known->used) {
        *known = (struct w_known){.index = index,
                                  .term = entry->term,
                                  .id = entry->id,
                                  .prev_term = prev_term,
                                  .used = true};
        world->known_count++;
        return;
    }
    if (known->prev_term == 0) {
        known->prev_term = prev_term;
    }
    if (known->id != entry->id || (prev_term != 0 && known->prev_term != prev_term)) {
        w_violate(world,
                  "log matching: n%d has (%llu, term %llu) as %llu after term %llu, once it "
                  "was %llu after term %llu",
                  (int)node->id, (ull)index, (ull)entry->term, (ull)entry->id, (ull)prev_term,
                  (ull)known->id, (ull)known->prev_term);
    }
}

/* ------------------------------------------------------------------ what leaves a node */

/* Rule 11: what is known to be unreadable counts for nothing. */
static void check_readable(struct world *world, const struct w_node *node, uint64_t last,
                           const char *does) {
    uint64_t from = node->disk.image_index + 1;
    from = from > node->log.first ? from : node->log.first;
    struct raft_status status;
    raft_status(node->raft, &status);
    if (status.gap_count == 0 && !node->had_gaps) {
        return;
    }
    for (uint64_t i = from; i <= last && i <= node->log.last; i++) {
        if (node->log.items[i].bad) {
            w_violate(world, "n%d %s %llu and cannot read %llu", (int)node->id, does, (ull)last,
                      (ull)i);
            return;
        }
    }
}

static void check_acknowledgement(struct world *world, const struct w_node *node, uint64_t term,
                                  uint64_t durable) {
    const struct w_disk *disk = &node->disk;
    if (durable == 0) {
        return;
    }
    if (disk->end_unknown) {
        w_violate(world, "n%d acknowledges %llu and does not know its end", (int)node->id,
                  (ull)durable);
    }
    check_readable(world, node, durable, "acknowledges");
    uint64_t disk_last = disk->log.last > disk->image_index ? disk->log.last : disk->image_index;
    if (disk->term != term) {
        w_violate(world, "n%d acknowledges in term %llu, on its disk is %llu", (int)node->id,
                  (ull)term, (ull)disk->term);
    } else if (disk_last < durable) {
        w_violate(world, "n%d acknowledges %llu, its disk ends at %llu", (int)node->id,
                  (ull)durable, (ull)disk_last);
    }
    const struct w_entry *here = w_log_at(&node->log, durable);
    const struct w_entry *there = w_log_at(&disk->log, durable);
    if (here != NULL && there != NULL && (here->term != there->term || here->id != there->id)) {
        w_violate(world, "n%d acknowledges %llu, its disk has another entry", (int)node->id,
                  (ull)durable);
    }
}

/* Rule 2: nothing is said before the disk has it. */
void w_check_message(struct world *world, const struct w_node *node, const struct raft_message *m) {
    const struct w_disk *disk = &node->disk;
    bool vote = m->kind == RAFT_VOTE_REPLY && !m->vote_reply.pre &&
                m->vote_reply.answer == RAFT_VOTE_ACCEPT;
    bool request = m->kind == RAFT_VOTE_REQUEST && !m->vote_request.pre;
    bool yes = m->kind == RAFT_VOTE_REPLY && m->vote_reply.answer == RAFT_VOTE_ACCEPT;
    if ((yes || m->kind == RAFT_VOTE_REQUEST) && disk->end_unknown) {
        w_violate(world, "n%d votes or asks, and does not know its end", (int)node->id);
    }
    if (vote && (disk->term != m->term || disk->voted_for != m->to)) {
        w_violate(world, "n%d votes for n%d in term %llu, its disk says n%d in %llu", (int)node->id,
                  (int)m->to, (ull)m->term, (int)disk->voted_for, (ull)disk->term);
    }
    if (request && (disk->term != m->term || disk->voted_for != node->id)) {
        w_violate(world, "n%d asks for votes in term %llu that is not on its disk", (int)node->id,
                  (ull)m->term);
    }
    if (m->kind == RAFT_APPEND_REPLY) {
        check_acknowledgement(world, node, m->term, m->append_reply.durable);
    }
    if (m->kind == RAFT_HEARTBEAT_REPLY) {
        check_acknowledgement(world, node, m->term, m->heartbeat_reply.durable);
    }
    if (m->kind == RAFT_HEARTBEAT || m->kind == RAFT_APPEND) {
        if (disk->term < m->term) {
            w_violate(world, "n%d leads in term %llu that is not on its disk", (int)node->id,
                      (ull)m->term);
        }
    }
}

void w_check_vote_write(struct world *world, const struct w_node *node,
                        const struct raft_write *write) {
    const struct w_disk *disk = &node->disk;
    bool back = write->term < disk->term;
    bool changed =
        write->term == disk->term && disk->voted_for != 0 && write->voted_for != disk->voted_for;
    if (back || changed) {
        w_violate(world, "n%d's vote record goes from (%llu, n%d) to (%llu, n%d)", (int)node->id,
                  (ull)disk->term, (int)disk->voted_for, (ull)write->term, (int)write->voted_for);
    }
}

/* ------------------------------------------------------------------ leaders */

static void check_leader(struct world *world, const struct w_node *node, uint64_t term) {
    world->leaders =
        w_grow(world->leaders, &world->leader_capacity, (size_t)term + 1, sizeof *world->leaders);
    struct raft_status status;
    raft_status(node->raft, &status);
    if (status.gap_count > 0 || status.end_unknown) {
        w_violate(world, "n%d leads in term %llu and is damaged", (int)node->id, (ull)term);
    }
    if (world->leaders[term] != 0) {
        w_violate(world, "n%d and n%d both lead in term %llu", (int)world->leaders[term],
                  (int)node->id, (ull)term);
    }
    world->leaders[term] = node->id;
    w_check_leases(world, node);
    world->counts.leaders++;
    for (uint64_t later = term + 1; later < world->leader_capacity; later++) {
        if (world->leaders[later] != 0) {
            return; /* it was paused, and hears of its votes when others have led: it will commit nothing */
        }
    }
    for (uint64_t i = node->log.first; i <= world->committed_last; i++) {
        const struct w_entry *entry = w_log_at(&node->log, i);
        if (entry == NULL || entry->term != world->committed[i].term ||
            entry->id != world->committed[i].id) {
            w_violate(world, "n%d leads in term %llu without the committed entry %llu",
                      (int)node->id, (ull)term, (ull)i);
            return;
        }
    }
}

/* ------------------------------------------------------------------ commits */

static bool durable_on_quorum(const struct world *world, uint64_t index,
                              const struct w_entry *entry) {
    size_t have = 0, voters = 0;
    for (size_t i = 0; i < world->config.count; i++) {
        const struct w_disk *disk = &world->nodes[i].disk;
        const struct w_entry *there = w_log_at(&disk->log, index);
        bool has = index <= disk->image_index ||
                   (there != NULL && there->term == entry->term && there->id == entry->id);
        voters += world->config.members[i].voter ? 1 : 0;
        have += world->config.members[i].voter && has ? 1 : 0;
    }
    return have > voters / 2;
}

static void check_commit(struct world *world, const struct w_node *node, uint64_t index) {
    const struct w_entry *entry = w_log_at(&node->log, index);
    if (entry != NULL && entry->bad && index <= world->committed_last) {
        return; /* the leader told so */
    }
    if (entry == NULL) {
        if (index >= node->log.first) {
            w_violate(world, "n%d commits %llu that it does not have", (int)node->id, (ull)index);
        }
        return;
    }
    if (world->options.forged) {
        return;
    }
    if (index > world->committed_last) {
        if (index != world->committed_last + 1) {
            w_violate(world, "n%d commits %llu, nobody %llu", (int)node->id, (ull)index,
                      (ull)world->committed_last + 1);
            return;
        }
        world->committed = w_grow(world->committed, &world->committed_capacity, (size_t)index + 1,
                                  sizeof *world->committed);
        world->committed[index] = *entry;
        world->committed_last = index;
        if (world->counts.lost_ends == 0 && !durable_on_quorum(world, index, entry)) {
            w_violate(world, "n%d commits %llu before a quorum's disks have it", (int)node->id,
                      (ull)index);
        }
        return;
    }
    if (world->committed[index].term != entry->term || world->committed[index].id != entry->id) {
        w_violate(world, "n%d commits another entry %llu (term %llu) than before (term %llu)",
                  (int)node->id, (ull)index, (ull)entry->term, (ull)world->committed[index].term);
    }
}

void w_check_step(struct world *world, struct w_node *node) {
    struct raft_status status;
    raft_status(node->raft, &status);
    if (status.last != node->log.last || status.first != node->log.first) {
        w_violate(world, "n%d: core's log is [%llu, %llu], the owner's [%llu, %llu]", (int)node->id,
                  (ull)status.first, (ull)status.last, (ull)node->log.first, (ull)node->log.last);
        return;
    }
    if (status.commit < node->known_commit || node->update.commit < node->applied) {
        w_violate(world, "n%d's commit index falls", (int)node->id);
    }
    for (uint64_t i = node->known_commit + 1; i <= status.commit; i++) {
        check_commit(world, node, i);
    }
    node->known_commit = status.commit;
    if (node->update.commit > node->applied && node->had_gaps) {
        for (uint64_t i = node->applied + 1; i <= node->update.commit; i++) {
            const struct w_entry *entry = w_log_at(&node->log, i);
            if (entry != NULL && entry->bad && i > node->disk.image_index) {
                w_violate(world, "n%d may apply %llu that it cannot read", (int)node->id, (ull)i);
            }
        }
    }
    node->had_gaps = node->had_gaps || status.gap_count > 0;
    node->applied = node->update.commit;
    uint64_t disk_last =
        node->disk.log.last > node->disk.image_index ? node->disk.log.last : node->disk.image_index;
    if (node->applied > disk_last) {
        w_violate(world, "n%d may apply %llu, its disk ends at %llu", (int)node->id,
                  (ull)node->applied, (ull)disk_last); /* rule 12 */
    }
    if (node->update.role == RAFT_LEADER &&
        (node->role != RAFT_LEADER || node->term != node->update.term)) {
        check_leader(world, node, node->update.term);
    }
}

/* ------------------------------------------------------------------ reads */

void w_check_read(struct world *world, struct w_node *node, const struct raft_read_result *result) {
    for (size_t i = 0; i < node->read_count; i++) {
        if (node->reads[i].context != result->context) {
            continue;
        }
        if (result->rc == 0 && result->index < node->reads[i].floor) {
            w_violate(world, "a read at n%d may be served at %llu, %llu was committed before it",
                      (int)node->id, (ull)result->index, (ull)node->reads[i].floor);
        }
        node->reads[i] = node->reads[--node->read_count];
        if (result->rc == 0) {
            world->counts.reads_done++;
        } else {
            world->counts.reads_failed++;
        }
        return;
    }
    w_violate(world, "n%d finishes a read twice, or one nobody asked for", (int)node->id);
}
