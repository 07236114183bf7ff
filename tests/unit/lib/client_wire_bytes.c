/* Frames of somebody who is wrong in one place, or that meet no memory: read, or refused with a reason. */
#include "base/mem.h"
#include "lib/events.h"
#include "lib/wire_input.h"
#include "tests/support/malloc_fail.h"
#include "tests/unit/lib/wire_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(lib_client_wire_bytes, .init = open_wire, .fini = close_wire);

static struct lkv_msg *items_and_members(void) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    msg_set_rc(msg, LKV_ENOTFOUND, "text");
    msg_set_u64(msg, "rev", 300);
    msg_set_str(msg, "leader", "n2");
    msg_add_member(msg, &(struct lkv_member){.id = "n1",
                                             .address = "h:1",
                                             .role = "leader",
                                             .state = "-",
                                             .match = 9,
                                             .lag_entries = 8,
                                             .lag_ms = 7});
    msg->backing = blob_copy(slice_text("keyvalue"));
    msg->range.items = mem_calloc(1, sizeof(struct kv_item));
    msg->range.count = 1;
    msg->range.items[0] = (struct kv_item){.key = slice_of(msg->backing->data, 3),
                                           .value = slice_of(msg->backing->data + 3, 5),
                                           .create_rev = 2,
                                           .mod_rev = 3,
                                           .version = 4,
                                           .lease = INT64_MAX};
    return msg;
}

static struct lkv_msg *records(void) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    msg->backing = blob_copy(slice_text("onetwo"));
    msg->records = mem_calloc(2, sizeof(msg->records[0]));
    msg->record_count = 2;
    msg->records[0] =
        (struct msg_record){.index = 5, .term = 2, .data = slice_of(msg->backing->data, 3)};
    msg->records[1] =
        (struct msg_record){.index = 6, .term = 2, .data = slice_of(msg->backing->data + 3, 3)};
    return msg;
}

/* A transaction that deleted a key, in one inside of it, and added to a counter. */
static struct lkv_msg *answers(void) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    msg_set_u64(msg, "held", 1);
    msg->backing = blob_copy(slice_text("kv"));
    msg->answer = mem_calloc(1, sizeof(*msg->answer));
    struct kv_answer *outer = mem_calloc(2, sizeof(*outer)), *inner = mem_calloc(1, sizeof(*inner));
    *msg->answer = (struct kv_answer){.op = KV_TXN, .answers = outer, .answer_count = 2};
    outer[0] = (struct kv_answer){.op = KV_TXN, .held = true, .answers = inner, .answer_count = 1};
    outer[1] = (struct kv_answer){.op = KV_ADD, .number = -2};
    inner[0] = (struct kv_answer){.op = KV_DELETE,
                                  .total = 1,
                                  .more = true,
                                  .items = mem_calloc(1, sizeof(struct kv_item)),
                                  .count = 1};
    inner[0].items[0] = (struct kv_item){.key = slice_of(msg->backing->data, 1),
                                         .value = slice_of(msg->backing->data + 1, 1),
                                         .create_rev = 2,
                                         .mod_rev = 3,
                                         .version = 4};
    return msg;
}

Test(lib_client_wire_bytes, the_answers_of_a_transaction_have_these_bytes) {
    struct lkv_msg *msg = answers();
    wire_encode_reply(&out, 7, msg);
    EXPECT_BYTES("\x94\x01\x07\xc0\x82\xa4held\x01\xa7"
                 "answers\x93"
                 "\x96\x03\x01\x00\x00\x01\x90"
                 "\x96\x02\x02\x01\x00\x00\x91\x96\xc4\x01k\xc4\x01v\x02\x03\x04\x00"
                 "\x96\x0e\x00\x00\xcf\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x90");
    struct lkv_msg *back = msg_new(LKV_REPLY, NULL);
    struct reason why = {{0}};
    uint64_t number;
    cr_assert_eq(wire_open_reply(decoder, buffer_slice(&out), &number, &why), 0);
    cr_assert_eq(wire_read_reply(decoder, buffer_slice(&out), back, &why), 0, "%s", why.text);
    struct lkv_answer txn, add, inner, past;
    struct lkv_kv kv;
    cr_assert(lkv_msg_answer(back, 0, &txn) && lkv_msg_answer(back, 1, &add));
    cr_assert(txn.op == LKV_OP_TXN && txn.held && txn.answers == 1);
    cr_assert(add.op == LKV_OP_ADD && add.number == -2 && !lkv_msg_answer(back, 2, &past));
    cr_assert(lkv_answer_at(&txn, 0, &inner) && inner.total == 1 && inner.more);
    cr_assert(lkv_answer_kv(&inner, 0, &kv) && kv.value.size == 1 && kv.version == 4);
    lkv_msg_free(back);
    lkv_msg_free(msg);
}

