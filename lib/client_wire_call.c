/* What a client asks: [0, number, method, arguments]. */
#include "lib/client_wire_pack.h"

#include <msgpack.h>

struct arguments;

struct method_row {
    const char *name;
    uint32_t arguments; /* that must be there */
    uint32_t
        optional; /* that may be left out: flags, an append's count of refusals, a session, what
                           a read selects */
    bool takes_session; /* the last one */
    void (*pack)(msgpack_packer *packer, const struct wire_call *call);
    void (*take)(struct arguments *arguments, struct wire_call *out);
};

enum {
    SESSION_PARTS = 3, /* session, seq, acked_below */
    SELECT_PARTS = 5,  /* order, mod_rev_min, mod_rev_max, create_rev_min, create_rev_max */
    RANGE_FLAGS_KNOWN = LKV_KEYS_ONLY | LKV_COUNT_ONLY | LKV_DESCENDING | LKV_TOTAL,
    FLAGS_KNOWN = WIRE_HERE | WIRE_NO_WAIT
};

/* ------------------------------------------------------------------ encoding */

static void pack_timeout(msgpack_packer *packer, const struct wire_call *call) {
    if (call->has_timeout) {
        msgpack_pack_uint64(packer, call->timeout_ms);
    } else {
        msgpack_pack_nil(packer);
    }
}

static void pack_timeout_and_flags(msgpack_packer *packer, const struct wire_call *call) {
    pack_timeout(packer, call);
    msgpack_pack_uint64(packer, call->flags);
}

static void pack_session(msgpack_packer *packer, const struct wire_call *call) {
    if (call->session != 0) {
        msgpack_pack_array(packer, SESSION_PARTS);
        msgpack_pack_uint64(packer, call->session);
        msgpack_pack_uint64(packer, call->seq);
        msgpack_pack_uint64(packer, call->acked_below);
    }
}

/* How many of the arguments behind the flags a read has: what asks for nothing new is understood by programs
 * that know nothing of it. */
static uint32_t select_arguments(const struct wire_call *call) {
    if (call->method == WIRE_RANGE && select_picks(&call->select)) {
        return 2;
    }
    return call->select.rev != 0 ? 1 : 0;
}

static void pack_select(msgpack_packer *packer, const struct wire_call *call) {
    const struct read_select *select = &call->select;
    if (select_arguments(call) > 0) {
        msgpack_pack_uint64(packer, select->rev);
    }
    if (select_arguments(call) > 1) {
        msgpack_pack_array(packer, SELECT_PARTS);
        msgpack_pack_uint64(packer, (uint64_t)select->order);
        msgpack_pack_uint64(packer, select->mod_rev_min);
        msgpack_pack_uint64(packer, select->mod_rev_max);
        msgpack_pack_uint64(packer, select->create_rev_min);
        msgpack_pack_uint64(packer, select->create_rev_max);
    }
}

static void pack_nothing(msgpack_packer *packer, const struct wire_call *call) {
    (void)packer;
    (void)call;
}

static void pack_put(msgpack_packer *packer, const struct wire_call *call) {
    wire_pack_bytes(packer, call->key);
    wire_pack_bytes(packer, call->value);
    pack_timeout_and_flags(packer, call);
    pack_session(packer, call);
}

static void pack_delete(msgpack_packer *packer, const struct wire_call *call) {
    wire_pack_bytes(packer, call->key);
    if (call->has_end) {
        wire_pack_bytes(packer, call->end);
    } else {
        msgpack_pack_nil(packer);
    }
    pack_timeout_and_flags(packer, call);
    pack_session(packer, call);
}

static void pack_get(msgpack_packer *packer, const struct wire_call *call) {
    wire_pack_bytes(packer, call->key);
    msgpack_pack_uint64(packer, (uint64_t)call->how);
    pack_timeout_and_flags(packer, call);
    pack_select(packer, call);
}

