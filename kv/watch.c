#include "kv/watch.h"

#include "base/assert.h"
#include "base/mem.h"
#include "kv/durable.h"
#include "kv/page.h"
#include "kv/store.h"

enum { READ_CHANGES = 64 /* taken from the timeline at once */ };

/* Watches that look at the same changes. A member has seen all changes before its place: its own `next`, and in the
 * group that is live also the cursor, so that nothing has to be written down for those that find nothing. */
struct watch_group {
    struct kv_watches *watches;
    struct intervals index;
    struct kv_place cursor;
    struct list_link found; /* members that have events */
};

struct kv_watches {
    struct kv *kv;
    struct watch_group live, behind;
    uint64_t looked_at, found; /* changes; events */
};

/* One change on its way to its watches. */
struct change {
    struct kv_version *version;
    struct kv_version *previous; /* NULL: there was nothing, or it may be gone */
    struct kv_place place;
    struct list_link *ready; /* gets those that have no room for it */
};

/* Those of one read; the applier is here, so they stay. */
struct changes_read {
    struct kv_version *versions[READ_CHANGES];
    struct kv_version *previous[READ_CHANGES];
    size_t count;
    bool owned; /* from a map: drop_changes has references to let go */
};

/* ---------------------------------------------------------------------------- life */

static void group_init(struct watch_group *group, struct kv_watches *watches) {
    group->watches = watches;
    list_init(&group->found);
}

int kv_watches_open(struct kv_watches **out, struct kv *kv) {
    *out = mem_calloc(1, sizeof(**out));
    if (*out == NULL) {
        return LKV_ENOMEM;
    }
    (*out)->kv = kv;
    group_init(&(*out)->live, *out);
    group_init(&(*out)->behind, *out);
    return 0;
}

void kv_watches_close(struct kv_watches *watches) {
    if (watches != NULL) {
        ASSERT(watches->live.index.count == 0 && watches->behind.index.count == 0);
        mem_free(watches);
    }
}

void kv_watches_stats(const struct kv_watches *watches, struct kv_watches_stats *out) {
    *out = (struct kv_watches_stats){.live = watches->live.index.count,
                                     .behind = watches->behind.index.count,
                                     .looked_at = watches->looked_at};
}

void kv_event_release(struct kv_event *event) {
    kv_item_release(&event->item);
    kv_item_release(&event->previous);
}

static void drop_events(struct kv_watch *watch, size_t from) {
    for (size_t i = from; i < watch->count; i++) {
        kv_event_release(&watch->events[i]);
    }
    watch->count = from;
}

void kv_watch_fini(struct kv_watch *watch) {
    ASSERT(watch->group == NULL);
    drop_events(watch, 0);
    mem_free(watch->events);
    watch->events = NULL;
    watch->capacity = watch->bytes = 0;
}

/* ---------------------------------------------------------------------------- membership */

static struct kv_watch *watch_of(struct interval *interval) {
    return LIST_ITEM(interval, struct kv_watch, interval);
}

static void move_up(struct kv_watch *watch, struct kv_place place) {
    if (place_is_before(watch->next, place)) {
        watch->next = place;
    }
}

/* What is to be told stays until it is told, even if it is compacted in the same breath, unless all watches together
 * cannot keep up; and the revision before it, since that was there before. Not for a state that has just taken the place
 * of another: what that one kept is gone, and run_live tells so first. */
static void hold_untold(struct kv_watches *watches) {
    struct history *history = &watches->kv->store->history;
    const struct watch_group *live = &watches->live;
    uint64_t shown = watches->kv->store->shown.revision;
    uint64_t least = shown > KV_WATCH_HELD_MAX ? shown - KV_WATCH_HELD_MAX : 0;
    uint64_t from = live->index.count > 0 ? live->cursor.revision - 1 : UINT64_MAX;
    from = from > least ? from : least;
    atomic_store_explicit(&history->untold_from, from, memory_order_relaxed);
}

static void enter(struct watch_group *group, struct kv_watch *watch) {
    watch->group = group;
    list_init(&watch->link);
    intervals_add(&group->index, &watch->interval, watch->from, watch->to);
}

