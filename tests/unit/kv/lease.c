/* Leases: commands, the keys that are attached, revokes that take several calls; against a naive model,
 * beside views, across images, and without memory. */
#include "kv/lease.h"
#include "base/mem.h"
#include "feed.h"
#include "kv/store.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

enum { TTL = 5000, MANY = 5000 };

#define KEY(text) .key = slice_text(text)

static int put_leased(struct feed *feed, const char *key, int64_t lease) {
    const struct kv_command put = {
        .op = KV_PUT, .key = slice_text(key), .value = slice_text("v"), .lease = lease};
    cr_assert_eq(feed_command(feed, &put), 0);
    return feed->result.rc;
}

static int revoke_if(struct feed *feed, int64_t lease, uint64_t granted) {
    const struct kv_command revoke = {.op = KV_LEASE_REVOKE, .lease = lease, .granted = granted};
    cr_assert_eq(feed_command(feed, &revoke), 0);
    return feed->result.rc;
}

static int revoke(struct feed *feed, int64_t lease) {
    return revoke_if(feed, lease, 0);
}

static void checkpoint(struct feed *feed, const struct kv_checkpoint *items, size_t count) {
    struct buffer records;
    buffer_init(&records);
    for (size_t i = 0; i < count; i++) {
        kv_checkpoint_put(&records, &items[i]);
    }
    const struct kv_command command = {.op = KV_LEASE_CHECKPOINT,
                                       .checkpoints = buffer_slice(&records)};
    cr_assert_eq(feed_command(feed, &command), 0);
    cr_assert_eq(feed->result.rc, 0);
    buffer_fini(&records);
}

static struct kv_lease lease_of(struct kv *kv, int64_t id) {
    struct kv_lease lease = {0};
    (void)kv_lease_find(kv, id, &lease);
    return lease;
}

/* The attached keys, one behind the other. */
static const char *keys_of(struct kv *kv, int64_t id) {
    static char text[256];
    struct kv_range range;
    text[0] = '\0';
    int rc = kv_lease_keys(kv, id, (struct slice){0}, 20, &range);
    if (rc != 0) {
        return error_name(rc);
    }
    for (size_t i = 0; i < range.count; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof(text) - used, "%s%.*s", i > 0 ? " " : "",
                       (int)range.items[i].key.size, (const char *)range.items[i].key.data);
    }
    kv_range_fini(&range);
    return text;
}

static bool has(struct kv *kv, const char *key) {
    struct kv_item item;
    if (kv_get(kv, slice_text(key), &item, NULL) != 0) {
        return false;
    }
    kv_item_release(&item);
    return true;
}

static uint64_t digest(struct kv *kv) {
    struct kv_view *view;
    uint64_t sum = 0;
    cr_assert_eq(kv_view_open(kv, &view), 0);
    cr_assert_eq(kv_view_digest(view, NULL, &sum), 0);
    kv_view_close(view);
    return sum;
}

Test(kv_lease, a_grant_is_remembered_with_its_ttl_and_its_entry) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 7, TTL);
    cr_assert_eq(feed.result.count, 7);
    cr_assert_eq(feed.result.revision, 1, "no key has changed");
    struct kv_lease lease = lease_of(feed.kv, 7);
    cr_assert(lease.id == 7 && lease.granted == feed.index);
    cr_assert(lease.ttl_ms == TTL && lease.remaining_ms == TTL);
    cr_assert_eq(feed_grant(&feed, 7, 2 * TTL), 0);
    cr_assert_eq(feed.result.rc, LKV_EEXIST);
    cr_assert_eq(lease_of(feed.kv, 7).ttl_ms, TTL);
    must_grant(&feed, INT64_MAX, KV_LEASE_TTL_MS_MAX);
    must_grant(&feed, 3, 1);
    struct kv_lease at;
    static const int64_t ids[] = {3, 7, INT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        cr_assert(kv_lease_at(feed.kv, i, &at) && at.id == ids[i]);
    }
    cr_assert_not(kv_lease_at(feed.kv, 3, &at));
    const struct kv_command limited = {.op = KV_LEASE_GRANT, .lease = 8, .ttl_ms = TTL, .limit = 3};
    cr_assert_eq(feed_command(&feed, &limited), 0);
    cr_assert_eq(feed.result.rc, LKV_EBUSY, "the command says how many there may be");
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    cr_assert_eq(stats.leases, 3);
    feed_close(&feed);
}

