#include "base/mem.h"
#include "base/prng.h"
#include "lib/wire_input.h"
#include "tests/unit/lib/wire_fixture.h"

#include <stdio.h>

TestSuite(lib_client_wire, .init = open_wire, .fini = close_wire);

/* What the scan lets pass, decoded. */
static int decode(struct slice frame, struct wire_call *call, bool *numbered) {
    struct reason why = {{0}};
    struct scan scan = {0};
    int rc = scan_object(&scan, frame, &wire_call_limits, &why);
    if (rc != 1 || scan.offset != frame.size) {
        *numbered = false;
        return rc < 0 ? rc : LKV_EPROTOCOL;
    }
    rc = wire_decode_call(decoder, frame, call, numbered, &why);
    cr_assert_eq(rc != 0, why.text[0] != '\0', "an error has a reason: %s", why.text);
    return rc;
}

static struct wire_call reread(const struct wire_call *call) {
    struct wire_call found;
    bool numbered;
    buffer_clear(&out);
    wire_encode_call(&out, call);
    cr_assert_eq(decode(buffer_slice(&out), &found, &numbered), 0);
    cr_assert(numbered);
    cr_assert_eq(found.method, call->method);
    cr_assert_eq(found.number, call->number);
    cr_assert_eq(found.has_timeout, call->has_timeout);
    cr_assert_eq(found.timeout_ms, call->timeout_ms);
    cr_assert_eq(found.flags, call->flags);
    cr_assert_eq(found.how, call->how);
    cr_assert_eq(found.limit, call->limit);
    cr_assert_eq(found.range_flags, call->range_flags);
    cr_assert(memcmp(&found.select, &call->select, sizeof(found.select)) == 0);
    cr_assert_eq(found.has_end, call->has_end);
    cr_assert(slice_equal(found.key, call->key));
    cr_assert(slice_equal(found.end, call->end));
    cr_assert(slice_equal(found.value, call->value));
    cr_assert(slice_equal(found.command, call->command));
    return found;
}

/* ------------------------------------------------------------------ golden bytes */

Test(lib_client_wire, a_put_has_these_bytes) {
    wire_encode_call(&out, &(struct wire_call){.number = 7,
                                               .method = WIRE_PUT,
                                               .key = slice_text("key"),
                                               .value = slice_text("v"),
                                               .has_timeout = true,
                                               .timeout_ms = 5000,
                                               .flags = WIRE_NO_WAIT});
    EXPECT_BYTES("\x94\x00\x07\xa3put\x94\xc4\x03key\xc4\x01v\xcd\x13\x88\x02");
}

Test(lib_client_wire, calls_of_sessions_have_these_bytes) {
    struct wire_call put = {.number = 7,
                            .method = WIRE_PUT,
                            .key = slice_text("key"),
                            .value = slice_text("v"),
                            .has_timeout = true,
                            .timeout_ms = 5000,
                            .session = 9,
                            .seq = 300,
                            .acked_below = 100};
    wire_encode_call(&out, &put);
    EXPECT_BYTES("\x94\x00\x07\xa3put\x95\xc4\x03key\xc4\x01v\xcd\x13\x88\x00"
                 "\x93\x09\xcd\x01\x2c\x64");
    struct wire_call found = reread(&put);
    cr_assert(found.session == 9 && found.seq == 300 && found.acked_below == 100);
    put.method = WIRE_DELETE;
    put.value = (struct slice){0};
    found = reread(&put);
    cr_assert(found.session == 9 && found.seq == 300 && found.acked_below == 100);
    buffer_clear(&out);
    struct wire_call open = {.number = 1, .method = WIRE_SESSION_OPEN, .ttl_ms = 30000};
    wire_encode_call(&out, &open);
    EXPECT_BYTES("\x94\x00\x01\xacsession_open\x94\x00\xcd\x75\x30\xc0\x00");
    cr_assert_eq(reread(&open).ttl_ms, 30000);
    struct wire_call close = {.number = 1, .method = WIRE_SESSION_CLOSE, .session = 9};
    cr_assert_eq(reread(&close).session, 9);
}