static void enter_live(struct kv_watches *watches, struct kv_watch *watch) {
    bool first = watches->live.index.count == 0;
    enter(&watches->live, watch);
    if (first) {
        uint64_t shown = watches->kv->store->shown.revision;
        watches->live.cursor = (struct kv_place){.revision = shown + 1};
        hold_untold(watches);
    }
}

static void leave(struct kv_watch *watch) {
    struct watch_group *group = watch->group;
    list_remove(&watch->link);
    intervals_remove(&group->index, &watch->interval);
    watch->group = NULL;
}

static void finish(struct kv_watch *watch, int rc, struct list_link *done) {
    leave(watch);
    watch->rc = rc;
    if (rc != 0) {
        drop_events(watch, 0);
    }
    list_push_back(done, &watch->link);
}

/* Its events end where the last revision begins, which has more. False: that would leave none. */
static bool cut(struct kv_watch *watch, uint64_t revision) {
    size_t whole = watch->count;
    while (whole > 0 && watch->events[whole - 1].item.mod_rev == revision) {
        whole--;
    }
    if (whole == 0) {
        return false;
    }
    if (whole < watch->count) {
        watch->next = (struct kv_place){.revision = revision,
                                        .sub = version_sub(watch->events[whole].item.owner)};
        drop_events(watch, whole);
    }
    return true;
}

void kv_watch_leave(struct kv_watch *watch) {
    struct watch_group *group = watch->group;
    if (group == NULL) {
        return;
    }
    struct kv_watches *watches = group->watches;
    if (group == &watches->live) {
        move_up(watch, group->cursor);
    }
    /* What it has is of a revision that it may not have seen the end of; before that it would have left. */
    if (watch->count > 0 && !cut(watch, watch->next.revision)) {
        watch->next = (struct kv_place){.revision = watch->events[0].item.mod_rev,
                                        .sub = version_sub(watch->events[0].item.owner)};
        drop_events(watch, 0);
    }
    leave(watch);
    if (watches->live.index.count == 0) {
        hold_untold(watches);
    }
}

bool kv_watch_is_live(const struct kv_watch *watch) {
    const struct watch_group *group = watch->group;
    return group != NULL && group == &group->watches->live &&
           group->cursor.revision > group->watches->kv->store->shown.revision;
}

bool kv_watch_join(struct kv_watches *watches, struct kv_watch *watch) {
    const struct store *store = watches->kv->store;
    ASSERT(watch->group == NULL && watch->count == 0);
    watch->rc = 0;
    watch->partial = false;
    watch->bytes = 0;
    if (watch->next.revision == 0) {
        watch->next = (struct kv_place){.revision = store->shown.revision + 1};
    }
    if (!has_history(store)) {
        watch->rc = LKV_EUNSUPPORTED;
    } else if (watch->next.revision < store->shown.kept_from) {
        watch->rc = LKV_ECOMPACTED; /* C7 */
    } else if (watch->next.revision > store->shown.revision) {
        enter_live(watches, watch);
    } else {
        enter(&watches->behind, watch);
    }
    return watch->rc != 0;
}

/* ---------------------------------------------------------------------------- one change */

static size_t size_of(const struct kv_version *version) {
    return version != NULL ? (size_t)version->key_size + version->value_size : 0;
}

static bool is_wanted(const struct kv_watch *watch, const struct change *change) {
    bool unwanted = version_is_tombstone(change->version) ? watch->no_deletes : watch->no_puts;
    return !unwanted && !place_is_before(change->place, watch->next);
}

static bool has_room(const struct kv_watch *watch, size_t size) {
    size_t bytes_max = watch->bytes_max > 0 && watch->bytes_max < KV_WATCH_BYTES_MAX
                           ? watch->bytes_max
                           : KV_WATCH_BYTES_MAX;
    return watch->count == 0 || (watch->bytes < bytes_max && size <= bytes_max - watch->bytes);
}

/* Mostly it is one event and no more: with many watches each finds little at a time. */
static int reserve_event(struct kv_watch *watch) {
    if (watch->count < watch->capacity) {
        return 0;
    }
    size_t capacity = watch->capacity == 0 ? 1 : 4 * watch->capacity;
    struct kv_event *events = mem_realloc(watch->events, capacity * sizeof(*events));
    if (events == NULL) {
        return LKV_ENOMEM;
    }
    watch->events = events;
    watch->capacity = capacity;
    return 0;
}

