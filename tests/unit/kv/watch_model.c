/* Many watches at random against a plain list of all changes that there ever were: what each of them gets, put
 * together, is the changes of its range from its start, each once, in order, in whole revisions. */
#include "base/prng.h"
#include "feed.h"
#include "kv/image.h"
#include "kv/watch.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

enum { WATCHES = 60, KEYS = 40, STEPS = 1500, CHANGES_MAX = STEPS * KEYS, BATCH = 6 };

struct model_change {
    uint64_t revision, number; /* number: the value that was put */
    uint32_t sub;
    unsigned key;
    bool deleted;
    uint64_t previous; /* the value that was there; 0: none */
};

struct watcher {
    struct kv_watch watch;
    char from[8], to[8];
    size_t at;         /* in the model: the next change that it is due */
    uint64_t last;     /* revision of the last event that it got */
    bool within;       /* ... which goes on */
    bool active;       /* has a range and a start */
    size_t got, ended; /* over all */
};

struct world {
    struct feed feed;
    struct kv_watches *watches;
    struct sim_disk *sim;
    struct prng prng;
    struct model_change changes[CHANGES_MAX];
    size_t count;
    uint64_t present[KEYS]; /* value of each key; 0: none */
    uint64_t revision, number, kept_from;
    struct watcher readers[WATCHES];
};

static void key_text(char into[8], unsigned key) {
    (void)snprintf(into, 8, "k%02u", key);
}

/* ---------------------------------------------------------------------------- changes */

static void add_change(struct world *world, unsigned key, uint64_t number, uint32_t sub) {
    cr_assert_lt(world->count, CHANGES_MAX);
    world->changes[world->count++] = (struct model_change){.revision = world->revision,
                                                           .number = number,
                                                           .sub = sub,
                                                           .key = key,
                                                           .deleted = number == 0,
                                                           .previous = world->present[key]};
    world->present[key] = number;
}

/* Makes a command, and does to the model what it does. */
static struct blob *make_command(struct world *world) {
    char key[8], end[8], value[24];
    unsigned first = (unsigned)prng_below(&world->prng, KEYS);
    struct kv_command command = {.op = KV_PUT};
    key_text(key, first);
    command.key = slice_text(key);
    if (prng_below(&world->prng, 12) == 0) {
        uint64_t span = world->revision - world->kept_from;
        command = (struct kv_command){
            .op = KV_COMPACT, .revision = world->kept_from + prng_below(&world->prng, span + 1)};
        if (command.revision > world->kept_from && command.revision <= world->revision) {
            world->kept_from = command.revision;
        }
    } else if (prng_below(&world->prng, 4) == 0) {
        unsigned beyond = first + 1 + (unsigned)prng_below(&world->prng, 8);
        beyond = beyond < KEYS ? beyond : KEYS;
        key_text(end, beyond);
        command.op = KV_DELETE;
        command.end = slice_text(end);
        uint32_t sub = 0;
        for (unsigned at = first; at < beyond; at++) {
            if (world->present[at] != 0) {
                world->revision += sub == 0;
                add_change(world, at, 0, sub++);
            }
        }
    } else {
        (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)++world->number);
        command.value = slice_text(value);
        world->revision++;
        add_change(world, first, world->number, 0);
    }
    struct blob *payload = kv_command_encode(&command);
    cr_assert_not_null(payload);
    return payload;
}

/* Some commands in one call, so that they are shown together. */
static void apply_some(struct world *world) {
    struct entry entries[BATCH];
    struct kv_result results[BATCH];
    size_t count = 1 + prng_below(&world->prng, BATCH), applied = 0;
    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct entry){.index = world->feed.index + 1 + i,
                                    .term = 1,
                                    .type = ENTRY_COMMAND,
                                    .payload = make_command(world)};
    }
    cr_assert_eq(kv_apply(world->feed.kv, entries, count, results, &applied, NULL), 0);
    cr_assert_eq(applied, count);
    world->feed.index += count;
    struct kv_stamp stamp;
    kv_stamp(world->feed.kv, &stamp);
    cr_assert(stamp.revision == world->revision && stamp.kept_from == world->kept_from);
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
        kv_result_fini(&results[i]);
    }
}

static void save(struct world *world) {
    struct kv_view *view;
    cr_assert_eq(kv_view_open(world->feed.kv, &view), 0);
    cr_assert_eq(kv_image_save(view, sim_disk_seam(world->sim), "d", "d/i",
                               (struct kv_owner){.cluster_id = 9, .group_id = 1}, (struct slice){0},
                               NULL, NULL, NULL),
                 0);
    kv_view_close(view);
}