Test(kv_lease, a_put_attaches_and_one_without_detaches) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    must_grant(&feed, 2, TTL);
    cr_assert_eq(put_leased(&feed, "b", 1), 0);
    cr_assert_eq(put_leased(&feed, "a", 1), 0);
    cr_assert_eq(put_leased(&feed, "c", 1), 0);
    cr_assert_str_eq(keys_of(feed.kv, 1), "a b c");
    cr_assert_eq(put_leased(&feed, "b", 2), 0);
    cr_assert_str_eq(keys_of(feed.kv, 1), "a c");
    cr_assert_str_eq(keys_of(feed.kv, 2), "b");
    must_put(&feed, "c", "without");
    const struct kv_command keeps = {.op = KV_PUT, KEY("a"), .flags = KV_KEEP_LEASE};
    cr_assert_eq(feed_command(&feed, &keeps), 0);
    const struct kv_command counts = {.op = KV_ADD, KEY("n"), .delta = 1};
    cr_assert_eq(feed_command(&feed, &counts), 0);
    cr_assert_str_eq(keys_of(feed.kv, 1), "a");
    must_delete(&feed, "b");
    cr_assert_str_eq(keys_of(feed.kv, 2), "");
    cr_assert_eq(put_leased(&feed, "b", 2), 0);
    cr_assert_str_eq(keys_of(feed.kv, 2), "b", "again, before what was stale is tidied up");
    while (kv_tidy(feed.kv)) {
    }
    cr_assert_str_eq(keys_of(feed.kv, 2), "b");
    cr_assert_str_eq(keys_of(feed.kv, 3), "LKV_ELEASE");
    feed_close(&feed);
}

Test(kv_lease, a_put_with_an_unknown_lease_is_refused) {
    struct feed feed = feed_open_history(1);
    cr_assert_eq(put_leased(&feed, "a", 1), LKV_ELEASE);
    cr_assert_not(has(feed.kv, "a"));
    cr_assert_eq(feed.result.revision, 1);
    const struct kv_command absent = {.op = KV_PUT, KEY("a"), .lease = 1, .flags = KV_IF_ABSENT};
    cr_assert_eq(feed_command(&feed, &absent), 0);
    cr_assert_eq(feed.result.rc, LKV_ELEASE);
    must_grant(&feed, 1, TTL);
    cr_assert_eq(put_leased(&feed, "a", 1), 0);
    cr_assert_eq(revoke(&feed, 1), 0);
    cr_assert_eq(put_leased(&feed, "a", 1), LKV_ELEASE);
    feed_close(&feed);
}

/* C12 */
Test(kv_lease, c12_a_revoke_deletes_its_keys_at_one_revision) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    must_grant(&feed, 2, TTL);
    cr_assert_eq(put_leased(&feed, "b", 1), 0);
    cr_assert_eq(put_leased(&feed, "a", 1), 0);
    cr_assert_eq(put_leased(&feed, "x", 2), 0);
    must_put(&feed, "c", "free");
    uint64_t revision = feed.result.revision;
    cr_assert_eq(revoke(&feed, 1), 0);
    cr_assert(feed.result.revision == revision + 1 && feed.result.count == 2);
    cr_assert(!has(feed.kv, "a") && !has(feed.kv, "b") && has(feed.kv, "c") && has(feed.kv, "x"));
    cr_assert_eq(revoke(&feed, 1), LKV_ELEASE);
    cr_assert_eq(feed.result.revision, revision + 1);
    struct kv_item item;
    cr_assert_eq(kv_get_at(feed.kv, slice_text("a"), revision, &item, NULL), 0);
    cr_assert_eq(item.lease, 1, "history shows what was");
    kv_item_release(&item);
    must_delete(&feed, "x");
    revision = feed.result.revision;
    cr_assert_eq(revoke(&feed, 2), 0);
    cr_assert(feed.result.revision == revision && feed.result.count == 0, "no key, no revision");
    feed_close(&feed);
}