static int add_event(struct kv_watch *watch, const struct change *change, size_t size) {
    if (reserve_event(watch) != 0) {
        return LKV_ENOMEM;
    }
    struct kv_event *event = &watch->events[watch->count++];
    item_fill(&event->item, version_ref(change->version), false);
    event->previous = (struct kv_item){0};
    if (watch->previous && change->previous != NULL) {
        item_fill(&event->previous, version_ref(change->previous), false);
    }
    watch->bytes += size;
    return 0;
}

/* The change lies in its range. One that has no room for it ends before it, between two revisions if it can. */
static void on_change(void *arg, struct interval *interval) {
    const struct change *change = arg;
    struct kv_watch *watch = watch_of(interval);
    if (!is_wanted(watch, change)) {
        return;
    }
    size_t size = KV_WATCH_EVENT_BYTES + size_of(change->version) +
                  (watch->previous ? size_of(change->previous) : 0);
    if (has_room(watch, size)) {
        watch->rc = add_event(watch, change, size);
        watch->group->watches->found++;
        if (watch->rc == 0) {
            if (list_empty(&watch->link)) {
                list_push_back(&watch->group->found, &watch->link);
            }
            return;
        }
    } else {
        watch->next = change->place;
        watch->partial = !cut(watch, change->place.revision);
    }
    list_remove(&watch->link);
    list_push_back(change->ready, &watch->link);
}

static void show(struct watch_group *group, struct change *change, struct list_link *done) {
    struct list_link ready;
    list_init(&ready);
    change->ready = &ready;
    intervals_find(&group->index, version_key(change->version), on_change, change);
    for (struct list_link *link; (link = list_pop_front(&ready)) != NULL;) {
        struct kv_watch *watch = LIST_ITEM(link, struct kv_watch, link);
        finish(watch, watch->rc, done);
    }
}

/* ---------------------------------------------------------------------------- slices */

/* The next changes that readers see, with what was there before. */
static void read_changes(struct kv *kv, struct kv_place place, size_t max,
                         struct changes_read *read) {
    if (kv->in_map) { /* the applier is here: nothing is shown meanwhile */
        read->owned = true;
        read->count = durable_read_changes(kv->store, place, kv->store->shown.revision,
                                           read->versions, read->previous, max);
        return;
    }
    unsigned lane = gate_enter(kv->gate);
    const struct store *store = kv->store;
    read->owned = false;
    uint64_t told_from = history_told_from(store);
    read->count =
        timeline_read(&store->history.timeline, place, store->shown.revision, read->versions, max);
    for (size_t i = 0; i < read->count; i++) {
        const struct kv_version *version = read->versions[i];
        struct kv_version *older = version->main > told_from ? version->older : NULL;
        read->previous[i] = older != NULL && !version_is_tombstone(older) ? older : NULL;
    }
    gate_leave(kv->gate, lane);
}

static void drop_changes(struct changes_read *read) {
    for (size_t i = 0; read->owned && i < read->count; i++) {
        version_unref(read->versions[i]);
        if (read->previous[i] != NULL) {
            version_unref(read->previous[i]);
        }
    }
}

static struct kv_place place_behind(const struct kv_version *version) {
    return (struct kv_place){.revision = version->main, .sub = version_sub(version) + 1};
}

/* Between revisions the cursor stands before the next one; true: that is where it is. */
static bool settle_cursor(struct watch_group *group) {
    if (group->cursor.sub > 0) {
        struct changes_read read;
        read_changes(group->watches->kv, group->cursor, 1, &read);
        bool goes_on = read.count > 0 && read.versions[0]->main == group->cursor.revision;
        drop_changes(&read);
        if (goes_on) {
            return false;
        }
        group->cursor = (struct kv_place){.revision = group->cursor.revision + 1};
    }
    return true;
}