static struct kv *load(struct world *world) {
    const struct kv_options options = {.hash_seed = 7, .feature_level = KV_LEVEL_HISTORY};
    struct kv *kv;
    cr_assert_eq(
        kv_image_load(&kv, &options, sim_disk_seam(world->sim), "d/i", NULL, NULL, NULL, NULL), 0);
    return kv;
}

/* An image takes the place of the state: of the same moment, or of a later one, with less history. */
static void restore(struct world *world, bool later) {
    save(world);
    struct kv *other = load(world);
    if (later) {
        struct kv *mine = world->feed.kv;
        world->feed.kv = other;
        for (int i = 0; i < 5; i++) {
            apply_some(world);
        }
        save(world);
        kv_close(other);
        world->feed.kv = mine;
        other = load(world);
    }
    kv_restore(world->feed.kv, other);
}

/* ---------------------------------------------------------------------------- readers */

static bool lies_in(const struct watcher *reader, unsigned key) {
    char text[8];
    key_text(text, key);
    return strcmp(text, reader->from) >= 0 && (reader->to[0] == 0 || strcmp(text, reader->to) < 0);
}

static bool is_due(const struct watcher *reader, const struct model_change *change) {
    bool unwanted = change->deleted ? reader->watch.no_deletes : reader->watch.no_puts;
    return !unwanted && lies_in(reader, change->key);
}

/* The next change that it is due, or the end. */
static size_t next_due(const struct world *world, const struct watcher *reader) {
    size_t at = reader->at;
    while (at < world->count && !is_due(reader, &world->changes[at])) {
        at++;
    }
    return at;
}

static bool is_at_or_after(const struct model_change *change, struct kv_place place) {
    const struct kv_place at = {.revision = change->revision, .sub = change->sub};
    return !place_is_before(at, place);
}

static void expect_event(const struct kv_event *event, const struct model_change *change,
                         bool with_previous, bool may_be_gone) {
    char key[8], value[24];
    key_text(key, change->key);
    (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)change->number);
    cr_assert(slice_equal(event->item.key, slice_text(key)));
    cr_assert_eq(event->item.mod_rev, change->revision, "%s: revision %zu, expected %zu", key,
                 (size_t)event->item.mod_rev, (size_t)change->revision);
    cr_assert_eq(event->item.version == 0, change->deleted);
    cr_assert(slice_equal(event->item.value, slice_text(change->deleted ? "" : value)));
    (void)snprintf(value, sizeof(value), "%llu", (unsigned long long)change->previous);
    bool told = event->previous.version != 0;
    cr_assert(!told || (with_previous && change->previous != 0));
    cr_assert(told || !with_previous || change->previous == 0 || may_be_gone);
    cr_assert(!told || slice_equal(event->previous.value, slice_text(value)));
}

/* What it got is what it was due; and before its new place it is due nothing more. */
static void take_events(struct world *world, struct watcher *reader) {
    struct kv_watch *watch = &reader->watch;
    for (size_t i = 0; i < watch->count; i++) {
        size_t at = next_due(world, reader);
        cr_assert_lt(at, world->count, "an event that never was");
        const struct model_change *change = &world->changes[at];
        cr_assert(!reader->within || i > 0 || change->revision == reader->last);
        expect_event(&watch->events[i], change, watch->previous,
                     change->revision <= world->kept_from);
        reader->last = change->revision;
        reader->at = at + 1;
        reader->got++;
    }
    size_t next = next_due(world, reader);
    cr_assert(next == world->count || is_at_or_after(&world->changes[next], watch->next),
              "passed over");
    bool more = next < world->count && world->changes[next].revision == reader->last;
    if (watch->count > 0) {
        cr_assert_eq(watch->partial, more, "a torn revision");
        reader->within = watch->partial;
    }
    cr_assert(watch->count > 0 || !reader->within || more);
    kv_watch_fini(watch);
}

static void end(const struct world *world, struct watcher *reader) {
    cr_assert_eq(reader->watch.rc, LKV_ECOMPACTED);
    cr_assert_eq(reader->watch.count, 0);
    cr_assert_lt(reader->watch.next.revision, world->kept_from);
    kv_watch_fini(&reader->watch);
    reader->active = false;
    reader->ended++;
}