static void pack_range(msgpack_packer *packer, const struct wire_call *call) {
    wire_pack_bytes(packer, call->key);
    wire_pack_bytes(packer, call->end);
    msgpack_pack_uint64(packer, call->limit);
    msgpack_pack_uint64(packer, (uint64_t)call->range_flags);
    msgpack_pack_uint64(packer, (uint64_t)call->how);
    pack_timeout_and_flags(packer, call);
    pack_select(packer, call);
}

static void pack_propose(msgpack_packer *packer, const struct wire_call *call) {
    pack_timeout_and_flags(packer, call);
    wire_pack_bytes(packer, call->command);
}

static void pack_session_open(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_uint64(packer, call->session);
    msgpack_pack_uint64(packer, call->ttl_ms);
    pack_timeout_and_flags(packer, call);
}

static void pack_view_open(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_uint64(packer, call->select.rev);
    msgpack_pack_uint64(packer, call->view_age_ms);
    msgpack_pack_uint64(packer, (uint64_t)call->how);
    pack_timeout_and_flags(packer, call);
}

static void pack_view_close(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_uint64(packer, call->view);
    pack_timeout_and_flags(packer, call);
}

static void pack_session_id(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_uint64(packer, call->session);
    pack_timeout_and_flags(packer, call);
}

static void pack_lease_grant(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_int64(packer, call->lease);
    msgpack_pack_uint64(packer, call->ttl_ms);
    pack_timeout_and_flags(packer, call);
}

static void pack_lease(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_int64(packer, call->lease);
    pack_timeout_and_flags(packer, call);
}

static void pack_lease_ttl(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_int64(packer, call->lease);
    wire_pack_bytes(packer, call->key);
    msgpack_pack_uint64(packer, call->limit);
    pack_timeout_and_flags(packer, call);
}

static void pack_lease_list(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_int64(packer, call->lease);
    msgpack_pack_uint64(packer, call->limit);
    pack_timeout_and_flags(packer, call);
}

/* Only who sends many appends at once has to know of refusals, so their count comes behind. */
static void pack_append(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_array(packer, call->record_count);
    for (size_t i = 0; i < call->record_count; i++) {
        wire_pack_bytes(packer, call->records[i]);
    }
    msgpack_pack_uint64(packer, call->in_term);
    pack_timeout_and_flags(packer, call);
    msgpack_pack_uint64(packer, call->refusals);
    pack_session(packer, call);
}

static void pack_log_read(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_uint64(packer, call->from);
    msgpack_pack_uint64(packer, call->bytes_max);
    msgpack_pack_uint64(packer, call->wait ? WIRE_READ_WAIT : 0);
    pack_timeout(packer, call);
}

static void pack_log_span(msgpack_packer *packer, const struct wire_call *call) {
    msgpack_pack_uint64(packer, (uint64_t)call->how);
    pack_timeout_and_flags(packer, call);
}

static void pack_watch(msgpack_packer *packer, const struct wire_call *call) {
    wire_pack_bytes(packer, call->key);
    wire_pack_bytes(packer, call->end);
    msgpack_pack_uint64(packer, call->from);
    msgpack_pack_uint64(packer, call->from_sub);
    msgpack_pack_uint64(packer, call->bytes_max);
    msgpack_pack_uint64(packer, wire_watch_bits(call));
    pack_timeout_and_flags(packer, call);
}

/* ------------------------------------------------------------------ decoding */

/* Takes the arguments one by one; the first that does not fit is what `failed` names. */
struct arguments {
    const msgpack_object *at;
    uint32_t left;
    const char *failed;
    int rc; /* LKV_EINVAL, or LKV_EUNSUPPORTED for what a later version may mean */
    struct wire_decoder *decoder;
};

static void fail(struct arguments *arguments, int rc, const char *name) {
    if (arguments->failed == NULL) {
        arguments->failed = name;
        arguments->rc = rc;
    }
}

/* The count was checked: there is one more. */
static const msgpack_object *next(struct arguments *arguments) {
    arguments->left--;
    return arguments->at++;
}