/* Looks at a slice of changes; true: there may be more. */
static bool scan(struct watch_group *group, struct list_link *done) {
    struct kv_watches *watches = group->watches;
    struct changes_read read;
    uint64_t begun = watches->looked_at + watches->found;
    do {
        read_changes(watches->kv, group->cursor, READ_CHANGES, &read);
        for (size_t i = 0; i < read.count; i++) {
            if (group->index.count == 0 ||
                watches->looked_at + watches->found - begun >= KV_WATCH_SLICE) {
                drop_changes(&read);
                return group->index.count > 0;
            }
            struct change change = {.version = read.versions[i],
                                    .previous = read.previous[i],
                                    .place = {.revision = read.versions[i]->main,
                                              .sub = version_sub(read.versions[i])}};
            show(group, &change, done);
            group->cursor = place_behind(change.version);
            watches->looked_at++;
        }
        drop_changes(&read);
    } while (read.count == READ_CHANGES);
    return false;
}

/* Between two revisions, those that have found something have it whole. */
static void release_found(struct watch_group *group, struct list_link *done) {
    if (!settle_cursor(group)) {
        return;
    }
    for (struct list_link *link; (link = list_pop_front(&group->found)) != NULL;) {
        struct kv_watch *watch = LIST_ITEM(link, struct kv_watch, link);
        move_up(watch, group->cursor);
        finish(watch, 0, done);
    }
}

/* ---------------------------------------------------------------------------- the group that is live */

/* Another state has come, which has not kept what it had still to see. */
static void lose_live(struct watch_group *live, uint64_t kept_from, struct list_link *done) {
    struct interval *next;
    for (struct interval *at = intervals_first(&live->index); at != NULL; at = next) {
        next = intervals_next(at);
        struct kv_watch *watch = watch_of(at);
        move_up(watch, live->cursor);
        if (watch->next.revision < kept_from) {
            finish(watch, LKV_ECOMPACTED, done);
        }
    }
    live->cursor = (struct kv_place){.revision = kept_from};
}

static bool run_live(struct kv_watches *watches, struct list_link *done) {
    struct watch_group *live = &watches->live;
    const struct store *store = watches->kv->store;
    if (live->index.count == 0) {
        return false;
    }
    uint64_t told_from = history_told_from(store);
    if (live->cursor.revision < told_from) {
        lose_live(live, told_from, done);
    }
    bool more = false;
    if (live->cursor.revision <= store->shown.revision) {
        more = scan(live, done);
        release_found(live, done);
    }
    hold_untold(watches);
    return more;
}

/* ---------------------------------------------------------------------------- the group behind */

/* The earliest place of those that are still kept; the others have failed. False: nobody is left. */
static bool find_earliest(struct watch_group *behind, struct list_link *done) {
    uint64_t kept_from = history_told_from(behind->watches->kv->store);
    bool any = false;
    struct interval *next;
    for (struct interval *at = intervals_first(&behind->index); at != NULL; at = next) {
        next = intervals_next(at);
        struct kv_watch *watch = watch_of(at);
        if (watch->next.revision < kept_from) {
            finish(watch, LKV_ECOMPACTED, done);
        } else if (!any || place_is_before(watch->next, behind->cursor)) {
            behind->cursor = watch->next;
            any = true;
        }
    }
    return any;
}

/* Everybody has seen what was looked at; who has seen all goes over to those that are live. */
static void move_on(struct kv_watches *watches) {
    struct watch_group *behind = &watches->behind;
    uint64_t shown = watches->kv->store->shown.revision;
    struct interval *next;
    for (struct interval *at = intervals_first(&behind->index); at != NULL; at = next) {
        next = intervals_next(at);
        struct kv_watch *watch = watch_of(at);
        move_up(watch, behind->cursor);
        if (watch->next.revision > shown) {
            leave(watch);
            enter_live(watches, watch);
        }
    }
}

static bool run_behind(struct kv_watches *watches, struct list_link *done) {
    struct watch_group *behind = &watches->behind;
    if (!find_earliest(behind, done)) {
        return false;
    }
    (void)scan(behind, done);
    release_found(behind, done);
    move_on(watches);
    return behind->index.count > 0;
}

bool kv_watches_run(struct kv_watches *watches, struct list_link *done) {
    bool more = run_live(watches, done);
    return run_behind(watches, done) || more;
}
