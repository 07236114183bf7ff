/* Older versions: how long they can be read, and that their memory comes back. */
#include "base/prng.h"
#include "kv/image.h"
#include "kv/walk.h"
#include "naive_query.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

static int compact(struct feed *feed, uint64_t revision) {
    const struct kv_command command = {.op = KV_COMPACT, .revision = revision};
    cr_assert_eq(feed_command(feed, &command), 0);
    return feed->result.rc;
}

static struct kv_stats tidy(const struct feed *feed) {
    while (kv_tidy(feed->kv)) {
    }
    struct kv_stats stats;
    kv_stats(feed->kv, &stats);
    return stats;
}

/* Its value as of the revision, "" when it is not there. */
static void expect_at(const struct feed *feed, const char *key, uint64_t revision,
                      const char *value) {
    struct kv_item item;
    int rc = kv_get_at(feed->kv, slice_text(key), revision, &item, NULL);
    cr_assert_eq(rc, value[0] != 0 ? 0 : LKV_ENOTFOUND, "%s at %zu: %d", key, (size_t)revision, rc);
    cr_assert(slice_equal(item.value, slice_text(value)), "%s at %zu", key, (size_t)revision);
    kv_item_release(&item);
}

static void expect_refused(const struct feed *feed, uint64_t revision, int expected,
                           const char *text) {
    struct kv_item item;
    struct kv_stamp stamp;
    cr_assert_eq(kv_get_at(feed->kv, slice_text("a"), revision, &item, &stamp), expected);
    struct reason why = {{0}};
    cr_assert_eq(kv_kept_reason(expected, revision, &stamp, &why), expected);
    cr_assert_str_eq(why.text, text);
    const struct kv_query query = {.revision = revision, .with_total = true};
    struct kv_range range;
    cr_assert_eq(kv_range(feed->kv, &query, &range), expected);
    cr_assert_eq(range.items, NULL);
    cr_assert_eq(range.stamp.revision, stamp.revision);
    cr_assert_eq(range.stamp.kept_from, stamp.kept_from);
}

Test(kv_history, every_revision_since_the_compaction_can_be_read) {
    struct feed feed = feed_open_history(1);
    cr_assert_eq(feed.result.kept_from, 1, "nothing has been changed before");
    must_put(&feed, "a", "1");                                             /* 2 */
    must_put(&feed, "b", "2");                                             /* 3 */
    must_put(&feed, "a", "3");                                             /* 4 */
    must_delete(&feed, "a");                                               /* 5 */
    must_put(&feed, "a", "6");                                             /* 6 */
    cr_assert_eq(feed_delete(&feed, slice_text("a"), slice_text("z")), 0); /* 7 */
    static const struct {
        const char *a, *b;
    } states[] = {{"", ""}, {"1", ""}, {"1", "2"}, {"3", "2"}, {"", "2"}, {"6", "2"}, {"", ""}};
    for (uint64_t from = 1; from <= 7; from++) {
        cr_assert_eq(from == 1 ? 0 : compact(&feed, from), 0);
        cr_assert_eq(feed.result.kept_from, from);
        (void)tidy(&feed);
        for (uint64_t revision = from; revision <= 7; revision++) {
            expect_at(&feed, "a", revision, states[revision - 1].a);
            expect_at(&feed, "b", revision, states[revision - 1].b);
        }
    }
    expect_at(&feed, "a", 0, "");
    expect_refused(&feed, 6, LKV_ECOMPACTED, "revision 6 has been compacted: 7 to 7 are kept");
    expect_refused(&feed, 8, LKV_EFUTURE, "revision 8 is in the future: 7 to 7 are kept");
    feed_close(&feed);
}

