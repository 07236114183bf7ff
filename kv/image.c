#include "kv/image.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/feature.h"

static const uint8_t magic[8] = {'L', 'K', 'V', 'I', 'M', 'A', 'G', 'E'};

/* ---------------------------------------------------------------------------- header */

void image_put_header(uint8_t into[IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE],
                      struct image_header *header) {
    struct writer writer = writer_of(into, IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE);
    write_bytes(&writer, slice_of(magic, sizeof(magic)));
    write_u32(&writer, IMAGE_VERSION);
    write_u32(&writer, crc32c(0, slice_of(into, IMAGE_PREFIX_SIZE - sizeof(uint32_t))));
    write_u32(&writer, header->feature_level);
    write_u64(&writer, header->cluster_id);
    write_u64(&writer, header->stamp.index);
    write_u64(&writer, header->stamp.term);
    write_u64(&writer, header->stamp.revision);
    write_u64(&writer, header->feature_level >= KV_LEVEL_HISTORY ? header->stamp.kept_from
                                                                 : header->stamp.revision);
    write_u64(&writer, header->keys);
    write_u64(&writer, header->bytes);
    write_u64(&writer, header->group_id);
    header->crc =
        crc32c(0, slice_of(into, IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE - sizeof(uint32_t)));
    write_u32(&writer, header->crc);
    ASSERT(!writer.failed && writer.left == 0);
}

/* The prefix is the part that never changes: a newer version is told from damage by it. */
static int get_prefix(struct slice bytes, struct reason *why) {
    struct reader reader = reader_of(bytes);
    struct slice start = read_bytes(&reader, sizeof(magic));
    uint32_t version = read_u32(&reader);
    uint32_t crc = read_u32(&reader);
    if (reader.failed || !slice_equal(start, slice_of(magic, sizeof(magic)))) {
        return reason_set(why, LKV_EDAMAGED, "not an image");
    }
    if (crc != crc32c(0, slice_of(bytes.data, IMAGE_PREFIX_SIZE - sizeof(uint32_t)))) {
        return reason_set(why, LKV_EDAMAGED, "checksum of the prefix is wrong");
    }
    if (version != IMAGE_VERSION) {
        return reason_set(why, LKV_EVERSION, "image version %u, this program reads %d", version,
                          IMAGE_VERSION);
    }
    return 0;
}

static int check_header(const struct image_header *header, uint32_t known, struct reason *why) {
    if (header->feature_level > known) {
        return reason_set(why, LKV_EVERSION, "image of feature level %u, this program knows %u",
                          header->feature_level, known);
    }
    const struct kv_stamp *stamp = &header->stamp;
    bool possible = header->feature_level >= KV_LEVEL_HISTORY
                        ? stamp->kept_from > 0 && stamp->kept_from - 1 <= stamp->revision
                        : stamp->kept_from == stamp->revision;
    if (!possible || header->feature_level < FEATURE_LEVEL_FIRST || stamp->revision == 0) {
        return reason_set(why, LKV_EDAMAGED, "impossible revision or level in the header");
    }
    return 0;
}

int image_get_header(struct slice bytes, uint32_t known, struct image_header *header,
                     struct reason *why) {
    int rc = get_prefix(bytes, why);
    if (rc != 0) {
        return rc;
    }
    struct reader reader = reader_of(bytes);
    (void)read_bytes(&reader, IMAGE_PREFIX_SIZE);
    header->feature_level = read_u32(&reader);
    header->cluster_id = read_u64(&reader);
    header->stamp.index = read_u64(&reader);
    header->stamp.term = read_u64(&reader);
    header->stamp.revision = read_u64(&reader);
    header->stamp.kept_from = read_u64(&reader);
    header->keys = read_u64(&reader);
    header->bytes = read_u64(&reader);
    header->group_id = read_u64(&reader);
    header->crc = read_u32(&reader);
    if (reader.failed) {
        return reason_set(why, LKV_EDAMAGED, "cut off in the header");
    }
    size_t covered = IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE - sizeof(uint32_t);
    if (header->crc != crc32c(0, slice_of(bytes.data, covered))) {
        return reason_set(why, LKV_EDAMAGED, "checksum of the header is wrong");
    }
    rc = check_header(header, known, why);
    if (rc == 0 && header->feature_level < KV_LEVEL_HISTORY) {
        header->stamp.kept_from = header->stamp.revision + 1;
    }
    return rc;
}

/* ---------------------------------------------------------------------------- chunks */

static void put_chunk_fields(struct writer *writer, const struct image_chunk *chunk) {
    write_u32(writer, chunk->section);
    write_u32(writer, chunk->number);
    write_u32(writer, chunk->size);
}

uint32_t image_chunk_crc(const struct image_chunk *chunk, const struct image_header *header,
                         struct slice payload) {
    uint8_t fields[IMAGE_CHUNK_HEADER_SIZE - sizeof(uint32_t)];
    struct writer writer = writer_of(fields, sizeof(fields));
    put_chunk_fields(&writer, chunk);
    return crc32c(crc32c(header->crc, slice_of(fields, sizeof(fields))), payload);
}

