#include "kv/command.h"
#include "base/buffer.h"

#include "base/crc.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "kv/kv.h"
#include "tests/support/malloc_fail.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct slice text(const char *string) {
    return slice_text(string);
}

static void expect_bytes(const struct kv_command *command, const void *golden, size_t size) {
    struct blob *blob = kv_command_encode(command);
    cr_assert_not_null(blob);
    cr_assert_eq(blob->size, size);
    cr_assert_arr_eq(blob->data, golden, size);
    cr_assert(blob->crc_known);
    cr_assert_eq(blob->crc, crc32c(0, blob_slice(blob)));
    blob_unref(blob);
}

static const uint8_t golden_put[] = {
    0x94, 0x01, 0x01,             /* version 1, put */
    0x94, 0x00, 0x00, 0x00, 0x00, /* no session, any term */
    0x93, 0xc4, 0x01, 'k',        /* key */
    0xc4, 0x02, 'v',  '1',  0x00, /* value, no lease */
};
static const uint8_t golden_delete[] = {
    0x94, 0x01, 0x02,                               /* version 1, delete */
    0x94, 0x07, 0xcd, 0x01, 0x2c, 0xcc, 0xc8, 0x05, /* session 7, seq 300, acked 200, term 5 */
    0x92, 0xc4, 0x01, 'a',  0xc4, 0x01, 'b',        /* [a, b) */
};

static const uint8_t golden_open[] = {
    0x94, 0x01, 0x08,                   /* version 1, session open */
    0x94, 0x00, 0x00, 0x00, 0x00,       /* a new one */
    0x92, 0xcd, 0x75, 0x30, 0xcc, 0xc8, /* ttl 30000 ms, at most 200 sessions */
};
static const uint8_t golden_expire[] = {
    0x94, 0x01, 0x0a, 0x94, 0x09, 0x00, 0x00, 0x02, /* session 9, in term 2 */
    0x90,
};

Test(kv_command, encodes_and_decodes_the_golden_bytes_of_sessions) {
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = 30000, .limit = 200};
    expect_bytes(&open, golden_open, sizeof(golden_open));
    const struct kv_command expire = {.op = KV_SESSION_EXPIRE, .session = 9, .in_term = 2};
    expect_bytes(&expire, golden_expire, sizeof(golden_expire));
    struct kv_command out;
    cr_assert_eq(kv_command_decode(slice_of(golden_open, sizeof(golden_open)), &out, NULL), 0);
    cr_assert(out.op == KV_SESSION_OPEN && out.ttl_ms == 30000 && out.limit == 200);
    cr_assert_eq(kv_command_decode(slice_of(golden_expire, sizeof(golden_expire)), &out, NULL), 0);
    cr_assert(out.op == KV_SESSION_EXPIRE && out.session == 9 && out.in_term == 2);
}

Test(kv_command, n6_refuses_sessions_outside_the_limits) {
    const struct kv_command bad[] = {
        {.op = KV_SESSION_OPEN, .ttl_ms = 0},
        {.op = KV_SESSION_OPEN, .ttl_ms = KV_SESSION_TTL_MS_MAX + 1},
        {.op = KV_SESSION_OPEN, .ttl_ms = 1, .limit = KV_SESSIONS_MAX + 1},
        {.op = KV_SESSION_CLOSE},
        {.op = KV_SESSION_EXPIRE}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct blob *blob = kv_command_encode(&bad[i]);
        struct kv_command out;
        cr_assert_eq(kv_command_decode(blob_slice(blob), &out, NULL), LKV_EPROTOCOL, "%zu", i);
        blob_unref(blob);
    }
}

static const uint8_t golden_grant[] = {
    0x94, 0x01, 0x05, 0x94, 0x00, 0x00, 0x00, 0x00, /* version, lease grant, no session, any term */
    0x93, 0xcf, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, /* lease */
    0xcd, 0x13, 0x88, 0xcd, 0x01, 0x00,                         /* 5000 ms, of 256 leases */
};
static const uint8_t golden_revoke[] = {
    0x94, 0x01, 0x06, 0x94, 0x00, 0x00, 0x00, 0x03, /* version, lease revoke, in term 3 */
    0x92, 0x07, 0x09,                               /* lease, granted by entry 9 */
};
static const uint8_t golden_checkpoint[] = {
    0x94, 0x01, 0x07, 0x94, 0x00, 0x00, 0x00, 0x03, /* version, lease checkpoint, in term 3 */
    0x91, 0xc4, 0x18,                               /* one record */
    0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* lease */
    0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* granted by entry 9 */
    0x2c, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, /* 300 ms left */
};

