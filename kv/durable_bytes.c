/* What lies in the map, as bytes. docs/formats/state.md is its table. */
#include "base/assert.h"
#include "base/cursor.h"
#include "kv/durable.h"

enum {
    KIND_VERSION = 'k',
    KIND_CHANGE = 'c',
    KIND_SESSION = 's',
    KIND_REPLY = 'r',
    KIND_LEASE = 'l',
    KIND_ATTACHED = 'a',
    /* A zero byte of a key, and the key's end: the order of the keys stays, and no key begins another. */
    ESCAPED = 0xff,
    END = 0x01,
    FLAG_TOMBSTONE = 1,
    FLAG_EXTRA = 2, /* lease and sub follow */
    SESSION_SIZE = 3 * 8,
    REPLY_SIZE = 5 * 8 + 4
};

/* ---------------------------------------------------------------------------- numbers in keys */

static void put_big(struct buffer *into, uint64_t value, unsigned size) {
    uint8_t bytes[sizeof(value)];
    for (unsigned i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(value >> 8 * (size - 1 - i));
    }
    buffer_append(into, bytes, size);
}

static uint64_t get_big(const uint8_t *from, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++) {
        value = value << 8 | from[i];
    }
    return value;
}

static void put_kind(struct buffer *into, uint8_t kind) {
    buffer_append(into, &kind, 1);
}

/* ---------------------------------------------------------------------------- versions */

void durable_put_key(struct buffer *into, struct slice key) {
    uint8_t *start = buffer_reserve(into, 1 + 2 * key.size + 2);
    if (start == NULL) {
        return; /* the buffer remembers */
    }
    uint8_t *at = start;
    *at++ = KIND_VERSION;
    for (size_t i = 0; i < key.size; i++) {
        *at++ = key.data[i];
        if (key.data[i] == 0) {
            *at++ = ESCAPED;
        }
    }
    *at++ = 0;
    *at++ = END;
    buffer_commit(into, (size_t)(at - start));
}

void durable_put_revision(struct buffer *into, uint64_t revision) {
    put_big(into, ~revision, DURABLE_REVISION_SIZE);
}

void durable_set_revision(struct buffer *key, uint64_t revision) {
    if (!key->failed) {
        key->size -= DURABLE_REVISION_SIZE;
        durable_put_revision(key, revision);
    }
}

bool durable_split_key(struct slice bytes, struct slice *prefix, uint64_t *revision) {
    if (bytes.size < 1 + 2 + DURABLE_REVISION_SIZE || bytes.data[0] != KIND_VERSION) {
        return false;
    }
    *prefix = slice_of(bytes.data, bytes.size - DURABLE_REVISION_SIZE);
    *revision = ~get_big(bytes.data + prefix->size, DURABLE_REVISION_SIZE);
    return true;
}

/* Its size, or 0: malformed. */
static size_t unescape(struct slice prefix, uint8_t into[KV_KEY_SIZE_MAX]) {
    size_t size = 0;
    for (size_t i = 1; i + 2 < prefix.size; i++) {
        if (size == KV_KEY_SIZE_MAX) {
            return 0;
        }
        into[size++] = prefix.data[i];
        if (prefix.data[i] == 0 && prefix.data[++i] != ESCAPED) {
            return 0;
        }
    }
    return size;
}

void durable_put_record(struct buffer *into, const struct durable_record *record) {
    bool tombstone = record->version == 0;
    bool extra = record->lease != 0 || record->sub != 0;
    uint8_t head[1 + 2 * sizeof(uint64_t) + sizeof(int64_t) + sizeof(uint32_t)];
    struct writer writer = writer_of(head, sizeof(head));
    write_u8(&writer, (uint8_t)((tombstone ? FLAG_TOMBSTONE : 0) | (extra ? FLAG_EXTRA : 0)));
    if (!tombstone) {
        write_u64(&writer, record->create_rev);
        write_u64(&writer, record->version);
    }
    if (extra) {
        write_u64(&writer, (uint64_t)record->lease);
        write_u32(&writer, record->sub);
    }
    ASSERT(!writer.failed);
    buffer_append(into, head, sizeof(head) - writer.left);
    if (record->value.size > 0) {
        buffer_append(into, record->value.data, record->value.size);
    }
}

