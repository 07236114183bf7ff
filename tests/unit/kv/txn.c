/* Transactions: what they mean, what is refused, and their bytes. */
#include "kv/txn.h"

#include "base/mem.h"
#include "feed.h"

#include <criterion/criterion.h>

#define KEY(text)   .key = slice_text(text)
#define END(text)   .end = slice_text(text)
#define VALUE(text) .value = slice_text(text)
#define TO_THE_LAST .end = slice_of("\0", 1)

static void step(struct kv_txn *txn, bool then, struct kv_step step) {
    kv_txn_step(txn, then, &step);
}

static void compare(struct kv_txn *txn, struct kv_compare compare) {
    kv_txn_compare(txn, &compare);
}

#define THEN(txn, ...) step(txn, true, (struct kv_step){__VA_ARGS__})
#define ELSE(txn, ...) step(txn, false, (struct kv_step){__VA_ARGS__})
#define IF(txn, ...)   compare(txn, (struct kv_compare){__VA_ARGS__})

static struct kv_txn txn_new(void) {
    struct kv_txn txn;
    kv_txn_init(&txn);
    return txn;
}

/* The program; the transaction is done with. */
static struct buffer written(struct kv_txn *txn) {
    struct buffer bytes;
    buffer_init(&bytes);
    kv_txn_write(txn, &bytes);
    cr_assert_not(bytes.failed);
    kv_txn_fini(txn);
    return bytes;
}

/* A program as an operation of another one. */
static void nest(struct kv_txn *into, bool then, struct kv_txn *inner) {
    struct buffer bytes = written(inner);
    step(into, then, (struct kv_step){.op = KV_TXN, .txn = buffer_slice(&bytes)});
    buffer_fini(&bytes);
}

/* The outcome; feed->result.answer is for kv_result_fini. */
static int run(struct feed *feed, struct kv_txn *txn) {
    struct buffer bytes = written(txn);
    const struct kv_command command = {.op = KV_TXN, .txn = buffer_slice(&bytes)};
    struct reason why = {{0}};
    cr_assert_eq(kv_command_check(&command, &why), 0, "%s", why.text);
    cr_assert_eq(feed_command(feed, &command), 0);
    buffer_fini(&bytes);
    return feed->result.rc;
}

static bool held(struct feed *feed, struct kv_txn *txn) {
    cr_assert_eq(run(feed, txn), 0);
    bool result = feed->result.answer->held;
    cr_assert_eq(feed->result.count, result);
    kv_result_fini(&feed->result);
    return result;
}

static bool has_value(const struct feed *feed, const char *key, const char *value) {
    struct kv_item item;
    int rc = kv_get(feed->kv, slice_text(key), &item, NULL);
    bool same = rc == 0 && slice_equal(item.value, slice_text(value));
    kv_item_release(&item);
    return value == NULL ? rc == LKV_ENOTFOUND : same;
}

Test(kv_txn, all_changes_have_one_revision_and_an_order) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "x", "");
    must_put(&feed, "y", "");
    struct kv_txn txn = txn_new();
    THEN(&txn, .op = KV_PUT, KEY("b"), VALUE("1"));
    THEN(&txn, .op = KV_DELETE, KEY("x"), END("z"));
    THEN(&txn, .op = KV_ADD, KEY("a"), .delta = 4);
    cr_assert_eq(run(&feed, &txn), 0);
    cr_assert_eq(feed.result.revision, 4);
    const struct kv_answer *answers = feed.result.answer->answers;
    cr_assert_eq(feed.result.answer->answer_count, 3);
    cr_assert(answers[0].op == KV_PUT && answers[0].count == 0);
    cr_assert(answers[1].op == KV_DELETE && answers[1].total == 2);
    cr_assert(answers[2].op == KV_ADD && answers[2].number == 4);
    kv_result_fini(&feed.result);
    const char *const keys[] = {"a", "b"};
    for (size_t i = 0; i < 2; i++) {
        struct kv_item item;
        cr_assert_eq(kv_get(feed.kv, slice_text(keys[i]), &item, NULL), 0);
        cr_assert(item.mod_rev == 4 && item.create_rev == 4 && item.version == 1);
        kv_item_release(&item);
    }
    struct kv_item item;
    cr_assert_eq(kv_get_at(feed.kv, slice_text("x"), 3, &item, NULL), 0);
    kv_item_release(&item);
    feed_close(&feed);
}