Test(lib_client_wire, calls_of_leases_have_these_bytes) {
    struct wire_call grant = {
        .number = 1, .method = WIRE_LEASE_GRANT, .lease = 300, .ttl_ms = 30000};
    wire_encode_call(&out, &grant);
    EXPECT_BYTES("\x94\x00\x01\xablease_grant\x94\xcd\x01\x2c\xcd\x75\x30\xc0\x00");
    struct wire_call found = reread(&grant);
    cr_assert(found.lease == 300 && found.ttl_ms == 30000);
    buffer_clear(&out);
    struct wire_call keep = {
        .number = 1, .method = WIRE_LEASE_KEEP, .lease = INT64_MAX, .flags = WIRE_HERE};
    wire_encode_call(&out, &keep);
    EXPECT_BYTES("\x94\x00\x01\xb0lease_keep_alive\x93"
                 "\xcf\x7f\xff\xff\xff\xff\xff\xff\xff\xc0\x01");
    cr_assert_eq(reread(&keep).lease, INT64_MAX);
    buffer_clear(&out);
    struct wire_call revoke = {.number = 1, .method = WIRE_LEASE_REVOKE, .lease = 9};
    wire_encode_call(&out, &revoke);
    EXPECT_BYTES("\x94\x00\x01\xaclease_revoke\x93\x09\xc0\x00");
    cr_assert_eq(reread(&revoke).lease, 9);
    buffer_clear(&out);
    struct wire_call ttl = {
        .number = 1, .method = WIRE_LEASE_TTL, .lease = 9, .key = slice_text("k"), .limit = 5};
    wire_encode_call(&out, &ttl);
    EXPECT_BYTES("\x94\x00\x01\xa9lease_ttl\x95\x09\xc4\x01k\x05\xc0\x00");
    cr_assert_eq(reread(&ttl).lease, 9);
    buffer_clear(&out);
    struct wire_call list = {.number = 1, .method = WIRE_LEASE_LIST, .lease = 0, .limit = 5};
    wire_encode_call(&out, &list);
    EXPECT_BYTES("\x94\x00\x01\xaalease_list\x94\x00\x05\xc0\x00");
    cr_assert_eq(reread(&list).lease, 0);
}

Test(lib_client_wire, other_calls_have_these_bytes) {
    wire_encode_call(&out, &(struct wire_call){.number = 0, .method = WIRE_PING});
    EXPECT_BYTES("\x94\x00\x00\xa4ping\x90");
    buffer_clear(&out);
    wire_encode_call(
        &out, &(struct wire_call){.number = 300, .method = WIRE_DELETE, .key = slice_text("a")});
    EXPECT_BYTES("\x94\x00\xcd\x01\x2c\xa6"
                 "delete\x94\xc4\x01"
                 "a\xc0\xc0\x00");
    buffer_clear(&out);
    wire_encode_call(
        &out, &(struct wire_call){
                  .number = 1, .method = WIRE_DELETE, .key = slice_text("a"), .has_end = true});
    EXPECT_BYTES("\x94\x00\x01\xa6"
                 "delete\x94\xc4\x01"
                 "a\xc4\x00\xc0\x00");
    buffer_clear(&out);
    wire_encode_call(&out, &(struct wire_call){.number = 1,
                                               .method = WIRE_GET,
                                               .key = slice_text("a"),
                                               .how = LKV_LOCAL,
                                               .flags = WIRE_HERE});
    EXPECT_BYTES("\x94\x00\x01\xa3get\x94\xc4\x01"
                 "a\x03\xc0\x01");
    buffer_clear(&out);
    wire_encode_call(&out, &(struct wire_call){.number = 1,
                                               .method = WIRE_RANGE,
                                               .key = slice_text("a"),
                                               .limit = 100,
                                               .range_flags = LKV_KEYS_ONLY | LKV_TOTAL,
                                               .has_timeout = true});
    EXPECT_BYTES("\x94\x00\x01\xa5range\x97\xc4\x01"
                 "a\xc4\x00\x64\x09\x00\x00\x00");
    buffer_clear(&out);
    wire_encode_call(&out, &(struct wire_call){.number = 1, .method = WIRE_STATUS});
    EXPECT_BYTES("\x94\x00\x01\xa6status\x91\xc0");
    buffer_clear(&out);
    wire_encode_call(&out, &(struct wire_call){.number = 1,
                                               .method = WIRE_PROPOSE,
                                               .command = slice_text("xyz"),
                                               .has_timeout = true,
                                               .timeout_ms = 9,
                                               .flags = WIRE_HERE | WIRE_NO_WAIT});
    EXPECT_BYTES("\x94\x00\x01\xa7propose\x93\x09\x03\xc4\x03xyz");
}

