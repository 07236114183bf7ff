#include "lib/records.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/api.h"

#include <pthread.h>
#include <unistd.h>

struct extents {
    atomic_uint refs;
    pthread_mutex_t mutex;
    struct log *log; /* under mutex; NULL: closed */
};

/* One file that records of a message lie in. */
struct pinned {
    struct segment *segment; /* valid while the log is open */
    int fd;                  /* owned */
};

struct msg_extents {
    struct extents *home; /* owned reference */
    struct pinned *pinned;
    size_t count, capacity;
};

/* ------------------------------------------------------------------ the node's end */

struct extents *extents_open(struct log *log) {
    struct extents *extents = mem_calloc(1, sizeof(*extents));
    if (extents == NULL) {
        return NULL;
    }
    atomic_init(&extents->refs, 1);
    (void)pthread_mutex_init(&extents->mutex, NULL);
    extents->log = log;
    return extents;
}

static void unref(struct extents *extents) {
    if (atomic_fetch_sub(&extents->refs, 1) == 1) {
        (void)pthread_mutex_destroy(&extents->mutex);
        mem_free(extents);
    }
}

void extents_close(struct extents *extents) {
    if (extents != NULL) {
        (void)pthread_mutex_lock(&extents->mutex);
        extents->log = NULL;
        (void)pthread_mutex_unlock(&extents->mutex);
        unref(extents);
    }
}

/* ------------------------------------------------------------------ the message's end */

static void unpin_all(struct msg_extents *extents) {
    struct extents *home = extents->home;
    (void)pthread_mutex_lock(&home->mutex);
    for (size_t i = 0; i < extents->count; i++) {
        if (home->log != NULL) {
            log_extent_unpin(home->log, extents->pinned[i].segment);
        }
        (void)close(extents->pinned[i].fd);
    }
    (void)pthread_mutex_unlock(&home->mutex);
}

void msg_drop_records(struct lkv_msg *msg) {
    for (size_t i = 0; i < msg->record_count; i++) {
        blob_unref(msg->records[i].blob);
    }
    mem_free(msg->records);
    msg->records = NULL;
    msg->record_count = 0;
    if (msg->extents != NULL) {
        unpin_all(msg->extents);
        unref(msg->extents->home);
        mem_free(msg->extents->pinned);
        mem_free(msg->extents);
        msg->extents = NULL;
    }
}

int msg_records_reserve(struct lkv_msg *msg, size_t capacity, struct extents *extents) {
    ASSERT(msg->records == NULL);
    msg->records = mem_calloc(capacity, sizeof(*msg->records));
    if (msg->records == NULL) {
        return LKV_ENOMEM;
    }
    if (extents != NULL) {
        msg->extents = mem_calloc(1, sizeof(*msg->extents));
        if (msg->extents == NULL) {
            return LKV_ENOMEM;
        }
        atomic_fetch_add(&extents->refs, 1);
        msg->extents->home = extents;
    }
    return 0;
}

void msg_records_add(struct lkv_msg *msg, const struct entry *entry, size_t skip) {
    struct slice payload = blob_slice(entry->payload);
    ASSERT(skip <= payload.size);
    msg->records[msg->record_count++] = (struct msg_record){
        .index = entry->index,
        .term = entry->term,
        .data = skip > 0 ? slice_of(payload.data + skip, payload.size - skip) : payload,
        .skip = skip,
        .blob = blob_ref(entry->payload)};
}

size_t msg_records_cost(const struct lkv_msg *msg) {
    size_t cost = sizeof(*msg) + msg->record_count * sizeof(struct msg_record);
    for (size_t i = 0; i < msg->record_count; i++) {
        cost += msg->records[i].data.size;
    }
    return cost;
}

bool lkv_msg_record(const struct lkv_msg *msg, size_t i, struct lkv_record *out) {
    if (i >= msg->record_count) {
        return false;
    }
    const struct msg_record *record = &msg->records[i];
    *out = (struct lkv_record){
        .index = record->index,
        .term = record->term,
        /* Never NULL: no special case for whoever copies an empty one. */
        .data = {.data = record->data.size > 0 ? (const void *)record->data.data : "",
                 .size = record->data.size}};
    return true;
}

/* ------------------------------------------------------------------ extents */

/* Keeps the pin, unless the message has one for the same file already. */
static int keep_pin(struct msg_extents *extents, const struct log_extent *extent, int *fd) {
    for (size_t i = 0; i < extents->count; i++) {
        if (extents->pinned[i].segment == extent->segment) {
            *fd = extents->pinned[i].fd;
            log_extent_unpin(extents->home->log, extent->segment);
            return 0;
        }
    }
    struct pinned *grown =
        mem_array_grow(extents->pinned, &extents->capacity, extents->count + 1, sizeof(*grown));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    extents->pinned = grown;
    int rc = disk_descriptor(extent->file, fd);
    if (rc == 0) {
        grown[extents->count++] = (struct pinned){.segment = extent->segment, .fd = *fd};
    }
    return rc;
}

static int find(struct msg_extents *extents, const struct msg_record *record, int *fd,
                uint64_t *offset) {
    struct log *log = extents->home->log;
    if (log == NULL) {
        return api_fail(LKV_ECLOSED, "the node was closed");
    }
    struct reason why = {{0}};
    struct log_extent extent;
    int rc = log_extent_pin(log, record->index, &extent, &why);
    if (rc != 0) {
        return api_fail_with(rc, &why);
    }
    if (extent.term != record->term || extent.length != record->skip + record->data.size) {
        rc = LKV_EDAMAGED;
    } else {
        rc = keep_pin(extents, &extent, fd);
    }
    if (rc != 0) {
        log_extent_unpin(log, extent.segment);
        return api_fail(rc, "entry %llu: %s", (unsigned long long)record->index, error_text(rc));
    }
    *offset = extent.offset + record->skip;
    return 0;
}

int lkv_log_extent(struct lkv_msg *msg, size_t i, int *fd, uint64_t *offset) {
    if (msg == NULL || i >= msg->record_count || fd == NULL || offset == NULL) {
        return api_fail(LKV_EINVAL, "the message has no record %zu", i);
    }
    if (msg->extents == NULL) {
        return api_fail(LKV_EUNSUPPORTED, "only records of a node in this process lie in a file");
    }
    struct extents *home = msg->extents->home;
    (void)pthread_mutex_lock(&home->mutex);
    int rc = find(msg->extents, &msg->records[i], fd, offset);
    (void)pthread_mutex_unlock(&home->mutex);
    return rc;
}
