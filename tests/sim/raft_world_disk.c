/* Logs in memory and on disk, and what a sync, a crash or a failure does to them. */
#include "tests/sim/raft_world_parts.h"

#include <stdlib.h>
#include <string.h>

void w_log_put(struct w_log *log, uint64_t index, struct w_entry entry) {
    log->items = w_grow(log->items, &log->capacity, (size_t)index + 1, sizeof *log->items);
    log->items[index] = entry;
    log->last = index;
}

const struct w_entry *w_log_at(const struct w_log *log, uint64_t index) {
    return index >= log->first && index <= log->last ? &log->items[index] : NULL;
}

void w_log_items(struct w_log *log, uint64_t index) {
    log->items = w_grow(log->items, &log->capacity, (size_t)index + 1, sizeof *log->items);
}

static void push(struct world *world, struct w_node *node, struct w_write item) {
    struct w_disk *disk = &node->disk;
    disk->queue = w_grow(disk->queue, &disk->capacity, disk->count + 1, sizeof *disk->queue);
    disk->queue[disk->count++] = item;
    w_disk_begin(world, node);
}

void w_disk_settle(struct world *world, struct w_node *node) {
    push(world, node, (struct w_write){.write = {.first = 1}});
}

void w_disk_write(struct world *world, struct w_node *node, const struct raft_write *write,
                  const struct raft_fill *fill) {
    struct w_write item = {.write = *write};
    if (fill != NULL) {
        size_t count = (size_t)(fill->last + 1 - fill->first);
        item.fill_first = fill->first;
        item.fill_last = fill->last;
        item.entries = w_grow(NULL, &(size_t){0}, count, sizeof *item.entries);
        for (size_t i = 0; i < count; i++) {
            item.entries[i] = *w_log_at(&node->log, fill->first + i);
            item.entries[i].bad = false;
        }
        if (write->cut_from != 0 || write->last >= write->first || write->no == 0) {
            w_violate(world, "n%d fills and writes in one", (int)node->id);
        }
    }
    if (write->last >= write->first) {
        size_t count = (size_t)(write->last + 1 - write->first);
        item.entries = w_grow(NULL, &(size_t){0}, count, sizeof *item.entries);
        for (size_t i = 0; i < count; i++) {
            item.entries[i] = *w_log_at(&node->log, write->first + i);
        }
    }
    push(world, node, item);
}

/* Group commit: everything that waits goes with one sync. */
void w_disk_begin(struct world *world, struct w_node *node) {
    struct w_disk *disk = &node->disk;
    if (disk->busy > 0 || disk->count == 0 || disk->hung) {
        return;
    }
    disk->busy = disk->count;
    uint64_t us = disk->min_us + prng_below(&world->prng, disk->max_us - disk->min_us + 1u);
    for (size_t i = 0; i < disk->busy; i++) {
        if (disk->queue[i].write.save_vote) {
            us *= 2; /* two slots, in turn */
            break;
        }
    }
    disk->done_ns = world->now_ns + us * 1000;
}

/* The new segment's header carries the term before it: that of a gap's last entry from now on. */
static void cut(struct world *world, struct w_node *node, const struct raft_write *write) {
    struct w_log *log = &node->disk.log;
    log->last = write->cut_from - 1;
    if (log->last < log->first) {
        return;
    }
    struct w_entry *end = &log->items[log->last];
    if (end->bad && end->term != write->cut_prev_term) {
        *end = (struct w_entry){.term = write->cut_prev_term, .bad = true};
    } else if (end->term != write->cut_prev_term && log->last != node->disk.image_index) {
        w_violate(world, "n%d cuts behind term %llu, there is %llu", (int)node->id,
                  (unsigned long long)write->cut_prev_term, (unsigned long long)end->term);
    }
}

