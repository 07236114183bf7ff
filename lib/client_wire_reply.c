/* What a node answers: [1, number, error, result]. */
#include "lib/client_wire_pack.h"

#include "base/mem.h"

#include <msgpack.h>

enum {
    ERROR_PARTS = 4,  /* code, name, text, outcome */
    ITEM_PARTS = 6,   /* key, value, create_rev, mod_rev, version, lease */
    RECORD_PARTS = 3, /* index, term, bytes */
    LEASE_PARTS = 3,  /* id, ttl_ms, remaining_ms */
    MEMBER_PARTS = 7, /* id, address, role, state, match, lag_entries, lag_ms */
    TEXT_SIZE_MAX = 4096
};

static const char items_name[] = "items";
static const char answers_name[] = "answers";
static const char members_name[] = "members";
static const char records_name[] = "records";
static const char leases_name[] = "leases";

/* In the order of enum lkv_outcome. */
static const char *const outcomes[] = {"done", "not_done", "negative", "unknown"};

/* ------------------------------------------------------------------ encoding */

static void pack_error(msgpack_packer *packer, int rc, const char *text) {
    msgpack_pack_array(packer, ERROR_PARTS);
    msgpack_pack_int64(packer, rc);
    wire_pack_text(packer, error_name(rc));
    wire_pack_text(packer, text);
    wire_pack_text(packer, outcomes[error_outcome(rc)]);
}

void wire_pack_item(msgpack_packer *packer, const struct kv_item *item) {
    msgpack_pack_array(packer, ITEM_PARTS);
    wire_pack_bytes(packer, item->key);
    wire_pack_bytes(packer, item->value);
    msgpack_pack_uint64(packer, item->create_rev);
    msgpack_pack_uint64(packer, item->mod_rev);
    msgpack_pack_uint64(packer, item->version);
    msgpack_pack_int64(packer, item->lease);
}

void wire_pack_items(msgpack_packer *packer, const struct kv_item *items, size_t count) {
    msgpack_pack_array(packer, count);
    for (size_t i = 0; i < count; i++) {
        wire_pack_item(packer, &items[i]);
    }
}

static void pack_records(msgpack_packer *packer, const struct lkv_msg *reply) {
    wire_pack_text(packer, records_name);
    msgpack_pack_array(packer, reply->record_count);
    for (size_t i = 0; i < reply->record_count; i++) {
        const struct msg_record *record = &reply->records[i];
        msgpack_pack_array(packer, RECORD_PARTS);
        msgpack_pack_uint64(packer, record->index);
        msgpack_pack_uint64(packer, record->term);
        wire_pack_bytes(packer, record->data);
    }
}

static void pack_leases(msgpack_packer *packer, const struct lkv_msg *reply) {
    wire_pack_text(packer, leases_name);
    msgpack_pack_array(packer, reply->lease_count);
    for (size_t i = 0; i < reply->lease_count; i++) {
        msgpack_pack_array(packer, LEASE_PARTS);
        msgpack_pack_int64(packer, reply->leases[i].id);
        msgpack_pack_int64(packer, reply->leases[i].ttl_ms);
        msgpack_pack_int64(packer, reply->leases[i].remaining_ms);
    }
}

static void pack_members(msgpack_packer *packer, const struct lkv_msg *reply) {
    wire_pack_text(packer, members_name);
    msgpack_pack_array(packer, reply->member_count);
    for (size_t i = 0; i < reply->member_count; i++) {
        const struct msg_member *member = &reply->members[i];
        msgpack_pack_array(packer, MEMBER_PARTS);
        wire_pack_text(packer, member->id);
        wire_pack_text(packer, member->address);
        wire_pack_text(packer, member->role);
        wire_pack_text(packer, member->state);
        msgpack_pack_uint64(packer, member->match);
        msgpack_pack_uint64(packer, member->lag_entries);
        msgpack_pack_uint64(packer, member->lag_ms);
    }
}