void image_put_chunk(uint8_t into[IMAGE_CHUNK_HEADER_SIZE], struct image_chunk *chunk,
                     const struct image_header *header, struct slice payload) {
    chunk->size = (uint32_t)payload.size;
    chunk->crc = image_chunk_crc(chunk, header, payload);
    struct writer writer = writer_of(into, IMAGE_CHUNK_HEADER_SIZE);
    put_chunk_fields(&writer, chunk);
    write_u32(&writer, chunk->crc);
    ASSERT(!writer.failed && writer.left == 0);
}

void image_get_chunk(const uint8_t from[IMAGE_CHUNK_HEADER_SIZE], struct image_chunk *chunk) {
    struct reader reader = reader_of(slice_of(from, IMAGE_CHUNK_HEADER_SIZE));
    chunk->section = read_u32(&reader);
    chunk->number = read_u32(&reader);
    chunk->size = read_u32(&reader);
    chunk->crc = read_u32(&reader);
}

void image_put_end(uint8_t into[IMAGE_END_SIZE], const struct image_end *end) {
    struct writer writer = writer_of(into, IMAGE_END_SIZE);
    write_u64(&writer, end->chunks);
    write_u64(&writer, end->keys);
    write_u64(&writer, end->versions);
    write_u64(&writer, end->bytes);
    write_u64(&writer, end->digest);
    write_u64(&writer, end->file_size);
    ASSERT(!writer.failed && writer.left == 0);
}

void image_get_end(const uint8_t from[IMAGE_END_SIZE], struct image_end *end) {
    struct reader reader = reader_of(slice_of(from, IMAGE_END_SIZE));
    end->chunks = read_u64(&reader);
    end->keys = read_u64(&reader);
    end->versions = read_u64(&reader);
    end->bytes = read_u64(&reader);
    end->digest = read_u64(&reader);
    end->file_size = read_u64(&reader);
}

/* ---------------------------------------------------------------------------- records */

enum {
    RECORD_SIZE = 2 + 4,                     /* key size, number of versions; then the key */
    VERSION_SIZE = 8 + 4 + 1 + 8 + 8 + 8 + 4 /* main, sub, kind, create, version, lease, size */
};

void image_put_record(struct buffer *into, struct image_record_open *record, struct slice key) {
    *record = (struct image_record_open){.at = into->size};
    size_t size = RECORD_SIZE + key.size;
    uint8_t *at = buffer_reserve(into, size);
    if (at == NULL) {
        return; /* the buffer remembers */
    }
    struct writer writer = writer_of(at, size);
    write_u16(&writer, (uint16_t)key.size);
    write_u32(&writer, 0); /* counted as they come */
    write_bytes(&writer, key);
    ASSERT(!writer.failed && writer.left == 0);
    buffer_commit(into, size);
}

void image_put_version(struct buffer *into, struct image_record_open *record,
                       const struct image_version *version) {
    const struct digest_item *item = &version->item;
    size_t size = VERSION_SIZE + item->value.size;
    uint8_t *at = buffer_reserve(into, size);
    if (at == NULL) {
        return;
    }
    struct writer writer = writer_of(at, size);
    write_u64(&writer, item->mod_rev);
    write_u32(&writer, version->sub);
    write_u8(&writer, (uint8_t)version->kind);
    write_u64(&writer, item->create_rev);
    write_u64(&writer, item->version);
    write_u64(&writer, (uint64_t)item->lease);
    write_u32(&writer, (uint32_t)item->value.size);
    write_bytes(&writer, item->value);
    ASSERT(!writer.failed && writer.left == 0);
    buffer_commit(into, size);
    writer = writer_of(into->data + record->at + sizeof(uint16_t), sizeof(uint32_t));
    write_u32(&writer, ++record->versions);
}

bool image_get_record(struct reader *reader, struct slice *key, uint32_t *versions) {
    size_t key_size = read_u16(reader);
    *versions = read_u32(reader);
    *key = read_bytes(reader, key_size);
    return !reader->failed && *versions > 0 && key_size > 0 && key_size <= KV_KEY_SIZE_MAX;
}

static bool is_value(const struct digest_item *item) {
    return item->value.size <= KV_COMMAND_SIZE_MAX && item->create_rev > 1 &&
           item->create_rev <= item->mod_rev && item->version > 0 && item->lease >= 0 &&
           (item->version == 1) == (item->create_rev == item->mod_rev);
}

static bool is_tombstone(const struct digest_item *item) {
    return item->value.size == 0 && item->create_rev == 0 && item->mod_rev > 1 &&
           item->version == 0 && item->lease == 0;
}

bool image_get_version(struct reader *reader, struct slice key, struct image_version *version) {
    struct digest_item *item = &version->item;
    item->key = key;
    item->mod_rev = read_u64(reader);
    version->sub = read_u32(reader);
    uint8_t kind = read_u8(reader);
    version->kind = (enum image_kind)kind;
    item->create_rev = read_u64(reader);
    item->version = read_u64(reader);
    item->lease = (int64_t)read_u64(reader);
    item->value = read_bytes(reader, read_u32(reader));
    return !reader->failed && ((kind == IMAGE_VALUE && is_value(item)) ||
                               (kind == IMAGE_TOMBSTONE && is_tombstone(item)));
}
