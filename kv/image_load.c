/* Reading an image: nothing in it is believed before its checksum, and nothing is allocated that the
 * file's size does not cover. */
#include "base/feature.h"
#include "base/mem.h"
#include "kv/durable.h"
#include "kv/image_keys.h"

struct loader {
    const char *path;
    struct disk_file *file;
    uint64_t size;   /* of the file */
    uint64_t offset; /* of the piece being looked at, for messages */
    uint64_t next;   /* of the next byte to be read */
    struct image_header header;
    struct image_end end; /* as counted */
    uint32_t section;     /* of the last chunk */
    struct buffer chunk;  /* payload of the last chunk */
    struct buffer tail;   /* the node's section, so far */
    struct image_keys keys;
    uint64_t last_session; /* ids ascend */
    int64_t last_lease;    /* the same */
    struct leases named;   /* without a store: what leases there are, and must be */
    struct store *store;   /* gets the contents; NULL: only check */
    uint32_t known;        /* feature level */
    const atomic_bool *cancel;
    struct reason *why;
};

static int damaged(const struct loader *loader, const char *what) {
    return reason_set(loader->why, LKV_EDAMAGED, "%s:%llu: %s", loader->path,
                      (unsigned long long)loader->offset, what);
}

static int failed(const struct loader *loader, int rc) {
    return reason_set(loader->why, rc, "%s:%llu: %s", loader->path,
                      (unsigned long long)loader->offset, error_text(rc));
}

static int read_some(struct loader *loader, void *into, size_t size) {
    size_t got = 0;
    int rc = disk_read(loader->file, loader->next, into, size, &got);
    if (rc != 0) {
        return failed(loader, rc);
    }
    loader->next += got;
    return got == size ? 0 : damaged(loader, "the file is cut off");
}

/* ---------------------------------------------------------------------------- keys */

static int told(const struct loader *loader, int rc, const char *what) {
    if (rc == 0) {
        return 0;
    }
    return rc == LKV_EDAMAGED ? damaged(loader, what) : failed(loader, rc);
}

static int take_records(struct loader *loader) {
    const char *what = NULL;
    int rc = image_keys_take(&loader->keys, buffer_slice(&loader->chunk), &what);
    return told(loader, rc, what);
}

/* ---------------------------------------------------------------------------- sessions */

static bool session_fits(const struct loader *loader, const struct session *session) {
    bool fits = session->id > loader->last_session && session->id <= loader->header.stamp.index;
    for (size_t i = 0; fits && i < session->capacity; i++) {
        const struct session_reply *reply = &session->replies[i];
        fits = reply->index <= loader->header.stamp.index &&
               reply->revision <= loader->header.stamp.revision;
    }
    return fits;
}

/* Takes the session. */
static int take_session(struct loader *loader, struct session *session) {
    uint64_t digest;
    int rc = session_fits(loader, session) ? session_digest(session, &digest) : LKV_EDAMAGED;
    if (rc == 0) {
        loader->end.digest += digest;
        loader->last_session = session->id;
        if (loader->store != NULL) {
            rc = sessions_add(&loader->store->sessions, session);
        }
    }
    if (rc != 0 || loader->store == NULL) {
        session_unref(session);
    }
    return rc;
}

static int take_sessions(struct loader *loader) {
    struct reader reader = reader_of(buffer_slice(&loader->chunk));
    while (reader.left > 0) {
        struct session *session;
        int rc = session_get(&reader, &session);
        rc = rc == 0 ? take_session(loader, session) : rc;
        if (rc != 0) {
            return rc == LKV_EDAMAGED ? damaged(loader, "malformed session") : failed(loader, rc);
        }
    }
    return 0;
}

/* ---------------------------------------------------------------------------- leases */

static int take_leases(struct loader *loader) {
    struct reader reader = reader_of(buffer_slice(&loader->chunk));
    while (reader.left > 0) {
        struct kv_lease lease;
        bool good = lease_get(&reader, &lease) && lease.id > loader->last_lease &&
                    lease.granted <= loader->header.stamp.index &&
                    loader->header.feature_level >= KV_LEVEL_HISTORY;
        int rc = good ? leases_load(loader->keys.leases, &lease) : LKV_EDAMAGED;
        if (rc != 0) {
            return told(loader, rc, "malformed lease");
        }
        loader->last_lease = lease.id;
        loader->end.digest += lease_digest(&lease);
    }
    return 0;
}

/* ---------------------------------------------------------------------------- chunks */

static int take_tail(struct loader *loader) {
    if (loader->chunk.size > IMAGE_TAIL_MAX - loader->tail.size) {
        return damaged(loader, "the node's section is too large");
    }
    buffer_append(&loader->tail, loader->chunk.data, loader->chunk.size);
    return loader->tail.failed ? failed(loader, LKV_ENOMEM) : 0;
}