/* An expiry that was decided about one lease does not end another one of the same id. */
Test(kv_lease, c12_an_expiry_means_the_lease_that_it_was_decided_about) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    uint64_t first = feed.index;
    cr_assert_eq(revoke(&feed, 1), 0);
    must_grant(&feed, 1, TTL);
    cr_assert_eq(put_leased(&feed, "a", 1), 0);
    cr_assert_eq(revoke_if(&feed, 1, first), LKV_ELEASE);
    cr_assert(has(feed.kv, "a"));
    const struct kv_checkpoint old = {.id = 1, .granted = first, .remaining_ms = 1};
    checkpoint(&feed, &old, 1);
    cr_assert_eq(lease_of(feed.kv, 1).remaining_ms, TTL);
    cr_assert_eq(revoke_if(&feed, 1, lease_of(feed.kv, 1).granted), 0);
    cr_assert_not(has(feed.kv, "a"));
    feed_close(&feed);
}

Test(kv_lease, c12_a_checkpoint_says_what_is_left) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    must_grant(&feed, 2, TTL);
    const struct kv_checkpoint items[] = {
        {.id = 1, .granted = lease_of(feed.kv, 1).granted, .remaining_ms = 10},
        {.id = 3, .granted = 1, .remaining_ms = 10},
        {.id = 2, .granted = lease_of(feed.kv, 2).granted, .remaining_ms = UINT64_MAX}};
    uint64_t before = digest(feed.kv);
    checkpoint(&feed, items, 3);
    cr_assert_eq(lease_of(feed.kv, 1).remaining_ms, 10);
    cr_assert_eq(lease_of(feed.kv, 1).ttl_ms, TTL);
    cr_assert_eq(lease_of(feed.kv, 2).remaining_ms, TTL, "never more than the ttl");
    cr_assert_neq(digest(feed.kv), before, "it is state");
    const struct kv_command fenced = {.op = KV_LEASE_REVOKE, .lease = 1, .in_term = feed.term + 1};
    cr_assert_eq(feed_command(&feed, &fenced), 0);
    cr_assert_eq(feed.result.rc, LKV_ETERM);
    feed_close(&feed);
}

Test(kv_lease, x_a10_in_a_session_it_is_granted_and_revoked_once) {
    struct feed feed = feed_open_history(1);
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = TTL, .limit = 1};
    cr_assert_eq(feed_command(&feed, &open), 0);
    uint64_t session = feed.result.session;
    const struct kv_command commands[] = {
        {.op = KV_LEASE_GRANT, .session = session, .seq = 1, .lease = 5, .ttl_ms = TTL, .limit = 9},
        {.op = KV_LEASE_REVOKE, .session = session, .seq = 2, .lease = 5}};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(feed_command(&feed, &commands[i / 2]), 0);
        cr_assert(feed.result.rc == 0 && feed.result.repeated == (i % 2 == 1));
        cr_assert_eq(feed.result.count, i < 2 ? 5 : 0);
        if (i == 1) {
            cr_assert_eq(put_leased(&feed, "a", 5), 0);
            must_delete(&feed, "a");
        }
    }
    feed_close(&feed);
}

/* ------------------------------------------------------------------ many keys */

static const char *name_of(unsigned i) {
    static char key[16];
    (void)snprintf(key, sizeof(key), "k%05u", i);
    return key;
}

static size_t count_attached(struct kv *kv, int64_t id) {
    struct kv_range range;
    cr_assert_eq(kv_lease_keys(kv, id, (struct slice){0}, MANY + 1, &range), 0);
    size_t count = range.count;
    kv_range_fini(&range);
    return count;
}

/* A revoke of many keys takes several calls, none of which does much; between them all is as before. */
Test(kv_lease, c12_a_large_revoke_is_seen_as_a_whole) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    for (unsigned i = 0; i < MANY; i++) {
        cr_assert_eq(put_leased(&feed, name_of(i * 7 % MANY), 1), 0);
    }
    cr_assert_eq(count_attached(feed.kv, 1), MANY);
    const struct kv_command command = {.op = KV_LEASE_REVOKE, .lease = 1};
    struct blob *payload = kv_command_encode(&command);
    const struct entry entry = {
        .index = feed.index + 1, .term = 1, .type = ENTRY_COMMAND, .payload = payload};
    size_t applied = 0, calls = 0;
    for (; applied == 0; calls++) {
        struct kv_view *view;
        struct kv_stats stats;
        cr_assert_eq(count_attached(feed.kv, 1), MANY, "call %zu", calls);
        kv_stats(feed.kv, &stats);
        cr_assert(stats.keys == MANY && stats.leases == 1);
        cr_assert_eq(kv_view_open(feed.kv, &view), 0);
        kv_view_close(view);
        (void)kv_tidy(feed.kv);
        cr_assert_eq(kv_apply(feed.kv, &entry, 1, &feed.result, &applied, NULL), 0);
    }
    cr_assert(calls > 3 && calls < 12, "%zu", calls);
    cr_assert(feed.result.count == MANY && feed.result.revision == MANY + 2);
    struct kv_lease lease;
    struct kv_stats stats;
    cr_assert_not(kv_lease_find(feed.kv, 1, &lease));
    kv_stats(feed.kv, &stats);
    cr_assert_eq(stats.keys, 0);
    cr_assert_gt(feed.kv->store->leases.key_memory, 0);
    size_t visits = 0;
    for (; kv_tidy(feed.kv); visits++) {
    }
    cr_assert(visits > 3, "its memory comes back in pieces, too");
    cr_assert_eq(feed.kv->store->leases.key_memory, 0);
    blob_unref(payload);
    feed_close(&feed);
}