static struct lkv_msg *leases(void) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(msg_reserve_leases(msg, 2), 0);
    msg->leases[msg->lease_count++] = (struct lkv_lease){.id = 7, .ttl_ms = 300, .remaining_ms = 9};
    msg->leases[msg->lease_count++] =
        (struct lkv_lease){.id = INT64_MAX, .ttl_ms = 1, .remaining_ms = 0};
    return msg;
}

Test(lib_client_wire_bytes, leases_have_these_bytes) {
    struct lkv_msg *msg = leases(), *back = msg_new(LKV_REPLY, NULL);
    wire_encode_reply(&out, 7, msg);
    EXPECT_BYTES("\x94\x01\x07\xc0\x81\xa6leases\x92\x93\x07\xcd\x01\x2c\x09"
                 "\x93\xcf\x7f\xff\xff\xff\xff\xff\xff\xff\x01\x00");
    struct reason why = {{0}};
    uint64_t number;
    cr_assert_eq(wire_open_reply(decoder, buffer_slice(&out), &number, &why), 0);
    cr_assert_eq(wire_read_reply(decoder, buffer_slice(&out), back, &why), 0, "%s", why.text);
    struct lkv_lease lease;
    cr_assert(lkv_msg_lease(back, 0, &lease) && lease.ttl_ms == 300 && lease.remaining_ms == 9);
    cr_assert(lkv_msg_lease(back, 1, &lease) && lease.id == INT64_MAX);
    cr_assert_not(lkv_msg_lease(back, 2, &lease));
    lkv_msg_free(back);
    lkv_msg_free(msg);
}

static struct lkv_msg *events(void) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    struct kv_event *made = mem_calloc(3, sizeof(*made));
    for (int i = 0; i < 3; i++) {
        made[i].item = (struct kv_item){.key = slice_text("k"), .mod_rev = 2, .version = i % 2};
        made[i].previous = (struct kv_item){.key = slice_text("k"), .version = i % 2};
    }
    msg_set_events(msg, made, 3);
    return msg;
}

/* As a connection reads it. */
static int read_frame(struct slice frame) {
    struct reason why = {{0}};
    struct scan scan = {0};
    uint64_t number;
    int rc = scan_object(&scan, frame, &wire_reply_limits, &why);
    if (rc != 1 || scan.offset != frame.size) {
        return rc < 0 ? rc : LKV_EPROTOCOL;
    }
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_not_null(msg);
    rc = wire_open_reply(decoder, frame, &number, &why);
    if (rc == 0) {
        rc = wire_read_reply(decoder, frame, msg, &why);
    }
    cr_assert(rc != LKV_EPROTOCOL || why.text[0] != '\0', "what is malformed is told");
    lkv_msg_free(msg);
    return rc;
}

/* Every byte in turn with every value. */
static void try_every_byte(struct buffer *frame) {
    size_t good = 0, refused = 0;
    for (size_t i = 0; i < frame->size; i++) {
        uint8_t before = frame->data[i];
        for (unsigned byte = 0; byte < 256; byte++) {
            frame->data[i] = (uint8_t)byte;
            int rc = read_frame(buffer_slice(frame));
            good += rc == 0;
            refused += rc == LKV_EPROTOCOL;
        }
        frame->data[i] = before;
    }
    cr_assert_eq(read_frame(buffer_slice(frame)), 0);
    cr_assert_gt(good, frame->size);
    cr_assert_gt(refused, frame->size);
}