static int take_end(struct loader *loader) {
    if (loader->chunk.size != IMAGE_END_SIZE) {
        return damaged(loader, "the end has another size");
    }
    struct image_end end;
    image_get_end(loader->chunk.data, &end);
    struct image_keys *keys = &loader->keys;
    const char *what = NULL;
    int rc = image_keys_end(keys, &what);
    if (rc != 0) {
        return told(loader, rc, what);
    }
    if (!leases_loaded(keys->leases)) {
        return damaged(loader, "a key has a lease that is not there");
    }
    loader->end.keys = keys->keys;
    loader->end.versions = keys->versions;
    loader->end.bytes = keys->bytes;
    loader->end.digest += keys->digest;
    const struct image_end *counted = &loader->end;
    if (end.chunks != counted->chunks || end.keys != counted->keys ||
        end.versions != counted->versions || end.bytes != counted->bytes ||
        end.keys != loader->header.keys || end.bytes != loader->header.bytes) {
        return damaged(loader, "totals do not match the contents");
    }
    if (end.digest != counted->digest) {
        return damaged(loader, "the digest does not match the contents");
    }
    if (end.file_size != loader->size || loader->next != loader->size) {
        return damaged(loader, "bytes follow the end");
    }
    return 0;
}

static int take_chunk(struct loader *loader, const struct image_chunk *chunk) {
    switch (chunk->section) {
    case IMAGE_NODE: return take_tail(loader);
    case IMAGE_KEYS: return take_records(loader);
    case IMAGE_SESSIONS: return take_sessions(loader);
    case IMAGE_LEASES: return take_leases(loader);
    case IMAGE_END: return take_end(loader);
    default:
        if (chunk->section >= IMAGE_OPTIONAL) {
            return 0; /* of a later version, and nothing depends on it */
        }
        return reason_set(loader->why, LKV_EVERSION,
                          "%s:%llu: section %u, which this program does not know", loader->path,
                          (unsigned long long)loader->offset, chunk->section);
    }
}

static int read_payload(struct loader *loader, const struct image_chunk *chunk) {
    if (chunk->size > loader->size - loader->next || chunk->size > IMAGE_CHUNK_MAX) {
        return damaged(loader, "impossible size of a chunk");
    }
    buffer_clear(&loader->chunk);
    uint8_t *payload = buffer_reserve(&loader->chunk, chunk->size);
    if (payload == NULL) {
        return failed(loader, LKV_ENOMEM);
    }
    int rc = read_some(loader, payload, chunk->size);
    if (rc == 0) {
        buffer_commit(&loader->chunk, chunk->size);
    }
    return rc;
}

static int read_chunk(struct loader *loader, struct image_chunk *chunk) {
    uint8_t head[IMAGE_CHUNK_HEADER_SIZE];
    loader->offset = loader->next;
    int rc = read_some(loader, head, sizeof(head));
    if (rc != 0) {
        return rc;
    }
    image_get_chunk(head, chunk);
    rc = read_payload(loader, chunk);
    if (rc != 0) {
        return rc;
    }
    if (chunk->crc != image_chunk_crc(chunk, &loader->header, buffer_slice(&loader->chunk))) {
        return damaged(loader, "checksum of a chunk is wrong");
    }
    if (chunk->number != loader->end.chunks || chunk->section < loader->section) {
        return damaged(loader, "a chunk is out of place");
    }
    loader->section = chunk->section;
    return 0;
}

static bool canceled(const struct loader *loader) {
    return loader->cancel != NULL && atomic_load_explicit(loader->cancel, memory_order_relaxed);
}

static int read_chunks(struct loader *loader) {
    for (;;) {
        struct image_chunk chunk;
        int rc = read_chunk(loader, &chunk);
        if (rc == 0 && canceled(loader)) {
            rc = failed(loader, LKV_ECANCELED);
        }
        if (rc == 0) {
            rc = take_chunk(loader, &chunk);
        }
        if (rc != 0 || chunk.section == IMAGE_END) {
            return rc;
        }
        loader->end.chunks++;
    }
}

static int read_header(struct loader *loader) {
    uint8_t bytes[IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE];
    size_t got = 0;
    int rc = disk_read(loader->file, 0, bytes, sizeof(bytes), &got);
    if (rc != 0) {
        return failed(loader, rc);
    }
    struct reason detail = {{0}};
    rc = image_get_header(slice_of(bytes, got), loader->known, &loader->header, &detail);
    if (rc != 0) {
        return reason_set(loader->why, rc, "%s:0: %s", loader->path, detail.text);
    }
    loader->next = sizeof(bytes);
    return 0;
}