Test(lib_client_wire, reads_of_older_revisions_have_these_bytes) {
    wire_encode_call(
        &out, &(struct wire_call){
                  .number = 1, .method = WIRE_GET, .key = slice_text("a"), .select = {.rev = 300}});
    EXPECT_BYTES("\x94\x00\x01\xa3get\x95\xc4\x01"
                 "a\x00\xc0\x00\xcd\x01\x2c");
    buffer_clear(&out);
    wire_encode_call(&out, &(struct wire_call){.number = 1,
                                               .method = WIRE_RANGE,
                                               .key = slice_text("a"),
                                               .limit = 9,
                                               .has_timeout = true,
                                               .timeout_ms = 5,
                                               .select = {.rev = 7}});
    EXPECT_BYTES("\x94\x00\x01\xa5range\x98\xc4\x01"
                 "a\xc4\x00\x09\x00\x00\x05\x00\x07");
    buffer_clear(&out);
    const struct read_select select = {.order = LKV_BY_MOD_REV,
                                       .mod_rev_min = 1,
                                       .mod_rev_max = 2,
                                       .create_rev_min = 3,
                                       .create_rev_max = 4};
    wire_encode_call(&out, &(struct wire_call){.number = 1,
                                               .method = WIRE_RANGE,
                                               .key = slice_text("a"),
                                               .how = LKV_LOCAL,
                                               .select = select});
    EXPECT_BYTES("\x94\x00\x01\xa5range\x99\xc4\x01"
                 "a\xc4\x00\x00\x00\x03\xc0\x00\x00\x95\x03\x01\x02\x03\x04");
}

Test(lib_client_wire, views_have_these_bytes) {
    wire_encode_call(&out, &(struct wire_call){.number = 1,
                                               .method = WIRE_VIEW_OPEN,
                                               .select = {.rev = 7},
                                               .view_age_ms = 300,
                                               .how = LKV_LOCAL,
                                               .flags = WIRE_HERE});
    EXPECT_BYTES("\x94\x00\x01\xa9view_open\x95\x07\xcd\x01\x2c\x03\xc0\x01");
    buffer_clear(&out);
    wire_encode_call(&out,
                     &(struct wire_call){
                         .number = 1, .method = WIRE_VIEW_CLOSE, .view = 9, .has_timeout = true});
    EXPECT_BYTES("\x94\x00\x01\xaaview_close\x93\x09\x00\x00");
}

Test(lib_client_wire, replies_have_these_bytes) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    msg_set_u64(msg, "rev", 41);
    wire_encode_reply(&out, 7, msg);
    EXPECT_BYTES("\x94\x01\x07\xc0\x81\xa3rev\x29");
    buffer_clear(&out);
    msg_clear(msg);
    msg_set_rc(msg, LKV_ENOTLEADER, "no");
    msg_set_str(msg, "leader", "n2");
    wire_encode_reply(&out, 7, msg);
    EXPECT_BYTES("\x94\x01\x07\x94\xf8\xaeLKV_ENOTLEADER\xa2no\xa8not_done\x81\xa6leader\xa2n2");
    lkv_msg_free(msg);
    buffer_clear(&out);
    wire_encode_refusal(&out, LKV_EBUSY, "full", false);
    EXPECT_BYTES("\x94\x01\xc0\x94\xfb\xa9LKV_EBUSY\xa4"
                 "full\xa8not_done\xc0");
    cr_assert(!wire_is_untouched(decoder, buffer_slice(&out)));
    buffer_clear(&out);
    wire_encode_refusal(&out, LKV_EBUSY, "full", true);
    EXPECT_BYTES("\x94\x01\xc0\x94\xfb\xa9LKV_EBUSY\xa4"
                 "full\xa8not_done\x81\xa5taken\x00");
    cr_assert(wire_is_untouched(decoder, buffer_slice(&out)));
    out.data[out.size - 1] = 1;
    cr_assert(!wire_is_untouched(decoder, buffer_slice(&out)), "one was taken");
    static const char numbered[] = "\x94\x01\x07\xc0\x81\xa5taken\x00";
    cr_assert(!wire_is_untouched(decoder, slice_of(numbered, sizeof(numbered) - 1)));
    static const char more[] = "\x94\x01\xc0\xc0\x82\xa5taken\x00\xa4more\x00";
    cr_assert(!wire_is_untouched(decoder, slice_of(more, sizeof(more) - 1)));
}

/* ------------------------------------------------------------------ calls */