Test(kv_history, a_compaction_goes_forward_and_not_beyond_the_present) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "a", "1");
    must_put(&feed, "a", "2");
    cr_assert_eq(compact(&feed, 4), LKV_EFUTURE);
    cr_assert_eq(feed.result.revision, 3);
    cr_assert_eq(compact(&feed, 1), LKV_ECOMPACTED, "nothing is older than that");
    cr_assert_eq(compact(&feed, 3), 0);
    cr_assert_eq(feed.result.revision, 3, "it changes no key");
    cr_assert_eq(compact(&feed, 3), LKV_ECOMPACTED);
    cr_assert_eq(compact(&feed, 2), LKV_ECOMPACTED);
    cr_assert_eq(feed.result.kept_from, 3);
    cr_assert_eq(tidy(&feed).versions, 1);
    struct kv_stats stats = tidy(&feed);
    cr_assert(stats.revision == 3 && stats.kept_from == 3);
    feed_close(&feed);
}

Test(kv_history, a_compaction_belongs_to_its_session_and_term) {
    struct feed feed = feed_open_history(1);
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = 1000, .limit = 1};
    cr_assert_eq(feed_command(&feed, &open), 0);
    uint64_t session = feed.result.session;
    must_put(&feed, "a", "1");
    must_put(&feed, "a", "2");
    struct kv_command command = {
        .op = KV_COMPACT, .revision = 2, .session = session, .seq = 1, .in_term = 9};
    cr_assert_eq(feed_command(&feed, &command), 0);
    cr_assert_eq(feed.result.rc, LKV_ETERM);
    command.in_term = 0;
    command.seq = 2;
    cr_assert_eq(feed_command(&feed, &command), 0);
    cr_assert_eq(feed.result.rc, 0);
    cr_assert_eq(feed_command(&feed, &command), 0);
    cr_assert(feed.result.rc == 0 && feed.result.repeated, "and not: compacted already");
    command.session = 99;
    cr_assert_eq(feed_command(&feed, &command), 0);
    cr_assert_eq(feed.result.rc, LKV_ESESSION);
    feed_close(&feed);
}

/* C9: what a watch from the compaction revision has to see is still there. */
Test(kv_history, c9_a_delete_at_exactly_the_compaction_revision_is_kept) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "a", "1");
    must_put(&feed, "b", "1");
    must_delete(&feed, "a"); /* 4 */
    must_delete(&feed, "b"); /* 5 */
    cr_assert_eq(tidy(&feed).versions, 4);
    cr_assert_eq(compact(&feed, 4), 0);
    cr_assert_eq(tidy(&feed).versions, 3, "a's delete; b and its delete");
    cr_assert_eq(compact(&feed, 5), 0);
    cr_assert_eq(tidy(&feed).versions, 1);
    must_put(&feed, "b", "2"); /* 6: on a tombstone that is still an event */
    cr_assert_eq(tidy(&feed).versions, 2);
    expect_at(&feed, "b", 5, "");
    struct kv_item item;
    cr_assert_eq(kv_get(feed.kv, slice_text("b"), &item, NULL), 0);
    cr_assert(item.create_rev == 6 && item.version == 1);
    kv_item_release(&item);
    cr_assert_eq(compact(&feed, 6), 0);
    cr_assert_eq(tidy(&feed).versions, 1);
    feed_close(&feed);
}

Test(kv_history, rule_22_it_begins_with_the_feature_level) {
    struct feed feed = {.term = 1};
    const struct kv_options options = {.hash_seed = 1, .feature_level = KV_LEVEL_HISTORY};
    cr_assert_eq(kv_open(&feed.kv, &options), 0);
    must_put(&feed, "a", "1");
    must_put(&feed, "b", "1");
    must_put(&feed, "a", "2"); /* 4 */
    must_delete(&feed, "b");   /* 5 */
    cr_assert_eq(feed.result.kept_from, 6, "not even the last change");
    cr_assert_eq(tidy(&feed).versions, 1);
    expect_refused(&feed, 4, LKV_ECOMPACTED, "revision 4 has been compacted: 5 to 5 are kept");
    expect_at(&feed, "a", 5, "2");
    struct blob *level = feature_encode(KV_LEVEL_HISTORY);
    cr_assert_eq(feed_entry(&feed, ENTRY_FEATURE, level), 0);
    blob_unref(level);
    cr_assert_eq(feed.result.kept_from, 6);
    cr_assert_eq(compact(&feed, 5), LKV_ECOMPACTED);
    expect_at(&feed, "a", 5, "2");
    must_put(&feed, "a", "3"); /* 6: the first change that is kept */
    must_put(&feed, "a", "4"); /* 7 */
    expect_refused(&feed, 5, LKV_ECOMPACTED, "revision 5 has been compacted: 6 to 7 are kept");
    expect_at(&feed, "a", 6, "3");
    cr_assert_eq(tidy(&feed).versions, 2);
    feed_close(&feed);
}