static int read_file(struct loader *loader, struct disk *disk) {
    int rc = disk_open(disk, loader->path, DISK_READ, &loader->file);
    if (rc != 0) {
        return failed(loader, rc);
    }
    rc = disk_size(loader->file, &loader->size);
    rc = rc == 0 ? read_header(loader) : failed(loader, rc);
    if (rc == 0) {
        rc = read_chunks(loader);
    }
    disk_close(loader->file);
    return rc;
}

/* ---------------------------------------------------------------------------- check and load */

static int give_out(struct loader *loader, struct kv_image_info *info, struct blob **tail) {
    if (tail != NULL) {
        *tail = blob_copy(buffer_slice(&loader->tail));
        if (*tail == NULL) {
            return failed(loader, LKV_ENOMEM);
        }
    }
    if (info != NULL) {
        *info = (struct kv_image_info){.stamp = loader->header.stamp,
                                       .keys = loader->end.keys,
                                       .bytes = loader->size,
                                       .digest = loader->end.digest,
                                       .cluster_id = loader->header.cluster_id,
                                       .group_id = loader->header.group_id,
                                       .feature_level = loader->header.feature_level};
    }
    return 0;
}

static void set_none(struct blob **tail) {
    if (tail != NULL) {
        *tail = NULL;
    }
}

static int load(struct loader *loader, struct disk *disk, struct kv_image_info *info,
                struct blob **tail) {
    struct store *store = loader->store;
    leases_init(&loader->named, NULL, 0); /* names only: no keys */
    loader->keys = (struct image_keys){.header = &loader->header,
                                       .store = store,
                                       .leases = store != NULL ? &store->leases : &loader->named};
    int rc = read_file(loader, disk);
    if (rc == 0) {
        rc = give_out(loader, info, tail);
    }
    if (rc == 0 && store != NULL) {
        store->feature_level = loader->header.feature_level;
        rc = store->durable != NULL ? durable_seal(store, &loader->header.stamp, loader->why) : 0;
        store_publish(store, &loader->header.stamp);
    }
    buffer_fini(&loader->chunk);
    buffer_fini(&loader->tail);
    image_keys_fini(&loader->keys);
    leases_fini(&loader->named);
    return rc;
}

int kv_image_check(struct disk *disk, const char *path, struct kv_image_info *info,
                   struct blob **tail, struct reason *why) {
    struct loader loader = {.path = path, .known = FEATURE_LEVEL, .why = why};
    set_none(tail);
    return load(&loader, disk, info, tail);
}

int kv_image_header(struct disk *disk, const char *path, uint32_t feature_level,
                    struct kv_image_info *info, struct reason *why) {
    struct loader loader = {.path = path, .known = feature_level, .why = why};
    int rc = disk_open(disk, path, DISK_READ, &loader.file);
    if (rc != 0) {
        return failed(&loader, rc);
    }
    rc = disk_size(loader.file, &loader.size);
    rc = rc == 0 ? read_header(&loader) : failed(&loader, rc);
    disk_close(loader.file);
    return rc == 0 ? give_out(&loader, info, NULL) : rc;
}

int kv_image_prefix(struct disk *disk, const char *path, const atomic_bool *cancel, uint64_t *size,
                    struct reason *why) {
    struct reason found = {{0}}; /* that the rest is missing is no news */
    struct loader loader = {.path = path, .known = UINT32_MAX, .cancel = cancel, .why = &found};
    *size = 0;
    int rc = disk_open(disk, path, DISK_READ, &loader.file);
    if (rc != 0) {
        return failed(&(struct loader){.path = path, .why = why}, rc);
    }
    rc = disk_size(loader.file, &loader.size);
    rc = rc == 0 ? read_header(&loader) : rc;
    struct image_chunk chunk = {.section = 0};
    while (rc == 0 && chunk.section != IMAGE_END) {
        *size = loader.next;
        rc = canceled(&loader) ? LKV_ECANCELED : read_chunk(&loader, &chunk);
        loader.end.chunks++;
    }
    disk_close(loader.file);
    buffer_fini(&loader.chunk);
    return rc == 0 || rc == LKV_EDAMAGED || rc == LKV_EVERSION
               ? 0
               : failed(&(struct loader){.path = path, .why = why}, rc);
}

int kv_image_load(struct kv **out, const struct kv_options *options, struct disk *disk,
                  const char *path, const atomic_bool *cancel, struct kv_image_info *info,
                  struct blob **tail, struct reason *why) {
    set_none(tail);
    int rc = kv_open_fresh(out, options, true);
    if (rc != 0) {
        return reason_set(why, rc, "%s: %s", path, error_text(rc));
    }
    struct loader loader = {.path = path,
                            .store = (*out)->store,
                            .known = (*out)->feature_level,
                            .cancel = cancel,
                            .why = why};
    rc = load(&loader, disk, info, tail);
    if (rc != 0) {
        kv_close(*out);
        *out = NULL;
    }
    return rc;
}