Test(kv_lease, a_large_delete_in_the_middle_still_shows_what_is_attached) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    for (unsigned i = 0; i < MANY; i++) {
        cr_assert_eq(put_leased(&feed, name_of(i), 1), 0);
    }
    const struct kv_command command = {.op = KV_DELETE, KEY("k"), .end = slice_of("\0", 1)};
    struct blob *payload = kv_command_encode(&command);
    const struct entry entry = {
        .index = feed.index + 1, .term = 1, .type = ENTRY_COMMAND, .payload = payload};
    for (size_t applied = 0; applied == 0;) {
        cr_assert_eq(count_attached(feed.kv, 1), MANY);
        cr_assert_eq(kv_apply(feed.kv, &entry, 1, &feed.result, &applied, NULL), 0);
    }
    cr_assert_eq(count_attached(feed.kv, 1), 0);
    while (kv_tidy(feed.kv)) {
    }
    cr_assert_eq(feed.kv->store->leases.key_memory, 0);
    blob_unref(payload);
    feed_close(&feed);
}

Test(kv_lease, the_keys_of_a_lease_come_in_pages) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    for (unsigned i = 0; i < 100; i++) {
        cr_assert_eq(put_leased(&feed, name_of(i), 1), 0);
    }
    char after[16] = "";
    unsigned seen = 0;
    for (bool more = true; more;) {
        struct kv_range range;
        cr_assert_eq(kv_lease_keys(feed.kv, 1, slice_text(after), 7, &range), 0);
        for (size_t i = 0; i < range.count; i++) {
            cr_assert(slice_equal(range.items[i].key, slice_text(name_of(seen++))));
            cr_assert_eq(range.items[i].value.size, 0);
        }
        (void)snprintf(after, sizeof(after), "%s", name_of(seen - 1));
        more = range.more;
        kv_range_fini(&range);
    }
    cr_assert_eq(seen, 100);
    feed_close(&feed);
}

/* ------------------------------------------------------------------ images */

static struct kv *through_image(struct kv *kv, uint64_t seed) {
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    const struct kv_options options = {.hash_seed = seed, .feature_level = KV_LEVEL_HISTORY};
    struct kv_view *view;
    struct kv *loaded;
    struct reason why = {{0}};
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    cr_assert_eq(kv_view_open(kv, &view), 0);
    cr_assert_eq(kv_image_save(view, disk, "d", "d/i", (struct kv_owner){1, 0}, (struct slice){0},
                               NULL, NULL, &why),
                 0, "%s", why.text);
    kv_view_close(view);
    cr_assert_eq(kv_image_load(&loaded, &options, disk, "d/i", NULL, NULL, NULL, &why), 0, "%s",
                 why.text);
    sim_disk_free(sim);
    return loaded;
}

Test(kv_lease, a_view_shows_the_leases_of_its_own_moment) {
    struct feed feed = feed_open_history(1);
    must_grant(&feed, 1, TTL);
    struct kv_view *view;
    uint64_t before = digest(feed.kv), sum;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    must_grant(&feed, 2, TTL);
    cr_assert_eq(revoke(&feed, 1), 0);
    cr_assert_eq(kv_view_digest(view, NULL, &sum), 0);
    cr_assert_eq(sum, before);
    cr_assert_neq(digest(feed.kv), before);
    kv_view_close(view);
    feed_close(&feed);
}

