/* Both engines are one state machine: the same entries give the same answers, digests and images, byte for
 * byte, whatever is compacted, restored, viewed, closed, or lost since the last flush. */
#include "base/prng.h"
#include "kv/durable.h"
#include "kv/txn.h"
#include "naive_query.h"
#include "tests/sim/sim_disk.h"
#include "tests/support/map_home.h"
#include "tests/support/stride.h"

#include <criterion/criterion.h>

enum { LOG_MAX = 12000, BATCH_MAX = 60, KEY_MAX = 4, VIEWS = 3 };

struct pair {
    struct prng prng;
    struct map_home home;
    struct kv_options options[2];
    struct kv *kv[2]; /* in memory, on disk */
    struct sim_disk *sim;
    struct entry log[LOG_MAX];
    struct kv_result results[LOG_MAX]; /* the first ones, without answers */
    size_t count;
    uint64_t raised; /* the entry that brings history */
    uint64_t sessions[4];
    struct held {
        struct kv_view *views[2];
        struct kv_pin *pins[2]; /* of some revision */
        struct slice image;     /* owned: of the first, when it was opened */
    } held[VIEWS];
    size_t answered, refused, replayed, restored;
};

/* ---------------------------------------------------------------------------- comparing */

static void expect_item(const struct kv_item *a, const struct kv_item *b) {
    cr_assert(slice_equal(a->key, b->key));
    cr_assert(slice_equal(a->value, b->value));
    cr_assert(a->create_rev == b->create_rev && a->mod_rev == b->mod_rev &&
              a->version == b->version && a->lease == b->lease);
}

static void expect_answer(const struct kv_answer *a, const struct kv_answer *b) {
    cr_assert_eq(a == NULL, b == NULL);
    if (a == NULL) {
        return;
    }
    cr_assert(a->op == b->op && a->count == b->count && a->more == b->more && a->held == b->held &&
              a->total == b->total && a->number == b->number && a->answer_count == b->answer_count);
    for (size_t i = 0; i < a->count; i++) {
        expect_item(&a->items[i], &b->items[i]);
    }
    for (size_t i = 0; i < a->answer_count; i++) {
        expect_answer(&a->answers[i], &b->answers[i]);
    }
}

static void expect_result(struct pair *pair, const struct kv_result *a, const struct kv_result *b) {
    cr_assert_eq(a->rc, b->rc, "entry %llu: %d and %d", (unsigned long long)a->index, a->rc, b->rc);
    cr_assert(a->index == b->index && a->term == b->term && a->revision == b->revision &&
              a->kept_from == b->kept_from && a->count == b->count && a->session == b->session &&
              a->ended == b->ended && a->repeated == b->repeated);
    expect_answer(a->answer, b->answer);
    pair->answered += a->answer != NULL;
    pair->refused += a->rc != 0;
}

static void expect_stamp(const struct kv_stamp *a, const struct kv_stamp *b) {
    cr_assert(a->index == b->index && a->term == b->term && a->revision == b->revision &&
              a->kept_from == b->kept_from);
}

/* ---------------------------------------------------------------------------- the log */

/* Keys that begin each other, with the bytes that an encoding might stumble over. */
static struct slice random_key(struct prng *prng, uint8_t into[KEY_MAX]) {
    static const uint8_t letters[] = {0, 1, 0xff, 'a', 'b'};
    size_t size = 1 + (size_t)prng_below(prng, KEY_MAX - 1);
    for (size_t i = 0; i < size; i++) {
        into[i] = letters[prng_below(prng, sizeof(letters))];
    }
    return slice_of(into, size);
}

static struct slice random_end(struct prng *prng, uint8_t into[KEY_MAX]) {
    switch (prng_below(prng, 6)) {
    case 0: return slice_of("\0", 1);
    case 1: return random_key(prng, into);
    default: return (struct slice){0};
    }
}

