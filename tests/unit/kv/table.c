#include "kv/table.h"

#include "base/mem.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct kv_version *version_of(uint32_t number) {
    char key[16];
    int size = snprintf(key, sizeof(key), "k%u", number);
    const struct version_new fresh = {.key = slice_of(key, (size_t)size)};
    return version_new(&fresh);
}

static struct kv_version *lookup(const struct table *table, const struct kv_version *version) {
    struct slice key = version_key(version);
    struct kv_version **slot = table_find(table, table_hash(table, key), key);
    return slot != NULL ? *slot : NULL;
}

static int insert(struct table *table, struct kv_version *version) {
    return table_insert(table, table_hash(table, version_key(version)), version);
}

static void take_out(struct table *table, const struct kv_version *version) {
    table_remove(table, table_hash(table, version_key(version)), version_key(version));
}

enum { MANY = 20000 };

Test(kv_table, finds_what_is_in_it_while_it_grows_and_shrinks) {
    struct table table;
    cr_assert_eq(table_init(&table, 42), 0);
    static struct kv_version *versions[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        versions[i] = version_of(i);
        cr_assert_null(lookup(&table, versions[i]));
        cr_assert_eq(insert(&table, versions[i]), 0);
        for (uint32_t j = i % 97; j <= i; j += 1 + i / 8) {
            cr_assert_eq(lookup(&table, versions[j]), versions[j]);
        }
    }
    cr_assert_eq(table.count, MANY);
    size_t grown = table_memory(&table);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t at = (i * 7919u) % MANY; /* 7919 is prime: every number once */
        take_out(&table, versions[at]);
        cr_assert_null(lookup(&table, versions[at]));
        for (uint32_t j = i + 1; j < MANY; j += 1 + MANY / 8) {
            uint32_t still = (j * 7919u) % MANY;
            cr_assert_eq(lookup(&table, versions[still]), versions[still]);
        }
    }
    cr_assert_eq(table.count, 0);
    cr_assert_lt(table_memory(&table), grown / 2, "memory comes back");
    for (uint32_t i = 0; i < MANY; i++) {
        version_unref(versions[i]);
    }
    table_fini(&table);
}

Test(kv_table, s28_is_unchanged_when_memory_runs_out_at_any_allocation) {
    for (uint64_t n = 0;; n++) {
        struct table table;
        cr_assert_eq(table_init(&table, 7), 0);
        struct kv_version *versions[300];
        uint32_t count = 0;
        for (uint32_t i = 0; i < 300; i++) {
            versions[i] = version_of(i);
        }
        mem_fail_after(n);
        while (count < 300 && insert(&table, versions[count]) == 0) {
            count++;
        }
        uint64_t calls = mem_fail_count();
        mem_fail_never();
        cr_assert_eq(table.count, count);
        for (uint32_t i = 0; i < 300; i++) {
            cr_assert_eq(lookup(&table, versions[i]), i < count ? versions[i] : NULL);
        }
        for (uint32_t i = 0; i < 300; i++) {
            version_unref(versions[i]);
        }
        table_fini(&table);
        if (calls <= n) {
            break;
        }
    }
}

Test(kv_table, s28_opens_or_refuses_when_memory_runs_out) {
    for (uint64_t n = 0; n < 6; n++) {
        struct table table;
        mem_fail_after(n);
        int rc = table_init(&table, 7);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        if (rc == 0) {
            table_fini(&table);
        }
    }
}