static struct slice take_bytes(struct arguments *arguments, const char *name) {
    struct slice bytes = {0};
    if (!wire_as_bytes(next(arguments), &bytes)) {
        fail(arguments, LKV_EINVAL, name);
    }
    return bytes;
}

static uint64_t take_number(struct arguments *arguments, const char *name) {
    uint64_t number = 0;
    if (!wire_as_number(next(arguments), &number)) {
        fail(arguments, LKV_EINVAL, name);
    }
    return number;
}

static unsigned take_bits(struct arguments *arguments, unsigned known, const char *name) {
    uint64_t bits = take_number(arguments, name);
    if ((bits & ~(uint64_t)known) != 0) {
        fail(arguments, LKV_EUNSUPPORTED, name);
        return 0;
    }
    return (unsigned)bits;
}

static enum lkv_read take_how(struct arguments *arguments) {
    uint64_t how = take_number(arguments, "how");
    if (how > LKV_LOCAL) {
        fail(arguments, LKV_EUNSUPPORTED, "how");
        return LKV_LINEARIZABLE;
    }
    return (enum lkv_read)how;
}

static void take_timeout(struct arguments *arguments, struct wire_call *out) {
    const msgpack_object *object = next(arguments);
    out->has_timeout = object->type != MSGPACK_OBJECT_NIL;
    if (out->has_timeout && !wire_as_number(object, &out->timeout_ms)) {
        fail(arguments, LKV_EINVAL, "timeout_ms");
    }
}

static void take_timeout_and_flags(struct arguments *arguments, struct wire_call *out) {
    take_timeout(arguments, out);
    if (arguments->left > 0) {
        out->flags = take_bits(arguments, FLAGS_KNOWN, "flags");
    }
}

/* [session, seq, acked_below] */
static void take_session(struct arguments *arguments, struct wire_call *out) {
    if (arguments->left == 0) {
        return;
    }
    struct arguments parts = {0};
    bool good =
        wire_as_array(next(arguments), &parts.at, &parts.left) && parts.left == SESSION_PARTS;
    if (good) {
        out->session = take_number(&parts, "session");
        out->seq = take_number(&parts, "seq");
        out->acked_below = take_number(&parts, "acked_below");
    }
    if (!good || parts.failed != NULL || out->session == 0) {
        fail(arguments, LKV_EINVAL, "session");
    }
}

static void take_rev(struct arguments *arguments, struct wire_call *out) {
    if (arguments->left > 0) {
        out->select.rev = take_number(arguments, "rev");
    }
}

static enum lkv_order take_order(struct arguments *arguments) {
    uint64_t order = take_number(arguments, "order");
    if (order > LKV_BY_VALUE) {
        fail(arguments, LKV_EUNSUPPORTED, "order");
        return LKV_BY_KEY;
    }
    return (enum lkv_order)order;
}

/* nil, or [order, mod_rev_min, mod_rev_max, create_rev_min, create_rev_max] */
static void take_select(struct arguments *arguments, struct wire_call *out) {
    const msgpack_object *object = arguments->left > 0 ? next(arguments) : NULL;
    if (object == NULL || object->type == MSGPACK_OBJECT_NIL) {
        return;
    }
    struct arguments parts = {0};
    struct read_select *select = &out->select;
    if (!wire_as_array(object, &parts.at, &parts.left) || parts.left < SELECT_PARTS) {
        fail(arguments, LKV_EINVAL, "select");
        return;
    }
    if (parts.left > SELECT_PARTS) {
        fail(arguments, LKV_EUNSUPPORTED, "select");
        return;
    }
    select->order = take_order(&parts);
    select->mod_rev_min = take_number(&parts, "mod_rev_min");
    select->mod_rev_max = take_number(&parts, "mod_rev_max");
    select->create_rev_min = take_number(&parts, "create_rev_min");
    select->create_rev_max = take_number(&parts, "create_rev_max");
    if (parts.failed != NULL) {
        fail(arguments, parts.rc, parts.failed);
    }
}

static void take_nothing(struct arguments *arguments, struct wire_call *out) {
    (void)arguments;
    (void)out;
}

