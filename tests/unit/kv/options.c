/* What puts, deletes and adds can be asked for beyond doing it. */
#include "base/mem.h"
#include "feed.h"

#include <criterion/criterion.h>

static int run(struct feed *feed, struct kv_command command) {
    struct reason why = {{0}};
    cr_assert_eq(kv_command_check(&command, &why), 0, "%s", why.text);
    cr_assert_eq(kv_command_level(&command), KV_LEVEL_HISTORY);
    cr_assert_eq(feed_command(feed, &command), 0);
    return feed->result.rc;
}

#define RUN(feed, ...) run(feed, (struct kv_command){__VA_ARGS__})
#define KEY(text)      .key = slice_text(text)
#define VALUE(text)    .value = slice_text(text)

static void expect_value(const struct feed *feed, const char *key, const char *value,
                         uint64_t version, int64_t lease) {
    struct kv_item item;
    cr_assert_eq(kv_get(feed->kv, slice_text(key), &item, NULL), 0, "%s", key);
    cr_assert(slice_equal(item.value, slice_text(value)), "%s: %.*s", key, (int)item.value.size,
              (const char *)item.value.data);
    cr_assert_eq(item.version, version);
    cr_assert_eq(item.lease, lease);
    kv_item_release(&item);
}

/* What the last command answered as having been there, "" for nothing; and frees it. */
static void expect_previous(struct feed *feed, const char *value, uint64_t version) {
    struct kv_answer *answer = feed->result.answer;
    cr_assert_not_null(answer);
    cr_assert_eq(answer->count, value[0] != 0);
    if (answer->count > 0) {
        cr_assert(slice_equal(answer->items[0].value, slice_text(value)));
        cr_assert_eq(answer->items[0].version, version);
    }
    kv_result_fini(&feed->result);
}

Test(kv_options, a_put_tells_what_was_there_before) {
    struct feed feed = feed_open_history(1);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("1"), .flags = KV_PREVIOUS), 0);
    expect_previous(&feed, "", 0);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("2"), .flags = KV_PREVIOUS), 0);
    expect_previous(&feed, "1", 1);
    cr_assert_eq(feed.result.revision, 3);
    must_put(&feed, "a", "3");
    cr_assert_null(feed.result.answer);
    feed_close(&feed);
}

Test(kv_options, a_put_keeps_value_or_lease) {
    struct feed feed = feed_open_history(1);
    static uint8_t large[5000];
    memset(large, 'x', sizeof(large) - 1);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), .flags = KV_KEEP_VALUE), LKV_ENOTFOUND);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), .flags = KV_KEEP_LEASE), LKV_ENOTFOUND);
    cr_assert_eq(feed.result.revision, 1);
    must_grant(&feed, 7, 1000);
    must_grant(&feed, 8, 1000);
    const struct kv_command leased = {.op = KV_PUT, KEY("a"), VALUE("1"), .lease = 7};
    cr_assert_eq(feed_command(&feed, &leased), 0);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("2"), .flags = KV_KEEP_LEASE), 0);
    expect_value(&feed, "a", "2", 2, 7);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), .lease = 8, .flags = KV_KEEP_VALUE), 0);
    expect_value(&feed, "a", "2", 3, 8);
    cr_assert_eq(
        RUN(&feed, .op = KV_PUT, KEY("a"), .flags = KV_KEEP_VALUE | KV_KEEP_LEASE | KV_PREVIOUS),
        0);
    expect_previous(&feed, "2", 3);
    expect_value(&feed, "a", "2", 4, 8);
    cr_assert_eq(feed_put(&feed, slice_text("b"), slice_text((char *)large)), 0); /* in the blob */
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("b"), .flags = KV_KEEP_VALUE), 0);
    const struct kv_command compact = {.op = KV_COMPACT, .revision = feed.result.revision};
    cr_assert_eq(feed_command(&feed, &compact), 0);
    (void)kv_tidy(feed.kv);
    expect_value(&feed, "b", (char *)large, 2, 0);
    feed_close(&feed);
}