bool durable_get_record(struct slice bytes, uint64_t main, struct durable_record *out) {
    struct reader reader = reader_of(bytes);
    *out = (struct durable_record){.main = main};
    uint8_t flags = read_u8(&reader);
    bool tombstone = flags & FLAG_TOMBSTONE;
    if (!tombstone) {
        out->create_rev = read_u64(&reader);
        out->version = read_u64(&reader);
    }
    if (flags & FLAG_EXTRA) {
        out->lease = (int64_t)read_u64(&reader);
        out->sub = read_u32(&reader);
    }
    out->value = slice_of(reader.at, reader.left);
    return !reader.failed && flags <= (FLAG_TOMBSTONE | FLAG_EXTRA) &&
           (tombstone ? out->value.size == 0 : out->version > 0 && out->create_rev <= main);
}

int durable_make_version(struct slice prefix, const struct durable_record *record,
                         struct kv_version **out) {
    uint8_t key[KV_KEY_SIZE_MAX];
    size_t size = unescape(prefix, key);
    if (size == 0) {
        return LKV_EDAMAGED;
    }
    const struct version_new from = {.key = slice_of(key, size),
                                     .value = record->value,
                                     .lease = record->lease,
                                     .sub = record->sub};
    struct kv_version *version = version_new(&from);
    if (version == NULL) {
        return LKV_ENOMEM;
    }
    version->main = record->main;
    version->create_rev = record->create_rev;
    version->version = record->version;
    *out = version;
    return 0;
}

/* ---------------------------------------------------------------------------- changes */

void durable_put_change_key(struct buffer *into, uint64_t main, uint32_t sub) {
    put_kind(into, KIND_CHANGE);
    put_big(into, main, sizeof(main));
    put_big(into, sub, sizeof(sub));
}

void durable_put_change(struct buffer *into, const struct durable_change *change) {
    uint8_t head[1 + sizeof(uint64_t)];
    struct writer writer = writer_of(head, sizeof(head));
    write_u8(&writer, change->tombstone ? FLAG_TOMBSTONE : 0);
    write_u64(&writer, change->before);
    buffer_append(into, head, sizeof(head));
    buffer_append(into, change->key.data, change->key.size);
}

bool durable_get_change(struct slice key, struct slice value, struct durable_change *out) {
    if (key.size != 1 + sizeof(uint64_t) + sizeof(uint32_t) || key.data[0] != KIND_CHANGE) {
        return false;
    }
    struct reader reader = reader_of(value);
    out->main = get_big(key.data + 1, sizeof(uint64_t));
    out->sub = (uint32_t)get_big(key.data + 1 + sizeof(uint64_t), sizeof(uint32_t));
    out->tombstone = read_u8(&reader) & FLAG_TOMBSTONE;
    out->before = read_u64(&reader);
    out->key = slice_of(reader.at, reader.left);
    return !reader.failed && out->key.size > 0 && out->key.size <= KV_KEY_SIZE_MAX;
}

/* ---------------------------------------------------------------------------- where it stands */

void durable_put_stamp(struct buffer *into, const struct durable_stamp *stamp) {
    uint8_t bytes[DURABLE_STAMP_SIZE];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u64(&writer, stamp->stamp.index);
    write_u64(&writer, stamp->stamp.term);
    write_u64(&writer, stamp->stamp.revision);
    write_u64(&writer, stamp->stamp.kept_from);
    write_u32(&writer, stamp->feature_level);
    write_u64(&writer, stamp->keys);
    write_u64(&writer, stamp->bytes);
    write_u64(&writer, stamp->versions);
    write_u64(&writer, stamp->purged.main);
    write_u32(&writer, stamp->purged.sub);
    ASSERT(!writer.failed && writer.left == 0);
    buffer_append(into, bytes, sizeof(bytes));
}

bool durable_get_stamp(struct slice bytes, struct durable_stamp *out) {
    struct reader reader = reader_of(bytes);
    out->stamp.index = read_u64(&reader);
    out->stamp.term = read_u64(&reader);
    out->stamp.revision = read_u64(&reader);
    out->stamp.kept_from = read_u64(&reader);
    out->feature_level = read_u32(&reader);
    out->keys = read_u64(&reader);
    out->bytes = read_u64(&reader);
    out->versions = read_u64(&reader);
    out->purged.main = read_u64(&reader);
    out->purged.sub = read_u32(&reader);
    return !reader.failed && reader.left == 0 && out->stamp.revision > 0;
}

