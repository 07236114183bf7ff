#include "lib/meta_image.h"

#include "base/crc.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "lib/small_file.h"

enum {
    PREFIX_SIZE = 16, /* never changes, so that a newer version is told from damage */
    HEADER_SIZE = 60, /* with the prefix */
    SECTION_HEADER_SIZE = 8,
    CRC_SIZE = 4
};

static const char magic[8] = "LKVMETA1";

/* ------------------------------------------------------------------ writing */

static void append_u32(struct buffer *out, uint32_t value) {
    uint8_t bytes[4];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u32(&writer, value);
    buffer_append(out, bytes, sizeof(bytes));
}

static void append_u64(struct buffer *out, uint64_t value) {
    uint8_t bytes[8];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u64(&writer, value);
    buffer_append(out, bytes, sizeof(bytes));
}

static void append_text(struct buffer *out, const char *text) {
    struct slice bytes = slice_text(text);
    append_u32(out, (uint32_t)bytes.size);
    buffer_append(out, bytes.data, bytes.size);
}

static void append_members(struct buffer *out, const struct meta_image *image) {
    append_u32(out, (uint32_t)image->member_count);
    for (size_t i = 0; i < image->member_count; i++) {
        append_u64(out, image->members[i].id);
        append_text(out, image->members[i].name);
        append_text(out, image->members[i].address);
    }
}

static void append_section(struct buffer *out, enum meta_image_section section,
                           struct slice payload, uint32_t header_crc) {
    size_t begin = out->size;
    append_u32(out, section);
    append_u32(out, (uint32_t)payload.size);
    buffer_append(out, payload.data, payload.size);
    if (!out->failed) {
        append_u32(out, crc32c(header_crc, slice_of(out->data + begin, out->size - begin)));
    }
}

void meta_image_encode(const struct meta_image *image, struct buffer *out) {
    uint8_t header[HEADER_SIZE];
    struct writer writer = writer_of(header, sizeof(header));
    write_bytes(&writer, slice_of(magic, sizeof(magic)));
    write_u32(&writer, META_IMAGE_VERSION);
    write_u32(&writer, crc32c(0, slice_of(header, PREFIX_SIZE - CRC_SIZE)));
    write_u32(&writer, image->feature_level);
    write_u64(&writer, image->cluster_id);
    write_u64(&writer, image->group_id);
    write_u64(&writer, image->index);
    write_u64(&writer, image->term);
    write_u32(&writer, 2); /* sections */
    uint32_t crc = crc32c(0, slice_of(header, HEADER_SIZE - CRC_SIZE));
    write_u32(&writer, crc);
    buffer_append(out, header, sizeof(header));
    struct buffer payload;
    buffer_init(&payload);
    append_members(&payload, image);
    append_section(out, META_IMAGE_MEMBERS, buffer_slice(&payload), crc);
    out->failed |= payload.failed;
    buffer_clear(&payload);
    append_u64(&payload, image->visible);
    ledger_put(&payload, &image->ledger);
    append_section(out, META_IMAGE_LEDGER, buffer_slice(&payload), crc);
    out->failed |= payload.failed;
    buffer_fini(&payload);
}

void meta_image_fini(struct meta_image *image) {
    ledger_fini(&image->ledger);
}

/* ------------------------------------------------------------------ reading */

static int check_prefix(struct slice bytes, struct reason *why) {
    if (bytes.size < HEADER_SIZE) {
        return reason_set(why, LKV_EDAMAGED, "%zu bytes, a meta-image has at least %d", bytes.size,
                          HEADER_SIZE);
    }
    struct reader reader = reader_of(bytes);
    if (memcmp(read_bytes(&reader, sizeof(magic)).data, magic, sizeof(magic)) != 0) {
        return reason_set(why, LKV_EDAMAGED, "does not begin with %.8s", magic);
    }
    uint32_t version = read_u32(&reader);
    if (read_u32(&reader) != crc32c(0, slice_of(bytes.data, PREFIX_SIZE - CRC_SIZE))) {
        return reason_set(why, LKV_EDAMAGED, "crc mismatch in its first %d bytes", PREFIX_SIZE);
    }
    if (version != META_IMAGE_VERSION) {
        return reason_set(why, LKV_EVERSION, "meta-image version %u, this program knows %d",
                          version, META_IMAGE_VERSION);
    }
    return 0;
}

static int read_header(struct slice bytes, uint32_t known, struct meta_image *out,
                       uint32_t *sections, uint32_t *crc, struct reason *why) {
    struct reader reader = reader_of(slice_of(bytes.data + PREFIX_SIZE, HEADER_SIZE - PREFIX_SIZE));
    out->feature_level = read_u32(&reader);
    out->cluster_id = read_u64(&reader);
    out->group_id = read_u64(&reader);
    out->index = read_u64(&reader);
    out->term = read_u64(&reader);
    *sections = read_u32(&reader);
    *crc = read_u32(&reader);
    if (*crc != crc32c(0, slice_of(bytes.data, HEADER_SIZE - CRC_SIZE))) {
        return reason_set(why, LKV_EDAMAGED, "crc mismatch in its header");
    }
    if (out->feature_level > known) {
        return reason_set(why, LKV_EVERSION, "feature level %u, this program knows %u",
                          out->feature_level, known);
    }
    return out->feature_level > 0 ? 0 : reason_set(why, LKV_EDAMAGED, "feature level 0");
}

