#include "lib/request.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"
#include "lib/session.h"

#include <stdio.h>

struct request *request_new(enum request_op op) {
    struct request *request = mem_calloc(1, sizeof(*request));
    if (request == NULL) {
        return NULL;
    }
    request->reply = msg_new(LKV_REPLY, NULL);
    if (request->reply == NULL) {
        mem_free(request);
        return NULL;
    }
    list_init(&request->link);
    list_init(&request->expiry);
    request->op = op;
    request->deadline_ns = UINT64_MAX;
    return request;
}

int request_set_keys(struct request *request, struct slice key, struct slice end) {
    ASSERT(request->bytes == NULL);
    struct blob *bytes = blob_new(key.size + end.size);
    if (bytes == NULL) {
        return LKV_ENOMEM;
    }
    if (key.size > 0) {
        memcpy(bytes->data, key.data, key.size);
    }
    if (end.size > 0) {
        memcpy(bytes->data + key.size, end.data, end.size);
    }
    request->bytes = bytes;
    request->key = slice_of(bytes->data, key.size);
    request->end = slice_of(bytes->data + key.size, end.size);
    return 0;
}

int request_set_records(struct request *request, const struct slice *records, size_t count) {
    ASSERT(request->records == NULL);
    request->records = mem_calloc(count, sizeof(struct blob *));
    if (request->records == NULL) {
        return LKV_ENOMEM;
    }
    request->record_count = count;
    for (size_t i = 0; i < count; i++) {
        struct blob *record = blob_copy(records[i]);
        if (record == NULL) {
            return LKV_ENOMEM;
        }
        record->crc = crc32c(0, records[i]);
        record->crc_known = true;
        request->records[i] = record;
    }
    return 0;
}

static struct blob *record_once(const struct once_header *header, struct slice record) {
    struct blob *blob = blob_new(ONCE_HEADER_SIZE + record.size);
    if (blob == NULL) {
        return NULL;
    }
    once_encode(header, blob->data);
    if (record.size > 0) {
        memcpy(blob->data + ONCE_HEADER_SIZE, record.data, record.size);
    }
    blob->crc = crc32c(0, blob_slice(blob));
    blob->crc_known = true;
    return blob;
}

int request_set_records_once(struct request *request, const struct slice *records, size_t count,
                             const struct session_call *call) {
    ASSERT(request->records == NULL);
    struct once_header header = {
        .call = *call, .count = (uint32_t)count, .crc = once_crc(records, count)};
    request->records = mem_calloc(count, sizeof(struct blob *));
    if (request->records == NULL) {
        return LKV_ENOMEM;
    }
    request->record_count = count;
    request->session = call->id;
    request->seq = call->seq;
    request->acked_below = call->acked_below;
    request->records_crc = header.crc;
    request->repeatable = true;
    for (; header.position < count; header.position++) {
        struct blob *record = record_once(&header, records[header.position]);
        if (record == NULL) {
            return LKV_ENOMEM;
        }
        request->records[header.position] = record;
    }
    return 0;
}

struct slice request_record(const struct request *request, size_t i) {
    struct slice bytes = blob_slice(request->records[i]);
    return request->session == 0
               ? bytes
               : slice_of(bytes.data + ONCE_HEADER_SIZE, bytes.size - ONCE_HEADER_SIZE);
}

size_t request_records_cost(const struct request *request) {
    size_t cost = 0;
    for (size_t i = 0; request->records != NULL && i < request->record_count; i++) {
        cost += sizeof(struct blob) + blob_slice(request->records[i]).size;
    }
    return cost;
}

bool request_is_apart(const struct request *request, uint64_t at) {
    const struct append_place *place = request->place;
    return place != NULL && place->under_way > 0 && place->at != at;
}

void request_place(struct request *request, uint64_t at) {
    if (request->place != NULL) {
        request->place->under_way += request->placed ? 0 : 1;
        request->place->at = at;
        request->placed = true;
    }
}

void request_unplace(struct request *request) {
    if (request->placed) {
        ASSERT(request->place->under_way > 0);
        request->place->under_way--;
        request->placed = false;
    }
}

/* Before the final message is seen: whoever answers it with the next request finds room. */
static void uncount(struct request *request) {
    if (request->held != NULL) {
        atomic_fetch_sub_explicit(request->held, request->cost, memory_order_relaxed);
        request->held = NULL;
    }
}

/* What only an entry that has been applied, or in log mode the number's own append, answers. */
static bool is_of_an_entry(const struct request *request, int rc) {
    bool in_session = request->session != 0;
    return rc == LKV_ETERM || rc == LKV_ENUMBER || rc == LKV_EOVERFLOW || rc == LKV_ECOMPACTED ||
           rc == LKV_EFUTURE || (in_session && rc == LKV_ELEASE) ||
           (in_session && rc == LKV_EINVAL && request->op == REQUEST_APPEND); /* other records */
}

/* The last attempt was refused, but of an earlier one nobody knows. Only the answer to an applied entry
 * is definite then: had an earlier attempt been applied, this would be that one's answer. */
static void admit_doubt(struct request *request) {
    struct lkv_msg *reply = request->reply;
    int rc = reply->rc;
    if (request->maybe_done && !request_is_read(request) && error_outcome(rc) == LKV_NOT_DONE &&
        !is_of_an_entry(request, rc)) {
        char text[REASON_SIZE];
        (void)snprintf(text, sizeof(text), "%s", lkv_msg_text(reply));
        msg_set_rc(reply, request->was_in_doubt ? request_doubtful(rc) : LKV_EUNKNOWN,
                   "an earlier attempt may have been applied; the last: %s", text);
    }
}

void request_finish(struct request *request) {
    uncount(request);
    request_unplace(request);
    admit_doubt(request);
    if (request->in_session != NULL) {
        session_answer(request);
    }
    if (request->on_finish != NULL) {
        request->on_finish(request);
    }
    request_free(request);
}

void request_fail(struct request *request, int rc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    msg_set_rc_list(request->reply, rc, format, args);
    va_end(args);
    request_finish(request);
}

void request_free(struct request *request) {
    if (request == NULL) {
        return;
    }
    /* A holder that still lists it would touch freed memory later. */
    ASSERT(list_empty(&request->link));
    ASSERT(list_empty(&request->expiry));
    uncount(request);
    if (request->in_session != NULL) {
        session_drop(request);
    }
    blob_unref(request->bytes);
    blob_unref(request->command);
    for (size_t i = 0; request->records != NULL && i < request->record_count; i++) {
        blob_unref(request->records[i]);
    }
    mem_free(request->records);
    lkv_msg_free(request->reply);
    mem_free(request);
}