Test(kv_txn, one_that_changes_nothing_has_no_revision_of_its_own) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "a", "1");
    struct kv_txn txn = txn_new();
    THEN(&txn, .op = KV_DELETE, KEY("b"), TO_THE_LAST);
    THEN(&txn, .op = KV_RANGE, KEY("a"));
    cr_assert_eq(run(&feed, &txn), 0);
    cr_assert_eq(feed.result.revision, 2);
    cr_assert_eq(feed.result.answer->answers[1].count, 1);
    kv_result_fini(&feed.result);
    txn = txn_new();
    cr_assert(held(&feed, &txn), "no compare fails");
    cr_assert_eq(feed.result.revision, 2);
    feed_close(&feed);
}

Test(kv_txn, compares_look_at_every_field) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "z", "");
    must_put(&feed, "a", "m");
    must_grant(&feed, 6, 1000);
    const struct kv_command leased = {.op = KV_PUT, KEY("a"), VALUE("m"), .lease = 6};
    cr_assert_eq(feed_command(&feed, &leased), 0); /* create 3, mod 4, version 2 */
    static const struct {
        enum kv_field field;
        uint64_t number;
    } fields[] = {{KV_FIELD_CREATE_REV, 3}, {KV_FIELD_MOD_REV, 4}, {KV_FIELD_VERSION, 2},
                  {KV_FIELD_LEASE, 6},      {KV_FIELD_EXISTS, 1},  {KV_FIELD_VALUE, 0}};
    static const char *const values[] = {"l", "m", "ma"};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        for (int less = -1; less <= 1; less++) { /* than the operand */
            for (int relation = KV_EQUAL; relation <= KV_GREATER; relation++) {
                struct kv_txn txn = txn_new();
                IF(&txn, .field = fields[i].field, .relation = (enum kv_relation)relation, KEY("a"),
                   .number = fields[i].number - (uint64_t)less, VALUE(values[1 - less]));
                bool expected = relation == KV_EQUAL       ? less == 0
                                : relation == KV_NOT_EQUAL ? less != 0
                                : relation == KV_LESS      ? less < 0
                                                           : less > 0;
                cr_assert_eq(held(&feed, &txn), expected, "%zu %d %d", i, less, relation);
            }
        }
    }
    feed_close(&feed);
}

Test(kv_txn, a_key_that_is_not_there_counts_as_zeros_and_has_no_value) {
    struct feed feed = feed_open_history(1);
    for (int field = KV_FIELD_VALUE; field <= KV_FIELD_EXISTS; field++) {
        for (int range = 0; range < 2; range++) {
            for (int relation = KV_EQUAL; relation <= KV_GREATER; relation++) {
                struct kv_txn txn = txn_new();
                IF(&txn, .field = (enum kv_field)field, .relation = (enum kv_relation)relation,
                   KEY("a"), .end = slice_text(range ? "b" : ""));
                cr_assert_eq(held(&feed, &txn), field != KV_FIELD_VALUE && relation == KV_EQUAL);
            }
        }
    }
    feed_close(&feed);
}

Test(kv_txn, a_compare_of_a_range_holds_if_it_does_for_all_its_keys) {
    struct feed feed = feed_open_history(1);
    char key[8];
    for (int i = 0; i < 2500; i++) { /* more than one call looks at */
        int size = snprintf(key, sizeof(key), "%04d", i);
        cr_assert_eq(feed_put(&feed, slice_of(key, (size_t)size), slice_text("v")), 0);
    }
    struct kv_txn txn = txn_new();
    IF(&txn, .field = KV_FIELD_VALUE, .relation = KV_EQUAL, KEY("0"), TO_THE_LAST, VALUE("v"));
    IF(&txn, .field = KV_FIELD_VERSION, .relation = KV_LESS, KEY("0"), END("3"), .number = 2);
    cr_assert(held(&feed, &txn));
    must_put(&feed, "2499", "v");
    txn = txn_new();
    IF(&txn, .field = KV_FIELD_VERSION, .relation = KV_LESS, KEY("0"), END("3"), .number = 2);
    cr_assert_not(held(&feed, &txn));
    txn = txn_new();
    IF(&txn, .field = KV_FIELD_VERSION, .relation = KV_LESS, KEY("0"), END("2499"), .number = 2);
    cr_assert(held(&feed, &txn));
    feed_close(&feed);
}