static struct slice random_value(struct prng *prng, char into[16]) {
    static const char large[40000];
    switch (prng_below(prng, 30)) {
    case 0: return slice_of(large, prng_below(prng, sizeof(large)));
    case 1: return slice_text("no number");
    case 2: return slice_text("9223372036854775807");
    default: (void)snprintf(into, 16, "%d", (int)prng_below(prng, 1000)); return slice_text(into);
    }
}

struct texts {
    uint8_t key[KEY_MAX], end[KEY_MAX];
    char value[16];
};

static uint64_t revision_of(const struct pair *pair) {
    struct kv_stamp stamp;
    kv_stamp(pair->kv[0], &stamp);
    return stamp.revision;
}

static struct kv_step random_step(struct pair *pair, struct texts *texts) {
    struct prng *prng = &pair->prng;
    struct kv_step step = {.key = random_key(prng, texts->key)};
    uint64_t revision = revision_of(pair);
    uint32_t flags = prng_below(prng, 3) ? 0 : (uint32_t)prng_below(prng, 16);
    switch (prng_below(prng, 8)) {
    case 0:
    case 1:
        step.op = KV_DELETE;
        step.end = random_end(prng, texts->end);
        step.flags = flags & KV_PREVIOUS;
        break;
    case 2:
        step.op = KV_ADD;
        step.flags = flags & KV_PREVIOUS;
        step.delta = (int64_t)prng_below(prng, 9) - 4;
        break;
    case 3:
        step.op = KV_RANGE;
        step.end = random_end(prng, texts->end);
        step.query = naive_random_query(prng, revision);
        step.query.revision = prng_below(prng, 4) ? 0 : prng_below(prng, revision + 2);
        break;
    default:
        step.op = KV_PUT;
        step.flags = flags;
        step.value = flags & KV_KEEP_VALUE ? (struct slice){0} : random_value(prng, texts->value);
        step.lease = flags & KV_KEEP_LEASE || pair->raised == 0 || prng_below(prng, 2)
                         ? 0
                         : 1 + (int64_t)prng_below(prng, 3);
        step.if_rev = prng_below(prng, 8) ? 0 : prng_below(prng, revision + 1);
        break;
    }
    return step;
}

static void random_program(struct pair *pair, unsigned depth, struct buffer *out) {
    struct prng *prng = &pair->prng;
    struct kv_txn txn;
    kv_txn_init(&txn);
    for (uint64_t i = prng_below(prng, 3); i > 0; i--) {
        struct texts texts;
        const struct kv_compare compare = {.field = (enum kv_field)prng_below(prng, 6),
                                           .relation = (enum kv_relation)prng_below(prng, 4),
                                           .key = random_key(prng, texts.key),
                                           .end = random_end(prng, texts.end),
                                           .value = random_value(prng, texts.value),
                                           .number = prng_below(prng, 4)};
        kv_txn_compare(&txn, &compare);
    }
    for (uint64_t i = prng_below(prng, 6); i > 0; i--) {
        struct texts texts;
        struct buffer nested = {0};
        struct kv_step step = random_step(pair, &texts);
        if (depth < 3 && prng_below(prng, 6) == 0) {
            random_program(pair, depth + 1, &nested);
            step = (struct kv_step){.op = KV_TXN, .txn = buffer_slice(&nested)};
        }
        kv_txn_step(&txn, prng_below(prng, 2), &step);
        buffer_fini(&nested);
    }
    kv_txn_write(&txn, out);
    kv_txn_fini(&txn);
}

static void in_session(struct pair *pair, struct kv_command *command) {
    struct prng *prng = &pair->prng;
    command->session = pair->sessions[prng_below(prng, 4)];
    if (command->session != 0) {
        uint64_t low = pair->count / 40;
        command->acked_below = 1 + (low > 5 ? low - 5 : 0);
        command->seq = command->acked_below + prng_below(prng, 20);
    }
}

enum { LEASES = 3 };