/* Rule 22: others may not know what it does. */
Test(kv_history, rule_22_a_compaction_below_the_feature_level_stops) {
    struct feed feed = feed_open(1);
    const struct kv_command command = {.op = KV_COMPACT, .revision = 1};
    cr_assert_eq(kv_command_level(&command), KV_LEVEL_HISTORY);
    cr_assert_eq(feed_command(&feed, &command), LKV_EVERSION);
    feed_close(&feed);
}

Test(kv_history, rule_24_a_view_keeps_the_history_that_it_began_with) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "a", "1");
    must_put(&feed, "a", "2");
    must_delete(&feed, "a"); /* 4 */
    must_put(&feed, "a", "5");
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    must_put(&feed, "a", "6");
    cr_assert_eq(compact(&feed, 6), 0);
    expect_refused(&feed, 5, LKV_ECOMPACTED, "revision 5 has been compacted: 6 to 6 are kept");
    cr_assert_eq(tidy(&feed).versions, 5, "nothing has been freed");
    kv_view_close(view);
    cr_assert_eq(tidy(&feed).versions, 1);
    feed_close(&feed);
}

/* C16, rule 24: what has been begun at a revision goes on although it has been compacted meanwhile. */
Test(kv_history, c16_a_walk_keeps_its_revision_beyond_a_compaction) {
    struct feed feed = feed_open_history(1);
    char key[16];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 300; i++) {
            int size = snprintf(key, sizeof(key), "%03d", i);
            char value[16];
            int value_size = snprintf(value, sizeof(value), "%d", round);
            cr_assert_eq(
                feed_put(&feed, slice_of(key, (size_t)size), slice_of(value, (size_t)value_size)),
                0);
        }
    }
    struct walk walks[2]; /* at the ends of the first and of the second round */
    size_t seen[2] = {0};
    for (uint64_t w = 0; w < 2; w++) {
        walk_init(&walks[w], feed.kv, (struct slice){0}, (struct slice){0}, w == 1, 301 + 300 * w);
    }
    for (int turn = 0; turn < 40; turn++) {
        size_t w = (size_t)turn % 2;
        struct kv_version *versions[10];
        size_t count = walk_next(&walks[w], versions, 10, false);
        for (size_t i = 0; i < count; i++) {
            cr_assert(slice_equal(version_value(versions[i]), slice_text(w == 0 ? "0" : "1")));
            version_unref(versions[i]);
        }
        seen[w] += count;
        if (turn == 3) {
            cr_assert_eq(compact(&feed, 901), 0);
        }
        (void)tidy(&feed);
    }
    cr_assert_eq(tidy(&feed).versions, 900, "both walks stand in the middle");
    while (!walks[0].ended || !walks[1].ended) {
        for (size_t w = 0; w < 2; w++) {
            struct kv_version *versions[WALK_KEYS];
            size_t count = walk_next(&walks[w], versions, WALK_KEYS, false);
            seen[w] += count;
            for (size_t i = 0; i < count; i++) {
                version_unref(versions[i]);
            }
        }
    }
    cr_assert(seen[0] == 300 && seen[1] == 300);
    walk_fini(&walks[1]); /* what the older one needs moves on to it */
    cr_assert_eq(tidy(&feed).versions, 600);
    walk_fini(&walks[0]);
    cr_assert_eq(tidy(&feed).versions, 300);
    feed_close(&feed);
}

/* ---------------------------------------------------------------------------- many versions */

enum { MANY = 30000, FEW_KEYS = 3 };

/* Which key each revision has changed, and whether it is there since. */
static uint8_t changed[MANY + 2];
static bool alive[MANY + 2];

static struct slice few_key(size_t number) {
    static const char *const keys[FEW_KEYS] = {"a", "b", "c"};
    return slice_text(keys[number]);
}