Test(kv_txn, reads_see_the_operations_before_them) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "a", "1");
    must_put(&feed, "c", "1");
    struct kv_txn txn = txn_new();
    THEN(&txn, .op = KV_RANGE, KEY("a"), END("z"));
    THEN(&txn, .op = KV_PUT, KEY("b"), VALUE("2"));
    THEN(&txn, .op = KV_DELETE, KEY("c"));
    THEN(&txn, .op = KV_RANGE, KEY("a"), END("z"), .query = {.descending = true});
    THEN(&txn, .op = KV_RANGE, KEY("a"), END("z"), .query = {.revision = 3, .count_only = true});
    THEN(&txn, .op = KV_RANGE, KEY("b"));
    cr_assert_eq(run(&feed, &txn), 0);
    const struct kv_answer *answers = feed.result.answer->answers;
    cr_assert(answers[0].count == 2 && slice_equal(answers[0].items[1].key, slice_text("c")));
    cr_assert(answers[3].count == 2 && slice_equal(answers[3].items[0].key, slice_text("b")));
    cr_assert_eq(answers[3].items[0].mod_rev, 4);
    cr_assert(answers[4].count == 0 && answers[4].total == 2, "before the transaction");
    cr_assert_eq(answers[5].count, 1);
    kv_result_fini(&feed.result);
    feed_close(&feed);
}

/* As in etcd: the way is known before anything is done. */
Test(kv_txn, compares_of_nested_programs_look_at_the_state_before) {
    struct feed feed = feed_open_history(1);
    struct kv_txn inner = txn_new();
    IF(&inner, .field = KV_FIELD_EXISTS, .relation = KV_EQUAL, KEY("a"), .number = 1);
    THEN(&inner, .op = KV_PUT, KEY("b"), VALUE("then"));
    ELSE(&inner, .op = KV_PUT, KEY("b"), VALUE("else"));
    struct kv_txn txn = txn_new();
    THEN(&txn, .op = KV_PUT, KEY("a"), VALUE("1"));
    nest(&txn, true, &inner);
    THEN(&txn, .op = KV_RANGE, KEY("b"));
    cr_assert_eq(run(&feed, &txn), 0);
    const struct kv_answer *answers = feed.result.answer->answers;
    cr_assert(answers[1].op == KV_TXN && !answers[1].held && answers[1].answer_count == 1);
    cr_assert(slice_equal(answers[2].items[0].value, slice_text("else")));
    kv_result_fini(&feed.result);
    cr_assert(has_value(&feed, "b", "else"));
    feed_close(&feed);
}

static void failing(struct kv_txn *txn, int number) {
    switch (number) {
    case 0: THEN(txn, .op = KV_ADD, KEY("text"), .delta = 1); break;
    case 1: THEN(txn, .op = KV_ADD, KEY("large"), .delta = 1); break;
    case 2: THEN(txn, .op = KV_PUT, KEY("none"), .flags = KV_KEEP_LEASE); break;
    case 3: THEN(txn, .op = KV_PUT, KEY("text"), .flags = KV_IF_ABSENT); break;
    case 4: THEN(txn, .op = KV_DELETE, KEY("text"), .if_rev = 1); break;
    case 5: THEN(txn, .op = KV_RANGE, KEY("a"), .query = {.revision = 1}); break;
    default: THEN(txn, .op = KV_RANGE, KEY("a"), .query = {.revision = 5}); break;
    }
}