static void lease_command(struct pair *pair, struct kv_command *command, struct buffer *bytes) {
    struct prng *prng = &pair->prng;
    command->lease = 1 + (int64_t)prng_below(prng, LEASES);
    switch (prng_below(prng, 4)) {
    case 0: command->op = KV_LEASE_REVOKE; break;
    case 1:
        command->op = KV_LEASE_CHECKPOINT;
        struct kv_lease lease;
        for (size_t i = 0; kv_lease_at(pair->kv[0], i, &lease); i++) {
            const struct kv_checkpoint at = {
                .id = lease.id, .granted = lease.granted, .remaining_ms = prng_below(prng, 900)};
            kv_checkpoint_put(bytes, &at);
        }
        command->lease = 0;
        command->checkpoints = buffer_slice(bytes);
        break;
    default:
        command->op = KV_LEASE_GRANT;
        command->ttl_ms = 1000;
        command->limit = 100;
        break;
    }
}

/* One that opens or ends a session, or changes keys in one or in none. */
static void random_command(struct pair *pair, struct kv_command *command, struct texts *texts,
                           struct buffer *program) {
    struct prng *prng = &pair->prng;
    bool history = pair->raised != 0;
    *command = (struct kv_command){.op = KV_PUT};
    switch (prng_below(prng, 60)) {
    case 0:
        command->op = KV_SESSION_OPEN;
        command->ttl_ms = 1 + prng_below(prng, 1000);
        command->limit = 6;
        command->session = prng_below(prng, 2) ? pair->sessions[prng_below(prng, 4)] : 0;
        pair->sessions[prng_below(prng, 4)] = pair->count + 1;
        return;
    case 1:
        command->op = prng_below(prng, 2) ? KV_SESSION_CLOSE : KV_SESSION_EXPIRE;
        command->session = 1 + pair->sessions[prng_below(prng, 4)];
        return;
    case 2:
        command->op = history ? KV_COMPACT : KV_PUT;
        command->revision = 1 + prng_below(prng, revision_of(pair) + 1);
        break;
    case 3:
    case 4:
        if (history) {
            lease_command(pair, command, program);
            return;
        }
        break;
    default: break;
    }
    if (prng_below(prng, 3) == 0) {
        in_session(pair, command);
    }
    command->in_term = prng_below(prng, 20) == 0 ? 1 + prng_below(prng, 3) : 0;
    if (command->op == KV_COMPACT) {
        return;
    }
    if (history && prng_below(prng, 4) == 0) {
        command->op = KV_TXN;
        random_program(pair, 1, program);
        command->txn = buffer_slice(program);
        return;
    }
    struct kv_step step;
    do {
        step = random_step(pair, texts);
    } while (step.op == KV_RANGE || (!history && step.op == KV_ADD));
    command->op = step.op;
    command->key = step.key;
    command->end = step.end;
    command->value = step.value;
    command->lease = step.lease;
    command->delta = step.delta;
    command->flags = history ? step.flags : 0;
    command->if_rev = history ? step.if_rev : 0;
}

static void add_entry(struct pair *pair) {
    struct entry *entry = &pair->log[pair->count];
    *entry = (struct entry){.index = pair->count + 1, .term = 1 + pair->count / 3000};
    if (pair->raised == 0 && pair->count >= 300) {
        entry->type = ENTRY_FEATURE;
        entry->payload = feature_encode(KV_LEVEL_HISTORY);
        pair->raised = entry->index;
    }
    while (entry->payload == NULL) {
        struct kv_command command;
        struct texts texts;
        struct buffer program = {0};
        random_command(pair, &command, &texts, &program);
        if (kv_command_check(&command, NULL) == 0) {
            entry->type = ENTRY_COMMAND;
            entry->payload = kv_command_encode(&command);
            FEED_REQUIRE(entry->payload != NULL);
        }
        buffer_fini(&program);
    }
    pair->count++;
}

/* ---------------------------------------------------------------------------- applying */