static void take_put(struct arguments *arguments, struct wire_call *out) {
    out->key = take_bytes(arguments, "key");
    out->value = take_bytes(arguments, "value");
    take_timeout_and_flags(arguments, out);
    take_session(arguments, out);
}

static void take_delete(struct arguments *arguments, struct wire_call *out) {
    out->key = take_bytes(arguments, "key");
    const msgpack_object *object = next(arguments);
    out->has_end = object->type != MSGPACK_OBJECT_NIL;
    if (out->has_end && !wire_as_bytes(object, &out->end)) {
        fail(arguments, LKV_EINVAL, "end");
    }
    take_timeout_and_flags(arguments, out);
    take_session(arguments, out);
}

static void take_get(struct arguments *arguments, struct wire_call *out) {
    out->key = take_bytes(arguments, "key");
    out->how = take_how(arguments);
    take_timeout_and_flags(arguments, out);
    take_rev(arguments, out);
}

static void take_range(struct arguments *arguments, struct wire_call *out) {
    out->key = take_bytes(arguments, "from");
    out->end = take_bytes(arguments, "to");
    out->limit = take_number(arguments, "limit");
    out->range_flags = (int)take_bits(arguments, RANGE_FLAGS_KNOWN, "range_flags");
    out->how = take_how(arguments);
    take_timeout_and_flags(arguments, out);
    take_rev(arguments, out);
    take_select(arguments, out);
}

static void take_propose(struct arguments *arguments, struct wire_call *out) {
    take_timeout(arguments, out);
    out->flags = take_bits(arguments, FLAGS_KNOWN, "flags");
    out->command = take_bytes(arguments, "command");
}

static void take_session_open(struct arguments *arguments, struct wire_call *out) {
    out->session = take_number(arguments, "resume");
    out->ttl_ms = take_number(arguments, "ttl_ms");
    take_timeout_and_flags(arguments, out);
}

static void take_view_open(struct arguments *arguments, struct wire_call *out) {
    out->select.rev = take_number(arguments, "rev");
    out->view_age_ms = take_number(arguments, "max_age_ms");
    out->how = take_how(arguments);
    take_timeout_and_flags(arguments, out);
}

static void take_view_close(struct arguments *arguments, struct wire_call *out) {
    out->view = take_number(arguments, "view");
    take_timeout_and_flags(arguments, out);
}

static void take_session_id(struct arguments *arguments, struct wire_call *out) {
    out->session = take_number(arguments, "session");
    take_timeout_and_flags(arguments, out);
}

static int64_t take_lease_id(struct arguments *arguments, int64_t least) {
    uint64_t id = take_number(arguments, "lease");
    if (id > INT64_MAX || (int64_t)id < least) {
        fail(arguments, LKV_EINVAL, "lease");
        return 0;
    }
    return (int64_t)id;
}

static void take_lease_grant(struct arguments *arguments, struct wire_call *out) {
    out->lease = take_lease_id(arguments, 1);
    out->ttl_ms = take_number(arguments, "ttl_ms");
    take_timeout_and_flags(arguments, out);
}

static void take_lease(struct arguments *arguments, struct wire_call *out) {
    out->lease = take_lease_id(arguments, 1);
    take_timeout_and_flags(arguments, out);
}

static void take_lease_ttl(struct arguments *arguments, struct wire_call *out) {
    out->lease = take_lease_id(arguments, 1);
    out->key = take_bytes(arguments, "after");
    out->limit = take_number(arguments, "limit");
    take_timeout_and_flags(arguments, out);
}

static void take_lease_list(struct arguments *arguments, struct wire_call *out) {
    out->lease = take_lease_id(arguments, 0);
    out->limit = take_number(arguments, "limit");
    take_timeout_and_flags(arguments, out);
}

