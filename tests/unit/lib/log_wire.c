/* The clients' protocol of log mode: what append, read and span look like, and what is refused. */
#include "lib/records.h"
#include "lib/wire_input.h"
#include "tests/unit/lib/wire_fixture.h"

TestSuite(lib_log_wire, .init = open_wire, .fini = close_wire);

static int decode(struct slice frame, struct wire_call *call) {
    struct reason why = {{0}};
    struct scan scan = {0};
    bool numbered;
    cr_assert_eq(scan_object(&scan, frame, &wire_call_limits, &why), 1, "%s", why.text);
    int rc = wire_decode_call(decoder, frame, call, &numbered, &why);
    cr_assert(numbered);
    return rc;
}

Test(lib_log_wire, append_golden) {
    const struct slice records[] = {slice_text("ab"), slice_text("")};
    struct wire_call call = {.number = 1,
                             .method = WIRE_APPEND,
                             .records = records,
                             .record_count = 2,
                             .in_term = 7,
                             .has_timeout = true,
                             .timeout_ms = 100,
                             .flags = WIRE_HERE,
                             .refusals = 3};
    wire_encode_call(&out, &call);
    EXPECT_BYTES("\x94\x00\x01\xa6"
                 "append"
                 "\x95\x92\xc4\x02"
                 "ab"
                 "\xc4\x00\x07\x64\x01\x03");
    struct wire_call back;
    cr_assert_eq(decode(buffer_slice(&out), &back), 0);
    cr_assert_eq(back.record_count, 2);
    cr_assert(slice_equal(back.records[0], records[0]));
    cr_assert_eq(back.records[1].size, 0);
    cr_assert_eq(back.in_term, 7);
    cr_assert_eq(back.timeout_ms, 100);
    cr_assert_eq(back.flags, WIRE_HERE);
    cr_assert(back.has_refusals && back.refusals == 3);
}

Test(lib_log_wire, append_without_flags_and_refusals) {
    static const char frame[] = "\x94\x00\x01\xa6"
                                "append"
                                "\x93\x91\xa1"
                                "x"
                                "\x00\xc0";
    struct wire_call back;
    cr_assert_eq(decode(slice_of(frame, sizeof(frame) - 1), &back), 0);
    cr_assert_eq(back.record_count, 1);
    cr_assert_not(back.has_timeout);
    cr_assert_not(back.has_refusals);
}

Test(lib_log_wire, read_and_span_golden) {
    struct wire_call call = {.number = 2,
                             .method = WIRE_LOG_READ,
                             .from = 300,
                             .bytes_max = 5,
                             .wait = true,
                             .has_timeout = true,
                             .timeout_ms = 1};
    wire_encode_call(&out, &call);
    EXPECT_BYTES("\x94\x00\x02\xa4"
                 "read"
                 "\x94\xcd\x01\x2c\x05\x01\x01");
    struct wire_call back;
    cr_assert_eq(decode(buffer_slice(&out), &back), 0);
    cr_assert(back.from == 300 && back.bytes_max == 5 && back.wait && back.timeout_ms == 1);
    buffer_clear(&out);
    call = (struct wire_call){.number = 3, .method = WIRE_LOG_SPAN, .how = LKV_LOCAL};
    wire_encode_call(&out, &call);
    EXPECT_BYTES("\x94\x00\x03\xa4"
                 "span"
                 "\x93\x03\xc0\x00");
    cr_assert_eq(decode(buffer_slice(&out), &back), 0);
    cr_assert_eq(back.how, LKV_LOCAL);
}

#define FRAME(text) \
    { (text), sizeof(text) - 1 }

