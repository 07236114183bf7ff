/* Writing a view as an image. Memory: one chunk, whatever the state's size. */
#include "base/assert.h"
#include "base/mem.h"
#include "kv/image.h"
#include "kv/view.h"

/* How much may be written before a sync. One sync of everything at the end would make the log's own
 * syncs, on the same disk, wait for all of it. */
enum { SYNC_BYTES = 8 * 1024 * 1024 };

struct saver {
    struct kv_view *view;
    struct disk_file *file;
    const atomic_bool *cancel;
    struct image_header header;
    struct image_end end; /* counts as it goes */
    uint64_t offset;      /* where the next chunk starts */
    uint64_t synced;
    struct buffer chunk;             /* records that are not written yet */
    struct image_record_open record; /* the last one of the chunk, if there is one */
    struct kv_version *last;         /* owned reference: that the last record has; NULL: none yet */
};

static int write_parts(struct saver *saver, const struct slice *parts, size_t count) {
    int rc = disk_write(saver->file, saver->offset, parts, count);
    if (rc != 0) {
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        saver->offset += parts[i].size;
    }
    if (saver->offset - saver->synced >= SYNC_BYTES) {
        saver->synced = saver->offset;
        return disk_sync(saver->file);
    }
    return 0;
}

static int write_chunk(struct saver *saver, enum image_section section, struct slice payload) {
    if (saver->end.chunks == UINT32_MAX) {
        return LKV_ETOOLARGE;
    }
    struct image_chunk chunk = {.section = section, .number = (uint32_t)saver->end.chunks};
    uint8_t head[IMAGE_CHUNK_HEADER_SIZE];
    image_put_chunk(head, &chunk, &saver->header, payload);
    const struct slice parts[] = {slice_of(head, sizeof(head)), payload};
    saver->end.chunks++;
    return write_parts(saver, parts, payload.size > 0 ? 2 : 1);
}

static int write_header(struct saver *saver, struct kv_owner owner) {
    const struct kv_view *view = saver->view;
    saver->header = (struct image_header){.feature_level = view->feature_level,
                                          .cluster_id = owner.cluster_id,
                                          .group_id = owner.group_id,
                                          .stamp = view->stamp,
                                          .keys = view->keys,
                                          .bytes = view->bytes};
    uint8_t bytes[IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE];
    image_put_header(bytes, &saver->header);
    const struct slice part = slice_of(bytes, sizeof(bytes));
    return write_parts(saver, &part, 1);
}

static int write_tail(struct saver *saver, struct slice tail) {
    while (tail.size > 0) {
        size_t size = tail.size < IMAGE_CHUNK_FULL ? tail.size : IMAGE_CHUNK_FULL;
        int rc = write_chunk(saver, IMAGE_NODE, slice_of(tail.data, size));
        if (rc != 0) {
            return rc;
        }
        tail = slice_of(tail.data + size, tail.size - size);
    }
    return 0;
}

static int flush_records(struct saver *saver, enum image_section section) {
    if (saver->chunk.size == 0) {
        return 0;
    }
    int rc = write_chunk(saver, section, buffer_slice(&saver->chunk));
    buffer_clear(&saver->chunk);
    return rc;
}

static struct image_version described(const struct kv_version *version) {
    return (struct image_version){.item = {.key = version_key(version),
                                           .value = version_value(version),
                                           .create_rev = version->create_rev,
                                           .mod_rev = version->main,
                                           .version = version->version,
                                           .lease = version_lease(version)},
                                  .sub = version_sub(version),
                                  .kind = version_is_tombstone(version) ? IMAGE_TOMBSTONE
                                                                        : IMAGE_VALUE};
}

static void count_key(struct saver *saver, const struct image_version *newest) {
    if (newest->kind == IMAGE_VALUE) {
        saver->end.keys++;
        saver->end.bytes += newest->item.key.size + newest->item.value.size;
        saver->end.digest += digest_of(&newest->item);
    }
}

/* Goes on with the last record, if it is this key's and its chunk is not full: how records are cut depends
 * on nothing but the state. Takes the reference. */
static int add_version(struct saver *saver, struct kv_version *version) {
    const struct image_version described_version = described(version);
    struct slice key = version_key(version);
    bool same_key = saver->last != NULL && slice_equal(version_key(saver->last), key);
    if (!same_key) {
        count_key(saver, &described_version);
    }
    if (!same_key || saver->chunk.size == 0) {
        image_put_record(&saver->chunk, &saver->record, key);
    }
    if (!saver->chunk.failed) {
        image_put_version(&saver->chunk, &saver->record, &described_version);
    }
    if (saver->last != NULL) {
        version_unref(saver->last);
    }
    saver->last = version;
    saver->end.versions++;
    if (saver->chunk.failed) {
        return LKV_ENOMEM;
    }
    return saver->chunk.size >= IMAGE_CHUNK_FULL ? flush_records(saver, IMAGE_KEYS) : 0;
}

static bool canceled(const struct saver *saver) {
    return saver->cancel != NULL && atomic_load_explicit(saver->cancel, memory_order_relaxed);
}