Test(kv_lease, has_the_golden_bytes) {
    static const uint8_t golden[] = {
        7,    0,    0, 0, 0, 0, 0, 0x40, /* id */
        9,    0,    0, 0, 0, 0, 0, 0,    /* the entry that granted it */
        0x88, 0x13, 0, 0, 0, 0, 0, 0,    /* ttl: 5000 ms */
        2,    1,    0, 0, 0, 0, 0, 0,    /* 258 ms are left */
    };
    const struct kv_lease lease = {
        .id = INT64_C(0x4000000000000007), .granted = 9, .ttl_ms = 5000, .remaining_ms = 258};
    struct buffer bytes;
    buffer_init(&bytes);
    lease_put(&bytes, &lease);
    cr_assert_eq(bytes.size, sizeof(golden));
    cr_assert_arr_eq(bytes.data, golden, sizeof(golden));
    cr_assert_eq(lease_digest(&lease), UINT64_C(0xf97d34ed8ba065d0));
    struct kv_lease back;
    for (size_t size = 0; size <= bytes.size; size++) {
        struct reader reader = reader_of(slice_of(bytes.data, size));
        cr_assert_eq(lease_get(&reader, &back), size == bytes.size);
    }
    cr_assert_eq(memcmp(&back, &lease, sizeof(lease)), 0);
    buffer_fini(&bytes);
}

Test(kv_lease, reads_no_lease_that_could_not_have_been_written) {
    static const struct kv_lease bad[] = {
        {.id = 0, .granted = 1, .ttl_ms = 1},
        {.id = -1, .granted = 1, .ttl_ms = 1},
        {.id = 1, .granted = 0, .ttl_ms = 1},
        {.id = 1, .granted = 1, .ttl_ms = 0},
        {.id = 1, .granted = 1, .ttl_ms = KV_LEASE_TTL_MS_MAX + 1},
        {.id = 1, .granted = 1, .ttl_ms = 5, .remaining_ms = 6},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct buffer bytes;
        struct kv_lease back;
        buffer_init(&bytes);
        lease_put(&bytes, &bad[i]);
        struct reader reader = reader_of(buffer_slice(&bytes));
        cr_assert_not(lease_get(&reader, &back), "%zu", i);
        buffer_fini(&bytes);
    }
}

/* ------------------------------------------------------------------ against a naive model */

enum { LEASES = 5, KEYS = 12 };

struct naive_leases {
    uint64_t granted[LEASES + 1], ttl[LEASES + 1], remaining[LEASES + 1]; /* granted 0: none */
    int64_t lease_of[KEYS];                                               /* -1: no such key */
    uint64_t revision;
};

static const char *key_name(size_t i) {
    static char key[4];
    (void)snprintf(key, sizeof(key), "%c", (int)('a' + i));
    return key;
}

static void naive_change(struct naive_leases *naive, struct feed *feed, struct prng *prng) {
    int64_t id = 1 + (int64_t)prng_below(prng, LEASES);
    size_t key = (size_t)prng_below(prng, KEYS);
    uint64_t deleted = 0;
    switch (prng_below(prng, 12)) {
    case 0:
        cr_assert_eq(feed_grant(feed, id, 100 + (uint64_t)key), 0);
        cr_assert_eq(feed->result.rc, naive->granted[id] != 0 ? LKV_EEXIST : 0);
        if (naive->granted[id] == 0) {
            naive->granted[id] = feed->index;
            naive->ttl[id] = naive->remaining[id] = 100 + (uint64_t)key;
        }
        break;
    case 1:
        for (size_t i = 0; i < KEYS && naive->granted[id] != 0; i++) {
            deleted += naive->lease_of[i] == id;
            naive->lease_of[i] = naive->lease_of[i] == id ? -1 : naive->lease_of[i];
        }
        cr_assert_eq(revoke(feed, id), naive->granted[id] != 0 ? 0 : LKV_ELEASE);
        naive->revision += deleted > 0;
        naive->granted[id] = 0;
        cr_assert(feed->result.rc != 0 || feed->result.count == deleted);
        break;
    case 2: {
        const struct kv_checkpoint item = {.id = id,
                                           .granted = naive->granted[id] +
                                                      (naive->granted[id] == 0 || key % 2),
                                           .remaining_ms = key};
        checkpoint(feed, &item, 1);
        if (item.granted == naive->granted[id]) {
            naive->remaining[id] = key;
        }
        break;
    }
    case 3: {
        size_t end = key + 1 + (size_t)prng_below(prng, 4);
        char to[4] = {(char)('a' + end), 0};
        cr_assert_eq(feed_delete(feed, slice_text(key_name(key)), slice_text(to)), 0);
        for (size_t i = key; i < end && i < KEYS; i++) {
            deleted += naive->lease_of[i] >= 0;
            naive->lease_of[i] = -1;
        }
        naive->revision += deleted > 0;
        break;
    }
    case 4:
    case 5:
        must_put(feed, key_name(key), "x");
        naive->lease_of[key] = 0;
        naive->revision++;
        break;
    default: {
        bool known = naive->granted[id] != 0;
        cr_assert_eq(put_leased(feed, key_name(key), id), known ? 0 : LKV_ELEASE);
        naive->lease_of[key] = known ? id : naive->lease_of[key];
        naive->revision += known;
        break;
    }
    }
    cr_assert_eq(feed->result.revision, naive->revision);
}