Test(kv_options, a_put_can_ask_for_absence_or_a_revision) {
    struct feed feed = feed_open_history(1);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("1"), .flags = KV_IF_ABSENT), 0);
    cr_assert_eq(
        RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("2"), .flags = KV_IF_ABSENT | KV_PREVIOUS),
        LKV_ECOMPARE);
    expect_previous(&feed, "1", 1);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("2"), .if_rev = 3), LKV_ECOMPARE);
    cr_assert_eq(feed.result.revision, 2);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("2"), .if_rev = 2), 0);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("b"), VALUE("2"), .if_rev = 2), LKV_ECOMPARE);
    cr_assert_eq(RUN(&feed, .op = KV_DELETE, KEY("a"), .if_rev = 2), LKV_ECOMPARE);
    cr_assert_eq(RUN(&feed, .op = KV_DELETE, KEY("a"), .if_rev = 3, .flags = KV_PREVIOUS), 0);
    expect_previous(&feed, "2", 2);
    cr_assert_eq(feed.result.count, 1);
    cr_assert_eq(RUN(&feed, .op = KV_PUT, KEY("a"), VALUE("3"), .flags = KV_IF_ABSENT), 0);
    expect_value(&feed, "a", "3", 1, 0);
    feed_close(&feed);
}

Test(kv_options, a_delete_tells_what_was_there_before) {
    struct feed feed = feed_open_history(1);
    char key[8];
    for (int i = 0; i < 3000; i++) {
        int size = snprintf(key, sizeof(key), "%04d", i);
        cr_assert_eq(feed_put(&feed, slice_of(key, (size_t)size), slice_text("v")), 0);
    }
    cr_assert_eq(
        RUN(&feed, .op = KV_DELETE, KEY("1000"), .end = slice_text("2"), .flags = KV_PREVIOUS), 0);
    const struct kv_answer *answer = feed.result.answer;
    cr_assert(feed.result.count == 1000 && answer->total == 1000 && answer->count == 1000);
    cr_assert_not(answer->more);
    for (size_t i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof(key), "%04zu", 1000 + i);
        cr_assert(slice_equal(answer->items[i].key, slice_text(key)));
        cr_assert_eq(answer->items[i].mod_rev, 1002 + i);
    }
    kv_result_fini(&feed.result);
    cr_assert_eq(RUN(&feed, .op = KV_DELETE, KEY("nothing"), .flags = KV_PREVIOUS), 0);
    expect_previous(&feed, "", 0);
    feed_close(&feed);
}

/* Rule 26: what is answered in one piece has a bound. */
Test(kv_options, a_delete_tells_no_more_than_fits_into_an_answer) {
    struct feed feed = feed_open_history(1);
    struct blob *value = blob_new(4 * 1024 * 1024);
    memset(value->data, 1, value->size);
    for (int i = 0; i < 6; i++) {
        char key[2] = {(char)('a' + i), 0};
        cr_assert_eq(feed_put(&feed, slice_text(key), blob_slice(value)), 0);
    }
    cr_assert_eq(
        RUN(&feed, .op = KV_DELETE, KEY("a"), .end = slice_of("\0", 1), .flags = KV_PREVIOUS), 0);
    cr_assert(feed.result.count == 6 && feed.result.answer->count == 3);
    cr_assert(feed.result.answer->more);
    kv_result_fini(&feed.result);
    blob_unref(value);
    feed_close(&feed);
}

static int add(struct feed *feed, const char *key, int64_t delta) {
    return RUN(feed, .op = KV_ADD, .key = slice_text(key), .delta = delta);
}

Test(kv_options, x_a10_an_add_counts) {
    struct feed feed = feed_open_history(1);
    cr_assert_eq(add(&feed, "c", 5), 0);
    cr_assert_eq((int64_t)feed.result.count, 5);
    cr_assert_eq(add(&feed, "c", -12), 0);
    cr_assert_eq((int64_t)feed.result.count, -7);
    expect_value(&feed, "c", "-7", 2, 0);
    cr_assert_eq(RUN(&feed, .op = KV_ADD, KEY("c"), .delta = 7, .flags = KV_PREVIOUS), 0);
    cr_assert(feed.result.answer->number == 0 && feed.result.count == 0);
    expect_previous(&feed, "-7", 2);
    must_grant(&feed, 9, 1000);
    const struct kv_command leased = {.op = KV_PUT, KEY("c"), VALUE("41"), .lease = 9};
    cr_assert_eq(feed_command(&feed, &leased), 0);
    cr_assert_eq(add(&feed, "c", 1), 0);
    expect_value(&feed, "c", "42", 5, 9);
    feed_close(&feed);
}

