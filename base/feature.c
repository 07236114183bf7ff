#include "base/feature.h"

#include "base/crc.h"
#include "base/cursor.h"

enum { PAYLOAD_VERSION = 1, PAYLOAD_SIZE = 8 };

struct blob *feature_encode(uint32_t level) {
    struct blob *blob = blob_new(PAYLOAD_SIZE);
    if (blob == NULL) {
        return NULL;
    }
    struct writer writer = writer_of(blob->data, PAYLOAD_SIZE);
    write_u32(&writer, PAYLOAD_VERSION);
    write_u32(&writer, level);
    blob->crc = crc32c(0, blob_slice(blob));
    blob->crc_known = true;
    return blob;
}

int feature_decode(struct slice payload, uint32_t known, uint32_t *level, struct reason *why) {
    struct reader reader = reader_of(payload);
    uint32_t version = read_u32(&reader);
    *level = read_u32(&reader);
    if (reader.failed || version == 0 || *level < FEATURE_LEVEL_FIRST) {
        return reason_set(why, LKV_EPROTOCOL, "malformed feature level");
    }
    if (version != PAYLOAD_VERSION || reader.left > 0) {
        return reason_set(why, LKV_EVERSION, "feature level in version %u, this program reads %d",
                          version, PAYLOAD_VERSION);
    }
    if (*level > known) {
        return reason_set(why, LKV_EVERSION,
                          "the cluster goes on to feature level %u, this program knows %u: "
                          "start a newer one",
                          *level, known);
    }
    return 0;
}