static void expect_naive(const struct naive_leases *naive, struct kv *kv) {
    for (int64_t id = 1; id <= LEASES; id++) {
        struct kv_lease lease = lease_of(kv, id);
        cr_assert_eq(lease.granted, naive->granted[id]);
        if (naive->granted[id] == 0) {
            continue;
        }
        cr_assert(lease.ttl_ms == naive->ttl[id] && lease.remaining_ms == naive->remaining[id]);
        char expected[64] = "";
        for (size_t i = 0; i < KEYS; i++) {
            if (naive->lease_of[i] == id) {
                (void)strcat(strcat(expected, expected[0] != '\0' ? " " : ""), key_name(i));
            }
        }
        cr_assert_str_eq(keys_of(kv, id), expected);
    }
    for (size_t i = 0; i < KEYS; i++) {
        cr_assert_eq(has(kv, key_name(i)), naive->lease_of[i] >= 0);
    }
}

Test(kv_lease, agree_with_the_naive_model_also_across_images) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct feed feed = feed_open_history(seed);
        struct prng prng = prng_of(seed);
        struct naive_leases naive = {.revision = 1};
        for (size_t i = 0; i < KEYS; i++) {
            naive.lease_of[i] = -1;
        }
        for (unsigned step = 0; step < 3000; step++) {
            naive_change(&naive, &feed, &prng);
            if (step % 16 == 15) {
                expect_naive(&naive, feed.kv);
            }
            if (step % 500 == 499) {
                struct kv *loaded = through_image(feed.kv, seed + step);
                cr_assert_eq(digest(loaded), digest(feed.kv));
                kv_restore(feed.kv, loaded);
                expect_naive(&naive, feed.kv);
            }
        }
        feed_close(&feed);
    }
}

/* ------------------------------------------------------------------ memory */

/* Until the n-th allocation fails: every entry before it has its whole effect, that one none that is seen. */
static bool run_out_at(uint64_t n) {
    struct feed feed = feed_open_history(1);
    uint64_t calls = 0;
    unsigned step = 0;
    int rc = 0;
    for (; rc == 0 && step < 40; step++) {
        struct kv_command command = {
            .op = KV_PUT, .key = slice_text(name_of(step % 7)), .lease = 1 + step / 20};
        if (step % 20 == 0) {
            command = (struct kv_command){
                .op = KV_LEASE_GRANT, .lease = 1 + step / 20, .ttl_ms = TTL, .limit = 4};
        } else if (step % 20 == 19) {
            command = (struct kv_command){.op = KV_LEASE_REVOKE, .lease = 1 + step / 20};
        }
        struct blob *payload = kv_command_encode(&command);
        mem_fail_after(calls <= n ? n - calls : UINT64_MAX);
        rc = feed_entry(&feed, ENTRY_COMMAND, payload);
        calls += mem_fail_count();
        mem_fail_never();
        blob_unref(payload);
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
    }
    unsigned applied = rc == 0 ? step : step - 1;
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    unsigned in_part = applied % 20;
    unsigned puts = in_part > 0 ? in_part - 1 : 0;
    cr_assert_eq(stats.leases, applied % 20 > 0);
    cr_assert_eq(stats.keys, puts < 7 ? puts : 7);
    struct kv *loaded = through_image(feed.kv, 9);
    cr_assert_eq(digest(loaded), digest(feed.kv));
    kv_close(loaded);
    feed_close(&feed);
    return calls > n;
}

Test(kv_lease, s28_without_memory_an_entry_has_all_of_its_effect_or_none) {
    uint64_t n = 0;
    while (run_out_at(n)) {
        n++;
    }
    cr_assert_gt(n, 40);
}