static void apply_all(struct kv *kv, const struct entry *entries, size_t count,
                      struct kv_result *results) {
    size_t done = 0;
    while (done < count) {
        size_t applied;
        struct reason why = {{0}};
        int rc = kv_apply(kv, entries + done, count - done, results + done, &applied, &why);
        cr_assert_eq(rc, 0, "%s", why.text);
        done += applied;
    }
}

static void apply_batch(struct pair *pair) {
    static struct kv_result results[2][BATCH_MAX];
    size_t from = pair->count;
    size_t count = 1 + (size_t)prng_below(&pair->prng, prng_below(&pair->prng, 2) ? 3 : BATCH_MAX);
    while (pair->count < from + count && pair->count < LOG_MAX) {
        add_entry(pair);
    }
    count = pair->count - from;
    for (size_t i = 0; i < 2; i++) {
        apply_all(pair->kv[i], pair->log + from, count, results[i]);
    }
    for (size_t i = 0; i < count; i++) {
        expect_result(pair, &results[0][i], &results[1][i]);
        kv_result_fini(&results[0][i]);
        kv_result_fini(&results[1][i]);
        pair->results[from + i] = results[0][i];
    }
}

/* ---------------------------------------------------------------------------- states */

static void compare_points(struct pair *pair) {
    struct prng *prng = &pair->prng;
    for (int i = 0; i < 20; i++) {
        uint8_t text[KEY_MAX];
        struct slice key = random_key(prng, text);
        uint64_t revision = prng_below(prng, 3) ? 0 : prng_below(prng, revision_of(pair) + 2);
        struct kv_item items[2];
        struct kv_stamp stamps[2];
        int rc = kv_get_at(pair->kv[0], key, revision, &items[0], &stamps[0]);
        cr_assert_eq(kv_get_at(pair->kv[1], key, revision, &items[1], &stamps[1]), rc);
        expect_stamp(&stamps[0], &stamps[1]);
        expect_item(&items[0], &items[1]);
        kv_item_release(&items[0]);
        kv_item_release(&items[1]);
        char copies[2][8] = {"", ""};
        size_t sizes[2] = {0, 0};
        rc = kv_get_copy(pair->kv[0], key, copies[0], sizeof(copies[0]), &sizes[0]);
        cr_assert_eq(kv_get_copy(pair->kv[1], key, copies[1], sizeof(copies[1]), &sizes[1]), rc);
        cr_assert(sizes[0] == sizes[1] && memcmp(copies[0], copies[1], sizeof(copies[0])) == 0);
    }
}

static void expect_ranges(const struct kv_range *a, const struct kv_range *b) {
    cr_assert(a->count == b->count && a->more == b->more && a->total == b->total);
    for (size_t i = 0; i < a->count; i++) {
        expect_item(&a->items[i], &b->items[i]);
    }
}

static void compare_range(struct pair *pair) {
    struct prng *prng = &pair->prng;
    struct kv_query query = naive_random_query(prng, revision_of(pair));
    uint8_t from[KEY_MAX], to[KEY_MAX];
    query.from = prng_below(prng, 3) ? (struct slice){0} : random_key(prng, from);
    query.to = prng_below(prng, 3) ? (struct slice){0} : random_key(prng, to);
    query.revision = prng_below(prng, 3) ? 0 : prng_below(prng, revision_of(pair) + 2);
    struct kv_range ranges[2];
    int rc = kv_range(pair->kv[0], &query, &ranges[0]);
    cr_assert_eq(kv_range(pair->kv[1], &query, &ranges[1]), rc);
    expect_stamp(&ranges[0].stamp, &ranges[1].stamp);
    expect_ranges(&ranges[0], &ranges[1]);
    kv_range_fini(&ranges[0]);
    kv_range_fini(&ranges[1]);
}