/* Into the decoder's own array. */
static void take_records(struct arguments *arguments, struct wire_call *out) {
    const msgpack_object *at;
    uint32_t count;
    if (!wire_as_array(next(arguments), &at, &count)) {
        fail(arguments, LKV_EINVAL, "records");
        return;
    }
    struct slice *records = wire_record_slices(arguments->decoder, count);
    if (records == NULL) {
        fail(arguments, LKV_ENOMEM, "records");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!wire_as_bytes(&at[i], &records[i])) {
            fail(arguments, LKV_EINVAL, "records");
            return;
        }
    }
    out->records = records;
    out->record_count = count;
}

static void take_append(struct arguments *arguments, struct wire_call *out) {
    take_records(arguments, out);
    out->in_term = take_number(arguments, "in_term");
    take_timeout_and_flags(arguments, out);
    out->has_refusals = arguments->left > 0;
    if (out->has_refusals) {
        out->refusals = take_number(arguments, "refusals");
    }
    take_session(arguments, out);
}

static void take_log_read(struct arguments *arguments, struct wire_call *out) {
    out->from = take_number(arguments, "from");
    out->bytes_max = take_number(arguments, "bytes_max");
    out->wait = take_bits(arguments, WIRE_READ_WAIT, "read_flags") != 0;
    take_timeout(arguments, out);
}

static void take_log_span(struct arguments *arguments, struct wire_call *out) {
    out->how = take_how(arguments);
    take_timeout_and_flags(arguments, out);
}

static void take_watch(struct arguments *arguments, struct wire_call *out) {
    out->key = take_bytes(arguments, "from");
    out->end = take_bytes(arguments, "to");
    out->from = take_number(arguments, "rev");
    uint64_t sub = take_number(arguments, "sub");
    if (sub > UINT32_MAX) {
        fail(arguments, LKV_EINVAL, "sub");
    }
    out->from_sub = (uint32_t)sub;
    out->bytes_max = take_number(arguments, "bytes_max");
    wire_take_watch_bits(out, take_bits(arguments, WIRE_WATCH_BITS, "watch_flags"));
    take_timeout_and_flags(arguments, out);
}

/* ------------------------------------------------------------------ the methods */

/* In the order of enum wire_method. */
static const struct method_row methods[] = {
    [WIRE_PING] = {"ping", 0, 0, false, pack_nothing, take_nothing},
    [WIRE_PUT] = {"put", 3, 2, true, pack_put, take_put},
    [WIRE_DELETE] = {"delete", 3, 2, true, pack_delete, take_delete},
    [WIRE_GET] = {"get", 3, 2, false, pack_get, take_get},
    [WIRE_RANGE] = {"range", 6, 3, false, pack_range, take_range},
    [WIRE_STATUS] = {"status", 1, 0, false, pack_timeout, take_timeout},
    [WIRE_DIGEST] = {"digest", 1, 0, false, pack_timeout, take_timeout},
    [WIRE_PROPOSE] = {"propose", 3, 0, false, pack_propose, take_propose},
    [WIRE_SESSION_OPEN] = {"session_open", 3, 1, false, pack_session_open, take_session_open},
    [WIRE_SESSION_CLOSE] = {"session_close", 2, 1, false, pack_session_id, take_session_id},
    [WIRE_APPEND] = {"append", 3, 3, true, pack_append, take_append},
    [WIRE_LOG_READ] = {"read", 4, 0, false, pack_log_read, take_log_read},
    [WIRE_LOG_SPAN] = {"span", 2, 1, false, pack_log_span, take_log_span},
    [WIRE_SESSION_KEEP] = {"session_keep", 2, 1, false, pack_session_id, take_session_id},
    [WIRE_VIEW_OPEN] = {"view_open", 4, 1, false, pack_view_open, take_view_open},
    [WIRE_VIEW_CLOSE] = {"view_close", 2, 1, false, pack_view_close, take_view_close},
    [WIRE_LEASE_GRANT] = {"lease_grant", 3, 1, false, pack_lease_grant, take_lease_grant},
    [WIRE_LEASE_REVOKE] = {"lease_revoke", 2, 1, false, pack_lease, take_lease},
    [WIRE_LEASE_KEEP] = {"lease_keep_alive", 2, 1, false, pack_lease, take_lease},
    [WIRE_LEASE_TTL] = {"lease_ttl", 4, 1, false, pack_lease_ttl, take_lease_ttl},
    [WIRE_LEASE_LIST] = {"lease_list", 3, 1, false, pack_lease_list, take_lease_list},
    [WIRE_WATCH] = {"watch", 7, 1, false, pack_watch, take_watch},
};

