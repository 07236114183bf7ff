/* Rot of what lies at rest on a node's disk: within what rule 11 promises to repair, unless there is no budget.
 *
 * It strikes only when all that the node has written is covered by marks on the disk, in the segment
 * and in the vote file: what rots above the mark cannot be told from a torn write, which is documented,
 * and no store could survive it in two places. And it strikes either only a minority of the nodes, in any
 * way (SIM_ROT_FEW), or all of them, each in entries of its own (SIM_ROT_APART, S25), so that every
 * acknowledged entry keeps a good copy; or, without a budget (SIM_ROT_ANY, S26), anything anywhere. */
#include "tests/sim/world.h"

#include "base/assert.h"
#include "log/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DATA "top/db/data"

enum { PATHS_MAX = 512, APART_RUN = 4 }; /* APART_RUN: neighbours that rot on one node */

/* ------------------------------------------------------------------ what lies where */

struct place {
    char path[64];
    uint64_t offset, size, index, term;
};

struct places {
    struct place *list; /* owned; in file order */
    size_t count, capacity;
};

static int collect(void *arg, const struct log_visit *what) {
    struct places *places = arg;
    if (what->kind != LOG_RECORD) {
        return 0;
    }
    if (places->count == places->capacity) {
        places->capacity = places->capacity * 2 + 64;
        places->list = realloc(places->list, places->capacity * sizeof(*places->list));
        ASSERT(places->list != NULL);
    }
    struct place *place = &places->list[places->count++];
    *place = (struct place){.offset = what->offset,
                            .index = what->index,
                            .term = what->term,
                            .size = record_size(what->payload.size)};
    (void)snprintf(place->path, sizeof(place->path), DATA "/%s", what->file);
    return 0;
}

/* The records that would be there after the worst power cut. */
static struct places find_records(struct sim_node *node) {
    struct places places = {0};
    struct reason why;
    struct sim_disk *copy = sim_disk_clone(node->disk, 1);
    sim_disk_forget_unsynced(copy);
    /* What is unreadable already may end it early. */
    (void)!log_walk(sim_disk_seam(copy), DATA, node->node != NULL ? node->node->image_index : 0,
                    collect, &places, &why);
    sim_disk_free(copy);
    return places;
}

/* ------------------------------------------------------------------ how it rots */

/* What the page cache still has is not seen before it forgets it. */
static enum sim_rot_where draw_where(struct sim_world *world) {
    bool hidden = world->plan.rot_writes && prng_below(&world->prng_rot, 3) == 0;
    return hidden ? SIM_ROT_MEDIUM : SIM_ROT_BOTH;
}

static bool spoil(struct sim_node *node, enum sim_rot_kind kind, const char *path, uint64_t offset,
                  uint64_t size) {
    struct sim_world *world = node->world;
    enum sim_rot_where where = draw_where(world);
    uint64_t at = offset + prng_below(&world->prng_rot, size);
    uint64_t sector = at / 512 * 512;
    bool done = false;
    if (kind == SIM_ROT_BIT) {
        done = sim_disk_flip_bit(node->disk, path, at, (unsigned)prng_below(&world->prng_rot, 8),
                                 where);
    } else if (kind == SIM_ROT_ZERO) {
        done = sim_disk_zero(node->disk, path, sector, 512, where);
    } else if (kind == SIM_ROT_UNWRITTEN) {
        done = sim_disk_zero(node->disk, path, offset, size, where);
    } else if (kind == SIM_ROT_UNREADABLE) {
        done = sim_disk_unreadable(node->disk, path, sector, 512);
        node->bad_sectors = node->bad_sectors || done;
    } else if (kind == SIM_ROT_LOST) {
        done = sim_disk_unlink(node->disk, path);
    }
    sim_world_tell(world, "%s: rot %d in %s at %" PRIu64 "%s", node->name, (int)kind, path, at,
                   done ? "" : ": none");
    world->counts.rots += done;
    world->counts.rot_kinds[kind] += done;
    node->damaged = node->damaged || (done && world->plan.rot_budget == SIM_ROT_ANY);
    return done;
}

static bool spoil_in(struct sim_node *node, enum sim_rot_place place, enum sim_rot_kind kind,
                     const char *path, uint64_t offset, uint64_t size) {
    bool done = spoil(node, kind, path, offset, size);
    node->world->counts.rot_places[place] += done;
    node->maimed = node->maimed || (done && place != SIM_ROT_IN_RECORD);
    return done;
}

bool sim_rot_mark_held(struct sim_node *node, bool *held) {
    const struct sim_model *model = &node->world->model;
    struct places places = {0};
    struct reason why;
    struct sim_disk *copy = sim_disk_clone(node->disk, 1);
    (void)!log_walk(sim_disk_seam(copy), DATA, node->image_index, collect, &places, &why);
    sim_disk_free(copy);
    bool whole = true;
    for (size_t i = 0; i < places.count; i++) {
        const struct place *place = &places.list[i];
        uint64_t before = i > 0 ? places.list[i - 1].index : node->image_index;
        whole = whole && (place->index <= before + 1 || place->index <= model->commit + 1);
        if (place->index <= model->commit && model->committed[place->index]->term == place->term) {
            held[place->index] = true;
        }
    }
    free(places.list);
    return whole;
}

