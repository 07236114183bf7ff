/* The image of a node whose log is the final state: everything but the records, as of one entry. It is
 * durable before the log up to that entry goes (rule 14), and a node that lacks that part goes on from
 * it. docs/formats/meta-image.md is its table. */
#ifndef LIB_META_IMAGE_H
#define LIB_META_IMAGE_H

#include "base/buffer.h"
#include "lib/identity.h"
#include "lib/ledger.h"

enum {
    META_IMAGE_VERSION = 1,
    META_IMAGE_SIZE_MAX = 1024 * 1024 * 1024 /* most of it sessions, in windows that are full */
};

/* Numbers never change meaning. Ascending in the file. A reader passes over what it does not know from
 * META_IMAGE_OPTIONAL on, and refuses the rest. */
enum meta_image_section {
    META_IMAGE_MEMBERS = 1,
    META_IMAGE_LEDGER = 3,
    META_IMAGE_OPTIONAL = 0x40000000
};

struct meta_image {
    uint32_t feature_level;
    uint64_t cluster_id, group_id;
    uint64_t index, term; /* of the last entry that it covers */
    uint64_t visible; /* what readers might see up to there: below it in the middle of an append */
    struct identity_member members[OPTION_PEERS_MAX];
    size_t member_count;
    struct ledger ledger; /* owned; of `index` or later */
};

void meta_image_fini(struct meta_image *image);

void meta_image_encode(const struct meta_image *image, struct buffer *out);

/* LKV_EDAMAGED; LKV_EVERSION for a version or section of a newer program, or a feature level above
 * `known`. `why` gets the text without the file's name. After an error there is nothing to free. */
MUST_USE int meta_image_decode(struct slice bytes, uint32_t known, struct meta_image *out,
                               struct reason *why);

MUST_USE int meta_image_load(struct disk *disk, const char *path, uint32_t known,
                             struct meta_image *out, struct reason *why);

#endif