static void pack_result(msgpack_packer *packer, const struct lkv_msg *reply) {
    bool items = reply->range.count > 0;
    bool members = reply->member_count > 0;
    bool records = reply->record_count > 0;
    bool leases = reply->lease_count > 0;
    bool answers = reply->answer != NULL;
    bool events = reply->event_count > 0;
    msgpack_pack_map(packer, reply->number_count + reply->string_count + (items ? 1 : 0) +
                                 (members ? 1 : 0) + (records ? 1 : 0) + (leases ? 1 : 0) +
                                 (answers ? 1 : 0) + (events ? 1 : 0));
    for (size_t i = 0; i < reply->number_count; i++) {
        wire_pack_text(packer, reply->numbers[i].name);
        msgpack_pack_uint64(packer, reply->numbers[i].value);
    }
    for (size_t i = 0; i < reply->string_count; i++) {
        wire_pack_text(packer, reply->strings[i].name);
        wire_pack_text(packer, reply->strings[i].value);
    }
    if (items) {
        wire_pack_text(packer, items_name);
        wire_pack_items(packer, reply->range.items, reply->range.count);
    }
    if (answers) {
        wire_pack_text(packer, answers_name);
        wire_pack_answers(packer, reply->answer);
    }
    if (members) {
        pack_members(packer, reply);
    }
    if (records) {
        pack_records(packer, reply);
    }
    if (leases) {
        pack_leases(packer, reply);
    }
    if (events) {
        wire_pack_events(packer, reply);
    }
}

void wire_encode_reply(struct buffer *out, uint64_t number, const struct lkv_msg *reply) {
    msgpack_packer packer;
    wire_packer_init(&packer, out);
    msgpack_pack_array(&packer, WIRE_FRAME_PARTS);
    msgpack_pack_uint64(&packer, WIRE_TYPE_REPLY);
    msgpack_pack_uint64(&packer, number);
    if (reply->rc == 0) {
        msgpack_pack_nil(&packer);
    } else {
        pack_error(&packer, reply->rc, lkv_msg_text(reply));
    }
    pack_result(&packer, reply);
}

void wire_encode_refusal(struct buffer *out, int rc, const char *text, bool untouched) {
    msgpack_packer packer;
    wire_packer_init(&packer, out);
    msgpack_pack_array(&packer, WIRE_FRAME_PARTS);
    msgpack_pack_uint64(&packer, WIRE_TYPE_REPLY);
    msgpack_pack_nil(&packer);
    pack_error(&packer, rc, text);
    if (untouched) {
        msgpack_pack_map(&packer, 1);
        wire_pack_text(&packer, "taken");
        msgpack_pack_uint64(&packer, 0);
    } else {
        msgpack_pack_nil(&packer);
    }
}

bool wire_is_untouched(struct wire_decoder *decoder, struct slice frame) {
    const msgpack_object *parts;
    struct slice name;
    uint64_t taken;
    struct reason why;
    if (wire_unpack(decoder, frame, WIRE_TYPE_REPLY, &parts, &why) != 0 ||
        parts[1].type != MSGPACK_OBJECT_NIL || parts[3].type != MSGPACK_OBJECT_MAP ||
        parts[3].via.map.size != 1) {
        return false;
    }
    const msgpack_object_kv *pair = &parts[3].via.map.ptr[0];
    return wire_as_bytes(&pair->key, &name) && slice_equal(name, slice_text("taken")) &&
           wire_as_number(&pair->val, &taken) && taken == 0;
}

/* ------------------------------------------------------------------ decoding: the error */

/* A code (negative) of a later version says little here, but its outcome does. */
static int known_code(int64_t code, struct slice outcome) {
    if (code >= INT32_MIN && strcmp(error_name((int)code), "LKV_E?") != 0) {
        return (int)code;
    }
    if (slice_equal(outcome, slice_text(outcomes[LKV_NOT_DONE]))) {
        return LKV_EUNSUPPORTED;
    }
    if (slice_equal(outcome, slice_text(outcomes[LKV_NEGATIVE]))) {
        return LKV_ECOMPARE;
    }
    return LKV_EUNKNOWN;
}