/* ---------------------------------------------------------------------------- sessions */

void durable_put_session_key(struct buffer *into, uint64_t id) {
    put_kind(into, KIND_SESSION);
    put_big(into, id, sizeof(id));
}

void durable_put_reply_key(struct buffer *into, uint64_t id, uint64_t seq) {
    put_kind(into, KIND_REPLY);
    put_big(into, id, sizeof(id));
    put_big(into, seq % KV_SESSION_WINDOW, sizeof(uint16_t));
}

void durable_put_session(struct buffer *into, const struct session *session) {
    uint8_t bytes[SESSION_SIZE];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u64(&writer, session->ttl_ms);
    write_u64(&writer, session->acked_below);
    write_u64(&writer, session->last_seq);
    ASSERT(!writer.failed && writer.left == 0);
    buffer_append(into, bytes, sizeof(bytes));
}

void durable_put_reply(struct buffer *into, const struct session_reply *reply) {
    uint8_t bytes[REPLY_SIZE];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u64(&writer, reply->seq);
    write_u64(&writer, reply->index);
    write_u64(&writer, reply->term);
    write_u64(&writer, reply->revision);
    write_u64(&writer, reply->count);
    write_u32(&writer, (uint32_t)-reply->rc);
    ASSERT(!writer.failed && writer.left == 0);
    buffer_append(into, bytes, sizeof(bytes));
}

int durable_get_session(struct slice key, struct slice value, struct session **out) {
    struct reader reader = reader_of(value);
    uint64_t ttl_ms = read_u64(&reader);
    uint64_t acked_below = read_u64(&reader);
    uint64_t last_seq = read_u64(&reader);
    bool used = last_seq >= acked_below && last_seq - acked_below < KV_SESSION_WINDOW;
    if (reader.failed || reader.left > 0 || key.size != 1 + sizeof(uint64_t) ||
        key.data[0] != KIND_SESSION || acked_below == 0 || !(used || last_seq == 0)) {
        return LKV_EDAMAGED;
    }
    struct session *session = session_new(used ? last_seq - acked_below + 1 : 0);
    if (session == NULL) {
        return LKV_ENOMEM;
    }
    session->id = get_big(key.data + 1, sizeof(uint64_t));
    session->ttl_ms = ttl_ms;
    session->acked_below = acked_below;
    session->last_seq = last_seq;
    *out = session;
    return 0;
}

bool durable_get_reply(struct slice value, struct session *session) {
    struct reader reader = reader_of(value);
    struct session_reply reply;
    reply.seq = read_u64(&reader);
    reply.index = read_u64(&reader);
    reply.term = read_u64(&reader);
    reply.revision = read_u64(&reader);
    reply.count = read_u64(&reader);
    uint32_t code = read_u32(&reader);
    reply.rc = code <= INT32_MAX ? -(int32_t)code : 0;
    if (reader.failed || reader.left > 0 || reply.index == 0 || code > INT32_MAX ||
        reply.seq > session->last_seq) {
        return false;
    }
    if (reply.seq >= session->acked_below) {
        session->replies[reply.seq & (session->capacity - 1)] = reply;
    }
    return true;
}

/* ---------------------------------------------------------------------------- leases */

void durable_put_lease_key(struct buffer *into, int64_t id) {
    put_kind(into, KIND_LEASE);
    put_big(into, (uint64_t)id, sizeof(id));
}

bool durable_is_lease(struct slice key) {
    return key.size == 1 + sizeof(int64_t) && key.data[0] == KIND_LEASE;
}

void durable_put_attached(struct buffer *into, int64_t id, struct slice key) {
    put_kind(into, KIND_ATTACHED);
    put_big(into, (uint64_t)id, sizeof(id));
    buffer_append(into, key.data, key.size);
}

bool durable_get_attached(struct slice bytes, int64_t *id, struct slice *key) {
    const size_t head = 1 + sizeof(*id);
    if (bytes.size <= head || bytes.size - head > KV_KEY_SIZE_MAX ||
        bytes.data[0] != KIND_ATTACHED) {
        return false;
    }
    *id = (int64_t)get_big(bytes.data + 1, sizeof(*id));
    *key = slice_of(bytes.data + head, bytes.size - head);
    return true;
}