Test(kv_command, encodes_and_decodes_the_golden_bytes_of_leases) {
    const struct kv_command grant = {
        .op = KV_LEASE_GRANT, .lease = INT64_C(0x4000000000000007), .ttl_ms = 5000, .limit = 256};
    const struct kv_command revoke = {
        .op = KV_LEASE_REVOKE, .in_term = 3, .lease = 7, .granted = 9};
    const struct kv_command checkpoint = {.op = KV_LEASE_CHECKPOINT,
                                          .in_term = 3,
                                          .checkpoints = slice_of(golden_checkpoint + 11, 24)};
    expect_bytes(&grant, golden_grant, sizeof(golden_grant));
    expect_bytes(&revoke, golden_revoke, sizeof(golden_revoke));
    expect_bytes(&checkpoint, golden_checkpoint, sizeof(golden_checkpoint));
    struct kv_command out;
    cr_assert_eq(kv_command_decode(slice_of(golden_grant, sizeof(golden_grant)), &out, NULL), 0);
    cr_assert(out.lease == grant.lease && out.ttl_ms == 5000 && out.limit == 256);
    cr_assert_eq(kv_command_level(&out), KV_LEVEL_HISTORY);
    cr_assert_eq(kv_command_decode(slice_of(golden_revoke, sizeof(golden_revoke)), &out, NULL), 0);
    cr_assert(out.lease == 7 && out.granted == 9 && out.in_term == 3);
    cr_assert_eq(
        kv_command_decode(slice_of(golden_checkpoint, sizeof(golden_checkpoint)), &out, NULL), 0);
    struct reader reader = reader_of(out.checkpoints);
    struct kv_checkpoint record;
    cr_assert(kv_checkpoint_get(&reader, &record) && reader.left == 0);
    cr_assert(record.id == 7 && record.granted == 9 && record.remaining_ms == 300);
}

static void check_checkpoint(struct slice records, int expected) {
    const struct kv_command command = {.op = KV_LEASE_CHECKPOINT, .checkpoints = records};
    struct blob *blob = kv_command_encode(&command);
    struct kv_command back;
    struct reason why = {{0}};
    cr_assert_eq(kv_command_decode(blob_slice(blob), &back, &why), expected, "%zu", records.size);
    cr_assert(expected == 0 || strstr(why.text, "not 1 to 4096") != NULL, "%s", why.text);
    blob_unref(blob);
}

Test(kv_command, a_checkpoint_has_1_to_4096_whole_records) {
    struct buffer records;
    buffer_init(&records);
    const struct kv_checkpoint record = {.id = 7, .granted = 9, .remaining_ms = 300};
    const struct kv_checkpoint none = {.id = 0, .granted = 9};
    for (size_t i = 0; i < KV_CHECKPOINTS_MAX + 1; i++) {
        kv_checkpoint_put(&records, &record);
    }
    size_t whole = (size_t)KV_CHECKPOINTS_MAX * KV_CHECKPOINT_SIZE;
    check_checkpoint(slice_of(records.data, whole), 0);
    check_checkpoint(slice_of(records.data, KV_CHECKPOINT_SIZE), 0);
    const size_t sizes[] = {0, 1, 16, KV_CHECKPOINT_SIZE + 8, whole - 1, records.size};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_checkpoint(slice_of(records.data, sizes[i]), LKV_EPROTOCOL);
    }
    records.size = KV_CHECKPOINT_SIZE;
    kv_checkpoint_put(&records, &none); /* the last one is of no lease */
    check_checkpoint(buffer_slice(&records), LKV_EPROTOCOL);
    buffer_fini(&records);
}

static const uint8_t golden_compact[] = {
    0x94, 0x01, 0x04, 0x94, 0x00, 0x00, 0x00, 0x00, /* version 1, compact */
    0x91, 0xcd, 0x01, 0x00,                         /* revision 256 */
};