static int write_keys(struct saver *saver) {
    struct walk walk;
    walk_init_pinned(&walk, saver->view->kv, saver->view->store, &saver->view->stamp);
    walk.scan.snapshot = saver->view->pin.snapshot;
    int rc = 0;
    while (rc == 0 && !walk.ended) {
        struct kv_version *versions[WALK_KEYS];
        size_t count = walk_next_kept(&walk, versions, WALK_KEYS);
        for (size_t i = 0; i < count; i++) {
            if (rc == 0) {
                rc = add_version(saver, versions[i]);
            } else {
                version_unref(versions[i]);
            }
        }
        if (rc == 0 && canceled(saver)) {
            rc = LKV_ECANCELED;
        }
    }
    rc = rc == 0 ? walk.rc : rc;
    walk_fini(&walk);
    if (saver->last != NULL) {
        version_unref(saver->last);
        saver->last = NULL;
    }
    return rc == 0 ? flush_records(saver, IMAGE_KEYS) : rc;
}

/* Frozen when the view was opened (rule 24). */
static int write_sessions(struct saver *saver) {
    const struct sessions *sessions = &saver->view->sessions;
    for (size_t i = 0; i < sessions->count; i++) {
        const struct session *session = sessions->slots[i].session;
        uint64_t digest;
        int rc = session_digest(session, &digest);
        session_put(&saver->chunk, session);
        if (rc != 0 || saver->chunk.failed) {
            return LKV_ENOMEM;
        }
        saver->end.digest += digest;
        if (saver->chunk.size >= IMAGE_CHUNK_FULL) {
            rc = flush_records(saver, IMAGE_SESSIONS);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return flush_records(saver, IMAGE_SESSIONS);
}

static int write_leases(struct saver *saver) {
    const struct lease_list *leases = &saver->view->leases;
    for (size_t i = 0; i < leases->count; i++) {
        lease_put(&saver->chunk, &leases->items[i]);
        saver->end.digest += lease_digest(&leases->items[i]);
        bool full = saver->chunk.size >= IMAGE_CHUNK_FULL;
        int rc = saver->chunk.failed ? LKV_ENOMEM : full ? flush_records(saver, IMAGE_LEASES) : 0;
        if (rc != 0) {
            return rc;
        }
    }
    return flush_records(saver, IMAGE_LEASES);
}

static int write_end(struct saver *saver) {
    ASSERT(saver->end.keys == saver->header.keys);
    ASSERT(saver->end.bytes == saver->header.bytes);
    saver->end.file_size = saver->offset + IMAGE_CHUNK_HEADER_SIZE + IMAGE_END_SIZE;
    uint8_t bytes[IMAGE_END_SIZE];
    image_put_end(bytes, &saver->end);
    return write_chunk(saver, IMAGE_END, slice_of(bytes, sizeof(bytes)));
}

static int write_all(struct saver *saver, struct kv_owner owner, struct slice tail) {
    int rc = write_header(saver, owner);
    if (rc == 0) {
        rc = write_tail(saver, tail);
    }
    if (rc == 0) {
        rc = write_keys(saver);
    }
    if (rc == 0) {
        rc = write_sessions(saver);
    }
    if (rc == 0) {
        rc = write_leases(saver);
    }
    if (rc == 0) {
        rc = write_end(saver);
    }
    /* Rule 10: after a failed sync nothing written here counts, and the file goes. */
    return rc == 0 ? disk_sync(saver->file) : rc;
}

/* Complete and synced under a temporary name; only then the real name, and then the folder. */
static int save_as(struct saver *saver, struct disk *disk, const char *dir, const char *path,
                   const char *temporary, struct kv_owner owner, struct slice tail) {
    int rc = disk_open(disk, temporary, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &saver->file);
    if (rc != 0) {
        return rc;
    }
    rc = write_all(saver, owner, tail);
    disk_close(saver->file);
    if (rc == 0) {
        rc = disk_rename(disk, temporary, path);
    }
    if (rc != 0) {
        int removed = disk_remove(disk, temporary); /* if it stays, the next save truncates it */
        (void)removed;
        return rc;
    }
    return disk_sync_dir(disk, dir);
}

int kv_image_save(struct kv_view *view, struct disk *disk, const char *dir, const char *path,
                  struct kv_owner owner, struct slice tail, const atomic_bool *cancel,
                  struct kv_image_info *info, struct reason *why) {
    if (tail.size > IMAGE_TAIL_MAX) {
        return reason_set(why, LKV_ETOOLARGE, "%s: the node's section has %zu bytes, at most %d",
                          path, tail.size, IMAGE_TAIL_MAX);
    }
    struct buffer temporary;
    buffer_init(&temporary);
    buffer_printf(&temporary, "%s.tmp", path);
    struct saver saver = {.view = view, .cancel = cancel};
    int rc = LKV_ENOMEM;
    if (!temporary.failed) {
        rc = save_as(&saver, disk, dir, path, (const char *)temporary.data, owner, tail);
    }
    buffer_fini(&saver.chunk);
    buffer_fini(&temporary);
    if (rc != 0) {
        return reason_set(why, rc, "%s: image not saved: %s", path, error_text(rc));
    }
    if (info != NULL) {
        *info = (struct kv_image_info){.stamp = view->stamp,
                                       .keys = saver.end.keys,
                                       .bytes = saver.offset,
                                       .digest = saver.end.digest,
                                       .cluster_id = owner.cluster_id,
                                       .group_id = owner.group_id,
                                       .feature_level = view->feature_level};
    }
    return 0;
}