/* A new range, from somewhere. */
static void begin(struct world *world, struct watcher *reader) {
    struct prng *prng = &world->prng;
    size_t got = reader->got, ended = reader->ended;
    *reader = (struct watcher){.active = true, .got = got, .ended = ended};
    unsigned first = (unsigned)prng_below(prng, KEYS);
    if (prng_below(prng, 4) > 0) {
        key_text(reader->from, first);
    }
    if (prng_below(prng, 4) > 0) {
        key_text(reader->to, first + 1 + (unsigned)prng_below(prng, 6));
    }
    struct kv_watch *watch = &reader->watch;
    uint64_t span = world->revision - world->kept_from + 4;
    watch->from = slice_text(reader->from);
    watch->to = slice_text(reader->to);
    watch->next.revision = prng_below(prng, 3) == 0 ? 0 : world->kept_from + prng_below(prng, span);
    watch->no_puts = prng_below(prng, 6) == 0;
    watch->no_deletes = prng_below(prng, 6) == 0;
    watch->previous = prng_below(prng, 2) == 0;
    watch->bytes_max = prng_below(prng, 2) == 0 ? prng_below(prng, 5 * KV_WATCH_EVENT_BYTES) : 0;
    uint64_t from = watch->next.revision != 0 ? watch->next.revision : world->revision + 1;
    while (reader->at < world->count && world->changes[reader->at].revision < from) {
        reader->at++;
    }
}

static void act(struct world *world, struct watcher *reader) {
    if (reader->watch.group != NULL) {
        if (prng_below(&world->prng, 8) == 0) {
            kv_watch_leave(&reader->watch);
            take_events(world, reader);
        }
        return;
    }
    if (!reader->active || prng_below(&world->prng, 60) == 0) {
        begin(world, reader);
    }
    if (kv_watch_join(world->watches, &reader->watch)) {
        end(world, reader);
    }
}

/* A start in the future: nothing before it is due. */
static void skip_to_start(struct world *world) {
    for (size_t i = 0; i < WATCHES; i++) {
        struct watcher *reader = &world->readers[i];
        while (reader->active && reader->last == 0 && reader->at < world->count &&
               world->changes[reader->at].revision < reader->watch.next.revision) {
            reader->at++;
        }
    }
}

static void run(struct world *world) {
    struct list_link done;
    list_init(&done);
    (void)kv_watches_run(world->watches, &done);
    for (struct list_link *link; (link = list_pop_front(&done)) != NULL;) {
        struct kv_watch *watch = LIST_ITEM(link, struct kv_watch, link);
        struct watcher *reader = LIST_ITEM(watch, struct watcher, watch);
        if (watch->rc != 0) {
            end(world, reader);
        } else {
            take_events(world, reader);
        }
    }
}

static void play(struct world *world) {
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 4; i++) {
            act(world, &world->readers[prng_below(&world->prng, WATCHES)]);
        }
        if (prng_below(&world->prng, 3) == 0) {
            apply_some(world);
            skip_to_start(world);
        }
        if (prng_below(&world->prng, 100) == 0) {
            restore(world, prng_below(&world->prng, 2) == 0);
            skip_to_start(world);
        }
        if (prng_below(&world->prng, 3) > 0) {
            run(world);
        }
        if (prng_below(&world->prng, 5) == 0) {
            (void)kv_tidy(world->feed.kv);
        }
    }
}

Test(kv_watch_model, everybody_gets_each_change_of_its_range_once_in_order) {
    static struct world world;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        memset(&world, 0, sizeof(world));
        world = (struct world){.feed = feed_open_history(seed),
                               .sim = sim_disk_new(seed),
                               .prng = prng_of(seed),
                               .revision = 1,
                               .kept_from = 1};
        cr_assert_eq(disk_make_dir(sim_disk_seam(world.sim), "d"), 0);
        cr_assert_eq(kv_watches_open(&world.watches, world.feed.kv), 0);
        play(&world);
        size_t got = 0, ended = 0;
        for (size_t i = 0; i < WATCHES; i++) {
            kv_watch_leave(&world.readers[i].watch);
            kv_watch_fini(&world.readers[i].watch);
            got += world.readers[i].got;
            ended += world.readers[i].ended;
        }
        cr_assert_gt(got, 1000);
        cr_assert_gt(ended, 5);
        kv_watches_close(world.watches);
        feed_close(&world.feed);
        sim_disk_free(world.sim);
    }
}
