/* Rot: entries that were durable and cannot be read, a lost image, a lost end; and what recovery makes
 * of it.
 *
 * The disk keeps what was there for the checks; the node gets what could be known: the terms of entries
 * whose own header, or whose successor's, is still there (see struct raft_gap). */
#include "tests/sim/raft_world_parts.h"

#include <stdlib.h>

typedef unsigned long long ull;

/* ------------------------------------------------------------------ who still has it */

static bool intact(const struct w_disk *disk, uint64_t index, const struct w_entry *entry) {
    if (index <= disk->image_index) {
        return true;
    }
    const struct w_entry *there = w_log_at(&disk->log, index);
    return there != NULL && !there->bad && there->term == entry->term && there->id == entry->id;
}

/* Another voter can give it back, or it was nobody else's. */
static bool spare(const struct world *world, const struct w_node *node, uint64_t index) {
    const struct w_entry *entry = &node->disk.log.items[index];
    bool committed = index <= world->committed_last;
    bool others = false;
    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct w_node *other = &world->nodes[i];
        if (other == node || !world->config.members[i].voter || other->disk.failing) {
            continue;
        }
        if (intact(&other->disk, index, entry) && !other->disk.end_unknown) {
            return true;
        }
        const struct w_entry *there = w_log_at(&other->disk.log, index);
        bool same = there != NULL && there->term == entry->term && there->id == entry->id;
        bool may_be = there != NULL && there->bad; /* nobody can tell any more that it is another */
        others = others || same || may_be || other->disk.end_unknown;
    }
    return !committed && !others;
}

/* ------------------------------------------------------------------ damage */

/* Entries that rotted, half of the times with their headers, else half of them without. */
void world_rot(struct world *world, uint64_t id, uint64_t first, uint64_t last, bool budget) {
    struct w_node *node = w_node(world, id);
    struct w_disk *disk = &node->disk;
    first = first > disk->log.first ? first : disk->log.first;
    last = last < disk->log.last ? last : disk->log.last;
    bool whole = prng_below(&world->prng, 2) == 0;
    for (uint64_t i = first; i <= last; i++) {
        if (!disk->log.items[i].bad && (!budget || spare(world, node, i))) {
            disk->log.items[i].bad = true;
            disk->log.items[i].header = !whole && prng_below(&world->prng, 2) == 0;
            world->counts.rotten++;
            w_trace(world, "n%d's entry %llu rots", (int)id, (ull)i);
        }
    }
}

void world_rot_whole(struct world *world, uint64_t id, uint64_t first, uint64_t last) {
    world_rot(world, id, first, last, false);
    struct w_log *log = &w_node(world, id)->disk.log;
    for (uint64_t i = first; i <= last && w_log_at(log, i) != NULL; i++) {
        log->items[i].header = false;
    }
}

/* A scrub: everything rotten that is not known yet is found. */
void world_scrub(struct world *world, uint64_t id) {
    struct w_node *node = w_node(world, id);
    for (uint64_t i = node->disk.log.first; node->raft != NULL && i <= node->disk.log.last; i++) {
        if (node->disk.log.items[i].bad) {
            w_found(world, node, i);
        }
    }
}

/* The image of a node that is down. */
void world_lose_image(struct world *world, uint64_t id, bool budget) {
    struct w_node *node = w_node(world, id);
    struct w_disk *disk = &node->disk;
    if (node->raft != NULL || disk->image_index == 0) {
        return;
    }
    uint64_t first = disk->log.first, image = disk->image_index;
    if (first == image + 1) { /* else it is in the items still */
        w_log_items(&disk->log, image);
        disk->log.items[image] = (struct w_entry){.term = disk->image_term};
    }
    for (uint64_t i = 1; budget && i <= image; i++) {
        bool others = false;
        for (size_t k = 0; k < world->options.nodes; k++) {
            const struct w_node *other = &world->nodes[k];
            others = others ||
                     (other != node && world->config.members[k].voter &&
                      i <= world->committed_last && intact(&other->disk, i, &world->committed[i]));
        }
        if (!others) {
            return;
        }
    }
    for (uint64_t i = 1; i < first; i++) {
        disk->log.items[i].bad = disk->log.items[i].gone = true;
        disk->log.items[i].header = false;
    }
    disk->log.first = 1;
    disk->image_index = disk->image_term = 0;
    world->counts.rotten++;
    w_trace(world, "n%d's image is lost", (int)id);
}