Test(lib_client_wire, calls_are_read_as_they_were_written) {
    (void)reread(&(struct wire_call){.number = UINT64_MAX, .method = WIRE_PING});
    (void)reread(&(struct wire_call){.method = WIRE_PUT,
                                     .key = slice_text("key"),
                                     .value = slice_text(""),
                                     .has_timeout = true,
                                     .timeout_ms = UINT64_MAX,
                                     .flags = WIRE_HERE | WIRE_NO_WAIT});
    (void)reread(&(struct wire_call){.method = WIRE_DELETE, .key = slice_text("key")});
    (void)reread(&(struct wire_call){
        .method = WIRE_DELETE, .key = slice_text("key"), .has_end = true, .end = slice_text("l")});
    (void)reread(
        &(struct wire_call){.method = WIRE_GET, .key = slice_of("\0\xff", 2), .how = LKV_LOCAL});
    (void)reread(&(struct wire_call){.method = WIRE_RANGE,
                                     .key = slice_text("a"),
                                     .end = slice_text("b"),
                                     .limit = UINT64_MAX,
                                     .range_flags = 15,
                                     .how = LKV_LOCAL,
                                     .flags = WIRE_HERE});
    (void)reread(&(struct wire_call){
        .method = WIRE_GET, .key = slice_text("a"), .select = {.rev = UINT64_MAX}});
    (void)reread(&(struct wire_call){.method = WIRE_RANGE, .select = {.rev = 8}});
    (void)reread(
        &(struct wire_call){.method = WIRE_RANGE, .select = {.rev = 8, .order = LKV_BY_VERSION}});
    (void)reread(&(struct wire_call){.method = WIRE_VIEW_CLOSE, .view = UINT64_MAX});
    struct wire_call view = reread(
        &(struct wire_call){.method = WIRE_VIEW_OPEN, .how = LKV_LOCAL, .view_age_ms = 70000});
    cr_assert_eq(view.view_age_ms, 70000);
    (void)reread(&(struct wire_call){
        .method = WIRE_RANGE,
        .select = {
            .rev = 8, .order = LKV_BY_VALUE, .mod_rev_min = UINT64_MAX, .create_rev_max = 1}});
    (void)reread(&(struct wire_call){.method = WIRE_STATUS, .has_timeout = true});
    (void)reread(&(struct wire_call){.method = WIRE_DIGEST});
    (void)reread(&(struct wire_call){.method = WIRE_PROPOSE, .command = slice_text("command")});
}

Test(lib_client_wire, strings_may_stand_for_bytes_and_flags_may_be_missing) {
    struct wire_call call;
    bool numbered;
    static const char text[] = "\x94\x00\x01\xa3put\x93\xa1k\xa1v\x05";
    cr_assert_eq(decode(slice_of(text, sizeof(text) - 1), &call, &numbered), 0);
    cr_assert(slice_equal(call.key, slice_text("k")));
    cr_assert(slice_equal(call.value, slice_text("v")));
    cr_assert_eq(call.timeout_ms, 5);
    cr_assert_eq(call.flags, 0);
}

struct refusal {
    const char *bytes;
    size_t size;
    int rc;
    bool numbered;
};

#define REFUSAL(text, code, has_number) \
    { text, sizeof(text) - 1, code, has_number }

