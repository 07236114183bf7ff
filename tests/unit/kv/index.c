#include "kv/index.h"

#include "base/mem.h"
#include "base/prng.h"

#include <criterion/criterion.h>

enum { MODEL_MAX = 6000 };

/* The same keys as a sorted array. */
struct model {
    struct kv_version *items[MODEL_MAX];
    size_t count;
};

static size_t model_lower(const struct model *model, struct slice key) {
    size_t low = 0;
    size_t high = model->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (slice_compare(version_key(model->items[middle]), key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Keys of a few shapes: short, long common prefixes, prefixes of each other, NUL and 0xFF. */
static struct slice random_key(struct prng *prng, uint8_t *into) {
    static const char *const prefixes[] = {"", "a", "registry/pods/default/", "\xff\xff\xff\xff"};
    const char *prefix = prefixes[prng_below(prng, 4)];
    size_t size = strlen(prefix);
    memcpy(into, prefix, size);
    size_t more = 1 + prng_below(prng, 6);
    for (size_t i = 0; i < more; i++) {
        static const uint8_t letters[] = {0, 1, 'a', 'b', 'c', 0x7f, 0x80, 0xff};
        into[size++] = letters[prng_below(prng, sizeof(letters))];
    }
    return slice_of(into, size);
}

static struct kv_version *version_of(struct slice key) {
    const struct version_new fresh = {.key = key};
    return version_new(&fresh);
}

static void model_insert(struct model *model, size_t at, struct kv_version *version) {
    memmove(&model->items[at + 1], &model->items[at],
            (model->count - at) * sizeof(model->items[0]));
    model->items[at] = version;
    model->count++;
}

static void model_remove(struct model *model, size_t at) {
    model->count--;
    memmove(&model->items[at], &model->items[at + 1],
            (model->count - at) * sizeof(model->items[0]));
}

static void expect_same_order(const struct index *index, const struct model *model) {
    struct index_cursor cursor = index_lower(index, (struct slice){0});
    for (size_t i = 0; i < model->count; i++) {
        cr_assert_eq(index_at(&cursor), model->items[i]);
        cr_assert_eq(model->items[i]->leaf, &cursor.leaf->node, "a version knows its leaf");
        index_next(&cursor);
    }
    cr_assert_null(index_at(&cursor));
    cursor = index_last(index);
    for (size_t i = model->count; i-- > 0;) {
        cr_assert_eq(index_at(&cursor), model->items[i]);
        index_previous(&cursor);
    }
    cr_assert_null(index_at(&cursor));
}

static void change_at_random(struct index *index, struct model *model, struct prng *prng,
                             unsigned inserts_of_16) {
    uint8_t bytes[64];
    struct slice key = random_key(prng, bytes);
    size_t at = model_lower(model, key);
    bool present = at < model->count && slice_equal(version_key(model->items[at]), key);
    struct index_cursor cursor = index_lower(index, key);
    cr_assert_eq(index_at(&cursor), at < model->count ? model->items[at] : NULL);
    if (!present && prng_below(prng, 16) < inserts_of_16 && model->count < MODEL_MAX) {
        struct kv_version *version = version_of(key);
        cr_assert_eq(index_insert(index, version), 0);
        model_insert(model, at, version);
    } else if (present && prng_below(prng, 4) == 0) {
        struct kv_version *newest = version_of(key);
        index_replace(model->items[at], newest);
        version_unref(model->items[at]);
        model->items[at] = newest;
    } else if (model->count > 0 && prng_below(prng, 16) >= inserts_of_16) {
        at = prng_below(prng, model->count);
        index_remove(index, model->items[at]);
        version_unref(model->items[at]);
        model_remove(model, at);
    }
}

static void empty(struct index *index, struct model *model) {
    while (model->count > 0) {
        index_remove(index, model->items[model->count / 2]);
        version_unref(model->items[model->count / 2]);
        model_remove(model, model->count / 2);
    }
}

Test(kv_index, agrees_with_a_sorted_array_under_random_changes) {
    static struct model model;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct prng prng = prng_of(seed);
        struct index index;
        cr_assert_eq(index_init(&index), 0);
        for (unsigned phase = 0; phase < 6; phase++) {
            unsigned inserts_of_16 = phase % 2 == 0 ? 14 : 3;
            for (unsigned i = 0; i < 8000; i++) {
                change_at_random(&index, &model, &prng, inserts_of_16);
            }
            expect_same_order(&index, &model);
        }
        empty(&index, &model);
        cr_assert_eq(index.leaves, 1);
        cr_assert_eq(index.inners, 0);
        index_fini(&index);
    }
}

static struct kv_version *numbered(uint32_t number) {
    uint8_t key[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                      (uint8_t)number};
    return version_of(slice_of(key, sizeof(key)));
}

Test(kv_index, ascending_keys_fill_their_leaves) {
    static struct model model;
    struct index index;
    cr_assert_eq(index_init(&index), 0);
    for (uint32_t i = 0; i < MODEL_MAX; i++) {
        model.items[model.count] = numbered(i);
        cr_assert_eq(index_insert(&index, model.items[model.count++]), 0);
    }
    cr_assert_leq(index.leaves, MODEL_MAX / INDEX_FANOUT + 1);
    expect_same_order(&index, &model);
    while (model.count > 0) { /* from the front, as a queue would */
        index_remove(&index, model.items[0]);
        version_unref(model.items[0]);
        model_remove(&model, 0);
    }
    index_fini(&index);
}

Test(kv_index, descending_keys_are_kept_too) {
    static struct model model;
    struct index index;
    cr_assert_eq(index_init(&index), 0);
    for (uint32_t i = MODEL_MAX; i-- > 0;) {
        struct kv_version *version = numbered(i);
        cr_assert_eq(index_insert(&index, version), 0);
        model_insert(&model, 0, version);
    }
    expect_same_order(&index, &model);
    empty(&index, &model);
    index_fini(&index);
}

Test(kv_index, s28_is_unchanged_when_memory_runs_out_at_any_allocation) {
    enum { COUNT = 2500 }; /* enough for the root to split */
    for (uint64_t n = 0;; n++) {
        static struct model model;
        struct index index;
        cr_assert_eq(index_init(&index), 0);
        struct prng prng = prng_of(9);
        uint64_t calls = 0;
        bool failed = false;
        for (unsigned i = 0; i < COUNT; i++) {
            uint8_t bytes[64];
            struct slice key = random_key(&prng, bytes);
            size_t at = model_lower(&model, key);
            if (at < model.count && slice_equal(version_key(model.items[at]), key)) {
                continue;
            }
            struct kv_version *version = version_of(key);
            mem_fail_after(failed || n < calls ? UINT64_MAX : n - calls);
            int rc = index_insert(&index, version);
            calls += mem_fail_count();
            mem_fail_never();
            if (rc != 0) {
                cr_assert_eq(rc, LKV_ENOMEM);
                failed = true;
                expect_same_order(&index, &model);
                cr_assert_eq(index_insert(&index, version), 0);
            }
            model_insert(&model, at, version);
        }
        expect_same_order(&index, &model);
        empty(&index, &model);
        index_fini(&index);
        if (!failed) {
            break;
        }
    }
}
