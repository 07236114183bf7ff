/* Log directories made byte by byte: every checksum is right, and what they say is the test's. */
#ifndef TESTS_UNIT_LOG_FORGE_H
#define TESTS_UNIT_LOG_FORGE_H

#include "base/crc.h"
#include "log/recover.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { FORGE_CAPACITY = 4 * LOG_BLOCK, FORGE_PAYLOAD = 40 };

static const struct log_identity forge_identity = {.cluster_id = 0xc1, .group_id = 7};

struct forge {
    uint8_t bytes[FORGE_CAPACITY];
    uint64_t number;
    uint64_t at; /* of the next record */
};

static inline struct segment_place forge_place(uint64_t number, uint64_t first,
                                               uint64_t prev_term) {
    return (struct segment_place){.number = number, .first = first, .prev_term = prev_term};
}

static inline void forge_begin(struct forge *forge, const struct segment_place *place,
                               struct segment_place before, struct segment_place before_that) {
    memset(forge, 0, sizeof(*forge));
    forge->number = place->number;
    forge->at = LOG_BLOCK;
    struct segment_header header = {.identity = forge_identity,
                                    .number = place->number,
                                    .first = place->first,
                                    .prev_term = place->prev_term,
                                    .mark_index = place->first - 1,
                                    .mark_term = place->prev_term,
                                    .capacity = FORGE_CAPACITY,
                                    .zeroed = true,
                                    .before = {before, before_that}};
    segment_header_encode(&header, forge->bytes);
}

/* Returns where it begins. */
static inline uint64_t forge_record(struct forge *forge, uint64_t index, uint64_t term,
                                    uint64_t prev_term, uint8_t type) {
    uint64_t at = forge->at;
    uint8_t *payload = forge->bytes + at + LOG_RECORD_HEADER;
    uint32_t length = type == LOG_TYPE_MARK ? 0 : FORGE_PAYLOAD;
    memset(payload, (int)(index & 0xff), length);
    struct record_header header = {.payload_crc = crc32c(0, slice_of(payload, length)),
                                   .length = length,
                                   .index = index,
                                   .term = term,
                                   .prev_term = prev_term,
                                   .segment = forge->number,
                                   .type = type};
    record_header_encode(&header, &forge_identity, at, forge->bytes + at);
    forge->at += record_size(length);
    return at;
}

/* Entries [first, last], all of `term`; the first follows one of `prev_term`. */
static inline void forge_entries(struct forge *forge, uint64_t first, uint64_t last, uint64_t term,
                                 uint64_t prev_term) {
    for (uint64_t index = first; index <= last; index++) {
        (void)forge_record(forge, index, term, index == first ? prev_term : term, ENTRY_COMMAND);
    }
}

/* The header stays whole, the payload does not. */
static inline void forge_spoil(struct forge *forge, uint64_t at) {
    forge->bytes[at + LOG_RECORD_HEADER] ^= 1;
}

/* No header any more. */
static inline void forge_hole(struct forge *forge, uint64_t at) {
    forge->bytes[at] ^= 1;
}

static inline void forge_write(struct disk *disk, const char *name, struct slice bytes) {
    char path[64];
    struct disk_file *file;
    (void)snprintf(path, sizeof(path), "d/%s", name);
    cr_assert_eq(disk_open(disk, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &file), 0);
    cr_assert_eq(disk_write(file, 0, &bytes, 1), 0);
    disk_close(file);
}

static inline void forge_finish(struct forge *forge, struct disk *disk) {
    char name[LOG_NAME_SIZE];
    segment_name(name, forge->number);
    forge_write(disk, name, slice_of(forge->bytes, FORGE_CAPACITY));
}

/* Both slots. */
static inline void forge_vote(struct disk *disk, struct log_mark_value mark,
                              struct segment_place newest, struct segment_place before_newest) {
    uint8_t slots[2 * LOG_BLOCK];
    for (uint32_t copy = 0; copy < 2; copy++) {
        struct vote_record vote = {.identity = forge_identity,
                                   .sequence = 1,
                                   .copy = copy,
                                   .term = 99,
                                   .mark = mark,
                                   .segments_reserved = 1000,
                                   .newest = newest,
                                   .before_newest = before_newest};
        vote_record_encode(&vote, slots + copy * LOG_BLOCK);
    }
    forge_write(disk, LOG_VOTE_NAME, slice_of(slots, sizeof(slots)));
}

#endif