/* C15: all or nothing, also when the last operation is the one that cannot be carried out. */
Test(kv_txn, c15_an_operation_that_cannot_be_carried_out_undoes_all) {
    static const int codes[] = {LKV_ENUMBER,  LKV_EOVERFLOW,  LKV_ENOTFOUND, LKV_ECOMPARE,
                                LKV_ECOMPARE, LKV_ECOMPACTED, LKV_EFUTURE};
    struct feed feed = feed_open_history(1);
    must_put(&feed, "text", "x");
    must_put(&feed, "large", "9223372036854775807");
    const struct kv_command compact = {.op = KV_COMPACT, .revision = 3};
    cr_assert_eq(feed_command(&feed, &compact), 0);
    for (int i = 0; i < 7; i++) {
        for (int nested = 0; nested < 2; nested++) {
            struct kv_txn txn = txn_new();
            THEN(&txn, .op = KV_PUT, KEY("a"), VALUE("1"));
            struct kv_txn inner = txn_new();
            failing(nested ? &inner : &txn, i);
            nest(&txn, true, &inner);
            cr_assert_eq(run(&feed, &txn), codes[i], "%d", i);
            cr_assert_null(feed.result.answer);
            cr_assert_eq(feed.result.revision, 3);
            cr_assert(has_value(&feed, "a", NULL));
        }
    }
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    cr_assert(stats.versions == 2 && stats.keys == 2);
    /* In the branch that is not taken it does no harm. */
    struct kv_txn txn = txn_new();
    IF(&txn, .field = KV_FIELD_EXISTS, .relation = KV_EQUAL, KEY("text"));
    failing(&txn, 0);
    ELSE(&txn, .op = KV_PUT, KEY("a"), VALUE("1"));
    cr_assert_not(held(&feed, &txn));
    cr_assert(has_value(&feed, "a", "1"));
    feed_close(&feed);
}

/* Rule 26: once, and the first outcome again; what was read is not kept. */
Test(kv_txn, x_a10_in_a_session_it_is_carried_out_once) {
    struct feed feed = feed_open_history(1);
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = 1000, .limit = 1};
    cr_assert_eq(feed_command(&feed, &open), 0);
    uint64_t session = feed.result.session;
    struct kv_txn txn = txn_new();
    IF(&txn, .field = KV_FIELD_EXISTS, .relation = KV_EQUAL, KEY("a"), .number = 0);
    THEN(&txn, .op = KV_PUT, KEY("a"), VALUE("1"));
    THEN(&txn, .op = KV_ADD, KEY("c"), .delta = 1);
    struct buffer bytes = written(&txn);
    const struct kv_command command = {
        .op = KV_TXN, .txn = buffer_slice(&bytes), .session = session, .seq = 1};
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(feed_command(&feed, &command), 0);
        cr_assert(feed.result.rc == 0 && feed.result.count == 1 && feed.result.revision == 2);
        cr_assert_eq(feed.result.repeated, i > 0);
        cr_assert_eq(feed.result.answer == NULL, i > 0);
        kv_result_fini(&feed.result);
    }
    struct kv_command fenced = command;
    fenced.seq = 2;
    fenced.in_term = 9;
    cr_assert_eq(feed_command(&feed, &fenced), 0);
    cr_assert_eq(feed.result.rc, LKV_ETERM);
    cr_assert(has_value(&feed, "c", "1"));
    buffer_fini(&bytes);
    feed_close(&feed);
}

/* Readers get in while it is carried out, and see nothing of it before it is complete. */
Test(kv_txn, c15_a_large_one_takes_several_calls_and_is_seen_as_a_whole) {
    struct feed feed = feed_open_history(1);
    char key[16];
    struct kv_txn txn = txn_new();
    enum { KEYS = 5000 };
    for (int i = 0; i < KEYS; i++) {
        int size = snprintf(key, sizeof(key), "new%04d", i);
        step(&txn, true,
             (struct kv_step){.op = KV_PUT, .key = slice_of(key, (size_t)size), VALUE("v")});
        size = snprintf(key, sizeof(key), "old%04d", i);
        cr_assert_eq(feed_put(&feed, slice_of(key, (size_t)size), slice_text("v")), 0);
    }
    THEN(&txn, .op = KV_DELETE, KEY("old"), END("ole"));
    THEN(&txn, .op = KV_RANGE, KEY("new"), END("nex"), .query = {.keys_only = true});
    struct buffer bytes = written(&txn);
    const struct kv_command command = {.op = KV_TXN, .txn = buffer_slice(&bytes)};
    struct blob *payload = kv_command_encode(&command);
    const struct entry entry = {
        .index = feed.index + 1, .term = 1, .type = ENTRY_COMMAND, .payload = payload};
    size_t applied = 0;
    unsigned calls = 0;
    const struct kv_query all = {.count_only = true};
    struct kv_range range;
    for (; applied == 0; calls++) {
        cr_assert_eq(kv_range(feed.kv, &all, &range), 0);
        cr_assert(range.total == KEYS && range.stamp.revision == KEYS + 1);
        /* Each call may get another copy of the same entry. */
        struct blob *copy = blob_copy(blob_slice(payload));
        struct entry same = entry;
        same.payload = copy;
        cr_assert_eq(kv_apply(feed.kv, &same, 1, &feed.result, &applied, NULL), 0);
        blob_unref(copy);
    }
    cr_assert_gt(calls, 10);
    cr_assert(feed.result.answer->answers[KEYS].total == KEYS);
    cr_assert(feed.result.answer->answers[KEYS + 1].count == KEYS);
    kv_result_fini(&feed.result);
    cr_assert_eq(kv_range(feed.kv, &all, &range), 0);
    cr_assert(range.total == KEYS && range.stamp.revision == KEYS + 2);
    cr_assert(has_value(&feed, "new0000", "v") && has_value(&feed, "old0000", NULL));
    blob_unref(payload);
    buffer_fini(&bytes);
    feed_close(&feed);
}