Test(lib_client_wire_bytes, any_byte_of_a_reply_may_be_wrong) {
    struct lkv_msg *(*const makers[])(void) = {items_and_members, records, answers, leases, events};
    for (size_t i = 0; i < 5; i++) {
        struct buffer frame;
        buffer_init(&frame);
        struct lkv_msg *msg = makers[i]();
        wire_encode_reply(&frame, 1, msg);
        lkv_msg_free(msg);
        try_every_byte(&frame);
        buffer_fini(&frame);
    }
}

Test(lib_client_wire_bytes, any_byte_of_a_refusal_may_be_wrong) {
    struct buffer frame;
    buffer_init(&frame);
    wire_encode_refusal(&frame, LKV_EBUSY, "full", true);
    for (size_t i = 0; i < frame.size; i++) {
        uint8_t before = frame.data[i];
        for (unsigned byte = 0; byte < 256; byte++) {
            frame.data[i] = (uint8_t)byte;
            if (read_frame(buffer_slice(&frame)) == LKV_EBUSY) { /* the scan has let it pass */
                (void)wire_is_untouched(decoder, buffer_slice(&frame));
            }
        }
        frame.data[i] = before;
    }
    cr_assert_eq(read_frame(buffer_slice(&frame)), LKV_EBUSY);
    buffer_fini(&frame);
}

Test(lib_client_wire_bytes, a_reply_for_which_there_is_no_memory_is_refused) {
    struct lkv_msg *(*const makers[])(void) = {items_and_members, records, events, leases, answers};
    static const size_t parts[] = {1, 2, 3, 2, 2};
    for (size_t i = 0; i < 5; i++) {
        struct buffer frame;
        buffer_init(&frame);
        struct lkv_msg *made = makers[i]();
        wire_encode_reply(&frame, 1, made);
        lkv_msg_free(made);
        bool failed = true;
        size_t refused = 0;
        for (uint64_t n = 0; failed; n++) {
            struct reason why = {{0}};
            uint64_t number;
            struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
            cr_assert_eq(wire_open_reply(decoder, buffer_slice(&frame), &number, &why), 0);
            mem_fail_after(n);
            int rc = wire_read_reply(decoder, buffer_slice(&frame), msg, &why);
            failed = mem_fail_count() > n;
            mem_fail_never();
            cr_assert(rc == 0 || rc == LKV_ENOMEM, "%d after %d", rc, (int)n);
            refused += rc == LKV_ENOMEM;
            /* Texts may be missing; what was asked for is whole, or the reply is refused. */
            size_t outer = msg->answer != NULL ? msg->answer->answer_count : 0;
            cr_assert(rc != 0 || msg->range.count + msg->record_count + msg->event_count +
                                         msg->lease_count + outer ==
                                     parts[i]);
            lkv_msg_free(msg);
        }
        cr_assert_geq(refused, makers[i] == leases ? 1 : 2);
        buffer_fini(&frame);
    }
}

Test(lib_client_wire_bytes, a_decoder_without_memory_is_none) {
    mem_fail_after(0);
    struct wire_decoder *none = wire_decoder_new();
    mem_fail_never();
    cr_assert_null(none);
    if (malloc_fail_after(0)) { /* its zone's */
        none = wire_decoder_new();
        malloc_fail_never();
        cr_assert_null(none);
    }
    wire_decoder_free(NULL);
}

/* ------------------------------------------------------------------ exactly what is refused */

static struct reason told;

static int read_text_frame(const char *bytes, size_t size, struct lkv_msg *into) {
    uint64_t number = 0;
    told = (struct reason){{0}};
    struct slice frame = slice_of(bytes, size);
    int rc = wire_open_reply(decoder, frame, &number, &told);
    return rc == 0 ? wire_read_reply(decoder, frame, into, &told) : rc;
}

#define READ(msg, text) read_text_frame(text, sizeof(text) - 1, msg)

static const char malformed_result[] = "the result of a reply is malformed";