static void compare_rest(const struct pair *pair) {
    struct kv_stats stats[2];
    kv_stats(pair->kv[0], &stats[0]);
    kv_stats(pair->kv[1], &stats[1]);
    cr_assert(stats[0].keys == stats[1].keys && stats[0].bytes == stats[1].bytes &&
              stats[0].revision == stats[1].revision && stats[0].kept_from == stats[1].kept_from &&
              stats[0].sessions == stats[1].sessions && stats[0].leases == stats[1].leases);
    cr_assert_eq(kv_feature_level(pair->kv[0]), kv_feature_level(pair->kv[1]));
    struct kv_session a, b;
    for (size_t i = 0; kv_session_at(pair->kv[0], i, &a); i++) {
        cr_assert(kv_session_at(pair->kv[1], i, &b) && a.id == b.id && a.ttl_ms == b.ttl_ms);
    }
}

static void compare_leases(const struct pair *pair) {
    struct kv_lease a, b;
    for (size_t i = 0; kv_lease_at(pair->kv[0], i, &a); i++) {
        cr_assert(kv_lease_at(pair->kv[1], i, &b));
        cr_assert(a.id == b.id && a.granted == b.granted && a.ttl_ms == b.ttl_ms &&
                  a.remaining_ms == b.remaining_ms);
        struct kv_range keys[2];
        for (size_t k = 0; k < 2; k++) {
            cr_assert_eq(kv_lease_keys(pair->kv[k], a.id, (struct slice){0}, 1000, &keys[k]), 0);
        }
        cr_assert_eq(keys[0].count, keys[1].count);
        for (size_t k = 0; k < keys[0].count; k++) {
            expect_item(&keys[0].items[k], &keys[1].items[k]);
        }
        kv_range_fini(&keys[0]);
        kv_range_fini(&keys[1]);
    }
}

/* ---------------------------------------------------------------------------- views and images */

/* Owned bytes of the view's image. */
static struct slice image_of(struct pair *pair, struct kv_view *view, const char *path,
                             uint64_t *digest) {
    const struct kv_owner owner = {.cluster_id = 11, .group_id = 12};
    struct kv_image_info info;
    struct reason why = {{0}};
    struct slice bytes;
    int rc = kv_image_save(view, sim_disk_seam(pair->sim), "d", path, owner, (struct slice){0},
                           NULL, &info, &why);
    cr_assert_eq(rc, 0, "%s", why.text);
    *digest = info.digest;
    cr_assert(sim_disk_peek(pair->sim, path, &bytes));
    uint8_t *copy = malloc(bytes.size);
    FEED_REQUIRE(copy != NULL);
    memcpy(copy, bytes.data, bytes.size);
    return slice_of(copy, bytes.size);
}

static void compare_pins(struct pair *pair, struct held *held) {
    struct kv_query query = naive_random_query(&pair->prng, revision_of(pair));
    struct kv_range ranges[2];
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(kv_pin_range(held->pins[i], &query, &ranges[i]), 0);
    }
    expect_ranges(&ranges[0], &ranges[1]);
    for (size_t i = 0; i < 2; i++) {
        kv_range_fini(&ranges[i]);
        kv_pin_close(held->pins[i]);
    }
}

static void let_go(struct pair *pair, struct held *held) {
    if (held->pins[0] != NULL) {
        compare_pins(pair, held);
    }
    for (size_t i = 0; i < 2 && held->views[i] != NULL; i++) {
        uint64_t saved, digest;
        struct slice image = image_of(pair, held->views[i], "d/late", &saved);
        cr_assert_eq(kv_view_digest(held->views[i], NULL, &digest), 0);
        cr_assert_eq(saved, digest);
        cr_assert(slice_equal(image, held->image), "a view shows what came after it");
        free((void *)(uintptr_t)image.data);
        kv_view_close(held->views[i]);
    }
    free((void *)(uintptr_t)held->image.data);
    *held = (struct held){0};
}

