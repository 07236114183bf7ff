#include "lib/ledger.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/feature.h"
#include "kv/digest.h"

void ledger_fini(struct ledger *ledger) {
    sessions_fini(&ledger->sessions);
    *ledger = (struct ledger){0};
}

/* ------------------------------------------------------------------ applying */

static int apply_command(struct ledger *ledger, const struct entry *entry, struct kv_result *result,
                         struct reason *why) {
    struct kv_command command;
    struct reason detail = {{0}};
    int rc = kv_command_decode(blob_slice(entry->payload), &command, &detail);
    if (rc == 0 && kv_command_has_keys(&command)) {
        rc = reason_set(&detail, LKV_EPROTOCOL, "a command with keys");
    }
    if (rc != 0) {
        return reason_set(why, rc, "%s", detail.text);
    }
    result->session = command.session;
    if (command.in_term != 0 && command.in_term != entry->term) {
        result->rc = LKV_ETERM;
        return 0;
    }
    rc = sessions_command(&ledger->sessions, &command, result);
    return rc == 0 ? 0 : reason_set(why, rc, "no memory for a session");
}

/* The last record of an append: all are there, so it takes effect. Its leader has judged the number
 * before it gave out indices, by just the entries before this one. */
static int apply_append(struct ledger *ledger, const struct entry *entry,
                        const struct once_header *header, struct reason *why) {
    struct session_reply reply;
    int rc = sessions_judge(&ledger->sessions, &header->call, &reply);
    if (rc != SESSION_EXECUTE) {
        return reason_set(why, LKV_EPROTOCOL,
                          "number %llu of session %llu was appended although its leader had to "
                          "refuse it (%s)",
                          (unsigned long long)header->call.seq, (unsigned long long)header->call.id,
                          rc == SESSION_REPEATED ? "it is in the log" : error_text(rc));
    }
    if (sessions_reserve(&ledger->sessions, &header->call) != 0) {
        return reason_set(why, LKV_ENOMEM, "no memory for a session");
    }
    reply = (struct session_reply){.seq = header->call.seq,
                                   .index = entry->index - header->position,
                                   .term = entry->term,
                                   .revision = header->crc, /* this model has no revisions */
                                   .count = header->count};
    sessions_record(&ledger->sessions, &header->call, &reply);
    return 0;
}

static bool is_complete(const struct once_header *header) {
    return header->position + 1 == header->count;
}

/* It never falls. */
static int apply_feature(struct ledger *ledger, const struct entry *entry, uint32_t known,
                         struct reason *why) {
    uint32_t level = 0;
    int rc = feature_decode(blob_slice(entry->payload), known, &level, why);
    if (rc == 0 && level > ledger->feature_level) {
        ledger->feature_level = level;
    }
    return rc;
}

uint32_t ledger_feature_level(const struct ledger *ledger) {
    return ledger->feature_level != 0 ? ledger->feature_level : FEATURE_LEVEL_FIRST;
}

static int apply_new(struct ledger *ledger, const struct entry *entry, uint32_t known,
                     const struct once_header *header, struct kv_result *result,
                     struct reason *why) {
    int rc = 0;
    if (entry->type == ENTRY_FEATURE) {
        rc = apply_feature(ledger, entry, known, why);
    } else if (entry->type == ENTRY_SESSION) {
        rc = apply_command(ledger, entry, result, why);
    } else if (entry->type == ENTRY_ONCE) {
        result->session = header->call.id;
        rc = is_complete(header) ? apply_append(ledger, entry, header, why) : 0;
    }
    if (rc != 0) {
        return rc;
    }
    const struct blob *payload = entry->payload;
    const struct digest_link link = {.index = entry->index,
                                     .term = entry->term,
                                     .type = entry->type,
                                     .size = payload != NULL ? payload->size : 0,
                                     .crc = payload != NULL && payload->crc_known
                                                ? payload->crc
                                                : crc32c(0, blob_slice(payload))};
    ledger->chain = digest_chain(ledger->chain, &link);
    ledger->included = entry->index;
    ledger->included_term = entry->term;
    return 0;
}