struct error_parts {
    int rc;
    struct slice text;
};

static bool read_error(const msgpack_object *object, struct error_parts *out) {
    const msgpack_object *parts;
    uint32_t count;
    struct slice name, outcome;
    bool good = wire_as_array(object, &parts, &count) && count == ERROR_PARTS &&
                parts[0].type == MSGPACK_OBJECT_NEGATIVE_INTEGER &&
                wire_as_bytes(&parts[1], &name) && wire_as_bytes(&parts[2], &out->text) &&
                out->text.size <= TEXT_SIZE_MAX && wire_as_bytes(&parts[3], &outcome);
    if (good) {
        out->rc = known_code(parts[0].via.i64, outcome);
    }
    return good;
}

int wire_open_reply(struct wire_decoder *decoder, struct slice frame, uint64_t *number,
                    struct reason *why) {
    const msgpack_object *parts;
    int rc = wire_unpack(decoder, frame, WIRE_TYPE_REPLY, &parts, why);
    if (rc != 0) {
        return rc;
    }
    if (wire_as_number(&parts[1], number)) {
        return 0;
    }
    struct error_parts error;
    if (parts[1].type != MSGPACK_OBJECT_NIL || !read_error(&parts[2], &error)) {
        return reason_set(why, LKV_EPROTOCOL, "a reply has neither a number nor an error");
    }
    return reason_set(why, error.rc, "%.*s", (int)error.text.size, (const char *)error.text.data);
}

/* ------------------------------------------------------------------ decoding: the result */

/* Texts end at a zero byte, as C's do. */
static char *copy_text(struct slice text) {
    char *copy = mem_alloc(text.size + 1);
    if (copy != NULL) {
        if (text.size > 0) {
            memcpy(copy, text.data, text.size);
        }
        copy[text.size] = '\0';
    }
    return copy;
}

static int read_text(const char *name, struct slice text, struct lkv_msg *reply) {
    if (text.size > TEXT_SIZE_MAX) {
        return LKV_EPROTOCOL;
    }
    char *copy = copy_text(text);
    if (copy != NULL) {
        msg_set_str(reply, name, copy);
        mem_free(copy);
    }
    return 0;
}

bool wire_as_item(const msgpack_object *object, struct kv_item *out) {
    const msgpack_object *parts;
    uint32_t count;
    uint64_t lease;
    bool good = wire_as_array(object, &parts, &count) && count >= ITEM_PARTS &&
                wire_as_bytes(&parts[0], &out->key) && wire_as_bytes(&parts[1], &out->value) &&
                wire_as_number(&parts[2], &out->create_rev) &&
                wire_as_number(&parts[3], &out->mod_rev) &&
                wire_as_number(&parts[4], &out->version) && wire_as_number(&parts[5], &lease) &&
                lease <= INT64_MAX;
    if (good) {
        out->lease = (int64_t)lease;
    }
    return good;
}

void wire_rebase(struct slice *bytes, const uint8_t *from, const uint8_t *to) {
    bytes->data = bytes->size > 0 ? to + (bytes->data - from) : to;
}

int wire_read_items(const msgpack_object *object, const struct wire_bytes *bytes,
                    struct kv_item **items, size_t *out_count) {
    const msgpack_object *at;
    uint32_t count;
    if (!wire_as_array(object, &at, &count)) {
        return LKV_EPROTOCOL;
    }
    if (count == 0) {
        return 0;
    }
    *items = mem_calloc(count, sizeof(**items));
    if (*items == NULL) {
        return LKV_ENOMEM;
    }
    for (; *out_count < count; ++*out_count) {
        struct kv_item *item = &(*items)[*out_count];
        if (!wire_as_item(&at[*out_count], item)) {
            *item = (struct kv_item){0};
            return LKV_EPROTOCOL;
        }
        wire_rebase(&item->key, bytes->frame, bytes->copy);
        wire_rebase(&item->value, bytes->frame, bytes->copy);
    }
    return 0;
}