/* The bytes of items and of records stand in one copy of the frame: a reply has one or the other. */
Test(lib_client_wire_bytes, a_reply_has_items_or_records) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(READ(msg, "\x94\x01\x01\xc0\x82\xa5items\x90\xa7records\x90"), LKV_EPROTOCOL);
    cr_assert_str_eq(told.text, malformed_result);
    msg_clear(msg);
    cr_assert_eq(READ(msg, "\x94\x01\x01\xc0\x82\xa7records\x90\xa5items\x90"), LKV_EPROTOCOL);
    cr_assert_str_eq(told.text, malformed_result);
    lkv_msg_free(msg);
}

Test(lib_client_wire_bytes, answers_and_events_stand_in_that_copy_too) {
    static const char *const others[] = {"\xa7"
                                         "answers\x90",
                                         "\xa6"
                                         "events\x90"};
    for (size_t i = 0; i < 2; i++) {
        char frame[64] = "\x94\x01\x01\xc0\x82\xa5items\x90";
        size_t head = strlen(frame), size = strlen(others[i]);
        memcpy(frame + head, others[i], size);
        struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
        cr_assert_eq(read_text_frame(frame, head + size, msg), LKV_EPROTOCOL, "case %zu", i);
        cr_assert_str_eq(told.text, malformed_result);
        lkv_msg_free(msg);
    }
}

/* What a transaction holds inside is there, and not deeper than one may be; of an operation that no version
 * knows yet the answer is one all the same. */
Test(lib_client_wire_bytes, answers_are_as_many_as_they_say) {
#define ANSWERS                \
    "\x94\x01\x01\xc0\x81\xa7" \
    "answers"
#define INSIDE "\x96\x03\x00\x00\x00\x01\x90" /* a transaction with one answer of its own */
#define LAST   "\x96\x01\x00\x00\x00\x00\x90"
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(READ(msg, ANSWERS "\x94" INSIDE INSIDE INSIDE LAST), 0);
    msg_clear(msg);
    static const char *const refused[] = {
        ANSWERS "\x95" INSIDE INSIDE INSIDE INSIDE LAST, /* too deep */
        ANSWERS "\x91" INSIDE,                           /* none follows */
        ANSWERS "\x01",                                  /* no list */
        ANSWERS "\x91\x95\x01\x01\x01\x01\x01",          /* a part too few */
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        size_t size = i == 0   ? sizeof(ANSWERS "\x95" INSIDE INSIDE INSIDE INSIDE LAST)
                      : i == 1 ? sizeof(ANSWERS "\x91" INSIDE)
                      : i == 2 ? sizeof(ANSWERS "\x01")
                               : sizeof(ANSWERS "\x91\x95\x01\x01\x01\x01\x01");
        cr_assert_eq(read_text_frame(refused[i], size - 1, msg), LKV_EPROTOCOL, "case %zu", i);
        msg_clear(msg);
    }
    struct lkv_answer answer;
    cr_assert_eq(
        READ(msg, ANSWERS "\x91\x96\xcf\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x90"), 0);
    cr_assert(lkv_msg_answer(msg, 0, &answer));
    lkv_msg_free(msg);
}

Test(lib_client_wire_bytes, leases_come_once_and_are_three_positive_numbers) {
#define LEASES "\xa6leases"
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(READ(msg, "\x94\x01\x01\xc0\x82" LEASES "\x91\x93\x01\x02\x03" LEASES "\x90"),
                 LKV_EPROTOCOL);
    msg_clear(msg);
    cr_assert_eq(READ(msg, "\x94\x01\x01\xc0\x81" LEASES "\x91\x92\x01\x02"), LKV_EPROTOCOL);
    cr_assert_str_eq(told.text, malformed_result);
    msg_clear(msg);
    static const char negative[] =
        "\x94\x01\x01\xc0\x81" LEASES "\x91\x93\xcf\xff\xff\xff\xff\xff\xff\xff\xff\x02\x03";
    cr_assert_eq(READ(msg, negative), LKV_EPROTOCOL);
    msg_clear(msg);
    /* The name is also that of a number: how many leases there are. */
    cr_assert_eq(READ(msg, "\x94\x01\x01\xc0\x81" LEASES "\x05"), 0);
    uint64_t leases_told = 0;
    cr_assert(lkv_msg_u64(msg, "leases", &leases_told) && leases_told == 5);
    lkv_msg_free(msg);
}