/* Rule 26: what is answered in one piece has a bound. */
Test(kv_txn, an_answer_has_a_bound) {
    struct feed feed = feed_open_history(1);
    struct blob *value = blob_new(3 * 1024 * 1024);
    memset(value->data, 1, value->size);
    for (int i = 0; i < 8; i++) {
        char key[2] = {(char)('a' + i), 0};
        cr_assert_eq(feed_put(&feed, slice_text(key), blob_slice(value)), 0);
    }
    struct kv_txn txn = txn_new();
    for (int i = 0; i < 4; i++) {
        THEN(&txn, .op = KV_RANGE, KEY("a"), END("d"), .query = {.with_total = true});
    }
    THEN(&txn, .op = KV_RANGE, KEY("x"), END("z"));
    cr_assert_eq(run(&feed, &txn), 0);
    size_t bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        const struct kv_answer *answer = &feed.result.answer->answers[i];
        cr_assert_eq(answer->total, 3);
        cr_assert_eq(answer->more, answer->count < 3);
        bytes += answer->count * value->size;
    }
    cr_assert(bytes > KV_ANSWER_BYTES_MAX / 2 && bytes <= KV_ANSWER_BYTES_MAX + value->size);
    cr_assert_not(feed.result.answer->answers[4].more);
    kv_result_fini(&feed.result);
    blob_unref(value);
    feed_close(&feed);
}

/* ---------------------------------------------------------------------------- what is refused */

static void expect_fault(struct kv_txn *txn, const char *text) {
    struct buffer bytes = written(txn);
    struct reason why = {{0}};
    cr_assert_eq(kv_txn_check(buffer_slice(&bytes), &why), LKV_EINVAL, "%s", text);
    cr_assert_str_eq(why.text, text);
    const struct kv_command command = {.op = KV_TXN, .txn = buffer_slice(&bytes)};
    struct blob *blob = kv_command_encode(&command);
    struct kv_command out;
    cr_assert_eq(kv_command_decode(blob_slice(blob), &out, NULL), LKV_EPROTOCOL);
    blob_unref(blob);
    buffer_fini(&bytes);
}