Test(kv_command, encodes_and_decodes_the_golden_bytes_of_a_compaction) {
    const struct kv_command compact = {.op = KV_COMPACT, .revision = 256};
    expect_bytes(&compact, golden_compact, sizeof(golden_compact));
    struct kv_command out;
    cr_assert_eq(kv_command_decode(slice_of(golden_compact, sizeof(golden_compact)), &out, NULL),
                 0);
    cr_assert(out.op == KV_COMPACT && out.revision == 256 && kv_command_has_keys(&out));
    uint8_t zero[sizeof(golden_compact) - 2];
    memcpy(zero, golden_compact, sizeof(zero));
    zero[sizeof(zero) - 1] = 0;
    cr_assert_eq(kv_command_decode(slice_of(zero, sizeof(zero)), &out, NULL), LKV_EPROTOCOL);
}

static const uint8_t golden_options[] = {
    0x94, 0x01, 0x01, 0x94, 0x00, 0x00, 0x00, 0x00, /* version 1, put */
    0x95, 0xc4, 0x01, 'k',  0xc4, 0x00, 0x00,       /* key, no value, no lease */
    0x05, 0xcd, 0x01, 0x00,                         /* keep_value and previous, if_rev 256 */
};
static const uint8_t golden_add[] = {
    0x94, 0x01, 0x0e, 0x94, 0x00, 0x00, 0x00, 0x00, /* version 1, add */
    0x93, 0xc4, 0x01, 'k',  0xd1, 0xff, 0x38, 0x04, /* key, -200, previous */
};

Test(kv_command, encodes_and_decodes_the_golden_bytes_of_options) {
    const struct kv_command put = {
        .op = KV_PUT, .key = text("k"), .flags = KV_KEEP_VALUE | KV_PREVIOUS, .if_rev = 256};
    expect_bytes(&put, golden_options, sizeof(golden_options));
    const struct kv_command add = {
        .op = KV_ADD, .key = text("k"), .delta = -200, .flags = KV_PREVIOUS};
    expect_bytes(&add, golden_add, sizeof(golden_add));
    struct kv_command out;
    cr_assert_eq(kv_command_decode(slice_of(golden_options, sizeof(golden_options)), &out, NULL),
                 0);
    cr_assert(out.flags == put.flags && out.if_rev == 256 && out.value.size == 0);
    cr_assert_eq(kv_command_decode(slice_of(golden_add, sizeof(golden_add)), &out, NULL), 0);
    cr_assert(out.op == KV_ADD && out.delta == -200 && out.flags == KV_PREVIOUS);
}

Test(kv_command, encodes_the_golden_bytes) {
    const struct kv_command put = {.op = KV_PUT, .key = text("k"), .value = text("v1")};
    expect_bytes(&put, golden_put, sizeof(golden_put));
    const struct kv_command delete = {.op = KV_DELETE,
                                      .session = 7,
                                      .seq = 300,
                                      .acked_below = 200,
                                      .in_term = 5,
                                      .key = text("a"),
                                      .end = text("b")};
    expect_bytes(&delete, golden_delete, sizeof(golden_delete));
}

Test(kv_command, decodes_the_golden_bytes) {
    struct kv_command out;
    cr_assert_eq(kv_command_decode(slice_of(golden_put, sizeof(golden_put)), &out, NULL), 0);
    cr_assert_eq(out.op, KV_PUT);
    cr_assert(slice_equal(out.key, text("k")));
    cr_assert(slice_equal(out.value, text("v1")));
    cr_assert_eq(kv_command_decode(slice_of(golden_delete, sizeof(golden_delete)), &out, NULL), 0);
    cr_assert_eq(out.op, KV_DELETE);
    cr_assert_eq(out.session, 7);
    cr_assert_eq(out.seq, 300);
    cr_assert_eq(out.acked_below, 200);
    cr_assert_eq(out.in_term, 5);
    cr_assert(slice_equal(out.key, text("a")));
    cr_assert(slice_equal(out.end, text("b")));
}

Test(kv_command, keeps_the_largest_numbers_and_any_bytes) {
    const struct kv_command put = {.op = KV_PUT,
                                   .session = UINT64_MAX,
                                   .seq = UINT64_MAX,
                                   .acked_below = UINT64_MAX,
                                   .in_term = UINT64_MAX,
                                   .key = slice_of("\0\xff\0", 3),
                                   .value = slice_of("\xff\0", 2),
                                   .lease = INT64_MAX};
    struct blob *blob = kv_command_encode(&put);
    struct kv_command out;
    cr_assert_eq(kv_command_decode(blob_slice(blob), &out, NULL), 0);
    cr_assert_eq(out.session, UINT64_MAX);
    cr_assert_eq(out.in_term, UINT64_MAX);
    cr_assert_eq(out.lease, INT64_MAX);
    cr_assert(slice_equal(out.key, put.key));
    cr_assert(slice_equal(out.value, put.value));
    blob_unref(blob);
}