Test(lib_client_wire_bytes, members_end_at_the_first_that_is_none) {
    static const char members[] = "\x94\x01\x01\xc0\x81\xa7members\x93"
                                  "\x97\xa2n1\xa1h\xa1r\xa1s\x01\x02\x03"
                                  "\x96\xa2n2\xa1h\xa1r\xa1s\x01\x02" /* one part too few */
                                  "\x97\xa2n3\xa1h\xa1r\xa1s\x01\x02\x03";
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(READ(msg, members), LKV_EPROTOCOL);
    cr_assert_str_eq(told.text, malformed_result);
    cr_assert_eq(msg->member_count, 1);
    lkv_msg_free(msg);
}

/* A code that does not even fit is one of a later version, like any other that is not known. */
Test(lib_client_wire_bytes, a_code_of_64_bits_keeps_its_outcome) {
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    cr_assert_eq(
        READ(msg,
             "\x94\x01\x01\x94\xd3\xff\xff\xff\x00\x00\x00\x00\x00\xa3NEW\xa1x\xa8not_done\xc0"),
        0);
    cr_assert_eq(lkv_msg_rc(msg), LKV_EUNSUPPORTED);
    cr_assert_str_eq(lkv_msg_text(msg), "x");
    lkv_msg_free(msg);
}

enum { TEXT_SIZE_MAX = 4096 };

/* `before`, a text of `size` bytes, `after`. */
static int read_with_text(const char *before, size_t before_size, size_t size, const char *after,
                          size_t after_size, struct lkv_msg *into) {
    struct buffer frame;
    uint8_t head[] = {0xda, (uint8_t)(size >> 8), (uint8_t)size};
    buffer_init(&frame);
    buffer_append(&frame, before, before_size);
    buffer_append(&frame, head, sizeof(head));
    for (size_t i = 0; i < size; i++) {
        buffer_append(&frame, "t", 1);
    }
    buffer_append(&frame, after, after_size);
    int rc = read_text_frame((const char *)frame.data, frame.size, into);
    buffer_fini(&frame);
    return rc;
}

#define WITH_TEXT(before, size, after, msg) \
    read_with_text(before, sizeof(before) - 1, size, after, sizeof(after) - 1, msg)

Test(lib_client_wire_bytes, a_text_has_4096_bytes_at_most) {
    for (size_t more = 0; more < 2; more++) {
        struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
        size_t size = TEXT_SIZE_MAX + more;
        int expected = more == 0 ? 0 : LKV_EPROTOCOL;
        cr_assert_eq(WITH_TEXT("\x94\x01\x01\xc0\x81\xa6leader", size, "", msg), expected);
        cr_assert_str_eq(told.text, more == 0 ? "" : malformed_result);
        cr_assert_eq(lkv_msg_str(msg, "leader") != NULL, more == 0);
        msg_clear(msg);
        cr_assert_eq(WITH_TEXT("\x94\x01\x01\xc0\x81\xa7members\x91\x97\xa2n1", size,
                               "\xa1r\xa1s\x01\x02\x03", msg),
                     expected);
        cr_assert_str_eq(told.text, more == 0 ? "" : malformed_result);
        cr_assert_eq(msg->member_count, 1 - more);
        msg_clear(msg);
        cr_assert_eq(WITH_TEXT("\x94\x01\x01\x94\xfb\xa9LKV_EBUSY", size, "\xa8not_done\xc0", msg),
                     expected);
        cr_assert_str_eq(told.text, more == 0 ? "" : "the error of a reply is malformed");
        cr_assert_eq(lkv_msg_rc(msg), more == 0 ? LKV_EBUSY : 0);
        lkv_msg_free(msg);
    }
}