/* As the log does it: from a gap's beginning. What left the log meanwhile is passed over. */
static void fill(struct world *world, struct w_node *node, const struct w_write *item) {
    struct w_log *log = &node->disk.log;
    for (uint64_t i = item->fill_first; i <= item->fill_last; i++) {
        if (i < log->first || i > log->last) {
            continue;
        }
        log->items[i] = item->entries[i - item->fill_first];
        if (w_log_at(&node->log, i) != NULL && node->log.items[i].id == log->items[i].id) {
            node->log.items[i].bad = false;
        }
        world->counts.filled++;
    }
}

/* The first `entries_max` entries of a write, behind its vote record and its cut. */
static void put_on_disk(struct world *world, struct w_node *node, const struct w_write *item,
                        size_t entries_max) {
    struct w_disk *disk = &node->disk;
    const struct raft_write *write = &item->write;
    if (write->save_vote) {
        w_check_vote_write(world, node, write);
        disk->term = write->term;
        disk->voted_for = write->voted_for;
        disk->promised_ms = write->promised_ms;
    }
    if (write->cut_from != 0 && write->cut_from <= disk->log.last) {
        cut(world, node, write);
    }
    if (item->fill_first != 0) {
        fill(world, node, item);
        return;
    }
    if (write->no == 0) {
        disk->end_unknown = false;
        return;
    }
    for (uint64_t index = write->first; index <= write->last; index++) {
        if (index - write->first >= entries_max) {
            return;
        }
        if (index != disk->log.last + 1) {
            w_violate(world, "n%d writes entry %llu behind %llu", (int)node->id,
                      (unsigned long long)index, (unsigned long long)disk->log.last);
        }
        w_log_put(&disk->log, index, item->entries[index - write->first]);
    }
}

static void drop_front(struct w_disk *disk, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(disk->queue[i].entries);
    }
    disk->count -= count;
    if (disk->count == 0) {
        return;
    }
    memmove(disk->queue, disk->queue + count, disk->count * sizeof *disk->queue);
}

void w_disk_done(struct world *world, struct w_node *node) {
    struct w_disk *disk = &node->disk;
    struct raft_event event = {.kind = RAFT_WRITE_FAILED};
    bool settled = false;
    if (!disk->failing) {
        for (size_t i = 0; i < disk->busy; i++) {
            put_on_disk(world, node, &disk->queue[i], SIZE_MAX);
        }
        event.kind = RAFT_PERSISTED;
        for (size_t i = 0; i < disk->busy; i++) {
            settled = settled || disk->queue[i].write.no == 0;
            event.persisted.write_no =
                disk->queue[i].write.no > 0 ? disk->queue[i].write.no : event.persisted.write_no;
        }
    } else {
        disk->hung = true; /* nothing is written there any more */
    }
    drop_front(disk, disk->busy);
    disk->busy = 0;
    disk->done_ns = UINT64_MAX;
    w_disk_begin(world, node);
    if (event.kind == RAFT_WRITE_FAILED || event.persisted.write_no > 0) {
        w_step(world, node, &event, NULL);
    }
    if (settled) {
        world->counts.settled++;
        event.kind = RAFT_END_SETTLED;
        w_step(world, node, &event, NULL);
    }
}

/* A power cut: unsynced writes are lost, but for some that happened to get there, in order. */
void w_disk_crash(struct world *world, struct w_node *node, bool keep_some) {
    struct w_disk *disk = &node->disk;
    if (keep_some && disk->count > 0 && !disk->failing) {
        size_t whole = (size_t)prng_below(&world->prng, disk->count + 1);
        for (size_t i = 0; i < whole; i++) {
            put_on_disk(world, node, &disk->queue[i], SIZE_MAX);
        }
        if (whole < disk->count && prng_below(&world->prng, 2) == 0) {
            put_on_disk(world, node, &disk->queue[whole], (size_t)prng_below(&world->prng, 4));
        }
    }
    w_disk_forget(disk);
}

void w_disk_forget(struct w_disk *disk) {
    drop_front(disk, disk->count);
    disk->busy = 0;
    disk->done_ns = UINT64_MAX;
    disk->failing = false;
}