Test(kv_command, carries_values_of_every_width_of_length) {
    static const size_t sizes[] = {0, 1, 255, 256, 65535, 65536, 4 * 1024 * 1024};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct blob *value = blob_new(sizes[i]);
        memset(value->data, 0xa5, sizes[i]);
        const struct kv_command put = {.op = KV_PUT, .key = text("k"), .value = blob_slice(value)};
        struct blob *blob = kv_command_encode(&put);
        struct kv_command out;
        cr_assert_eq(kv_command_decode(blob_slice(blob), &out, NULL), 0);
        cr_assert(slice_equal(out.value, put.value));
        blob_unref(blob);
        blob_unref(value);
    }
}

static int decode(const void *bytes, size_t size) {
    struct kv_command out;
    struct reason why = {{0}};
    int rc = kv_command_decode(slice_of(bytes, size), &out, &why);
    cr_assert(rc == 0 || why.text[0] != 0, "a refusal says why");
    return rc;
}

Test(kv_command, n6_refuses_keys_outside_the_limits) {
    static uint8_t long_key[KV_KEY_SIZE_MAX + 1];
    static const struct {
        size_t size;
        int rc;
    } cases[] = {
        {0, LKV_EPROTOCOL}, {1, 0}, {KV_KEY_SIZE_MAX, 0}, {KV_KEY_SIZE_MAX + 1, LKV_EPROTOCOL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kv_command command = {.op = KV_PUT, .key = slice_of(long_key, cases[i].size)};
        struct blob *blob = kv_command_encode(&command);
        cr_assert_eq(decode(blob->data, blob->size), cases[i].rc);
        blob_unref(blob);
        command.op = KV_DELETE;
        blob = kv_command_encode(&command);
        cr_assert_eq(decode(blob->data, blob->size), cases[i].rc);
        blob_unref(blob);
    }
    const struct kv_command end_too_long = {
        .op = KV_DELETE, .key = text("a"), .end = slice_of(long_key, sizeof(long_key))};
    struct blob *blob = kv_command_encode(&end_too_long);
    cr_assert_eq(decode(blob->data, blob->size), LKV_EPROTOCOL);
    blob_unref(blob);
}

Test(kv_command, refuses_a_cut_at_every_length_and_bytes_behind_the_end) {
    for (size_t size = 0; size < sizeof(golden_put); size++) {
        cr_assert_eq(decode(golden_put, size), LKV_EPROTOCOL);
    }
    uint8_t longer[sizeof(golden_put) + 1] = {0};
    memcpy(longer, golden_put, sizeof(golden_put));
    cr_assert_eq(decode(longer, sizeof(longer)), LKV_EPROTOCOL);
}

Test(kv_command, tells_a_newer_version_or_operation_from_nonsense) {
    static const struct {
        const char *bytes;
        size_t size;
        int rc;
    } cases[] = {
        {"\x94\x02\x01\xc0\xc0", 5, LKV_EVERSION},  /* version 2 */
        {"\x92\x7f\xc3", 3, LKV_EVERSION},          /* version 127, of another shape */
        {"\x94\x01\x10\x90\x90", 5, LKV_EVERSION},  /* operation 16 */
        {"\x94\x00\x01\x90\x90", 5, LKV_EPROTOCOL}, /* version 0 */
        {"\x94\x01\x00\x90\x90", 5, LKV_EPROTOCOL}, /* operation 0 */
        {"\x94\xff\x01\x90\x90", 5, LKV_EPROTOCOL}, /* version -1 */
        {"\x90", 1, LKV_EPROTOCOL},                 /* nothing in it */
        {"\x01", 1, LKV_EPROTOCOL},                 /* no array */
        {"\x93\x01\x01\x90", 4, LKV_EPROTOCOL},     /* too few parts */
        {"\x94\x01\x01\x90\x90", 5, LKV_EPROTOCOL}, /* empty envelope */
        {"\xc1", 1, LKV_EPROTOCOL},                 /* never used by msgpack */
        {"\xdd\x00\xff\xff\xff", 5, LKV_EPROTOCOL}, /* announces 16 M elements */
        {"\xdd\xff\xff\xff\xff", 5, LKV_EPROTOCOL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(decode(cases[i].bytes, cases[i].size), cases[i].rc, "case %zu", i);
    }
}

Test(kv_command, refuses_other_types_in_every_place) {
    /* Whatever one byte of a good command becomes, the answer is a decision and never a crash; a
     * command that still passes has the shape of one. */
    for (size_t at = 0; at < sizeof(golden_delete); at++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            uint8_t changed[sizeof(golden_delete)];
            memcpy(changed, golden_delete, sizeof(changed));
            changed[at] = (uint8_t)byte;
            int rc = decode(changed, sizeof(changed));
            cr_assert(rc == 0 || rc == LKV_EPROTOCOL || rc == LKV_EVERSION);
        }
    }
    static const uint8_t string_key[] = {0x94, 0x01, 0x01, 0x94, 0x00, 0x00, 0x00,
                                         0x00, 0x93, 0xa1, 'k',  0xc4, 0x00, 0x00};
    cr_assert_eq(decode(string_key, sizeof(string_key)), LKV_EPROTOCOL);
    static const uint8_t negative_lease[] = {0x94, 0x01, 0x01, 0x94, 0x00, 0x00, 0x00, 0x00,
                                             0x93, 0xc4, 0x01, 'k',  0xc4, 0x00, 0xff};
    cr_assert_eq(decode(negative_lease, sizeof(negative_lease)), LKV_EPROTOCOL);
}

/* Clients of etcd's protocol hold lease ids as signed 64-bit numbers. */
Test(kv_command, refuses_a_lease_beyond_63_bits) {
    static const uint8_t largest[] = {0x94, 0x01, 0x01, 0x94, 0x00, 0x00, 0x00, 0x00,
                                      0x93, 0xc4, 0x01, 'k',  0xc4, 0x00, 0xcf, 0x7f,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    uint8_t beyond[sizeof(largest)];
    cr_assert_eq(decode(largest, sizeof(largest)), 0);
    memcpy(beyond, largest, sizeof(beyond));
    memset(beyond + 15, 0, 8);
    beyond[15] = 0x80;
    cr_assert_eq(decode(beyond, sizeof(beyond)), LKV_EPROTOCOL);
}

static void expect_refusal(const char *bytes, size_t size, int rc, const char *text) {
    struct kv_command out;
    struct reason why = {{0}};
    cr_assert_eq(kv_command_decode(slice_of(bytes, size), &out, &why), rc, "%s", text);
    cr_assert_str_eq(why.text, text);
}

#define REFUSED(bytes, rc, text) expect_refusal(bytes, sizeof(bytes) - 1, rc, "command: " text)
#define EMPTY_ENVELOPE           "\x94\x00\x00\x00\x00"

Test(kv_command, says_which_part_is_malformed) {
    REFUSED("\x94\x01\x01" EMPTY_ENVELOPE "\xc0", LKV_EPROTOCOL, "malformed arguments of put");
    REFUSED("\x94\x01\x01" EMPTY_ENVELOPE "\x92\xc4\x01k\xc4\x00", LKV_EPROTOCOL,
            "malformed arguments of put");
    REFUSED("\x94\x01\x01" EMPTY_ENVELOPE "\x93\x01\xc4\x00\x00", LKV_EPROTOCOL, "malformed key");
    REFUSED("\x94\x01\x01" EMPTY_ENVELOPE "\x93\xc4\x01k\x01\x00", LKV_EPROTOCOL,
            "malformed value");
    REFUSED("\x94\x01\x01" EMPTY_ENVELOPE "\x93\xc4\x01k\xc4\x00\xc0", LKV_EPROTOCOL,
            "malformed lease");
    REFUSED("\x94\x01\x02" EMPTY_ENVELOPE "\x92\xc4\x01k\x01", LKV_EPROTOCOL, "malformed end");
    REFUSED("\x94\x01\x08" EMPTY_ENVELOPE "\x92\x00\x01", LKV_EPROTOCOL, "malformed ttl_ms");
    REFUSED("\x94\x01\x08" EMPTY_ENVELOPE "\x92\x01\xa0", LKV_EPROTOCOL, "malformed limit");
    REFUSED("\x94\x01\x09" EMPTY_ENVELOPE "\x90", LKV_EPROTOCOL, "malformed session");
    REFUSED("\x94\x01\x09" EMPTY_ENVELOPE "\xc0", LKV_EPROTOCOL,
            "malformed arguments of session close");
    REFUSED("\x94\x01\x01\x93\x00\x00\x00\x90", LKV_EPROTOCOL, "malformed envelope");
    REFUSED("\x94\x01\x01\x94\x00\x00\xa0\x00\x90", LKV_EPROTOCOL, "malformed acked_below");
    REFUSED("\x93\x01\x01\x90", LKV_EPROTOCOL, "malformed command");
    REFUSED("\x94\x01\xa0\x90\x90", LKV_EPROTOCOL, "malformed operation");
    REFUSED("\x94\x01\x00\x90\x90", LKV_EPROTOCOL, "malformed operation");
    REFUSED("\x90", LKV_EPROTOCOL, "no array that starts with a version");
    REFUSED("\xdc\x00", LKV_EPROTOCOL, "cut off after 2 bytes");
    REFUSED("\x01\x02\x03", LKV_EPROTOCOL, "2 bytes after its end");
    REFUSED("\x91\x02", LKV_EVERSION, "version 2, this program reads 1");
}

/* Rule 22: each number without a meaning yet is one of a later version, and so is what follows a known
 * command's last part. */
Test(kv_command, takes_nothing_for_a_later_operation_s_own) {
    char bytes[] = "\x94\x01\x03" EMPTY_ENVELOPE "\x90";
    for (int op = 3; op < 128; op++) {
        if (op == KV_TXN || op == KV_ADD || (op >= KV_COMPACT && op <= KV_SESSION_EXPIRE)) {
            continue;
        }
        char text[96];
        bytes[2] = (char)op;
        (void)snprintf(text, sizeof(text),
                       "command: operation %d, which this program does not know", op);
        expect_refusal(bytes, sizeof(bytes) - 1, LKV_EVERSION, text);
    }
    REFUSED("\x94\x01\x02" EMPTY_ENVELOPE "\x95\xc4\x01k\xc4\x00\x04\x01\x01", LKV_EVERSION,
            "operation 2 has more to it than this program knows");
    REFUSED("\x94\x01\x02" EMPTY_ENVELOPE "\x93\xc4\x01k\xc4\x00\x00", LKV_EPROTOCOL,
            "malformed flags");
    REFUSED("\x94\x01\x02" EMPTY_ENVELOPE "\x93\xc4\x01k\xc4\x00\x01", LKV_EPROTOCOL,
            "malformed flags: one that is not known");
    REFUSED("\x95\x01\x02" EMPTY_ENVELOPE "\x92\xc4\x01k\xc4\x00\x01", LKV_EVERSION,
            "operation 2 has more to it than this program knows");
    REFUSED("\x94\x01\x02\x95\x00\x00\x00\x00\x00\x92\xc4\x01k\xc4\x00", LKV_EVERSION,
            "operation 2 has more to it than this program knows");
}

/* S28 */
Test(kv_command, says_when_there_is_no_memory) {
    const struct kv_command put = {.op = KV_PUT, .key = text("k")};
    mem_fail_after(0);
    struct blob *blob = kv_command_encode(&put);
    mem_fail_never();
    cr_assert_null(blob);
    /* More objects than the first piece of the zone has room for. */
    char many[64] = "\x94\x01\x01\xdc\x00\x32";
    size_t head = 6;
    memcpy(many, "\x94\x01\x01\xdc\x00\x32", head);
    memset(many + head, 0, 50);
    many[head + 50] = (char)0x90;
    size_t size = head + 51;
    expect_refusal(many, size, LKV_EPROTOCOL, "command: malformed arguments of put");
    for (uint64_t n = 0; n < 2; n++) {
        struct kv_command out;
        struct reason why = {{0}};
        if (malloc_fail_after(n)) {
            int rc = kv_command_decode(slice_of(many, size), &out, &why);
            malloc_fail_never();
            cr_assert_eq(rc, LKV_ENOMEM, "malloc %zu", (size_t)n);
            cr_assert_str_eq(why.text, "command: out of memory");
        }
    }
}