Test(kv_options, x_a10_an_add_in_a_session_counts_once) {
    struct feed feed = feed_open_history(1);
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = 1000, .limit = 1};
    cr_assert_eq(feed_command(&feed, &open), 0);
    const struct kv_command command = {
        .op = KV_ADD, KEY("c"), .delta = -3, .session = feed.result.session, .seq = 1};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(feed_command(&feed, &command), 0);
        cr_assert(feed.result.rc == 0 && (int64_t)feed.result.count == -3);
        cr_assert_eq(feed.result.repeated, i == 1);
    }
    expect_value(&feed, "c", "-3", 1, 0);
    feed_close(&feed);
}

/* C5 */
Test(kv_options, c5_a_compare_that_was_answered_late_is_the_first_answer) {
    struct feed feed = feed_open_history(1);
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = 1000, .limit = 1};
    cr_assert_eq(feed_command(&feed, &open), 0);
    uint64_t session = feed.result.session;
    must_put(&feed, "a", "1");
    const struct kv_command commands[] = {
        {.op = KV_PUT, KEY("a"), VALUE("2"), .if_rev = 2, .session = session, .seq = 1},
        {.op = KV_PUT, KEY("a"), VALUE("3"), .if_rev = 2, .session = session, .seq = 2}};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(feed_command(&feed, &commands[i / 2]), 0);
        cr_assert_eq(feed.result.rc, i < 2 ? 0 : LKV_ECOMPARE);
        cr_assert_eq(feed.result.repeated, i % 2 == 1);
    }
    expect_value(&feed, "a", "2", 2, 0);
    feed_close(&feed);
}

Test(kv_options, an_add_refuses_what_is_not_a_number) {
    static const char *const bad[] = {"",   "-",  "x",  "1x",  "+1",
                                      "01", "-0", " 1", "1.0", "9223372036854775808"};
    struct feed feed = feed_open_history(1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        must_put(&feed, "c", bad[i]);
        uint64_t revision = feed.result.revision;
        cr_assert_eq(add(&feed, "c", 1), LKV_ENUMBER, "%s", bad[i]);
        cr_assert_eq(feed.result.revision, revision);
    }
    feed_close(&feed);
}

Test(kv_options, an_add_stays_within_64_bits) {
    struct feed feed = feed_open_history(1);
    cr_assert_eq(add(&feed, "c", INT64_MAX), 0);
    expect_value(&feed, "c", "9223372036854775807", 1, 0);
    cr_assert_eq(add(&feed, "c", 1), LKV_EOVERFLOW);
    cr_assert_eq(add(&feed, "c", INT64_MIN), 0);
    expect_value(&feed, "c", "-1", 2, 0);
    cr_assert_eq(add(&feed, "d", INT64_MIN), 0);
    expect_value(&feed, "d", "-9223372036854775808", 1, 0);
    cr_assert_eq(add(&feed, "d", -1), LKV_EOVERFLOW);
    cr_assert_eq(add(&feed, "d", 0), 0);
    feed_close(&feed);
}