Test(lib_client_wire, refuses_what_is_no_call) {
    static const struct refusal refusals[] = {
        REFUSAL("\x93\x02\xa3put\x90", LKV_EPROTOCOL, false),          /* a notification */
        REFUSAL("\x95\x00\x01\xa4ping\x90\x01", LKV_EPROTOCOL, false), /* five parts */
        REFUSAL("\x94\x01\x01\xa4ping\x90", LKV_EPROTOCOL, false),     /* a reply */
        REFUSAL("\x94\x03\x01\xa4ping\x90", LKV_EPROTOCOL, false),
        REFUSAL("\x94\xc0\x01\xa4ping\x90", LKV_EPROTOCOL, false),
        REFUSAL("\x94\x00\xff\xa4ping\x90", LKV_EPROTOCOL, false), /* number -1 */
        REFUSAL("\x94\x00\xa1x\xa4ping\x90", LKV_EPROTOCOL, false),
        REFUSAL("\x81\x00\x01", LKV_EPROTOCOL, false),
        REFUSAL("\x94\x00\x01\x05\x90", LKV_EINVAL, true), /* method 5 */
        REFUSAL("\x94\x00\x01\xa4pong\x90", LKV_EUNSUPPORTED, true),
        REFUSAL("\x94\x00\x01\xa4ping\x80", LKV_EINVAL, true), /* a map of arguments */
        REFUSAL("\x94\x00\x01\xa4ping\x91\x01", LKV_EUNSUPPORTED, true),
        REFUSAL("\x94\x00\x01\xa3put\x92\xa1k\xa1v", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa3put\x95\xa1k\xa1v\x05\x00\x00", LKV_EINVAL,
                true), /* 0 is no session */
        REFUSAL("\x94\x00\x01\xa3put\x93\x01\xa1v\x05", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa3put\x93\xa1k\xc0\x05", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa3put\x93\xa1k\xa1v\xff", LKV_EINVAL, true), /* timeout -1 */
        REFUSAL("\x94\x00\x01\xa3put\x94\xa1k\xa1v\x05\x04", LKV_EUNSUPPORTED, true),
        REFUSAL("\x94\x00\x01\xa3put\x94\xa1k\xa1v\x05\xc0", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa6"
                "delete\x93\xa1k\x01\x05",
                LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa3get\x93\xa1k\x04\x05", LKV_EUNSUPPORTED, true), /* how 4 */
        REFUSAL("\x94\x00\x01\xa3get\x93\xa1k\xc3\x05", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa5range\x96\xa1k\xa1v\x05\x10\x00\x05", LKV_EUNSUPPORTED, true),
        REFUSAL("\x94\x00\x01\xa5range\x96\xa1k\xa1v\xff\x00\x00\x05", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa3get\x95\xa1k\x00\x05\x00\xc0", LKV_EINVAL, true), /* rev nil */
        REFUSAL("\x94\x00\x01\xa3get\x96\xa1k\x00\x05\x00\x01\x01", LKV_EUNSUPPORTED, true),
        REFUSAL("\x94\x00\x01\xa5range\x99\xa1k\xa1v\x05\x00\x00\x05\x00\x01\x90", LKV_EINVAL,
                true),
        REFUSAL("\x94\x00\x01\xa5range\x99\xa1k\xa1v\x05\x00\x00\x05\x00\x01\x01", LKV_EINVAL,
                true),
        REFUSAL(
            "\x94\x00\x01\xa5range\x99\xa1k\xa1v\x05\x00\x00\x05\x00\x01\x95\x05\x00\x00\x00\x00",
            LKV_EUNSUPPORTED, true), /* order 5 */
        REFUSAL(
            "\x94\x00\x01\xa5range\x99\xa1k\xa1v\x05\x00\x00\x05\x00\x01\x95\x00\x00\xc0\x00\x00",
            LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa5range\x99\xa1k\xa1v\x05\x00\x00\x05\x00\x01\x96\x00\x00\x00\x00"
                "\x00\x00",
                LKV_EUNSUPPORTED, true),
        REFUSAL("\x94\x00\x01\xa6status\x91\xa1v", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xa7propose\x93\x09\x00\x01", LKV_EINVAL, true),
        REFUSAL("\x94\x00\x01\xaclease_revoke\x92\x00\x05", LKV_EINVAL, true), /* no lease 0 */
        REFUSAL("\x94\x00\x01\xaalease_list\x93\xff\x05\x05", LKV_EINVAL, true),
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct wire_call call;
        bool numbered;
        int rc = decode(slice_of(refusals[i].bytes, refusals[i].size), &call, &numbered);
        cr_assert_eq(rc, refusals[i].rc, "%zu: %s", i, error_name(rc));
        cr_assert_eq(numbered, refusals[i].numbered, "%zu", i);
        cr_assert(!numbered || call.number == 1);
    }
}

/* N1: nothing that passes the scan makes the decoder stumble. */
Test(lib_client_wire, survives_noise) {
    struct prng prng = prng_of(1);
    wire_encode_call(&out, &(struct wire_call){.number = 77,
                                               .method = WIRE_RANGE,
                                               .key = slice_text("from"),
                                               .end = slice_text("to"),
                                               .limit = 1000,
                                               .flags = 3});
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    for (int i = 0; i < 200000; i++) {
        uint8_t bytes[64];
        size_t size = out.size;
        memcpy(bytes, out.data, size);
        for (uint64_t flips = 1 + prng_below(&prng, 4); flips > 0; flips--) {
            bytes[prng_below(&prng, size)] = (uint8_t)prng_next(&prng);
        }
        struct wire_call call;
        bool numbered;
        (void)decode(slice_of(bytes, size), &call, &numbered);
        struct scan scan = {0};
        struct reason why;
        uint64_t number;
        bytes[1] = 1; /* as a reply */
        struct slice frame = slice_of(bytes, size);
        if (scan_object(&scan, frame, &wire_reply_limits, &why) == 1 && scan.offset == size &&
            wire_open_reply(decoder, frame, &number, &why) == 0) {
            int rc = wire_read_reply(decoder, frame, msg, &why);
            cr_assert(rc == 0 || rc == LKV_EPROTOCOL);
            msg_clear(msg);
        }
    }
    lkv_msg_free(msg);
}

/* ------------------------------------------------------------------ replies */

static int read_reply(struct slice frame, struct lkv_msg *msg) {
    struct reason why = {{0}};
    struct scan scan = {0};
    uint64_t number = 0;
    cr_assert_eq(scan_object(&scan, frame, &wire_reply_limits, &why), 1);
    int rc = wire_open_reply(decoder, frame, &number, &why);
    return rc == 0 ? wire_read_reply(decoder, frame, msg, &why) : rc;
}

Test(lib_client_wire, replies_are_read_as_they_were_written) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    msg_set_rc(msg, LKV_ENOTFOUND, "text");
    msg_set_u64(msg, "digest", UINT64_MAX);
    msg_set_str(msg, "leader", "");
    msg_add_member(msg, &(struct lkv_member){.id = "n1",
                                             .address = "h:1",
                                             .role = "leader",
                                             .state = "-",
                                             .match = 9,
                                             .lag_entries = 8,
                                             .lag_ms = 7});
    msg->backing = blob_copy(slice_text("keyvalue"));
    msg->range.items = mem_calloc(2, sizeof(struct kv_item));
    msg->range.count = 2;
    msg->range.items[0] = (struct kv_item){.key = slice_of(msg->backing->data, 3),
                                           .value = slice_of(msg->backing->data + 3, 5),
                                           .create_rev = 2,
                                           .mod_rev = 3,
                                           .version = 4,
                                           .lease = INT64_MAX};
    msg->range.items[1] = (struct kv_item){.key = slice_of(msg->backing->data, 1)};
    wire_encode_reply(&out, 1, msg);
    lkv_msg_free(msg);

    msg = msg_new(LKV_REPLY, NULL);
    struct blob *frame = blob_copy(buffer_slice(&out));
    cr_assert_eq(read_reply(blob_slice(frame), msg), 0);
    blob_unref(frame); /* the message keeps its own copy */
    cr_assert_eq(lkv_msg_rc(msg), LKV_ENOTFOUND);
    cr_assert_str_eq(lkv_msg_text(msg), "text");
    uint64_t number;
    cr_assert(lkv_msg_u64(msg, "digest", &number) && number == UINT64_MAX);
    cr_assert_str_eq(lkv_msg_str(msg, "leader"), "");
    struct lkv_kv kv;
    cr_assert_eq(lkv_msg_count(msg), 2);
    cr_assert(lkv_msg_kv(msg, 0, &kv));
    cr_assert(memcmp(kv.key.data, "key", 3) == 0 && memcmp(kv.value.data, "value", 5) == 0);
    cr_assert(kv.create_rev == 2 && kv.mod_rev == 3 && kv.version == 4);
    cr_assert_eq(kv.lease, INT64_MAX);
    cr_assert(lkv_msg_kv(msg, 1, &kv) && kv.value.size == 0);
    struct lkv_member member;
    cr_assert(lkv_msg_member(msg, 0, &member));
    cr_assert_str_eq(member.role, "leader");
    cr_assert(member.match == 9 && member.lag_entries == 8 && member.lag_ms == 7);
    lkv_msg_free(msg);
}

static int read_bytes_as_reply(const char *bytes, size_t size, struct lkv_msg *msg) {
    return read_reply(slice_of(bytes, size), msg);
}

#define READ(text) read_bytes_as_reply(text, sizeof(text) - 1, msg)

Test(lib_client_wire, unknown_names_and_odd_types_are_passed_over) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(READ("\x94\x01\x01\xc0\x84\xa3new\x01\xa3rev\x91\x01\xa4term\x02\xa5index\xc0"),
                 0);
    uint64_t number;
    cr_assert(lkv_msg_u64(msg, "term", &number) && number == 2);
    cr_assert(!lkv_msg_u64(msg, "rev", &number));
    cr_assert(!lkv_msg_u64(msg, "index", &number));
    cr_assert_eq(READ("\x94\x01\x01\xc0\xc0"), 0, "a result may be nil");
    lkv_msg_free(msg);
}

Test(lib_client_wire, an_unknown_code_keeps_its_outcome) {
    static const struct {
        const char *outcome;
        int rc;
    } rows[] = {{"not_done", LKV_EUNSUPPORTED},
                {"negative", LKV_ECOMPARE},
                {"unknown", LKV_EUNKNOWN},
                {"whatever", LKV_EUNKNOWN}};
    for (size_t i = 0; i < 4; i++) {
        struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
        char frame[64];
        int size =
            snprintf(frame, sizeof(frame), "\x94\x01\x01\x94\xd1\xfc\x18\xa7LKV_NEW\xa1x%c%s\xc0",
                     (char)(0xa0 + strlen(rows[i].outcome)), rows[i].outcome);
        cr_assert_eq(read_reply(slice_of(frame, (size_t)size), msg), 0);
        cr_assert_eq(lkv_msg_rc(msg), rows[i].rc, "%s", rows[i].outcome);
        cr_assert_str_eq(lkv_msg_text(msg), "x");
        lkv_msg_free(msg);
    }
}

Test(lib_client_wire, refuses_what_is_no_reply) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(READ("\x94\x00\x01\xc0\x80"), LKV_EPROTOCOL);
    cr_assert_eq(READ("\x94\x01\xff\xc0\x80"), LKV_EPROTOCOL);
    cr_assert_eq(READ("\x94\x01\xc0\xc0\x80"), LKV_EPROTOCOL, "no number and no error");
    cr_assert_eq(READ("\x94\x01\x01\x01\x80"), LKV_EPROTOCOL);
    cr_assert_eq(READ("\x94\x01\x01\x93\xff\xa1x\xa1y\x80"), LKV_EPROTOCOL);
    cr_assert_eq(READ("\x94\x01\x01\x94\x01\xa1x\xa1y\xa1z\x80"), LKV_EPROTOCOL, "code 1");
    cr_assert_eq(READ("\x94\x01\x01\xc0\x90"), LKV_EPROTOCOL);
    cr_assert_eq(READ("\x94\x01\x01\xc0\x81\x01\x01"), LKV_EPROTOCOL);
    cr_assert_eq(READ("\x94\x01\x01\xc0\x81\xa5items\x01"), LKV_EPROTOCOL);
    cr_assert_eq(READ("\x94\x01\x01\xc0\x81\xa5items\x91\x91\x01"), LKV_EPROTOCOL);
    msg_clear(msg);
    cr_assert_eq(READ("\x94\x01\x01\xc0\x82\xa5items\x90\xa5items\x90"), LKV_EPROTOCOL, "twice");
    cr_assert_eq(READ("\x94\x01\x01\xc0\x81\xa7members\x91\x90"), LKV_EPROTOCOL);
    lkv_msg_free(msg);
    struct reason why;
    uint64_t number;
    static const char busy[] = "\x94\x01\xc0\x94\xfb\xa9LKV_EBUSY\xa4"
                               "full\xa8not_done\xc0";
    cr_assert_eq(wire_open_reply(decoder, slice_of(busy, sizeof(busy) - 1), &number, &why),
                 LKV_EBUSY);
    cr_assert_str_eq(why.text, "full");
}

/* ------------------------------------------------------------------ frames out of a stream */

struct taken {
    size_t count, bytes;
    int rc; /* to return */
};

static int take(void *arg, struct slice frame) {
    struct taken *taken = arg;
    cr_assert_eq(frame.data[0], 0x94);
    taken->count++;
    taken->bytes += frame.size;
    return taken->rc;
}

static int feed(struct wire_input *input, const void *data, size_t size, struct taken *taken) {
    struct reason why;
    return wire_input_feed(input, slice_of(data, size), &wire_call_limits, take, taken, &why);
}

static void encode_three(void) {
    for (uint64_t i = 0; i < 3; i++) {
        wire_encode_call(&out, &(struct wire_call){
                                   .number = i, .method = WIRE_GET, .key = slice_text("some key")});
    }
}

Test(lib_wire_input, finds_frames_wherever_the_stream_is_cut, .init = open_wire,
     .fini = close_wire) {
    encode_three();
    for (size_t first = 0; first <= out.size; first++) {
        for (size_t second = first; second <= out.size; second += 3) {
            struct wire_input input;
            struct taken taken = {0};
            wire_input_init(&input);
            cr_assert_eq(feed(&input, out.data, first, &taken), 0);
            cr_assert_eq(feed(&input, out.data + first, second - first, &taken), 0);
            cr_assert_eq(feed(&input, out.data + second, out.size - second, &taken), 0);
            cr_assert_eq(taken.count, 3);
            cr_assert_eq(taken.bytes, out.size);
            cr_assert_eq(input.kept.size, 0);
            wire_input_fini(&input);
        }
    }
}

Test(lib_wire_input, stops_when_it_is_told_and_goes_on, .init = open_wire, .fini = close_wire) {
    encode_three();
    struct wire_input input;
    struct taken taken = {.rc = WIRE_PAUSE};
    wire_input_init(&input);
    cr_assert_eq(feed(&input, out.data, out.size - 1, &taken), WIRE_PAUSE);
    cr_assert_eq(taken.count, 1);
    cr_assert_eq(feed(&input, NULL, 0, &taken), WIRE_PAUSE);
    cr_assert_eq(feed(&input, NULL, 0, &taken), 0);
    cr_assert_eq(feed(&input, out.data + out.size - 1, 1, &taken), WIRE_PAUSE);
    cr_assert_eq(taken.count, 3);
    cr_assert_eq(feed(&input, NULL, 0, &taken), 0);
    taken.rc = LKV_ECLOSED;
    cr_assert_eq(feed(&input, out.data, out.size, &taken), LKV_ECLOSED);
    wire_input_fini(&input);
}

/* N2, N4, N5: refused before any of it is kept. */
Test(lib_wire_input, refuses_what_announces_too_much) {
    static const struct refusal refusals[] = {
        REFUSAL("\xdd\x00\xff\xff\xff", LKV_EPROTOCOL, false),
        REFUSAL("GET / HTTP/1.1\r\n", LKV_EPROTOCOL, false),
        REFUSAL("\x94\xdd\x00\xff\xff\xff", LKV_ETOOLARGE, false),
        REFUSAL("\x94\x00\x01\xa3put\x93\xc6\xff\xff\xff\xff", LKV_ETOOLARGE, false),
        REFUSAL("\x94\x00\x01\xa3put\x93\xc6\x80\x00\x00\x00", LKV_ETOOLARGE, false),
        REFUSAL("\x94\x00\x01\xa3put\x93\xc6\x01\x10\x00\x00", LKV_ETOOLARGE, false), /* 17 MiB */
        REFUSAL("\x94\x00\x01\xa3put\x93\xdc\x05\x00", LKV_ETOOLARGE, false),         /* objects */
        REFUSAL("\x94\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91", LKV_EPROTOCOL, false),
        REFUSAL("\x94\xc1", LKV_EPROTOCOL, false),
        REFUSAL("\x94\xd4\x01\x02", LKV_EPROTOCOL, false), /* an extension */
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct wire_input input;
        struct taken taken = {0};
        wire_input_init(&input);
        int rc = 0;
        for (size_t at = 0; at < refusals[i].size && rc == 0; at++) {
            rc = feed(&input, refusals[i].bytes + at, 1, &taken);
        }
        cr_assert_eq(rc, refusals[i].rc, "%zu: %s", i, error_name(rc));
        cr_assert_eq(taken.count, 0);
        cr_assert_leq(input.kept.capacity, 64);
        wire_input_fini(&input);
    }
}

Test(lib_wire_input, gives_the_memory_of_a_large_frame_back, .init = open_wire,
     .fini = close_wire) {
    static uint8_t value[1 << 20];
    wire_encode_call(&out, &(struct wire_call){.method = WIRE_PUT,
                                               .key = slice_text("k"),
                                               .value = slice_of(value, sizeof(value))});
    struct wire_input input;
    struct taken taken = {0};
    wire_input_init(&input);
    for (size_t at = 0; at < out.size; at += 60000) {
        size_t size = out.size - at < 60000 ? out.size - at : 60000;
        cr_assert_eq(feed(&input, out.data + at, size, &taken), 0);
    }
    cr_assert_eq(taken.count, 1);
    cr_assert_eq(input.kept.capacity, 0);
    wire_input_fini(&input);
}

Test(lib_wire_input, says_when_it_finds_no_memory, .init = open_wire, .fini = close_wire) {
    encode_three();
    struct wire_input input;
    struct taken taken = {0};
    wire_input_init(&input);
    mem_fail_after(0);
    int rc = feed(&input, out.data, 5, &taken);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
    wire_input_fini(&input);
}