static void compare_images(struct pair *pair) {
    struct held *held = &pair->held[prng_below(&pair->prng, VIEWS)];
    uint64_t digests[2];
    struct slice images[2];
    let_go(pair, held);
    uint64_t revision = prng_below(&pair->prng, revision_of(pair) + 1);
    for (size_t i = 0; i < 2; i++) {
        struct kv_stamp stamp;
        if (kv_pin_open(pair->kv[i], revision, &held->pins[i], &stamp) != 0) {
            cr_assert_eq(kv_pin_open(pair->kv[i], 0, &held->pins[i], &stamp), 0);
        }
        cr_assert_eq(kv_view_open(pair->kv[i], &held->views[i]), 0);
        images[i] = image_of(pair, held->views[i], i == 0 ? "d/a" : "d/b", &digests[i]);
    }
    cr_assert_eq(digests[0], digests[1]);
    cr_assert(slice_equal(images[0], images[1]), "the images differ");
    held->image = images[0];
    free((void *)(uintptr_t)images[1].data);
}

/* What one engine has written becomes the other's state. */
static void cross(struct pair *pair) {
    compare_images(pair);
    for (size_t i = 0; i < 2; i++) {
        struct kv *loaded;
        struct reason why = {{0}};
        int rc = kv_image_load(&loaded, &pair->options[i], sim_disk_seam(pair->sim),
                               i == 0 ? "d/b" : "d/a", NULL, NULL, NULL, &why);
        cr_assert_eq(rc, 0, "%s", why.text);
        if (prng_below(&pair->prng, 4) == 0) {
            kv_close(loaded); /* not taken after all */
        } else {
            kv_restore(pair->kv[i], loaded);
        }
    }
    pair->restored++;
}

/* ---------------------------------------------------------------------------- restarts */

static void reopen(struct pair *pair, bool lost) {
    for (size_t i = 0; i < VIEWS; i++) {
        let_go(pair, &pair->held[i]);
    }
    if (lost) {
        pair->kv[1]->store->durable->fault = LKV_EIO; /* nothing more reaches the disk */
    } else if (prng_below(&pair->prng, 2)) {
        uint64_t index;
        cr_assert_eq(kv_flush(pair->kv[1], NULL), 0);
        cr_assert_eq(kv_persisted(pair->kv[1], &index, NULL), 0);
        cr_assert_eq(index, pair->count);
    }
    kv_close(pair->kv[1]);
    int rc = kv_open(&pair->kv[1], &pair->options[1]);
    cr_assert_eq(rc, 0, "%s", pair->options[1].why->text);
    struct kv_stamp stamp;
    kv_stamp(pair->kv[1], &stamp);
    cr_assert(stamp.index <= pair->count && (lost || stamp.index == pair->count));
    static struct kv_result results[LOG_MAX];
    size_t count = pair->count - (size_t)stamp.index;
    apply_all(pair->kv[1], pair->log + stamp.index, count, results);
    for (size_t i = 0; i < count; i++) {
        kv_result_fini(&results[i]);
        const struct kv_result *first = &pair->results[stamp.index + i];
        cr_assert(results[i].rc == first->rc && results[i].revision == first->revision &&
                      results[i].count == first->count && results[i].index == first->index,
                  "entry %llu: %d %llu and %d %llu", (unsigned long long)stamp.index + i + 1,
                  first->rc, (unsigned long long)first->count, results[i].rc,
                  (unsigned long long)results[i].count);
    }
    pair->replayed += count;
}

static void pair_open(struct pair *pair, uint64_t seed) {
    static struct reason why;
    *pair = (struct pair){.prng = prng_of(seed), .sim = sim_disk_new(1)};
    map_home_make(&pair->home);
    cr_assert_eq(disk_make_dir(sim_disk_seam(pair->sim), "d"), 0);
    pair->options[0] = (struct kv_options){.hash_seed = seed, .feature_level = KV_LEVEL_HISTORY};
    pair->options[1] = pair->options[0];
    pair->options[1].home = &pair->home.home;
    pair->options[1].why = &why;
    for (size_t i = 0; i < 2; i++) {
        int rc = kv_open(&pair->kv[i], &pair->options[i]);
        cr_assert_eq(rc, 0, "%s", why.text);
    }
}