static bool read_text(struct reader *reader, char *out, size_t capacity) {
    uint32_t size = read_u32(reader);
    if (reader->failed || size >= capacity) {
        return false;
    }
    struct slice text = read_bytes(reader, size);
    if (reader->failed || memchr(text.data, '\0', text.size) != NULL) {
        return false;
    }
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return true;
}

static bool read_members(struct slice payload, struct meta_image *out) {
    struct reader reader = reader_of(payload);
    uint32_t count = read_u32(&reader);
    if (reader.failed || count > OPTION_PEERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct identity_member *member = &out->members[i];
        member->id = read_u64(&reader);
        if (!read_text(&reader, member->name, sizeof(member->name)) ||
            !read_text(&reader, member->address, sizeof(member->address)) || member->id == 0) {
            return false;
        }
    }
    out->member_count = count;
    return reader.left == 0;
}

static int read_ledger(struct slice payload, struct meta_image *out, struct reason *why) {
    if (out->ledger.included != 0) {
        return reason_set(why, LKV_EDAMAGED, "it has sessions twice");
    }
    struct reader reader = reader_of(payload);
    out->visible = read_u64(&reader);
    int rc =
        reader.failed ? LKV_EDAMAGED : ledger_get(slice_of(reader.at, reader.left), &out->ledger);
    if (rc == LKV_ENOMEM) {
        return reason_set(why, rc, "no memory for its sessions");
    }
    out->ledger.feature_level = out->feature_level;
    return rc == 0 && out->ledger.included >= out->index && out->visible <= out->index
               ? 0
               : reason_set(why, LKV_EDAMAGED, "its sessions are malformed");
}

/* One section; the reader stands behind it afterwards. */
static int read_section(struct reader *reader, uint32_t header_crc, struct meta_image *out,
                        struct reason *why) {
    const uint8_t *begin = reader->at;
    uint32_t section = read_u32(reader);
    uint32_t size = read_u32(reader);
    struct slice payload = read_bytes(reader, size);
    uint32_t crc = read_u32(reader);
    if (reader->failed ||
        crc != crc32c(header_crc, slice_of(begin, SECTION_HEADER_SIZE + payload.size))) {
        return reason_set(why, LKV_EDAMAGED, "a section is cut short, or has a crc mismatch");
    }
    if (section >= META_IMAGE_OPTIONAL) {
        return 0; /* of a later version, and nothing depends on it */
    }
    switch (section) {
    case META_IMAGE_MEMBERS:
        return read_members(payload, out)
                   ? 0
                   : reason_set(why, LKV_EDAMAGED, "its members are malformed");
    case META_IMAGE_LEDGER: return read_ledger(payload, out, why);
    }
    return reason_set(why, LKV_EVERSION, "section %u, which this program does not know", section);
}

int meta_image_decode(struct slice bytes, uint32_t known, struct meta_image *out,
                      struct reason *why) {
    *out = (struct meta_image){0};
    uint32_t sections = 0, crc = 0;
    int rc = check_prefix(bytes, why);
    rc = rc == 0 ? read_header(bytes, known, out, &sections, &crc, why) : rc;
    if (rc != 0) {
        return rc;
    }
    struct reader reader = reader_of(slice_of(bytes.data + HEADER_SIZE, bytes.size - HEADER_SIZE));
    for (uint32_t i = 0; rc == 0 && i < sections; i++) {
        rc = read_section(&reader, crc, out, why);
    }
    if (rc == 0 && (reader.left > 0 || out->member_count == 0 || out->ledger.included == 0)) {
        rc = reason_set(why, LKV_EDAMAGED, "%zu bytes behind its end, %zu members%s", reader.left,
                        out->member_count, out->ledger.included == 0 ? ", no sessions" : "");
    }
    if (rc != 0) {
        meta_image_fini(out);
    }
    return rc;
}

int meta_image_load(struct disk *disk, const char *path, uint32_t known, struct meta_image *out,
                    struct reason *why) {
    char *bytes;
    size_t size;
    int rc = small_file_load(disk, path, META_IMAGE_SIZE_MAX, &bytes, &size, why);
    if (rc != 0) {
        return rc;
    }
    struct reason inner = {{0}};
    rc = meta_image_decode(slice_of(bytes, size), known, out, &inner);
    mem_free(bytes);
    return rc == 0 ? 0 : reason_set(why, rc, "%s: %s", path, inner.text);
}