Test(kv_options, commands_that_contradict_themselves_are_refused) {
    static uint8_t long_key[KV_KEY_SIZE_MAX + 1];
    const struct {
        struct kv_command command;
        const char *text;
    } bad[] = {
        {{.op = KV_PUT, KEY("a"), VALUE("1"), .flags = KV_KEEP_VALUE}, "value: one that is kept"},
        {{.op = KV_PUT, KEY("a"), .lease = 1, .flags = KV_KEEP_LEASE}, "lease: one that is kept"},
        {{.op = KV_PUT, KEY("a"), .flags = KV_IF_ABSENT | KV_KEEP_LEASE}, "flags: of a key"},
        {{.op = KV_PUT, KEY("a"), .flags = KV_IF_ABSENT, .if_rev = 2}, "flags: of a key"},
        {{.op = KV_PUT, KEY("a"), .flags = 16}, "flags: one that is not known"},
        {{.op = KV_PUT, KEY("a"), .lease = -1}, "lease: below 0"},
        {{.op = KV_DELETE, KEY("a"), .flags = KV_IF_ABSENT}, "flags: one that is not known"},
        {{.op = KV_DELETE, KEY("a"), .end = slice_text("b"), .if_rev = 2}, "if_rev: of several"},
        {{.op = KV_ADD, KEY("a"), .flags = KV_KEEP_LEASE}, "flags: one that is not known"},
        {{.op = KV_ADD}, "key: not 1 to 8192 bytes"},
        {{.op = KV_ADD, .key = slice_of(long_key, sizeof(long_key))}, "key: not 1 to 8192 bytes"},
        {{.op = KV_DELETE, KEY("a"), .end = slice_of(long_key, sizeof(long_key))}, "end: more"},
        {{.op = KV_COMPACT}, "revision: 0"},
        {{.op = KV_SESSION_CLOSE}, "session: 0"},
        {{.op = KV_SESSION_OPEN}, "ttl_ms: not"},
        {{.op = KV_SESSION_OPEN, .ttl_ms = KV_SESSION_TTL_MS_MAX + 1}, "ttl_ms: not"},
        {{.op = KV_SESSION_OPEN, .ttl_ms = 1, .limit = KV_SESSIONS_MAX + 1}, "limit: not"},
        {{.op = KV_LEASE_GRANT, .ttl_ms = 1}, "lease: not"},
        {{.op = KV_LEASE_GRANT, .lease = 1}, "ttl_ms: not"},
        {{.op = KV_LEASE_GRANT, .lease = 1, .ttl_ms = KV_LEASE_TTL_MS_MAX + 1}, "ttl_ms: not"},
        {{.op = KV_LEASE_GRANT, .lease = 1, .ttl_ms = 1, .limit = KV_LEASES_MAX + 1}, "limit: not"},
        {{.op = KV_LEASE_REVOKE}, "lease: not"},
        {{.op = KV_LEASE_CHECKPOINT}, "records: not"},
        {{.op = KV_LEASE_CHECKPOINT, .checkpoints = slice_of(long_key, KV_CHECKPOINT_SIZE)},
         "records: not"},
        {{.op = KV_LEASE_CHECKPOINT, .checkpoints = slice_of(long_key, 7)}, "records: not"},
        {{.op = KV_RANGE, KEY("a")}, "operation: not one of a command"},
        {{.op = (enum kv_op)(KV_RANGE + 1), KEY("a")}, "operation: not one of a command"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct reason why = {{0}};
        cr_assert_eq(kv_command_check(&bad[i].command, &why), LKV_EINVAL, "%zu", i);
        cr_assert_not_null(strstr(why.text, bad[i].text), "%zu: %s", i, why.text);
        if (bad[i].command.op >= KV_RANGE || bad[i].command.lease < 0) {
            continue; /* has no bytes */
        }
        struct blob *blob = kv_command_encode(&bad[i].command);
        struct kv_command out;
        cr_assert_eq(kv_command_decode(blob_slice(blob), &out, &why), LKV_EPROTOCOL, "%zu", i);
        blob_unref(blob);
    }
}

/* X-C9 */
Test(kv_options, x_c9_a_command_has_a_largest_size) {
    struct blob *value = blob_new(KV_COMMAND_SIZE_MAX);
    memset(value->data, 0, value->size);
    struct kv_command put = {.op = KV_PUT, KEY("k")};
    size_t frame = 8 + 1 + 2 + 1 + 5 + 1; /* as in docs/formats/kv-command.md */
    put.value = slice_of(value->data, KV_COMMAND_SIZE_MAX - frame);
    cr_assert_eq(kv_command_check(&put, NULL), 0);
    struct blob *blob = kv_command_encode(&put);
    cr_assert_eq(blob->size, KV_COMMAND_SIZE_MAX);
    blob_unref(blob);
    put.value.size++;
    struct reason why = {{0}};
    cr_assert_eq(kv_command_check(&put, &why), LKV_ETOOLARGE);
    cr_assert_str_eq(why.text, "command: 16777217 bytes, at most 16777216");
    put.value.size = KV_COMMAND_SIZE_MAX + 1;
    cr_assert_eq(kv_command_check(&put, &why), LKV_EINVAL);
    cr_assert_str_eq(why.text, "command: value: too large");
    blob_unref(value);
}

/* Rule 22 */
Test(kv_options, rule_22_options_below_the_feature_level_stop) {
    const struct kv_command commands[] = {
        {.op = KV_PUT, KEY("a"), .flags = KV_PREVIOUS},
        {.op = KV_PUT, KEY("a"), .if_rev = 1},
        {.op = KV_DELETE, KEY("a"), .flags = KV_PREVIOUS},
        {.op = KV_ADD, KEY("a"), .delta = 1},
        {.op = KV_PUT, KEY("a"), .lease = 1},
        {.op = KV_LEASE_GRANT, .lease = 1, .ttl_ms = 1, .limit = 1},
        {.op = KV_LEASE_REVOKE, .lease = 1},
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct feed feed = feed_open(1);
        cr_assert_eq(feed_command(&feed, &commands[i]), LKV_EVERSION, "%zu", i);
        feed_close(&feed);
    }
}