/* The value tells the revision that wrote it. */
static void change_some(struct feed *feed, struct prng *prng, uint64_t count) {
    uint64_t revision = feed->result.revision;
    for (uint64_t end = revision + count; revision < end;) {
        uint64_t next = revision + 1;
        size_t key = prng_below(prng, 100) == 0 ? 1 + prng_below(prng, 2) : 0;
        bool delete = prng_below(prng, 10) == 0;
        if (delete) {
            cr_assert_eq(feed_delete(feed, few_key(key), (struct slice){0}), 0);
        } else {
            cr_assert_eq(feed_put(feed, few_key(key), slice_of(&next, sizeof(next))), 0);
        }
        if (feed->result.revision == next) {
            changed[next] = (uint8_t)key;
            alive[next] = !delete;
            revision = next;
        }
    }
}

static void expect_many(const struct feed *feed, struct prng *prng) {
    uint64_t first = feed->result.kept_from, last = feed->result.revision;
    for (int i = 0; i < 400; i++) {
        uint64_t revision = first + prng_below(prng, last - first + 1);
        size_t key = prng_below(prng, FEW_KEYS);
        uint64_t at = revision;
        while (at > 1 && (changed[at] != key)) {
            at--;
        }
        struct kv_item item;
        int rc = kv_get_at(feed->kv, few_key(key), revision, &item, NULL);
        cr_assert_eq(rc, at > 1 && alive[at] ? 0 : LKV_ENOTFOUND);
        cr_assert(rc != 0 || (item.mod_rev == at && memcmp(item.value.data, &at, 8) == 0));
        kv_item_release(&item);
    }
}

static size_t steps_to(const struct kv *kv, uint64_t revision) {
    const struct kv_version *version = store_newest(kv->store, few_key(0));
    size_t steps = 0;
    for (; version != NULL && version->main > revision; steps++) {
        struct version_jump jump = version_jump(version);
        version = jump.to != NULL && jump.main > revision ? jump.to : version->older;
    }
    return steps;
}

Test(kv_history, a_revision_among_many_versions_of_a_key_is_found_soon) {
    struct feed feed = feed_open_history(1);
    struct prng prng = prng_of(1);
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    change_some(&feed, &prng, MANY / 2);
    expect_many(&feed, &prng);
    for (uint64_t from = 7000; from < 15000; from += 2000) {
        cr_assert_eq(compact(&feed, from), 0);
        expect_many(&feed, &prng);
        (void)tidy(&feed);
        change_some(&feed, &prng, 1000);
        expect_many(&feed, &prng);
    }
    change_some(&feed, &prng, MANY - feed.result.revision);
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    cr_assert_eq(kv_image_save(view, disk, "d", "d/a", (struct kv_owner){9, 1}, (struct slice){0},
                               NULL, NULL, NULL),
                 0);
    kv_view_close(view);
    for (int loaded = 0; loaded < 2; loaded++) {
        expect_many(&feed, &prng);
        for (uint64_t revision = feed.result.kept_from; revision < MANY; revision += 97) {
            cr_assert_lt(steps_to(feed.kv, revision), 500, "%zu", (size_t)revision);
        }
        const struct kv_options options = {.feature_level = KV_LEVEL_HISTORY};
        struct kv *other;
        cr_assert_eq(kv_image_load(&other, &options, disk, "d/a", NULL, NULL, NULL, NULL), 0);
        kv_restore(feed.kv, other);
    }
    cr_assert_eq(compact(&feed, feed.result.revision), 0);
    cr_assert_leq(tidy(&feed).versions, FEW_KEYS);
    feed_close(&feed);
    sim_disk_free(sim);
}

/* ---------------------------------------------------------------------------- the model */

enum { REVISIONS_MAX = 4000, KEYS = 60 };

struct pair {
    struct feed feed;
    struct naive naive;
    struct prng prng;
    uint64_t kept_from;
    struct naive states[REVISIONS_MAX]; /* by revision; those that can be read */
    size_t deleted[REVISIONS_MAX];      /* tombstones of that revision */
    struct sim_disk *sim;
    struct kv_view *view; /* open now and then */
};