/* The newest `count` entries of a node that is down, and any trace of how many there were. */
void world_lose_end(struct world *world, uint64_t id, uint64_t count, bool budget) {
    struct w_node *node = w_node(world, id);
    struct w_disk *disk = &node->disk;
    uint64_t floor =
        disk->image_index > disk->log.first - 1 ? disk->image_index : disk->log.first - 1;
    if (node->raft != NULL || disk->log.last <= floor) {
        return;
    }
    bool voter = world->config.members[id - 1].voter;
    if (budget && voter && world->options.nodes - world->options.learners < 3) {
        return;
    }
    for (size_t i = 0; budget && i < world->options.nodes; i++) {
        const struct w_log *log = &world->nodes[i].disk.log;
        if (world->nodes[i].disk.end_unknown) {
            return; /* those who know theirs must be a quorum without the one */
        }
        for (uint64_t k = log->first; k <= log->last; k++) {
            if (log->items[k].bad) {
                return; /* nobody could know whether this node had it */
            }
        }
    }
    uint64_t last = disk->log.last > floor + count ? disk->log.last - count : floor;
    for (uint64_t i = last + 1; budget && i <= disk->log.last; i++) {
        if (!spare(world, node, i)) {
            return;
        }
    }
    while (last > floor && disk->log.items[last].bad) {
        last--; /* a known end is one that can be read */
    }
    disk->log.last = last;
    disk->end_unknown = true;
    disk->lost_end_boot = node->boot;
    world->counts.lost_ends++;
    w_trace(world, "n%d's end is lost, %llu is the last", (int)id, (ull)last);
}

/* ------------------------------------------------------------------ finding it */

void w_found(struct world *world, struct w_node *node, uint64_t index) {
    struct w_entry *entry = (struct w_entry *)w_log_at(&node->log, index);
    if (entry == NULL || entry->bad) {
        return;
    }
    struct raft_status status;
    raft_status(node->raft, &status);
    entry->bad = index <= status.durable; /* else it is one that a cut on its way replaces */
    struct raft_event event = {.kind = RAFT_DAMAGED};
    event.damaged.first = event.damaged.last = index;
    w_step(world, node, &event, NULL);
}

void world_reread(struct world *world, uint64_t id, uint64_t count) {
    struct w_node *node = w_node(world, id);
    struct raft_gap gap;
    if (node->raft == NULL || raft_gaps(node->raft, &gap, 1) == 0) {
        return;
    }
    count = count < gap.last - gap.first + 1 ? count : gap.last - gap.first + 1;
    for (uint64_t i = 0; i < count; i++) {
        count = node->disk.log.items[gap.first + i].gone ? i : count;
    }
    if (count == 0) {
        return;
    }
    struct w_packet *packet = calloc(1, sizeof *packet);
    if (packet == NULL || (packet->metas = calloc(count, sizeof *packet->metas)) == NULL ||
        (packet->ids = calloc(count, sizeof *packet->ids)) == NULL) {
        abort();
    }
    for (uint64_t i = 0; i < count; i++) { /* what a disk does not return, it still has */
        const struct w_entry *entry = &node->disk.log.items[gap.first + i];
        packet->metas[i] = (struct raft_entry_meta){
            .term = entry->term, .size = entry->size, .type = ENTRY_COMMAND};
        packet->ids[i] = entry->id;
    }
    packet->token = ++world->next_token;
    packet->message.kind = RAFT_REPAIR_REPLY;
    packet->message.repair_reply.first = gap.first;
    packet->message.repair_reply.count = (uint32_t)count;
    packet->message.repair_reply.shared_index = gap.first + count - 1;
    w_packet_point(packet);
    struct raft_event event = {.kind = RAFT_REREAD};
    event.reread.message = &packet->message;
    event.reread.token = packet->token;
    w_step(world, node, &event, packet);
    world->counts.reread += node->update.fill_count > 0 ? count : 0;
}

