/* The clients' protocol of watches: what a call and its events look like, and what is refused. */
#include "base/mem.h"
#include "lib/events.h"
#include "lib/wire_input.h"
#include "tests/unit/lib/wire_fixture.h"

TestSuite(lib_watch_wire, .init = open_wire, .fini = close_wire);

static int decode(struct slice frame, struct wire_call *call) {
    struct reason why = {{0}};
    struct scan scan = {0};
    bool numbered;
    cr_assert_eq(scan_object(&scan, frame, &wire_call_limits, &why), 1, "%s", why.text);
    int rc = wire_decode_call(decoder, frame, call, &numbered, &why);
    cr_assert(numbered);
    return rc;
}

Test(lib_watch_wire, call_golden) {
    struct wire_call call = {.number = 2,
                             .method = WIRE_WATCH,
                             .key = slice_text("a"),
                             .end = slice_text("b"),
                             .from = 300,
                             .from_sub = 4,
                             .bytes_max = 5,
                             .watch_flags = LKV_WATCH_PREVIOUS | LKV_WATCH_NO_DELETES,
                             .wait = true,
                             .has_timeout = true,
                             .timeout_ms = 1,
                             .flags = WIRE_NO_WAIT};
    wire_encode_call(&out, &call);
    EXPECT_BYTES("\x94\x00\x02\xa5"
                 "watch"
                 "\x98\xc4\x01"
                 "a"
                 "\xc4\x01"
                 "b"
                 "\xcd\x01\x2c\x04\x05\x0b\x01\x02");
    struct wire_call back;
    cr_assert_eq(decode(buffer_slice(&out), &back), 0);
    cr_assert(slice_equal(back.key, call.key) && slice_equal(back.end, call.end));
    cr_assert(back.from == 300 && back.from_sub == 4 && back.bytes_max == 5 && back.wait);
    cr_assert_eq(back.watch_flags, LKV_WATCH_PREVIOUS | LKV_WATCH_NO_DELETES);
    cr_assert(back.timeout_ms == 1 && back.flags == WIRE_NO_WAIT);
    static const int flags[] = {0, LKV_WATCH_NO_PUTS, LKV_WATCH_PROGRESS};
    for (size_t i = 0; i < 3; i++) {
        buffer_clear(&out);
        call.wait = false;
        call.watch_flags = flags[i];
        wire_encode_call(&out, &call);
        cr_assert_eq(decode(buffer_slice(&out), &back), 0);
        cr_assert_not(back.wait);
        cr_assert_eq(back.watch_flags, flags[i] & ~(int)LKV_WATCH_PROGRESS,
                     "that is the asker's own");
    }
}

Test(lib_watch_wire, bad_arguments_are_refused_for_the_one_call) {
    static const struct {
        const char *bytes;
        size_t size;
        int rc;
    } frames[] = {
        {"\x94\x00\x01\xa5watch\x97\x05\xa0\x00\x00\x00\x00\xc0", 17, LKV_EINVAL}, /* from */
        {"\x94\x00\x01\xa5watch\x97\xa0\xc0\x00\x00\x00\x00\xc0", 17, LKV_EINVAL}, /* to */
        {"\x94\x00\x01\xa5watch\x97\xa0\xa0\xff\x00\x00\x00\xc0", 17, LKV_EINVAL}, /* rev */
        {"\x94\x00\x01\xa5watch\x97\xa0\xa0\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0",
         25, LKV_EINVAL},                                                                /* sub */
        {"\x94\x00\x01\xa5watch\x97\xa0\xa0\x00\x00\x00\x10\xc0", 17, LKV_EUNSUPPORTED}, /* flags */
        {"\x94\x00\x01\xa5watch\x96\xa0\xa0\x00\x00\x00\x00", 16, LKV_EINVAL},     /* too few */
        {"\x94\x00\x01\xa5watch\x97\xa0\xa0\x00\x00\x00\x00\xa0", 17, LKV_EINVAL}, /* timeout */
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        struct wire_call call;
        cr_assert_eq(decode(slice_of(frames[i].bytes, frames[i].size), &call), frames[i].rc, "%zu",
                     i);
    }
}