static struct slice random_key(struct prng *prng, char into[16]) {
    int size = snprintf(into, 16, "key/%02u", (unsigned)prng_below(prng, KEYS));
    return slice_of(into, (size_t)size);
}

static void forget_below(struct pair *pair, uint64_t revision) {
    for (; pair->kept_from < revision; pair->kept_from++) {
        naive_free(&pair->states[pair->kept_from]);
    }
}

static void random_command(struct pair *pair) {
    char key_bytes[16], end_bytes[16];
    struct prng *prng = &pair->prng;
    struct slice key = random_key(prng, key_bytes);
    uint64_t before = pair->naive.revision;
    size_t deleted = 0;
    if (prng_below(prng, 4) == 0) {
        struct slice end = prng_below(prng, 4) ? (struct slice){0} : random_key(prng, end_bytes);
        cr_assert_eq(feed_delete(&pair->feed, key, end), 0);
        deleted = naive_delete(&pair->naive, key, end);
        cr_assert_eq(pair->feed.result.count, deleted);
    } else if (prng_below(prng, 40) == 0) {
        uint64_t to = pair->kept_from + prng_below(prng, before - pair->kept_from + 2);
        int rc = compact(&pair->feed, to);
        cr_assert_eq(rc, to > before ? LKV_EFUTURE : to <= pair->kept_from ? LKV_ECOMPACTED : 0);
        forget_below(pair, rc == 0 ? to : 0);
    } else {
        static uint8_t bytes[3000];
        size_t size = prng_below(prng, 16) == 0 ? prng_below(prng, sizeof(bytes)) : 3;
        bytes[0]++;
        cr_assert_eq(feed_put(&pair->feed, key, slice_of(bytes, size)), 0);
        naive_put(&pair->naive, key, slice_of(bytes, size));
    }
    cr_assert_eq(pair->feed.result.revision, pair->naive.revision);
    cr_assert_eq(pair->feed.result.kept_from, pair->kept_from);
    if (pair->naive.revision > before) {
        pair->states[pair->naive.revision] = naive_copy(&pair->naive);
        pair->deleted[pair->naive.revision] = deleted;
    }
}

static void compare_state(struct pair *pair, uint64_t revision) {
    const struct naive *naive = &pair->states[revision];
    char from[16], to[16];
    struct kv_query query = naive_random_query(&pair->prng, revision);
    query.revision = revision;
    query.from = prng_below(&pair->prng, 2) ? random_key(&pair->prng, from) : (struct slice){0};
    query.to = prng_below(&pair->prng, 2) ? random_key(&pair->prng, to) : (struct slice){0};
    struct naive_page page = naive_query(naive, &query);
    struct kv_range range;
    cr_assert_eq(kv_range(pair->feed.kv, &query, &range), 0);
    cr_assert(range.total == page.total && range.count == page.count && range.more == page.more,
              "%zu of %zu, not %zu at %zu", range.count, (size_t)range.total, page.count,
              (size_t)revision);
    for (size_t i = 0; i < range.count; i++) {
        cr_assert(naive_equal(page.keys[i], &range.items[i], query.keys_only));
    }
    kv_range_fini(&range);
    free(page.keys);
    char bytes[16];
    struct slice key = random_key(&pair->prng, bytes);
    size_t at = naive_lower(naive, key);
    struct kv_item item;
    int rc = kv_get_at(pair->feed.kv, key, revision, &item, NULL);
    cr_assert_eq(rc, naive_has(naive, at, key) ? 0 : LKV_ENOTFOUND);
    cr_assert(rc != 0 || naive_equal(&naive->keys[at], &item, false));
    kv_item_release(&item);
}

/* Each version is counted in the first kept state that has it. */
static size_t kept_versions(const struct pair *pair) {
    size_t versions = 0;
    for (uint64_t revision = pair->kept_from; revision <= pair->naive.revision; revision++) {
        versions += pair->deleted[revision];
        const struct naive *state = &pair->states[revision];
        for (size_t i = 0; i < state->count; i++) {
            versions += revision == pair->kept_from || state->keys[i].mod_rev == revision;
        }
    }
    return versions;
}

