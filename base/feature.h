/* The feature level of a cluster: what every member's program understands. It rises by a log entry, once
 * all of them have said that they know the next one, and never falls (rule 22). New kinds of entries and
 * commands, and new meanings of old ones, begin at a level: before it nobody proposes them. */
#ifndef BASE_FEATURE_H
#define BASE_FEATURE_H

#include "base/blob.h"
#include "base/error.h"

enum {
    FEATURE_LEVEL_FIRST = 1, /* of every new cluster */
    FEATURE_DIGEST = 2,      /* ENTRY_DIGEST, FRAME_DIGEST */
    FEATURE_PROMISES = 2,    /* of a member alone: rule 30; heartbeats that ask for promises */
    FEATURE_LEVEL = 2        /* the highest that this program knows */
};

/* The payload of an entry that raises it (docs/FORMATS.md). Returns owned with its crc, or NULL when out
 * of memory. */
struct blob *feature_encode(uint32_t level);

/* LKV_EPROTOCOL: malformed; LKV_EVERSION: above `known`, so that this program must not go on. */
MUST_USE int feature_decode(struct slice payload, uint32_t known, uint32_t *level,
                            struct reason *why);

#endif