enum { METHOD_COUNT = sizeof(methods) / sizeof(methods[0]) };

/* Of the optional arguments, how many at the end. */
static uint32_t left_out(const struct method_row *row, const struct wire_call *call) {
    if (row->takes_session) {
        return call->session == 0 ? 1 : 0;
    }
    bool selects = call->method == WIRE_GET || call->method == WIRE_RANGE;
    return selects ? row->optional - 1 - select_arguments(call) : 0;
}

void wire_encode_call(struct buffer *out, const struct wire_call *call) {
    const struct method_row *row = &methods[call->method];
    msgpack_packer packer;
    wire_packer_init(&packer, out);
    msgpack_pack_array(&packer, WIRE_FRAME_PARTS);
    msgpack_pack_uint64(&packer, WIRE_TYPE_CALL);
    msgpack_pack_uint64(&packer, call->number);
    wire_pack_text(&packer, row->name);
    msgpack_pack_array(&packer, row->arguments + row->optional - left_out(row, call));
    row->pack(&packer, call);
}

static const struct method_row *find_method(struct slice name) {
    for (size_t i = 0; i < METHOD_COUNT; i++) {
        if (slice_equal(name, slice_text(methods[i].name))) {
            return &methods[i];
        }
    }
    return NULL;
}

/* More arguments than are known may change what the call means: it is refused, not guessed at. */
static int check_count(const struct method_row *row, uint32_t count, struct reason *why) {
    uint32_t max = row->arguments + row->optional;
    if (count >= row->arguments && count <= max) {
        return 0;
    }
    return reason_set(why, count > max ? LKV_EUNSUPPORTED : LKV_EINVAL,
                      "%s: %u arguments, expected %u to %u", row->name, count, row->arguments, max);
}

static int read_method(struct wire_decoder *decoder, const msgpack_object *name,
                       const msgpack_object *params, struct wire_call *out, struct reason *why) {
    struct slice text;
    if (!wire_as_bytes(name, &text)) {
        return reason_set(why, LKV_EINVAL, "the method is no string");
    }
    const struct method_row *row = find_method(text);
    if (row == NULL) {
        return reason_set(why, LKV_EUNSUPPORTED, "there is no method \"%.*s\"",
                          (int)(text.size < 32 ? text.size : 32), (const char *)text.data);
    }
    struct arguments arguments = {.decoder = decoder};
    if (!wire_as_array(params, &arguments.at, &arguments.left)) {
        return reason_set(why, LKV_EINVAL, "%s: the arguments are no array", row->name);
    }
    int rc = check_count(row, arguments.left, why);
    if (rc != 0) {
        return rc;
    }
    out->method = (enum wire_method)(row - methods);
    row->take(&arguments, out);
    if (arguments.failed != NULL) {
        return reason_set(why, arguments.rc, "%s: %s has a type or value that is not accepted",
                          row->name, arguments.failed);
    }
    return 0;
}

int wire_decode_call(struct wire_decoder *decoder, struct slice frame, struct wire_call *out,
                     bool *numbered, struct reason *why) {
    *out = (struct wire_call){0};
    *numbered = false;
    const msgpack_object *parts;
    int rc = wire_unpack(decoder, frame, WIRE_TYPE_CALL, &parts, why);
    if (rc != 0) {
        return rc;
    }
    if (!wire_as_number(&parts[1], &out->number)) {
        return reason_set(why, LKV_EPROTOCOL, "the number of a request is no unsigned integer");
    }
    *numbered = true;
    return read_method(decoder, &parts[2], &parts[3], out, why);
}