/* A put with what was there before it, and a delete. */
static struct lkv_msg *events(void) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    struct kv_event *made = mem_calloc(2, sizeof(*made));
    made[0].item = (struct kv_item){.key = slice_text("k"),
                                    .value = slice_text("new"),
                                    .create_rev = 2,
                                    .mod_rev = 5,
                                    .version = 2,
                                    .lease = 7};
    made[0].previous = (struct kv_item){.key = slice_text("k"),
                                        .value = slice_text("old"),
                                        .create_rev = 2,
                                        .mod_rev = 2,
                                        .version = 1};
    made[1].item = (struct kv_item){.key = slice_text("d"), .mod_rev = 6};
    msg_set_events(msg, made, 2);
    msg_set_u64(msg, "next", 6);
    msg_set_u64(msg, "next_sub", 1);
    msg_set_u64(msg, "partial", 1);
    return msg;
}

static struct lkv_msg *read_back(void) {
    struct reason why = {{0}};
    struct scan scan = {0};
    uint64_t reply_number;
    struct slice frame = buffer_slice(&out);
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(scan_object(&scan, frame, &wire_reply_limits, &why), 1, "%s", why.text);
    cr_assert_eq(wire_open_reply(decoder, frame, &reply_number, &why), 0);
    cr_assert_eq(wire_read_reply(decoder, frame, msg, &why), 0, "%s", why.text);
    return msg;
}

Test(lib_watch_wire, events_golden) {
    struct lkv_msg *msg = events();
    wire_encode_reply(&out, 3, msg);
    lkv_msg_free(msg);
    EXPECT_BYTES("\x94\x01\x03\xc0\x84\xa4next\x06\xa8next_sub\x01\xa7partial\x01\xa6"
                 "events\x92"
                 "\x92\x96\xc4\x01k\xc4\x03new\x02\x05\x02\x07"
                 "\x96\xc4\x01k\xc4\x03old\x02\x02\x01\x00"
                 "\x92\x96\xc4\x01"
                 "d\xc4\x00\x00\x06\x00\x00\xc0");
    msg = read_back();
    buffer_clear(&out); /* the message has its own copy */
    struct lkv_event event;
    cr_assert_eq(lkv_msg_count(msg), 2);
    cr_assert(lkv_msg_event(msg, 0, &event));
    cr_assert(event.type == LKV_EVENT_PUT && event.kv.mod_rev == 5 && event.kv.lease == 7);
    cr_assert(event.kv.value.size == 3 && memcmp(event.kv.value.data, "new", 3) == 0);
    cr_assert(event.previous.version == 1 && memcmp(event.previous.value.data, "old", 3) == 0);
    cr_assert(lkv_msg_event(msg, 1, &event));
    cr_assert(event.type == LKV_EVENT_DELETE && event.kv.mod_rev == 6);
    cr_assert(event.previous.version == 0 && event.previous.key.size == 0);
    cr_assert_not(lkv_msg_event(msg, 2, &event));
    cr_assert_geq(msg_events_cost(msg), sizeof(*msg) + 1 + 3 + 1 + 3 + 1);
    lkv_msg_free(msg);
}

Test(lib_watch_wire, what_is_no_event_is_refused) {
    static const char *const replies[] = {
        "\xa6"
        "events\x01",
        "\xa6"
        "events\x91\x91\xc0",
        "\xa6"
        "events\x91\x92\xc0\xc0",
        "\xa6"
        "events\x91\x92\x96\xa1k\xa1v\x01\x02\x03\x00\x01",
    };
    static const size_t sizes[] = {8, 10, 11, 19};
    for (size_t i = 0; i < 4; i++) {
        struct reason why = {{0}};
        uint64_t number;
        struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
        buffer_clear(&out);
        buffer_append(&out, "\x94\x01\x01\xc0\x81", 5);
        buffer_append(&out, replies[i], sizes[i]);
        cr_assert_eq(wire_open_reply(decoder, buffer_slice(&out), &number, &why), 0, "%zu", i);
        cr_assert_eq(wire_read_reply(decoder, buffer_slice(&out), msg, &why), LKV_EPROTOCOL, "%zu",
                     i);
        lkv_msg_free(msg);
    }
}
