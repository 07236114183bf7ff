/* The clients' protocol from both ends: whatever arrives, in whatever pieces.
 *
 * The first byte chooses the end and the size of the pieces; the rest is the stream. What the scan lets
 * pass must decode or be refused with a reason, what decodes as a call must survive being written and
 * read again, and no message may keep a pointer into the frame. */
#include "base/assert.h"
#include "lib/client_wire.h"
#include "lib/server_call.h"
#include "lib/wire_input.h"

static struct wire_decoder *decoder;

static void read_again(const struct wire_call *call) {
    struct buffer out;
    buffer_init(&out);
    wire_encode_call(&out, call);
    struct scan scan = {0};
    struct reason why;
    struct wire_call again;
    bool numbered;
    int rc = scan_object(&scan, buffer_slice(&out), &wire_call_limits, &why);
    ASSERT(rc == 1 && scan.offset == out.size);
    rc = wire_decode_call(decoder, buffer_slice(&out), &again, &numbered, &why);
    ASSERT(rc == 0 && again.number == call->number && again.method == call->method);
    buffer_fini(&out);
}

static int take_call(void *arg, struct slice frame) {
    (void)arg;
    static const struct limits limits = {.key_bytes_max = 64, .value_bytes_max = 256};
    struct wire_call call;
    struct reason why = {{0}};
    bool numbered;
    int rc = wire_decode_call(decoder, frame, &call, &numbered, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    if (rc != 0) {
        return numbered ? WIRE_MORE : rc;
    }
    if (call.method != WIRE_PING) {
        struct request *request;
        if (server_call_request(&call, &limits, &request, &why) == 0) {
            request_free(request);
        }
    }
    read_again(&call);
    return WIRE_MORE;
}

static int take_reply(void *arg, struct slice frame) {
    (void)arg;
    struct reason why = {{0}};
    uint64_t number;
    struct blob *copy = blob_copy(frame);
    struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
    ASSERT(copy != NULL && msg != NULL);
    int rc = wire_open_reply(decoder, blob_slice(copy), &number, &why);
    if (rc == 0) {
        rc = wire_read_reply(decoder, blob_slice(copy), msg, &why);
    }
    blob_unref(copy);
    if (rc == 0) {
        struct buffer out;
        buffer_init(&out);
        wire_encode_reply(&out, number, msg);
        ASSERT(!out.failed);
        buffer_fini(&out);
    }
    lkv_msg_free(msg);
    return rc == 0 ? WIRE_MORE : rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    decoder = decoder != NULL ? decoder : wire_decoder_new();
    if (size < 2) {
        return 0;
    }
    bool calls = (data[0] & 1) != 0;
    size_t piece = 1 + (data[0] >> 1);
    struct wire_input input;
    struct reason why;
    wire_input_init(&input);
    int rc = 0;
    for (size_t at = 1; at < size && rc == 0; at += piece) {
        struct slice bytes = slice_of(data + at, size - at < piece ? size - at : piece);
        rc = wire_input_feed(&input, bytes, calls ? &wire_call_limits : &wire_reply_limits,
                             calls ? take_call : take_reply, NULL, &why);
    }
    ASSERT(input.kept.size < size);
    wire_input_fini(&input);
    return 0;
}
