#include "log/format.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/cursor.h"

enum { CRC_SIZE = 4, VOTE_END_UNKNOWN = 1 };

static const char segment_magic[8] = "lkv-seg\n";
static const char vote_magic[8] = "lkv-vot\n";

struct log_mark_value log_mark_newer(struct log_mark_value a, struct log_mark_value b) {
    if (a.segment != b.segment) {
        return a.segment > b.segment ? a : b;
    }
    return a.index >= b.index ? a : b;
}

static void write_place(struct writer *writer, const struct segment_place *place) {
    write_u64(writer, place->number);
    write_u64(writer, place->first);
    write_u64(writer, place->prev_term);
}

static struct segment_place read_place(struct reader *reader) {
    /* One statement each: an initialiser list has no order of evaluation. */
    struct segment_place place;
    place.number = read_u64(reader);
    place.first = read_u64(reader);
    place.prev_term = read_u64(reader);
    return place;
}

/* Both blocks begin and end alike in every version: magic, version, ..., checksum of what comes
 * before it. So a newer version is recognised for certain, and a flipped bit is never taken for
 * one (S18). */
static struct writer block_begin(uint8_t *block, const char *magic) {
    memset(block, 0, LOG_BLOCK);
    struct writer writer = writer_of(block, LOG_HEADER_SIZE - CRC_SIZE);
    write_bytes(&writer, slice_of(magic, sizeof(segment_magic)));
    write_u32(&writer, LOG_FORMAT_VERSION);
    write_u32(&writer, LOG_BLOCK);
    return writer;
}

static void block_end(const struct writer *writer, uint8_t *block) {
    ASSERT(!writer->failed);
    struct writer tail = writer_of(block + LOG_HEADER_SIZE - CRC_SIZE, CRC_SIZE);
    write_u32(&tail, crc32c(0, slice_of(block, LOG_HEADER_SIZE - CRC_SIZE)));
}

static int block_open(struct slice block, const char *magic, struct reader *reader,
                      struct reason *why) {
    if (block.size < LOG_HEADER_SIZE) {
        return reason_set(why, LKV_EDAMAGED, "expected %d bytes, found %zu", LOG_HEADER_SIZE,
                          block.size);
    }
    struct reader tail = reader_of(slice_of(block.data + LOG_HEADER_SIZE - CRC_SIZE, CRC_SIZE));
    uint32_t stored = read_u32(&tail);
    uint32_t crc = crc32c(0, slice_of(block.data, LOG_HEADER_SIZE - CRC_SIZE));
    if (memcmp(block.data, magic, sizeof(segment_magic)) != 0) {
        return reason_set(why, LKV_EDAMAGED, "expected \"%.7s\", found other bytes", magic);
    }
    if (stored != crc) {
        return reason_set(why, LKV_EDAMAGED, "expected crc %08x, found %08x", crc, stored);
    }
    *reader = reader_of(slice_of(block.data, LOG_HEADER_SIZE - CRC_SIZE));
    (void)read_bytes(reader, sizeof(segment_magic));
    uint32_t version = read_u32(reader);
    uint32_t size = read_u32(reader);
    if (version != LOG_FORMAT_VERSION) {
        return reason_set(why, LKV_EVERSION, "format version %u, this program knows up to %d",
                          version, LOG_FORMAT_VERSION);
    }
    if (size != LOG_BLOCK) {
        return reason_set(why, LKV_EDAMAGED, "expected block size %d, found %u", LOG_BLOCK, size);
    }
    return 0;
}

void segment_header_encode(const struct segment_header *header, uint8_t *block) {
    struct writer writer = block_begin(block, segment_magic);
    write_u64(&writer, header->identity.cluster_id);
    write_u64(&writer, header->identity.group_id);
    write_u64(&writer, header->number);
    write_u64(&writer, header->first);
    write_u64(&writer, header->prev_term);
    write_u64(&writer, header->mark_index);
    write_u64(&writer, header->mark_term);
    write_u64(&writer, header->capacity);
    write_u64(&writer, header->zeroed); /* one byte, then seven reserved zeros */
    for (size_t i = 0; i < SEGMENT_BEFORE; i++) {
        write_place(&writer, &header->before[i]);
    }
    block_end(&writer, block);
}

int segment_header_decode(struct slice block, struct segment_header *header, struct reason *why) {
    struct reader reader;
    int rc = block_open(block, segment_magic, &reader, why);
    if (rc != 0) {
        return rc;
    }
    /* One statement each: an initialiser list has no order of evaluation. */
    header->identity.cluster_id = read_u64(&reader);
    header->identity.group_id = read_u64(&reader);
    header->number = read_u64(&reader);
    header->first = read_u64(&reader);
    header->prev_term = read_u64(&reader);
    header->mark_index = read_u64(&reader);
    header->mark_term = read_u64(&reader);
    header->capacity = read_u64(&reader);
    header->zeroed = (read_u64(&reader) & 0xff) != 0;
    for (size_t i = 0; i < SEGMENT_BEFORE; i++) {
        header->before[i] = read_place(&reader);
    }
    /* A segment is only begun when everything before it is durable, and says so. */
    if (header->first == 0 || header->mark_index != header->first - 1 ||
        header->mark_term != header->prev_term) {
        return reason_set(why, LKV_EDAMAGED, "first index %llu with a mark at %llu",
                          (unsigned long long)header->first,
                          (unsigned long long)header->mark_index);
    }
    return 0;
}

