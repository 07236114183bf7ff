/* The image file, version 1: layout, and its pieces as bytes. docs/formats/image.md is its table.
 *
 *      prefix | header | chunk ... chunk | end chunk, and nothing behind it
 *
 * Every byte is under a CRC32C. A chunk's starts from the header's, so a chunk of another image does
 * not fit; its number fixes its place. Nothing depends on the hash table, on pointers or on this
 * machine: equal states give equal files. */
#ifndef KV_IMAGE_H
#define KV_IMAGE_H

#include "base/buffer.h"
#include "base/cursor.h"
#include "kv/command.h"
#include "kv/digest.h"
#include "kv/kv.h"

enum {
    IMAGE_VERSION = 1,
    IMAGE_PREFIX_SIZE = 16,
    IMAGE_HEADER_SIZE = 72, /* behind the prefix */
    IMAGE_CHUNK_HEADER_SIZE = 16,
    IMAGE_END_SIZE = 48,
    IMAGE_CHUNK_FULL = 256 * 1024,                                /* no record is added behind it */
    IMAGE_CHUNK_MAX = IMAGE_CHUNK_FULL + KV_COMMAND_SIZE_MAX * 2, /* refused beyond */
    IMAGE_TAIL_MAX = 16 * 1024 * 1024
};

/* Sections come in ascending order. Numbers never change meaning; reserved: auth 5, alarms 6. A reader passes over what it does not know from IMAGE_OPTIONAL on, and refuses the rest. */
enum image_section {
    IMAGE_NODE = 1,
    IMAGE_KEYS = 2,
    IMAGE_SESSIONS = 3,
    IMAGE_LEASES = 4, /* from KV_LEVEL_HISTORY on */
    IMAGE_OPTIONAL = 0x40000000,
    IMAGE_END = 0x7fffffff
};

struct image_header {
    uint32_t feature_level;
    uint64_t cluster_id, group_id;
    struct kv_stamp
        stamp; /* below KV_LEVEL_HISTORY, kept_from is revision + 1 and not in the file */
    uint64_t keys, bytes; /* logical */
    uint32_t crc;         /* of prefix and header; the start of every chunk's */
};

struct image_chunk {
    uint32_t section, number, size, crc;
};

struct image_end {
    uint64_t chunks; /* before this one */
    uint64_t keys, versions, bytes, digest;
    uint64_t file_size;
};

/* Kinds of versions in a record. */
enum image_kind { IMAGE_VALUE = 1, IMAGE_TOMBSTONE = 2 };

/* One version of a record. */
struct image_version {
    struct digest_item item; /* key: of the record; a tombstone has nothing but mod_rev */
    uint32_t sub;
    enum image_kind kind;
};

void image_put_header(uint8_t into[IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE],
                      struct image_header *header); /* sets header->crc */
/* LKV_EDAMAGED; LKV_EVERSION, also for a feature level above `known`. `why` gets the text without the
 * file's name. `bytes` may be short. */
MUST_USE int image_get_header(struct slice bytes, uint32_t known, struct image_header *header,
                              struct reason *why);

void image_put_chunk(uint8_t into[IMAGE_CHUNK_HEADER_SIZE], struct image_chunk *chunk,
                     const struct image_header *header, struct slice payload);
void image_get_chunk(const uint8_t from[IMAGE_CHUNK_HEADER_SIZE], struct image_chunk *chunk);
uint32_t image_chunk_crc(const struct image_chunk *chunk, const struct image_header *header,
                         struct slice payload);

void image_put_end(uint8_t into[IMAGE_END_SIZE], const struct image_end *end);
void image_get_end(const uint8_t from[IMAGE_END_SIZE], struct image_end *end);

/* A record that is being written, at the end of a buffer: a key, then versions of it. */
struct image_record_open {
    size_t at; /* offset of the record */
    uint32_t versions;
};

void image_put_record(struct buffer *into, struct image_record_open *record, struct slice key);
void image_put_version(struct buffer *into, struct image_record_open *record,
                       const struct image_version *version);

/* A record's head, and then as many versions as it says. False: malformed. Slices borrow from the source. */
bool image_get_record(struct reader *reader, struct slice *key, uint32_t *versions);
bool image_get_version(struct reader *reader, struct slice key, struct image_version *version);

#endif