Test(kv_txn, n6_refuses_operations_outside_the_limits) {
    static uint8_t long_key[KV_KEY_SIZE_MAX + 1];
    struct kv_txn txn = txn_new();
    THEN(&txn, .op = KV_PUT, VALUE("1"));
    expect_fault(&txn, "txn: operation 1: key: not 1 to 8192 bytes");
    txn = txn_new();
    THEN(&txn, .op = KV_RANGE, KEY("a"));
    THEN(&txn, .op = KV_RANGE, KEY("a"), .end = slice_of(long_key, sizeof(long_key)));
    expect_fault(&txn, "txn: operation 2: end: more than 8192 bytes");
    txn = txn_new();
    ELSE(&txn, .op = KV_ADD, KEY("a"), .flags = KV_IF_ABSENT);
    expect_fault(&txn, "txn: operation 1: flags: one that is not known");
    txn = txn_new();
    IF(&txn, .field = KV_FIELD_LEASE, KEY(""));
    expect_fault(&txn, "txn: compare 1 is malformed");
    txn = txn_new();
    IF(&txn, .field = KV_FIELD_LEASE, .key = slice_of(long_key, sizeof(long_key)));
    expect_fault(&txn, "txn: compare 1 is malformed");
    txn = txn_new();
    IF(&txn, .field = KV_FIELD_LEASE, KEY("a"), .end = slice_of(long_key, sizeof(long_key)));
    expect_fault(&txn, "txn: compare 1 is malformed");
    txn = txn_new();
    IF(&txn, .field = (enum kv_field)6, KEY("a"));
    expect_fault(&txn, "txn: compare 1 is malformed");
    txn = txn_new();
    txn.compare_count = 1;
    expect_fault(&txn, "txn: compare 1 is malformed");
    txn = txn_new();
    IF(&txn, .field = KV_FIELD_LEASE, KEY("a"));
    txn.compare_count = 0;
    expect_fault(&txn, "txn: bytes follow the compares");
    txn = txn_new();
    THEN(&txn, .op = KV_RANGE, KEY("a"), .query = {.order = (enum kv_order)5});
    expect_fault(&txn, "txn: operation 1: malformed");
    txn = txn_new();
    struct kv_txn deepest = txn_new();
    for (int depth = 1; depth < KV_TXN_DEPTH_MAX; depth++) {
        struct kv_txn outer = txn_new();
        nest(&outer, depth % 2, &deepest);
        deepest = outer;
    }
    struct buffer bytes = written(&deepest);
    cr_assert_eq(kv_txn_check(buffer_slice(&bytes), NULL), 0);
    THEN(&txn, .op = KV_TXN, .txn = buffer_slice(&bytes));
    buffer_fini(&bytes);
    expect_fault(&txn, "txn: operation 1: programs are nested too deeply");
}

static const char twice[] = "changes a key that another one changes";

static void expect_twice(struct kv_txn *txn, size_t operation) {
    char text[100];
    (void)snprintf(text, sizeof(text), "txn: operation %zu: %s", operation, twice);
    expect_fault(txn, text);
}

static void expect_good(struct kv_txn *txn) {
    struct buffer bytes = written(txn);
    struct reason why = {{0}};
    cr_assert_eq(kv_txn_check(buffer_slice(&bytes), &why), 0, "%s", why.text);
    buffer_fini(&bytes);
}

Test(kv_txn, refuses_to_change_a_key_twice) {
    struct kv_txn txn = txn_new();
    THEN(&txn, .op = KV_PUT, KEY("a"));
    THEN(&txn, .op = KV_ADD, KEY("a"));
    expect_twice(&txn, 2);
    txn = txn_new();
    THEN(&txn, .op = KV_DELETE, KEY("a"), END("c"));
    THEN(&txn, .op = KV_PUT, KEY("b"));
    expect_twice(&txn, 2);
    txn = txn_new();
    THEN(&txn, .op = KV_PUT, KEY("b"));
    THEN(&txn, .op = KV_DELETE, KEY("a"), TO_THE_LAST);
    expect_twice(&txn, 1);
    txn = txn_new();
    ELSE(&txn, .op = KV_PUT, KEY("a"));
    ELSE(&txn, .op = KV_DELETE, KEY("a"));
    expect_twice(&txn, 1);
    txn = txn_new();
    THEN(&txn, .op = KV_DELETE, KEY("a"), END("c"));
    THEN(&txn, .op = KV_DELETE, KEY("b"), END("d"));
    THEN(&txn, .op = KV_PUT, KEY("d"));
    THEN(&txn, .op = KV_PUT, .key = slice_of("d\0", 2));
    ELSE(&txn, .op = KV_PUT, KEY("a"));
    expect_good(&txn);
    txn = txn_new(); /* an empty range */
    THEN(&txn, .op = KV_DELETE, KEY("b"), END("a"));
    THEN(&txn, .op = KV_PUT, KEY("b"));
    expect_good(&txn);
}