/* The checksum covers where the record lies as well (rule 6, S7): a whole valid record in the wrong
 * place, or an old one in a recycled file (S8), is no record. */
static uint32_t record_crc(const uint8_t *bytes, const struct log_identity *identity,
                           uint64_t segment, uint64_t offset) {
    uint8_t place[32];
    struct writer writer = writer_of(place, sizeof(place));
    write_u64(&writer, identity->cluster_id);
    write_u64(&writer, identity->group_id);
    write_u64(&writer, segment);
    write_u64(&writer, offset);
    uint32_t crc = crc32c(0, slice_of(place, sizeof(place)));
    return crc32c(crc, slice_of(bytes + 8, LOG_RECORD_HEADER - 8));
}

void record_header_encode(const struct record_header *header, const struct log_identity *identity,
                          uint64_t offset, uint8_t *bytes) {
    struct writer writer = writer_of(bytes, LOG_RECORD_HEADER);
    write_bytes(&writer, slice_of(LOG_RECORD_MAGIC, 4));
    write_u32(&writer, 0);
    write_u32(&writer, header->payload_crc);
    write_u32(&writer, header->length);
    write_u64(&writer, header->index);
    write_u64(&writer, header->term);
    write_u64(&writer, header->prev_term);
    write_u64(&writer, header->segment);
    write_u64(&writer, header->mark_index);
    write_u64(&writer, header->mark_term);
    write_u64(&writer, header->type); /* one byte, then seven reserved zeros */
    ASSERT(!writer.failed && writer.left == 0);
    writer = writer_of(bytes + 4, CRC_SIZE);
    write_u32(&writer, record_crc(bytes, identity, header->segment, offset));
}

bool record_header_decode(const uint8_t *bytes, const struct log_identity *identity,
                          uint64_t segment, uint64_t offset, struct record_header *header) {
    struct reader reader = reader_of(slice_of(bytes, LOG_RECORD_HEADER));
    (void)read_bytes(&reader, 4);
    uint32_t stored = read_u32(&reader);
    if (!record_magic_at(bytes) || stored != record_crc(bytes, identity, segment, offset)) {
        return false;
    }
    /* One statement each: an initialiser list has no order of evaluation. */
    header->payload_crc = read_u32(&reader);
    header->length = read_u32(&reader);
    header->index = read_u64(&reader);
    header->term = read_u64(&reader);
    header->prev_term = read_u64(&reader);
    header->segment = read_u64(&reader);
    header->mark_index = read_u64(&reader);
    header->mark_term = read_u64(&reader);
    header->type = read_u8(&reader);
    return header->segment == segment;
}

void vote_record_encode(const struct vote_record *record, uint8_t *block) {
    struct writer writer = block_begin(block, vote_magic);
    write_u64(&writer, record->identity.cluster_id);
    write_u64(&writer, record->identity.group_id);
    write_u64(&writer, record->sequence);
    write_u64(&writer, record->term);
    write_u64(&writer, record->voted_for);
    write_u64(&writer, record->mark.segment);
    write_u64(&writer, record->mark.index);
    write_u64(&writer, record->mark.term);
    write_u64(&writer, record->segments_reserved);
    write_u32(&writer, record->copy);
    write_u32(&writer, record->end_unknown ? VOTE_END_UNKNOWN : 0);
    write_place(&writer, &record->newest);
    write_place(&writer, &record->before_newest);
    write_u64(&writer, record->life);
    write_u32(&writer, record->promised_ms);
    block_end(&writer, block);
}

int vote_record_decode(struct slice block, struct vote_record *record, struct reason *why) {
    struct reader reader;
    int rc = block_open(block, vote_magic, &reader, why);
    if (rc != 0) {
        return rc;
    }
    /* One statement each: an initialiser list has no order of evaluation. */
    record->identity.cluster_id = read_u64(&reader);
    record->identity.group_id = read_u64(&reader);
    record->sequence = read_u64(&reader);
    record->term = read_u64(&reader);
    record->voted_for = read_u64(&reader);
    record->mark.segment = read_u64(&reader);
    record->mark.index = read_u64(&reader);
    record->mark.term = read_u64(&reader);
    record->segments_reserved = read_u64(&reader);
    record->copy = read_u32(&reader);
    record->end_unknown = (read_u32(&reader) & VOTE_END_UNKNOWN) != 0;
    record->newest = read_place(&reader);
    record->before_newest = read_place(&reader);
    record->life = read_u64(&reader);
    record->promised_ms = read_u32(&reader);
    return 0;
}
