/* Sessions as bytes: the records of an image's section, and what their digest is made of. */
#include "base/assert.h"
#include "kv/digest.h"
#include "kv/session.h"

enum {
    SESSION_SIZE = 8 + 8 + 8 + 8 + 4,  /* id, ttl, acked_below, last_seq, replies that follow */
    REPLY_SIZE = 8 + 8 + 8 + 8 + 8 + 4 /* seq, index, term, revision, count, code */
};

static size_t count_replies(const struct session *session) {
    size_t count = 0;
    for (size_t i = 0; i < session->capacity; i++) {
        count += session->replies[i].index != 0;
    }
    return count;
}

static void put_reply(struct writer *writer, const struct session_reply *reply) {
    write_u64(writer, reply->seq);
    write_u64(writer, reply->index);
    write_u64(writer, reply->term);
    write_u64(writer, reply->revision);
    write_u64(writer, reply->count);
    write_u32(writer, (uint32_t)-reply->rc);
}

void session_put(struct buffer *into, const struct session *session) {
    size_t count = count_replies(session);
    size_t size = SESSION_SIZE + count * REPLY_SIZE;
    uint8_t *at = buffer_reserve(into, size);
    if (at == NULL) {
        return; /* the buffer remembers */
    }
    struct writer writer = writer_of(at, size);
    write_u64(&writer, session->id);
    write_u64(&writer, session->ttl_ms);
    write_u64(&writer, session->acked_below);
    write_u64(&writer, session->last_seq);
    write_u32(&writer, (uint32_t)count);
    for (size_t i = 0; i < session->capacity; i++) { /* ascending, wherever the ring begins */
        uint64_t seq = session->acked_below + i;
        const struct session_reply *reply = &session->replies[seq & (session->capacity - 1)];
        if (reply->index != 0) {
            ASSERT(reply->seq == seq);
            put_reply(&writer, reply);
        }
    }
    ASSERT(!writer.failed && writer.left == 0);
    buffer_commit(into, size);
}

static bool get_reply(struct reader *reader, struct session_reply *reply) {
    reply->seq = read_u64(reader);
    reply->index = read_u64(reader);
    reply->term = read_u64(reader);
    reply->revision = read_u64(reader);
    reply->count = read_u64(reader);
    uint32_t code = read_u32(reader);
    reply->rc = code <= INT32_MAX ? -(int32_t)code : 0;
    return !reader->failed && reply->index != 0 && reply->term != 0 && code <= INT32_MAX;
}

struct fields {
    uint64_t id, ttl_ms, acked_below, last_seq;
    uint32_t count;
};

/* What the state machine could have made: the newest number stays in the window. */
static bool is_possible(const struct fields *fields) {
    bool used = fields->last_seq >= fields->acked_below &&
                fields->last_seq - fields->acked_below < KV_SESSION_WINDOW && fields->count > 0;
    bool fresh = fields->last_seq == 0 && fields->acked_below == 1 && fields->count == 0;
    return fields->id > 0 && fields->ttl_ms > 0 && fields->ttl_ms <= KV_SESSION_TTL_MS_MAX &&
           fields->acked_below > 0 && (used || fresh) && fields->count <= KV_SESSION_WINDOW;
}

static bool get_replies(struct reader *reader, struct session *session, uint32_t count) {
    uint64_t next = session->acked_below;
    for (uint32_t i = 0; i < count; i++) {
        struct session_reply reply;
        if (!get_reply(reader, &reply) || reply.seq < next || reply.index <= session->id ||
            reply.seq - session->acked_below >= session->capacity) {
            return false;
        }
        session->replies[reply.seq & (session->capacity - 1)] = reply;
        next = reply.seq + 1;
    }
    return count == 0 || session->last_seq + 1 == next;
}

int session_get(struct reader *reader, struct session **out) {
    *out = NULL;
    struct fields fields;
    fields.id = read_u64(reader);
    fields.ttl_ms = read_u64(reader);
    fields.acked_below = read_u64(reader);
    fields.last_seq = read_u64(reader);
    fields.count = read_u32(reader);
    if (reader->failed || !is_possible(&fields) || fields.count > reader->left / REPLY_SIZE) {
        return LKV_EDAMAGED;
    }
    struct session *session = session_new(fields.last_seq - fields.acked_below + 1);
    if (session == NULL) {
        return LKV_ENOMEM;
    }
    session->id = fields.id;
    session->ttl_ms = fields.ttl_ms;
    session->acked_below = fields.acked_below;
    session->last_seq = fields.last_seq;
    if (!get_replies(reader, session, fields.count)) {
        session_unref(session);
        return LKV_EDAMAGED;
    }
    *out = session;
    return 0;
}

void sessions_put(struct buffer *into, const struct sessions *sessions) {
    for (size_t i = 0; i < sessions->count; i++) {
        session_put(into, sessions->slots[i].session);
    }
}

int sessions_get(struct reader *reader, struct sessions *out) {
    *out = (struct sessions){0};
    int rc = 0;
    while (rc == 0 && reader->left > 0) {
        struct session *session;
        rc = session_get(reader, &session);
        if (rc == 0 && (rc = sessions_add(out, session)) != 0) {
            session_unref(session);
        }
    }
    if (rc != 0) {
        sessions_fini(out);
    }
    return rc;
}

/* ---------------------------------------------------------------------------- digest */

static int add_digest(const struct session *session, struct buffer *scratch, uint64_t *digest) {
    buffer_clear(scratch);
    session_put(scratch, session);
    if (scratch->failed) {
        return LKV_ENOMEM;
    }
    *digest += digest_of_session(buffer_slice(scratch));
    return 0;
}

int session_digest(const struct session *session, uint64_t *digest) {
    struct buffer scratch;
    buffer_init(&scratch);
    *digest = 0;
    int rc = add_digest(session, &scratch, digest);
    buffer_fini(&scratch);
    return rc;
}

int sessions_digest(const struct sessions *sessions, uint64_t *digest) {
    struct buffer scratch;
    buffer_init(&scratch);
    *digest = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sessions->count; i++) {
        rc = add_digest(sessions->slots[i].session, &scratch, digest);
    }
    buffer_fini(&scratch);
    return rc;
}