/* What a message has by its items or answers, never both, lies in a copy of the frame. */
static int copy_frame(struct slice frame, struct lkv_msg *reply, struct wire_bytes *out) {
    if (reply->backing != NULL) {
        return LKV_EPROTOCOL;
    }
    reply->backing = blob_copy(frame);
    if (reply->backing == NULL) {
        return LKV_ENOMEM;
    }
    *out = (struct wire_bytes){.frame = frame.data, .copy = reply->backing->data};
    return 0;
}

static int read_items(const msgpack_object *object, struct slice frame, struct lkv_msg *reply) {
    struct wire_bytes bytes;
    int rc = copy_frame(frame, reply, &bytes);
    return rc == 0 ? wire_read_items(object, &bytes, &reply->range.items, &reply->range.count) : rc;
}

static int read_answers(const msgpack_object *object, struct slice frame, struct lkv_msg *reply) {
    struct wire_bytes bytes;
    int rc = copy_frame(frame, reply, &bytes);
    return rc == 0 ? wire_read_answers(object, &bytes, reply) : rc;
}

static bool read_record(const msgpack_object *object, struct msg_record *out) {
    const msgpack_object *parts;
    uint32_t count;
    return wire_as_array(object, &parts, &count) && count >= RECORD_PARTS &&
           wire_as_number(&parts[0], &out->index) && wire_as_number(&parts[1], &out->term) &&
           wire_as_bytes(&parts[2], &out->data);
}

static int read_records(const msgpack_object *object, struct slice frame, struct lkv_msg *reply) {
    const msgpack_object *at;
    uint32_t count;
    if (!wire_as_array(object, &at, &count) || reply->backing != NULL) {
        return LKV_EPROTOCOL;
    }
    reply->backing = blob_copy(frame);
    reply->records = mem_calloc(count, sizeof(reply->records[0]));
    if (reply->backing == NULL || reply->records == NULL) {
        return LKV_ENOMEM;
    }
    for (; reply->record_count < count; reply->record_count++) {
        struct msg_record *record = &reply->records[reply->record_count];
        if (!read_record(&at[reply->record_count], record)) {
            return LKV_EPROTOCOL;
        }
        wire_rebase(&record->data, frame.data, reply->backing->data);
    }
    return 0;
}

static bool read_lease(const msgpack_object *object, struct lkv_lease *out) {
    const msgpack_object *parts;
    uint32_t count;
    uint64_t numbers[LEASE_PARTS] = {0};
    bool good = wire_as_array(object, &parts, &count) && count >= LEASE_PARTS;
    for (size_t i = 0; good && i < LEASE_PARTS; i++) {
        good = wire_as_number(&parts[i], &numbers[i]) && numbers[i] <= INT64_MAX;
    }
    *out = (struct lkv_lease){.id = (int64_t)numbers[0],
                              .ttl_ms = (int64_t)numbers[1],
                              .remaining_ms = (int64_t)numbers[2]};
    return good;
}

static int read_leases(const msgpack_object_array *list, struct lkv_msg *reply) {
    if (reply->leases != NULL) {
        return LKV_EPROTOCOL;
    }
    int rc = msg_reserve_leases(reply, list->size);
    for (; rc == 0 && reply->lease_count < list->size; reply->lease_count++) {
        if (!read_lease(&list->ptr[reply->lease_count], &reply->leases[reply->lease_count])) {
            rc = LKV_EPROTOCOL;
            break;
        }
    }
    return rc;
}