/* Rule 22: a node that meets what it does not know stops. */
static int check_type(const struct entry *entry, struct reason *why) {
    switch (entry->type) {
    case ENTRY_NOOP:
    case ENTRY_CONFIG:
    case ENTRY_COMMAND:
    case ENTRY_FEATURE:
    case ENTRY_DIGEST:
    case ENTRY_SESSION:
    case ENTRY_ONCE: return 0;
    }
    return reason_set(why, LKV_EVERSION, "an entry of type %u, which this program does not know",
                      (unsigned)entry->type);
}

int ledger_apply(struct ledger *ledger, const struct entry *entry, uint32_t known,
                 struct kv_result *result, struct reason *why) {
    *result = (struct kv_result){.index = entry->index, .term = entry->term};
    struct once_header header = {0};
    int rc = check_type(entry, why);
    if (rc == 0 && entry->type == ENTRY_ONCE &&
        once_decode(blob_slice(entry->payload), &header) != 0) {
        rc = reason_set(why, LKV_EPROTOCOL, "its header is malformed");
    }
    bool is_new = entry->index > ledger->included;
    if (rc == 0 && is_new) {
        rc = apply_new(ledger, entry, known, &header, result, why);
    } else if (rc == 0 && entry->type == ENTRY_SESSION) {
        result->rc = LKV_EUNKNOWN;
    }
    if (rc != 0) {
        return rc;
    }
    if (entry->type != ENTRY_ONCE || is_complete(&header)) {
        ledger->visible = entry->index;
    }
    if (is_new) {
        ledger->included_visible = ledger->visible;
    }
    return 0;
}

void ledger_catch_up(struct ledger *ledger) {
    ledger->visible = ledger->included_visible;
}

void ledger_start_at(struct ledger *ledger, uint64_t visible) {
    ledger->visible = visible;
}

/* ------------------------------------------------------------------ copies */

int ledger_freeze(const struct ledger *ledger, struct ledger *out) {
    *out = *ledger;
    return sessions_freeze(&ledger->sessions, &out->sessions);
}

int ledger_digest(const struct ledger *ledger, uint64_t *digest) {
    uint64_t sessions;
    int rc = sessions_digest(&ledger->sessions, &sessions);
    *digest = ledger->chain + sessions;
    return rc;
}

enum { HEAD_SIZE = 4 * 8 /* chain, included, its term, visible */ };

void ledger_put(struct buffer *into, const struct ledger *ledger) {
    uint8_t head[HEAD_SIZE];
    struct writer writer = writer_of(head, sizeof(head));
    write_u64(&writer, ledger->chain);
    write_u64(&writer, ledger->included);
    write_u64(&writer, ledger->included_term);
    write_u64(&writer, ledger->included_visible);
    ASSERT(!writer.failed && writer.left == 0);
    buffer_append(into, head, sizeof(head));
    sessions_put(into, &ledger->sessions);
}

static bool is_possible(const struct ledger *ledger) {
    const struct sessions *sessions = &ledger->sessions;
    bool named = ledger->included > 0 && ledger->included_term > 0 &&
                 ledger->included_visible <= ledger->included;
    return named &&
           (sessions->count == 0 || sessions->slots[sessions->count - 1].id <= ledger->included);
}

int ledger_get(struct slice bytes, struct ledger *out) {
    *out = (struct ledger){0};
    struct reader reader = reader_of(bytes);
    out->chain = read_u64(&reader);
    out->included = read_u64(&reader);
    out->included_term = read_u64(&reader);
    out->included_visible = read_u64(&reader);
    int rc = reader.failed ? LKV_EDAMAGED : sessions_get(&reader, &out->sessions);
    rc = rc == 0 && !is_possible(out) ? LKV_EDAMAGED : rc;
    if (rc != 0) {
        ledger_fini(out);
    }
    return rc;
}