bool sim_rot_entry(struct sim_node *node, uint64_t index, enum sim_rot_kind kind) {
    struct places places = find_records(node);
    bool done = false;
    for (size_t i = 0; i < places.count && !done; i++) {
        const struct place *place = &places.list[i];
        done = place->index == index &&
               spoil_in(node, SIM_ROT_IN_RECORD, kind, place->path, place->offset, place->size);
    }
    free(places.list);
    return done;
}

/* The i-th path under `folder`, or NULL. */
static const char *path_under(const struct sim_node *node, const char *folder, const char *tail,
                              size_t i) {
    const char *path;
    for (size_t n = 0; (path = sim_disk_path(node->disk, n)) != NULL; n++) {
        size_t size = strlen(path), end = strlen(tail);
        if (strncmp(path, folder, strlen(folder)) == 0 && size > end &&
            strcmp(path + size - end, tail) == 0 && i-- == 0) {
            return path;
        }
    }
    return NULL;
}

static size_t count_under(const struct sim_node *node, const char *folder, const char *tail) {
    size_t count = 0;
    while (count < PATHS_MAX && path_under(node, folder, tail, count) != NULL) {
        count++;
    }
    return count;
}

static bool rot_file(struct sim_node *node, enum sim_rot_kind kind, const char *folder,
                     const char *tail, size_t i, uint64_t size_max) {
    enum sim_rot_place place = strcmp(folder, DATA) == 0 ? SIM_ROT_IN_HEADER : SIM_ROT_IN_IMAGE;
    const char *path = path_under(node, folder, tail, i);
    struct slice bytes;
    if (path == NULL || !sim_disk_peek(node->disk, path, &bytes) || bytes.size == 0) {
        return false;
    }
    char copy[128];
    (void)snprintf(copy, sizeof(copy), "%s", path);
    uint64_t size = bytes.size / 512 * 512;
    if (size == 0) { /* of less than a sector */
        size = bytes.size;
        kind = kind == SIM_ROT_LOST ? kind : SIM_ROT_BIT;
    }
    return spoil_in(node, place, kind, copy, 0, size < size_max ? size : size_max);
}

bool sim_rot_segment(struct sim_node *node, enum sim_rot_kind kind, size_t back) {
    size_t count = count_under(node, DATA, ".seg");
    return back < count && rot_file(node, kind, DATA, ".seg", count - 1 - back, LOG_HEADER_SIZE);
}

bool sim_rot_image(struct sim_node *node, enum sim_rot_kind kind) {
    size_t count = count_under(node, "top/db/image", ".img");
    return count > 0 && rot_file(node, kind, "top/db/image", ".img", count - 1, UINT64_MAX);
}

bool sim_rot_vote(struct sim_node *node) {
    return spoil_in(node, SIM_ROT_IN_VOTE, SIM_ROT_BIT, DATA "/vote", 0, LOG_HEADER_SIZE);
}

/* ------------------------------------------------------------------ when, and where */

/* All that was written is on the disk, and the disk says so in both places. */
bool sim_rot_possible(const struct sim_node *node) {
    const struct node *n = node->node;
    return sim_node_runs(node) && node->state == SIM_UP && !n->mark_due && !n->log_failed &&
           n->jobs_outstanding == 0 && n->batch.no == 0 && list_empty(&n->full_jobs) &&
           !n->installing && n->receive == NULL && log_bytes(n->log) > 0;
}

static enum sim_rot_kind draw_kind(struct sim_world *world) {
    static const enum sim_rot_kind kinds[] = {SIM_ROT_BIT, SIM_ROT_BIT, SIM_ROT_ZERO,
                                              SIM_ROT_UNREADABLE};
    return kinds[prng_below(&world->prng_rot, sizeof(kinds) / sizeof(kinds[0]))];
}

/* Of a record, where it can also be that a write never came, or came elsewhere. */
static enum sim_rot_kind draw_record_kind(struct sim_world *world) {
    if (!world->plan.rot_writes || prng_below(&world->prng_rot, 3) > 0) {
        return draw_kind(world);
    }
    return prng_below(&world->prng_rot, 2) == 0 ? SIM_ROT_UNWRITTEN : SIM_ROT_MISDIRECTED;
}

/* What was written for `place` lies over another record, and where it belongs is what was there before. */
static void misdirect(struct sim_node *node, const struct place *place, const struct place *over) {
    struct sim_world *world = node->world;
    struct slice file;
    if (!sim_disk_peek(node->disk, place->path, &file) || place->offset + place->size > file.size) {
        return;
    }
    uint64_t size = place->size < over->size ? place->size : over->size;
    uint8_t *copy = malloc(size);
    ASSERT(copy != NULL);
    memcpy(copy, file.data + place->offset, size);
    bool done = sim_disk_poke(node->disk, over->path, over->offset, slice_of(copy, size)) &&
                sim_disk_zero(node->disk, place->path, place->offset, place->size, SIM_ROT_BOTH);
    free(copy);
    world->counts.rots += done;
    world->counts.rot_kinds[SIM_ROT_MISDIRECTED] += done;
    world->counts.rot_places[SIM_ROT_IN_RECORD] += done;
    node->damaged = node->damaged || (done && world->plan.rot_budget == SIM_ROT_ANY);
    sim_world_tell(world, "%s: the write of %s at %" PRIu64 " went to %s at %" PRIu64, node->name,
                   place->path, place->offset, over->path, over->offset);
}