Test(lib_log_wire, bad_arguments_are_refused_for_the_one_call) {
    static const struct {
        const char *bytes;
        size_t size;
    } frames[] = {
        FRAME("\x94\x00\x01\xa6"
              "append"
              "\x93\xa1"
              "x"
              "\x00\xc0"), /* no array */
        FRAME("\x94\x00\x01\xa6"
              "append"
              "\x93\x91\x05\x00\xc0"), /* a number */
        FRAME("\x94\x00\x01\xa6"
              "append"
              "\x93\x90\xa1"
              "x"
              "\xc0"), /* in_term */
        FRAME("\x94\x00\x01\xa6"
              "append"
              "\x92\x90\x00"), /* too few */
        FRAME("\x94\x00\x01\xa6"
              "append"
              "\x96\x90\x00\xc0\x00\x00\x00"), /* too many */
        FRAME("\x94\x00\x01\xa6"
              "append"
              "\x95\x90\x00\xc0\x00\xff"), /* negative */
        FRAME("\x94\x00\x01\xa4"
              "read"
              "\x94\x01\x01\x02\xc0"), /* unknown flag */
        FRAME("\x94\x00\x01\xa4"
              "span"
              "\x92\x05\xc0"), /* unknown way */
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        struct wire_call back;
        int rc = decode(slice_of(frames[i].bytes, frames[i].size), &back);
        cr_assert(rc == LKV_EINVAL || rc == LKV_EUNSUPPORTED, "%zu: %d", i, rc);
    }
}

Test(lib_log_wire, records_come_back_as_they_were) {
    struct lkv_msg *reply = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(msg_records_reserve(reply, 3, NULL), 0);
    struct blob *blob = blob_copy(slice_text("hello"));
    msg_records_add(reply, &(struct entry){.index = 7, .term = 2, .payload = blob}, 0);
    msg_records_add(reply, &(struct entry){.index = 9, .term = 3, .payload = NULL}, 0);
    blob_unref(blob);
    msg_set_u64(reply, "next", 10);
    wire_encode_reply(&out, 1, reply);
    lkv_msg_free(reply);
    struct lkv_msg *back = msg_new(LKV_REPLY, NULL);
    struct reason why;
    uint64_t number, next = 0;
    cr_assert_eq(wire_open_reply(decoder, buffer_slice(&out), &number, &why), 0);
    cr_assert_eq(wire_read_reply(decoder, buffer_slice(&out), back, &why), 0, "%s", why.text);
    memset(out.data, 0, out.size); /* the message has its own */
    struct lkv_record record;
    cr_assert_eq(lkv_msg_count(back), 2);
    cr_assert(lkv_msg_record(back, 0, &record));
    cr_assert(record.index == 7 && record.term == 2 && record.data.size == 5);
    cr_assert(memcmp(record.data.data, "hello", 5) == 0);
    cr_assert(lkv_msg_record(back, 1, &record));
    cr_assert(record.index == 9 && record.data.size == 0 && record.data.data != NULL);
    cr_assert_not(lkv_msg_record(back, 2, &record));
    cr_assert(lkv_msg_u64(back, "next", &next) && next == 10);
    lkv_msg_free(back);
}

Test(lib_log_wire, malformed_records_break_the_connection_not_the_program) {
    static const char *const results[] = {
        "\x94\x01\x01\xc0\x81\xa7"
        "records"
        "\x05",
        "\x94\x01\x01\xc0\x81\xa7"
        "records"
        "\x91\x05",
        "\x94\x01\x01\xc0\x81\xa7"
        "records"
        "\x91\x92\x05\x05",
        "\x94\x01\x01\xc0\x81\xa7"
        "records"
        "\x91\x93\x05\x05\x05",
    };
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        struct lkv_msg *back = msg_new(LKV_REPLY, NULL);
        struct reason why;
        uint64_t number;
        struct slice frame = slice_text(results[i]);
        cr_assert_eq(wire_open_reply(decoder, frame, &number, &why), 0);
        cr_assert_eq(wire_read_reply(decoder, frame, back, &why), LKV_EPROTOCOL, "%zu", i);
        lkv_msg_free(back);
    }
}
