/* The bytes on disk, version 1: segment header, record header, vote record (docs/FORMATS.md has the
 * tables). Pure functions between structs and bytes; no I/O, no allocation.
 *
 *   segment file                              vote file
 *   +----------------+ 0                      +----------+ 0
 *   | header (512)   |                        | slot 0   |
 *   | zeros          |                        | zeros    |
 *   +----------------+ LOG_BLOCK = 4096       +----------+ 4096
 *   | record | record | mark | record | ...   | slot 1   |
 *   | bytes of before the segment was used    | zeros    |
 *   +----------------+ capacity               +----------+ 8192
 *
 * A header and each vote slot have a block of their own, so that no later write can tear them.
 * Records start at multiples of 8, so that a scan finds the next one behind a hole.
 */
#ifndef LOG_FORMAT_H
#define LOG_FORMAT_H

#include "base/entry.h"
#include "base/error.h"

enum {
    LOG_FORMAT_VERSION = 1,
    LOG_BLOCK = 4096,       /* what a header or a vote slot occupies */
    LOG_HEADER_SIZE = 512,  /* what of it is under the checksum */
    LOG_RECORD_HEADER = 72, /* before the payload of every record */
    LOG_ALIGN = 8
};

/* Whose bytes these are: under every record's checksum, so that a record of another cluster, group
 * or segment never reads as ours (S7, S8). */
struct log_identity {
    uint64_t cluster_id;
    uint64_t group_id;
};

/* Rule 8: everything through (index, term) is on disk, said while `segment` was the newest. */
struct log_mark_value {
    uint64_t segment;
    uint64_t index;
    uint64_t term;
};

/* The newer of two marks: highest segment wins, then highest index (rule 8). */
struct log_mark_value log_mark_newer(struct log_mark_value a, struct log_mark_value b);

/* Where a segment stands in the log. */
struct segment_place {
    uint64_t number;
    uint64_t first;     /* index of the first record, present or to come */
    uint64_t prev_term; /* term of first - 1 */
};

enum { SEGMENT_BEFORE = 2 };

struct segment_header {
    struct log_identity identity;
    uint64_t number;
    uint64_t first;     /* index of the first record, present or to come */
    uint64_t prev_term; /* term of first - 1 */
    uint64_t mark_index, mark_term;
    uint64_t capacity; /* size of the file */
    bool zeroed;       /* zero-filled before use, not recycled: what is behind the end is zeros */
    /* Rule 11: the segment that holds entry first - 1, and the one before that, as their own headers
     * say it; number 0: none does. What a lost header said is thereby known from its successor, and
     * so is that a whole file is missing. */
    struct segment_place before[SEGMENT_BEFORE];
};

/* Writes LOG_BLOCK bytes. */
void segment_header_encode(const struct segment_header *header, uint8_t *block);

/* Decodes LOG_HEADER_SIZE bytes. LKV_EDAMAGED: no header; LKV_EVERSION: of a newer program. `why`
 * gets what was expected and what came, without the file's name. */
MUST_USE int segment_header_decode(struct slice block, struct segment_header *header,
                                   struct reason *why);

#define LOG_RECORD_MAGIC "lRec"

enum { LOG_TYPE_MARK = 0x80 }; /* of the log itself, beside enum entry_type */

struct record_header {
    uint32_t payload_crc;
    uint32_t length; /* of the payload */
    uint64_t index;  /* of a mark record: the last index before it */
    uint64_t term;
    uint64_t prev_term; /* rule 6; 0 in a mark record */
    uint64_t segment;
    uint64_t mark_index, mark_term; /* rule 8: made in `segment` */
    uint8_t type;                   /* enum entry_type or LOG_TYPE_MARK */
};

/* Writes LOG_RECORD_HEADER bytes for a record that starts at `offset` of its segment file. */
void record_header_encode(const struct record_header *header, const struct log_identity *identity,
                          uint64_t offset, uint8_t *bytes);

/* False unless the LOG_RECORD_HEADER bytes are a header of `identity`, `segment` and `offset`. */
bool record_header_decode(const uint8_t *bytes, const struct log_identity *identity,
                          uint64_t segment, uint64_t offset, struct record_header *header);

/* A cheap first look, for walking over millions of places: could a record header start here? */
static inline bool record_magic_at(const uint8_t *bytes) {
    return memcmp(bytes, LOG_RECORD_MAGIC, 4) == 0;
}

/* Header, payload and padding. */
static inline uint64_t record_size(uint64_t payload) {
    return (LOG_RECORD_HEADER + payload + LOG_ALIGN - 1) / LOG_ALIGN * LOG_ALIGN;
}

struct vote_record {
    struct log_identity identity;
    uint64_t sequence; /* of the save; the higher of two valid slots counts */
    uint32_t copy;     /* 0: written first in its save, 1: written second */
    uint64_t term, voted_for;
    uint32_t promised_ms; /* as in struct log_vote */
    struct log_mark_value mark;
    uint64_t segments_reserved; /* rule 6: no segment number above it was ever written */
    bool end_unknown;           /* rule 11: more may have been durable than can be known */
    uint64_t life;              /* the owner's: log_note_life */
    /* The mark's segment and the one before it, as in its header; number 0: not known. */
    struct segment_place newest, before_newest;
};

void vote_record_encode(const struct vote_record *record, uint8_t *block); /* LOG_BLOCK bytes */
MUST_USE int vote_record_decode(struct slice block, struct vote_record *record, struct reason *why);

#endif