/* Each node has entries of its own to lose: all records that the place touches must be such. */
static bool is_apart(const struct sim_node *node, const struct places *places, size_t i,
                     enum sim_rot_kind kind) {
    const struct place *struck = &places->list[i];
    uint64_t first = struck->offset, end = first + struck->size;
    if (kind != SIM_ROT_BIT) {
        first = first / 512 * 512;
        end = (end + 511) / 512 * 512;
    }
    for (size_t k = 0; k < places->count; k++) {
        const struct place *place = &places->list[k];
        bool touched = strcmp(place->path, struck->path) == 0 && place->offset < end &&
                       place->offset + place->size > first;
        if (touched && place->index / APART_RUN % node->world->plan.nodes != node->number) {
            return false;
        }
    }
    return true;
}

/* The newest record stays: the next one is written to the rest of its sector. And the budget. */
static bool may_rot(const struct sim_node *node, const struct places *places, size_t i,
                    enum sim_rot_kind kind) {
    const struct place *place = &places->list[i], *last = &places->list[places->count - 1];
    bool behind = strcmp(place->path, last->path) == 0 &&
                  (place->offset + place->size + 511) / 512 * 512 > last->offset;
    return !behind &&
           (node->world->plan.rot_budget != SIM_ROT_APART || is_apart(node, places, i, kind));
}

static void rot_records(struct sim_node *node) {
    struct sim_world *world = node->world;
    struct places places = find_records(node);
    bool any = world->plan.rot_budget == SIM_ROT_ANY;
    uint64_t wanted = 1 + prng_below(&world->prng_rot, any ? 12 : 4);
    for (uint64_t tries = 0; tries < 4 * wanted && places.count > 1; tries++) {
        size_t i = (size_t)prng_below(&world->prng_rot, places.count - 1);
        const struct place *place = &places.list[i];
        enum sim_rot_kind kind = draw_record_kind(world);
        if (!may_rot(node, &places, i, kind)) {
            continue;
        }
        if (kind != SIM_ROT_MISDIRECTED) {
            (void)spoil_in(node, SIM_ROT_IN_RECORD, kind, place->path, place->offset, place->size);
            continue;
        }
        size_t over = (size_t)prng_below(&world->prng_rot, places.count - 1);
        if (over != i && may_rot(node, &places, over, kind)) {
            misdirect(node, place, &places.list[over]);
        }
    }
    free(places.list);
}

static void rot_anything(struct sim_node *node) {
    struct sim_world *world = node->world;
    uint64_t what = prng_below(&world->prng_rot, 12);
    bool lost = prng_below(&world->prng_rot, 3) == 0;
    enum sim_rot_kind kind = lost ? SIM_ROT_LOST : draw_kind(world);
    if (what < 5) {
        rot_records(node);
    } else if (what < 7) {
        size_t count = count_under(node, DATA, ".seg");
        size_t back = prng_below(&world->prng_rot, 2) == 0
                          ? 0
                          : (size_t)prng_below(&world->prng_rot, count + 1);
        (void)sim_rot_segment(node, kind, back);
    } else if (what < 11) {
        (void)sim_rot_image(node, kind);
    } else {
        (void)sim_rot_vote(node);
        sim_node_die(node, prng_below(&world->prng_rot, 2) == 0); /* before a vote meets it */
    }
}

/* It strikes this node as soon as it may. */
void sim_rot_begin(struct sim_world *world, struct sim_node *node) {
    bool may =
        world->plan.rot_budget == SIM_ROT_APART || world->plan.rot_budget == SIM_ROT_ANY ||
        (world->plan.rot_budget == SIM_ROT_FEW && node->number < (world->plan.nodes - 1) / 2);
    node->rot_wanted = may && (world->plan.nodes > 1 || world->plan.rot_budget == SIM_ROT_ANY);
    bool everywhere = world->plan.rot_budget == SIM_ROT_ANY && prng_below(&world->prng_rot, 3) == 0;
    for (size_t i = 0; everywhere && i < world->plan.nodes; i++) {
        world->nodes[i].rot_wanted = true;
    }
}

void sim_rot_strike(struct sim_node *node) {
    struct sim_world *world = node->world;
    if (!node->rot_wanted || !sim_rot_possible(node)) {
        return;
    }
    node->rot_wanted = false;
    if (world->plan.rot_budget != SIM_ROT_APART) {
        rot_anything(node);
    } else {
        rot_records(node);
    }
    uint64_t next = prng_below(&world->prng_rot, 4);
    if (next < 2) {
        sim_node_die(node, next == 0);
    }
}
