/* Replies of a node that is wrong in one byte, or that meet no memory: read, or refused with a reason. */
#include "base/mem.h"
#include "lib/client_wire.h"
#include "lib/wire_input.h"

#include <criterion/criterion.h>

static struct wire_decoder *decoder;

static void open_wire(void) {
    decoder = wire_decoder_new();
    cr_assert_not_null(decoder);
}

static void close_wire(void) {
    wire_decoder_free(decoder);
}

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
    struct lkv_msg *(*const makers[])(void) = {items_and_members, records};
    for (size_t i = 0; i < 2; i++) {
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
    wire_encode_refusal(&frame, LKV_EBUSY, "full");
    for (size_t i = 0; i < frame.size; i++) {
        uint8_t before = frame.data[i];
        for (unsigned byte = 0; byte < 256; byte++) {
            frame.data[i] = (uint8_t)byte;
            (void)read_frame(buffer_slice(&frame));
        }
        frame.data[i] = before;
    }
    cr_assert_eq(read_frame(buffer_slice(&frame)), LKV_EBUSY);
    buffer_fini(&frame);
}

Test(lib_client_wire_bytes, a_reply_for_which_there_is_no_memory_is_refused) {
    struct lkv_msg *(*const makers[])(void) = {items_and_members, records};
    for (size_t i = 0; i < 2; i++) {
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
            cr_assert(rc != 0 || msg->range.count + msg->record_count == i + 1);
            lkv_msg_free(msg);
        }
        cr_assert_geq(refused, 2);
        buffer_fini(&frame);
    }
}

Test(lib_client_wire_bytes, a_decoder_without_memory_is_none) {
    mem_fail_after(0);
    struct wire_decoder *none = wire_decoder_new();
    mem_fail_never();
    cr_assert_null(none);
    wire_decoder_free(NULL);
}