static void save(const struct pair *pair, struct kv *kv, const char *path) {
    struct kv_view *view;
    cr_assert_eq(kv_view_open(kv, &view), 0);
    cr_assert_eq(kv_image_save(view, sim_disk_seam(pair->sim), "d", path, (struct kv_owner){9, 1},
                               (struct slice){0}, NULL, NULL, NULL),
                 0);
    kv_view_close(view);
}

/* The state goes on as it comes back from its image; and that has the same image. */
static void through_image(struct pair *pair, uint64_t seed) {
    struct disk *disk = sim_disk_seam(pair->sim);
    save(pair, pair->feed.kv, "d/a");
    const struct kv_options options = {.hash_seed = seed, .feature_level = KV_LEVEL_HISTORY};
    struct kv *loaded;
    struct reason why = {{0}};
    struct kv_image_info info;
    cr_assert_eq(kv_image_load(&loaded, &options, disk, "d/a", NULL, &info, NULL, &why), 0, "%s",
                 why.text);
    cr_assert_eq(info.stamp.kept_from, pair->kept_from);
    cr_assert_eq(info.keys, pair->naive.count);
    struct kv_stats stats;
    kv_stats(loaded, &stats);
    cr_assert_eq(stats.versions, kept_versions(pair), "no more than what is kept is in it");
    save(pair, loaded, "d/b");
    struct slice first, second;
    cr_assert(sim_disk_peek(pair->sim, "d/a", &first) && sim_disk_peek(pair->sim, "d/b", &second));
    cr_assert(slice_equal(first, second));
    kv_restore(pair->feed.kv, loaded);
}

static void begin(struct pair *pair, uint64_t seed) {
    *pair = (struct pair){.feed = feed_open_history(seed),
                          .naive = naive_new(),
                          .prng = prng_of(seed),
                          .kept_from = 1,
                          .sim = sim_disk_new(1)};
    cr_assert_eq(disk_make_dir(sim_disk_seam(pair->sim), "d"), 0);
    pair->states[1] = naive_copy(&pair->naive);
}

static void end(struct pair *pair) {
    kv_view_close(pair->view);
    /* A tombstone that is no event any more goes with its successor's revision: one for each key. */
    size_t versions = tidy(&pair->feed).versions;
    cr_assert(versions >= kept_versions(pair) && versions <= kept_versions(pair) + KEYS);
    if (pair->kept_from < pair->naive.revision) {
        cr_assert_eq(compact(&pair->feed, pair->naive.revision), 0);
        forget_below(pair, pair->naive.revision);
    }
    cr_assert_eq(tidy(&pair->feed).versions, kept_versions(pair));
    cr_assert_eq(feed_delete(&pair->feed, slice_of("\0", 1), slice_of("\0", 1)), 0);
    must_put(&pair->feed, "the last", "");
    cr_assert_eq(compact(&pair->feed, pair->feed.result.revision), 0);
    cr_assert_eq(tidy(&pair->feed).versions, 1, "all memory is back");
    forget_below(pair, pair->naive.revision + 1);
    naive_free(&pair->naive);
    feed_close(&pair->feed);
    sim_disk_free(pair->sim);
}

static void disturb(struct pair *pair, uint64_t seed) {
    switch (prng_below(&pair->prng, 60)) {
    case 0: through_image(pair, seed); break;
    case 1:
        kv_view_close(pair->view);
        pair->view = NULL;
        break;
    case 2:
        kv_view_close(pair->view);
        cr_assert_eq(kv_view_open(pair->feed.kv, &pair->view), 0);
        break;
    case 3: (void)kv_tidy(pair->feed.kv); break;
    default: break;
    }
}

Test(kv_history, agrees_with_the_naive_one_at_every_kept_revision) {
    static struct pair pair;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        begin(&pair, seed);
        for (unsigned step = 0; step < 3000; step++) {
            random_command(&pair);
            uint64_t revisions = pair.naive.revision - pair.kept_from + 1;
            compare_state(&pair, pair.kept_from + prng_below(&pair.prng, revisions));
            compare_state(&pair, pair.kept_from);
            disturb(&pair, seed);
        }
        end(&pair);
    }
}