static int read_member(const msgpack_object *object, struct lkv_msg *reply) {
    const msgpack_object *parts;
    uint32_t count;
    struct slice texts[4];
    struct lkv_member member = {0};
    bool good = wire_as_array(object, &parts, &count) && count >= MEMBER_PARTS;
    for (size_t i = 0; good && i < 4; i++) {
        good = wire_as_bytes(&parts[i], &texts[i]) && texts[i].size <= TEXT_SIZE_MAX;
    }
    good = good && wire_as_number(&parts[4], &member.match) &&
           wire_as_number(&parts[5], &member.lag_entries) &&
           wire_as_number(&parts[6], &member.lag_ms);
    if (!good) {
        return LKV_EPROTOCOL;
    }
    char *copies[4];
    for (size_t i = 0; i < 4; i++) {
        copies[i] = copy_text(texts[i]);
    }
    if (copies[0] != NULL && copies[1] != NULL && copies[2] != NULL && copies[3] != NULL) {
        member.id = copies[0];
        member.address = copies[1];
        member.role = copies[2];
        member.state = copies[3];
        msg_add_member(reply, &member);
    }
    for (size_t i = 0; i < 4; i++) {
        mem_free(copies[i]);
    }
    return 0;
}

static int read_members(const msgpack_object *object, struct lkv_msg *reply) {
    const msgpack_object *at;
    uint32_t count;
    if (!wire_as_array(object, &at, &count)) {
        return LKV_EPROTOCOL;
    }
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        rc = read_member(&at[i], reply);
    }
    return rc;
}

/* A name, or a value's type, that this version does not know is passed over. */
static int read_pair(const msgpack_object_kv *pair, struct slice frame, struct lkv_msg *reply) {
    struct slice name, text;
    if (!wire_as_bytes(&pair->key, &name)) {
        return LKV_EPROTOCOL;
    }
    if (slice_equal(name, slice_text(items_name))) {
        return read_items(&pair->val, frame, reply);
    }
    if (slice_equal(name, slice_text(members_name))) {
        return read_members(&pair->val, reply);
    }
    if (slice_equal(name, slice_text(records_name))) {
        return read_records(&pair->val, frame, reply);
    }
    if (slice_equal(name, slice_text(leases_name)) && pair->val.type == MSGPACK_OBJECT_ARRAY) {
        return read_leases(&pair->val.via.array, reply);
    }
    if (slice_equal(name, slice_text(answers_name))) {
        return read_answers(&pair->val, frame, reply);
    }
    if (slice_equal(name, slice_text(wire_events_name))) {
        return wire_read_events(&pair->val, frame, reply);
    }
    const char *known = msg_known_name(name);
    uint64_t number;
    if (known != NULL && wire_as_number(&pair->val, &number)) {
        msg_set_u64(reply, known, number);
        return 0;
    }
    if (known != NULL && wire_as_bytes(&pair->val, &text)) {
        return read_text(known, text, reply);
    }
    return 0;
}

static int read_result(const msgpack_object *object, struct slice frame, struct lkv_msg *reply) {
    if (object->type == MSGPACK_OBJECT_NIL) {
        return 0;
    }
    if (object->type != MSGPACK_OBJECT_MAP) {
        return LKV_EPROTOCOL;
    }
    int rc = 0;
    for (uint32_t i = 0; i < object->via.map.size && rc == 0; i++) {
        rc = read_pair(&object->via.map.ptr[i], frame, reply);
    }
    return rc;
}

int wire_read_reply(struct wire_decoder *decoder, struct slice frame, struct lkv_msg *reply,
                    struct reason *why) {
    const msgpack_object *parts = wire_parts(decoder);
    struct error_parts error = {0};
    if (parts[2].type != MSGPACK_OBJECT_NIL && !read_error(&parts[2], &error)) {
        return reason_set(why, LKV_EPROTOCOL, "the error of a reply is malformed");
    }
    int rc = read_result(&parts[3], frame, reply);
    if (rc != 0) {
        return reason_set(why, rc,
                          rc == LKV_ENOMEM ? "out of memory for a reply"
                                           : "the result of a reply is malformed");
    }
    if (error.rc != 0) {
        msg_set_rc(reply, error.rc, "%.*s", (int)error.text.size, (const char *)error.text.data);
    }
    return 0;
}