void world_doubt_end(struct world *world, uint64_t id) {
    struct w_node *node = w_node(world, id);
    if (node->raft != NULL) {
        node->disk.end_unknown = true;
        struct raft_event event = {.kind = RAFT_END_DOUBTED};
        w_step(world, node, &event, NULL);
    }
}

/* ------------------------------------------------------------------ made up beginnings */

static struct w_entry placed(uint64_t index, uint64_t term) {
    return (struct w_entry){.term = term, .id = index * 1000 + term, .size = 1};
}

void world_place(struct world *world, uint64_t id, const uint8_t *terms, size_t count,
                 uint64_t term) {
    struct w_disk *disk = &w_node(world, id)->disk;
    disk->log.last = disk->log.first - 1;
    for (size_t i = 1; i <= count; i++) {
        w_log_put(&disk->log, i, placed(i, terms[i - 1]));
    }
    disk->term = term;
    disk->voted_for = 0;
}

void world_place_committed(struct world *world, const uint8_t *terms, size_t count) {
    world->committed =
        w_grow(world->committed, &world->committed_capacity, count + 1, sizeof *world->committed);
    for (size_t i = 1; i <= count; i++) {
        world->committed[i] = placed(i, terms[i - 1]);
    }
    world->committed_last = count;
}

/* ------------------------------------------------------------------ recovery */

static bool term_known(const struct w_log *log, uint64_t index) {
    const struct w_entry *items = log->items;
    return items[index].header || index == log->last || !items[index + 1].bad ||
           items[index + 1].header;
}

struct raft_gap *w_gaps_of(const struct w_disk *disk, size_t *count) {
    const struct w_log *log = &disk->log;
    struct raft_gap *gaps = NULL;
    size_t capacity = 0;
    *count = 0;
    uint64_t first = 0;
    uint64_t from = disk->image_index >= log->first ? disk->image_index + 1 : log->first;
    for (uint64_t i = from; i <= log->last; i++) {
        if (!log->items[i].bad) {
            continue;
        }
        first = first != 0 ? first : i;
        if (!term_known(log, i)) {
            continue;
        }
        gaps = w_grow(gaps, &capacity, *count + 1, sizeof *gaps);
        gaps[(*count)++] =
            (struct raft_gap){.first = first, .last = i, .last_term = log->items[i].term};
        first = 0;
    }
    return gaps;
}

/* Of entries whose term is not known, that of the last one before it is stated, or the next known. */
struct raft_run *w_runs_of(struct world *world, const struct w_disk *disk, size_t *count) {
    const struct w_log *log = &disk->log;
    struct raft_run *runs = NULL;
    size_t capacity = 0;
    bool low = world->counts.rotten > 0 && prng_below(&world->prng, 2) == 0;
    uint64_t term =
        log->first == disk->image_index + 1 && disk->image_term > 0 ? disk->image_term : 1;
    *count = 0;
    for (uint64_t i = log->first; i <= log->last; i++) {
        uint64_t known = i;
        while (log->items[known].bad && !term_known(log, known)) {
            known++;
        }
        term = known == i || !low ? log->items[known].term : term;
        if (*count == 0 || runs[*count - 1].term != term) {
            runs = w_grow(runs, &capacity, *count + 1, sizeof *runs);
            runs[(*count)++] = (struct raft_run){.first = i, .term = term};
        }
    }
    return runs;
}