static void pair_close(struct pair *pair) {
    for (size_t i = 0; i < VIEWS; i++) {
        let_go(pair, &pair->held[i]);
    }
    kv_close(pair->kv[0]);
    kv_close(pair->kv[1]);
    map_home_remove(&pair->home);
    sim_disk_free(pair->sim);
    for (size_t i = 0; i < pair->count; i++) {
        blob_unref(pair->log[i].payload);
    }
}

/* When all but the newest revision has been given up, and nobody holds anything back, both have as many
 * versions. (Before that a tombstone that is superseded may go a little earlier from the disk.) */
static void compare_rests(struct pair *pair) {
    const struct kv_command compact = {.op = KV_COMPACT, .revision = revision_of(pair)};
    const struct entry entry = {.index = pair->count + 1,
                                .term = 99,
                                .type = ENTRY_COMMAND,
                                .payload = kv_command_encode(&compact)};
    struct kv_stats stats[2];
    for (size_t i = 0; i < 2; i++) {
        struct kv_result result;
        apply_all(pair->kv[i], &entry, 1, &result);
        while (kv_tidy(pair->kv[i])) {
        }
        kv_stats(pair->kv[i], &stats[i]);
    }
    blob_unref(entry.payload);
    cr_assert(stats[0].versions == stats[1].versions, "%llu versions and %llu",
              (unsigned long long)stats[0].versions, (unsigned long long)stats[1].versions);
}

static void drive(struct pair *pair, uint64_t seed, size_t entries) {
    pair_open(pair, seed);
    while (pair->count < entries) {
        apply_batch(pair);
        compare_points(pair);
        compare_range(pair);
        compare_rest(pair);
        compare_leases(pair);
        switch (prng_below(&pair->prng, 24)) {
        case 0:
        case 1: compare_images(pair); break;
        case 2: cross(pair); break;
        case 3: reopen(pair, true); break;
        case 4: reopen(pair, false); break;
        case 5: (void)kv_tidy(pair->kv[1]); break;
        default: break;
        }
    }
    compare_images(pair);
    cr_assert(pair->answered > entries / 20 && pair->refused > entries / 20 && pair->restored > 0 &&
                  pair->replayed > 0,
              "%zu %zu %zu %zu: not much was tried", pair->answered, pair->refused, pair->restored,
              pair->replayed);
    for (size_t i = 0; i < VIEWS; i++) {
        let_go(pair, &pair->held[i]);
    }
    compare_rests(pair);
    pair_close(pair);
}

Test(kv_engines, x_both_give_the_same_answers_images_and_digests) {
    static struct pair pair;
    for (uint64_t seed = 1; seed <= 5; seed += LKV_STRIDE) {
        drive(&pair, seed, 3000);
    }
}

Test(kv_engines, rule_22_a_state_of_a_higher_feature_level_is_refused_and_left_alone) {
    struct map_home home;
    struct reason why = {{0}};
    struct kv_options options = {
        .feature_level = KV_LEVEL_HISTORY, .home = &home.home, .why = &why};
    map_home_make(&home);
    struct feed feed = {.term = 1};
    struct blob *level = feature_encode(KV_LEVEL_HISTORY);
    cr_assert_eq(kv_open(&feed.kv, &options), 0);
    cr_assert_eq(feed_entry(&feed, ENTRY_FEATURE, level), 0);
    must_put(&feed, "a", "1");
    blob_unref(level);
    feed_close(&feed);
    options.feature_level = KV_LEVEL_HISTORY - 1;
    cr_assert_eq(kv_open(&feed.kv, &options), LKV_EVERSION);
    cr_assert(strstr(why.text, "feature level 2") != NULL, "%s", why.text);
    options.feature_level = KV_LEVEL_HISTORY;
    cr_assert_eq(kv_open(&feed.kv, &options), 0);
    struct kv_item item;
    cr_assert_eq(kv_get(feed.kv, slice_text("a"), &item, NULL), 0);
    kv_item_release(&item);
    kv_close(feed.kv);
    map_home_remove(&home);
}