Test(kv_txn, two_branches_of_one_program_may_change_the_same_key) {
    struct kv_txn inner = txn_new();
    THEN(&inner, .op = KV_PUT, KEY("a"));
    ELSE(&inner, .op = KV_DELETE, KEY("a"));
    struct kv_txn txn = txn_new();
    nest(&txn, true, &inner);
    THEN(&txn, .op = KV_PUT, KEY("b"));
    expect_good(&txn);
    inner = txn_new();
    THEN(&inner, .op = KV_PUT, KEY("c"));
    ELSE(&inner, .op = KV_PUT, KEY("a"));
    txn = txn_new();
    nest(&txn, true, &inner);
    THEN(&txn, .op = KV_PUT, KEY("a"));
    expect_twice(&txn, 2);
    txn = txn_new(); /* two programs beside each other */
    for (int i = 0; i < 2; i++) {
        inner = txn_new();
        step(&inner, i == 0, (struct kv_step){.op = KV_PUT, KEY("a")});
        nest(&txn, true, &inner);
    }
    expect_twice(&txn, 2);
}

/* ---------------------------------------------------------------------------- bytes */

static struct kv_txn golden_txn(void) {
    struct kv_txn txn = txn_new();
    IF(&txn, .field = KV_FIELD_VALUE, .relation = KV_NOT_EQUAL, KEY("a"), VALUE("v"));
    IF(&txn, .field = KV_FIELD_MOD_REV, .relation = KV_GREATER, KEY("a"), END("b"), .number = 258);
    THEN(&txn, .op = KV_PUT, KEY("k"), VALUE("w"), .lease = 3, .flags = KV_PREVIOUS, .if_rev = 2);
    THEN(&txn, .op = KV_DELETE, KEY("l"), END("m"));
    ELSE(&txn, .op = KV_ADD, KEY("n"), .delta = -2);
    ELSE(&txn, .op = KV_RANGE, KEY("k"), END("l"),
         .query = {.descending = true,
                   .with_total = true,
                   .order = KV_BY_MOD_REV,
                   .revision = 9,
                   .limit = 10,
                   .mod_rev_min = 1,
                   .mod_rev_max = 2,
                   .create_rev_min = 3,
                   .create_rev_max = 4,
                   .bytes_max = 5});
    struct kv_txn inner = txn_new();
    nest(&txn, false, &inner);
    return txn;
}

static const uint8_t golden[] = {
#include "txn_golden.h"
};

Test(kv_txn, has_the_golden_bytes) {
    struct kv_txn txn = golden_txn();
    struct buffer bytes = written(&txn);
    if (!slice_equal(buffer_slice(&bytes), slice_of(golden, sizeof(golden)))) {
        for (size_t i = 0; i < bytes.size; i++) {
            (void)fprintf(stderr, "0x%02x,%s", bytes.data[i], i % 16 == 15 ? "\n" : " ");
        }
        cr_assert_fail("the format has changed");
    }
    cr_assert_eq(kv_txn_check(buffer_slice(&bytes), NULL), 0);
    buffer_fini(&bytes);
}

Test(kv_txn, reads_the_golden_bytes) {
    struct txn_parts parts;
    cr_assert(txn_open(slice_of(golden, sizeof(golden)), &parts));
    cr_assert_eq(parts.compare_count, 2);
    struct kv_compare compared;
    cr_assert(txn_next_compare(&parts.compares, &compared));
    cr_assert(txn_next_compare(&parts.compares, &compared) && compared.number == 258);
    struct kv_step read;
    cr_assert(txn_next_step(&parts.then_steps, &read));
    cr_assert(read.lease == 3 && read.if_rev == 2 && read.flags == KV_PREVIOUS);
    cr_assert(slice_equal(read.value, slice_text("w")));
    cr_assert(txn_next_step(&parts.else_steps, &read) && read.delta == -2);
    cr_assert(txn_next_step(&parts.else_steps, &read));
    const struct kv_query *query = &read.query;
    cr_assert(query->descending && query->with_total && !query->keys_only && !query->count_only);
    cr_assert(query->order == KV_BY_MOD_REV && query->revision == 9 && query->limit == 10);
    cr_assert(query->mod_rev_min == 1 && query->mod_rev_max == 2 && query->bytes_max == 5);
    cr_assert(query->create_rev_min == 3 && query->create_rev_max == 4);
}