static int read_call(const char *bytes, size_t size, struct wire_call *call) {
    bool numbered;
    told = (struct reason){{0}};
    int rc = wire_decode_call(decoder, slice_of(bytes, size), call, &numbered, &told);
    cr_assert(numbered);
    return rc;
}

#define CALL(text, call) read_call(text, sizeof(text) - 1, call)

Test(lib_client_wire_bytes, a_session_is_three_numbers) {
    struct wire_call call;
    cr_assert_eq(CALL("\x94\x00\x01\xa3put\x95\xa1k\xa1v\xc0\x00\x93\x07\x08\x09", &call), 0);
    cr_assert(call.session == 7 && call.seq == 8 && call.acked_below == 9);
    static const char *const others[] = {"\xc0", "\x92\x07\x08", "\x93\xa1x\x08\x09",
                                         "\x93\x07\xa1x\x09", "\x93\x07\x08\xa1x"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char frame[64] = "\x94\x00\x01\xa3put\x95\xa1k\xa1v\xc0";
        size_t head = 14; /* behind it come the flags, 0, which end a string in C */
        size_t size = strlen(others[i]);
        memcpy(frame + head, others[i], size);
        frame[1] = 0;
        cr_assert_eq(read_call(frame, head + size, &call), LKV_EINVAL, "case %zu", i);
        cr_assert_str_eq(told.text, "put: session has a type or value that is not accepted");
    }
}

Test(lib_client_wire_bytes, a_lease_is_a_positive_number_of_63_bits) {
    struct wire_call call;
    cr_assert_eq(
        CALL("\x94\x00\x01\xablease_grant\x94\xcf\x80\x00\x00\x00\x00\x00\x00\x00\x01\xc0\x00",
             &call),
        LKV_EINVAL);
    cr_assert_str_eq(told.text, "lease_grant: lease has a type or value that is not accepted");
}

Test(lib_client_wire_bytes, a_range_without_a_selection_says_nil) {
    struct wire_call call;
    cr_assert_eq(CALL("\x94\x00\x01\xa5range\x99\xa1k\xa1l\x05\x00\x00\xc0\x00\x07\xc0", &call), 0);
    cr_assert(call.select.rev == 7 && call.select.order == LKV_BY_KEY);
}

Test(lib_client_wire_bytes, of_a_long_method_name_the_beginning_is_told) {
    struct wire_call call;
    cr_assert_eq(CALL("\x94\x00\x01\xd9\x22"
                      "abcdefghijklmnopqrstuvwxyz01234567"
                      "\x90",
                      &call),
                 LKV_EUNSUPPORTED);
    cr_assert_str_eq(told.text, "there is no method \"abcdefghijklmnopqrstuvwxyz012345\"");
}

/* S28: more records than the zone's first piece has room for. */
Test(lib_client_wire_bytes, a_call_for_which_there_is_no_memory_is_refused) {
    enum { COUNT = 300 };
    struct slice records[COUNT];
    struct buffer frame;
    buffer_init(&frame);
    for (size_t i = 0; i < COUNT; i++) {
        records[i] = slice_text("r");
    }
    wire_encode_call(
        &frame, &(struct wire_call){
                    .number = 1, .method = WIRE_APPEND, .records = records, .record_count = COUNT});
    struct wire_call call;
    mem_fail_after(0);
    int rc = read_call((const char *)frame.data, frame.size, &call);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
    cr_assert_str_eq(told.text, "append: records has a type or value that is not accepted");
    bool numbered;
    if (malloc_fail_after(0)) {
        rc = wire_decode_call(decoder, buffer_slice(&frame), &call, &numbered, &told);
        malloc_fail_never();
        cr_assert_eq(rc, LKV_ENOMEM);
        cr_assert_not(numbered);
        char expected[64];
        (void)snprintf(expected, sizeof(expected), "out of memory for a frame of %zu bytes",
                       frame.size);
        cr_assert_str_eq(told.text, expected);
    }
    cr_assert_eq(read_call((const char *)frame.data, frame.size, &call), 0);
    cr_assert_eq(call.record_count, COUNT);
    buffer_fini(&frame);
}