/* Whatever the bytes are, the answer is a decision; what passes is carried out. */
Test(kv_txn, p3_takes_any_bytes_apart) {
    struct feed feed = feed_open_history(1);
    must_put(&feed, "k", "w");
    size_t good = 0;
    for (size_t at = 0; at < sizeof(golden); at++) {
        for (unsigned byte = 0; byte < 256; byte += byte < 16 || byte > 250 ? 1 : 13) {
            uint8_t changed[sizeof(golden)];
            memcpy(changed, golden, sizeof(changed));
            changed[at] = (uint8_t)byte;
            const struct kv_command command = {.op = KV_TXN,
                                               .txn = slice_of(changed, sizeof(changed))};
            struct reason why = {{0}};
            int rc = kv_command_check(&command, &why);
            cr_assert(rc == 0 || (rc == LKV_EINVAL && why.text[0] != 0));
            if (rc == 0) {
                cr_assert_eq(feed_command(&feed, &command), 0);
                kv_result_fini(&feed.result);
                good++;
            }
        }
    }
    cr_assert_gt(good, 500);
    for (size_t size = 0; size < sizeof(golden); size++) {
        cr_assert_eq(kv_txn_check(slice_of(golden, size), NULL), LKV_EINVAL);
    }
    feed_close(&feed);
}

/* S28 */
Test(kv_txn, s28_without_memory_nothing_of_it_is_seen) {
    for (uint64_t n = 0, reached = 1; reached; n++) {
        struct feed feed = feed_open_history(1);
        must_put(&feed, "c", "1");
        must_put(&feed, "k1", "");
        must_put(&feed, "k2", "");
        struct kv_txn txn = txn_new();
        struct kv_txn inner = txn_new();
        THEN(&inner, .op = KV_RANGE, KEY("a"), TO_THE_LAST);
        THEN(&inner, .op = KV_ADD, KEY("c"), .delta = 1, .flags = KV_PREVIOUS);
        THEN(&txn, .op = KV_PUT, KEY("a"), VALUE("1"));
        THEN(&txn, .op = KV_DELETE, KEY("k"), END("l"), .flags = KV_PREVIOUS);
        nest(&txn, true, &inner);
        struct buffer bytes = written(&txn);
        const struct kv_command command = {.op = KV_TXN, .txn = buffer_slice(&bytes)};
        struct blob *payload = kv_command_encode(&command);
        mem_fail_after(n);
        int rc = feed_entry(&feed, ENTRY_COMMAND, payload);
        reached = mem_fail_count() > n;
        mem_fail_never();
        cr_assert(rc == 0 || (rc == LKV_ENOMEM && reached));
        struct kv_stats stats;
        kv_stats(feed.kv, &stats);
        cr_assert_eq(stats.keys, rc == 0 ? 2 : 3);
        cr_assert(has_value(&feed, "a", rc == 0 ? "1" : NULL));
        cr_assert(has_value(&feed, "c", rc == 0 ? "2" : "1"));
        if (rc == 0) {
            kv_result_fini(&feed.result);
        }
        blob_unref(payload);
        buffer_fini(&bytes);
        feed_close(&feed);
    }
}

/* S28: whichever part of it there is no memory for, the program is not taken for a whole one. */
Test(kv_txn, s28_a_program_that_lacks_a_part_is_not_written) {
    enum { COMPARES, THEN_STEPS, ELSE_STEPS, WHOLE, PARTS };
    for (int part = 0; part < PARTS; part++) {
        struct kv_txn txn = txn_new();
        struct buffer bytes;
        buffer_init(&bytes);
        mem_fail_after(part == COMPARES ? 0 : UINT64_MAX);
        IF(&txn, .field = KV_FIELD_EXISTS, KEY("a"), .number = 1);
        mem_fail_after(part == THEN_STEPS ? 0 : UINT64_MAX);
        THEN(&txn, .op = KV_PUT, KEY("a"), VALUE("1"));
        mem_fail_after(part == ELSE_STEPS ? 0 : UINT64_MAX);
        ELSE(&txn, .op = KV_PUT, KEY("a"), VALUE("2"));
        mem_fail_after(part == WHOLE ? 0 : UINT64_MAX);
        kv_txn_write(&txn, &bytes);
        mem_fail_never();
        cr_assert(bytes.failed, "part %d", part);
        kv_txn_fini(&txn);
        buffer_fini(&bytes);
    }
}
