#include "lib/own_image.h"

#include "base/crc.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "lib/meta_image.h"

#include <stdio.h>

enum { HEADER_SIZE = 16, CHUNK_HEADER = 8, END_FIELDS = 16, CRC_SIZE = 4 };

static const char magic[8] = "LKVOWNI1";

static int cannot(struct reason *why, int rc, const char *path, const char *doing) {
    return reason_set(why, rc, "%s: cannot %s: %s", path, doing, error_text(rc));
}

static void encode_header(uint8_t header[HEADER_SIZE]) {
    struct writer writer = writer_of(header, HEADER_SIZE);
    write_bytes(&writer, slice_of(magic, sizeof(magic)));
    write_u32(&writer, OWN_IMAGE_VERSION);
    write_u32(&writer, crc32c(0, slice_of(header, HEADER_SIZE - CRC_SIZE)));
}

/* ------------------------------------------------------------------ writing */

int own_writer_open(struct own_writer *writer, struct disk *disk, const char *path,
                    struct reason *why) {
    uint8_t header[HEADER_SIZE];
    encode_header(header);
    struct slice part = slice_of(header, sizeof(header));
    *writer = (struct own_writer){.at = HEADER_SIZE, .chunk = mem_alloc(OWN_CHUNK_MAX)};
    writer->crc = crc32c(0, part);
    int rc = writer->chunk != NULL
                 ? disk_open(disk, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &writer->file)
                 : LKV_ENOMEM;
    writer->file = rc == 0 ? writer->file : NULL;
    rc = rc == 0 ? disk_write(writer->file, 0, &part, 1) : rc;
    if (rc != 0) {
        own_writer_close(writer);
        return cannot(why, rc, path, "begin an image");
    }
    return 0;
}

int own_writer_flush(struct own_writer *writer, struct reason *why) {
    if (writer->size == 0) {
        return 0;
    }
    uint8_t head[CHUNK_HEADER];
    struct writer fields = writer_of(head, sizeof(head));
    write_u32(&fields, (uint32_t)writer->size);
    uint32_t crc = crc32c(writer->crc, slice_of(head, 4));
    crc = crc32c(crc, slice_of(writer->chunk, writer->size));
    write_u32(&fields, crc);
    struct slice parts[2] = {slice_of(head, sizeof(head)), slice_of(writer->chunk, writer->size)};
    int rc = disk_write(writer->file, writer->at, parts, 2);
    if (rc != 0) {
        return reason_set(why, rc, "cannot write an image: %s", error_text(rc));
    }
    writer->crc = crc;
    writer->at += sizeof(head) + writer->size;
    writer->total += writer->size;
    writer->size = 0;
    return 0;
}

int own_writer_put(struct own_writer *writer, struct slice bytes, struct reason *why) {
    const uint8_t *from = bytes.data;
    while (bytes.size > 0) {
        size_t room = OWN_CHUNK_MAX - writer->size;
        size_t step = bytes.size < room ? bytes.size : room;
        memcpy(writer->chunk + writer->size, from, step);
        writer->size += step;
        from += step;
        bytes.size -= step;
        int rc = writer->size == OWN_CHUNK_MAX ? own_writer_flush(writer, why) : 0;
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

void own_writer_close(struct own_writer *writer) {
    disk_close(writer->file);
    mem_free(writer->chunk);
    writer->file = NULL;
    writer->chunk = NULL;
}

int own_image_finish(const struct own_writer *writer, struct disk *disk, const char *dir,
                     const char *part, const char *path, struct slice meta, struct reason *why) {
    uint8_t fields[END_FIELDS], tail[CRC_SIZE];
    struct writer end = writer_of(fields, sizeof(fields));
    write_u32(&end, 0);
    write_u64(&end, writer->total);
    write_u32(&end, (uint32_t)meta.size);
    struct slice parts[3] = {slice_of(fields, sizeof(fields)), meta, slice_of(tail, sizeof(tail))};
    struct writer crc = writer_of(tail, sizeof(tail));
    write_u32(&crc, crc32c(crc32c(writer->crc, parts[0]), meta));
    struct disk_file *file;
    int rc = disk_open(disk, part, DISK_WRITE, &file);
    if (rc == 0) {
        rc = disk_write(file, writer->at, parts, 3);
        rc = rc == 0 ? disk_sync(file) : rc;
        disk_close(file);
    }
    rc = rc == 0 ? disk_rename(disk, part, path) : rc; /* rule 24: whole, or not there */
    rc = rc == 0 ? disk_sync_dir(disk, dir) : rc;
    return rc == 0 ? 0 : cannot(why, rc, path, "write an image");
}

/* ------------------------------------------------------------------ reading */

static int damaged(const struct own_reader *reader, struct reason *why) {
    return reason_set(why, LKV_EDAMAGED,
                      "an image of a program's state: cut short, or a crc mismatch, at offset %llu",
                      (unsigned long long)reader->at);
}

static int read_all(const struct own_reader *reader, uint64_t at, void *into, size_t size,
                    struct reason *why) {
    size_t got;
    int rc = disk_read(reader->file, at, into, size, &got);
    if (rc != 0) {
        return reason_set(why, rc, "cannot read an image: %s", error_text(rc));
    }
    return got == size ? 0 : damaged(reader, why);
}

static int check_header(struct own_reader *reader, struct reason *why) {
    uint8_t found[HEADER_SIZE];
    int rc = read_all(reader, 0, found, sizeof(found), why);
    if (rc != 0) {
        return rc;
    }
    struct reader fields = reader_of(slice_of(found, sizeof(found)));
    bool named = memcmp(read_bytes(&fields, sizeof(magic)).data, magic, sizeof(magic)) == 0;
    uint32_t version = read_u32(&fields);
    if (!named || read_u32(&fields) != crc32c(0, slice_of(found, HEADER_SIZE - CRC_SIZE))) {
        return reason_set(why, LKV_EDAMAGED, "does not begin as an image of a program's state");
    }
    if (version != OWN_IMAGE_VERSION) {
        return reason_set(why, LKV_EVERSION, "own image version %u, this program knows %d", version,
                          OWN_IMAGE_VERSION);
    }
    reader->crc = crc32c(0, slice_of(found, sizeof(found)));
    reader->at = HEADER_SIZE;
    return 0;
}

int own_reader_open(struct own_reader *reader, struct disk *disk, const char *path,
                    struct reason *why) {
    *reader = (struct own_reader){.chunk = mem_alloc(OWN_CHUNK_MAX)};
    int rc = reader->chunk != NULL ? disk_open(disk, path, DISK_READ, &reader->file) : LKV_ENOMEM;
    reader->file = rc == 0 ? reader->file : NULL;
    struct reason inner = {{0}};
    if (rc != 0) {
        rc = reason_set(&inner, rc, "cannot read: %s", error_text(rc));
    } else {
        rc = check_header(reader, &inner);
    }
    if (rc != 0) {
        own_reader_close(reader);
        return reason_set(why, rc, "%s: %.400s", path, inner.text);
    }
    return 0;
}

/* Behind the last chunk. */
static int read_end(struct own_reader *reader, struct buffer *meta, struct reason *why) {
    uint8_t fields[END_FIELDS], tail[CRC_SIZE];
    int rc = read_all(reader, reader->at, fields, sizeof(fields), why);
    if (rc != 0) {
        return rc;
    }
    struct reader at = reader_of(slice_of(fields, sizeof(fields)));
    (void)read_u32(&at);
    uint64_t total = read_u64(&at);
    uint32_t size = read_u32(&at);
    uint64_t whole = 0;
    rc = disk_size(reader->file, &whole);
    if (rc != 0 || size > META_IMAGE_SIZE_MAX ||
        whole != reader->at + END_FIELDS + size + CRC_SIZE || total != reader->total) {
        return rc != 0 ? rc : damaged(reader, why);
    }
    uint8_t *bytes = mem_alloc(size + 1);
    if (bytes == NULL) {
        return LKV_ENOMEM;
    }
    rc = read_all(reader, reader->at + END_FIELDS, bytes, size, why);
    rc = rc == 0 ? read_all(reader, reader->at + END_FIELDS + size, tail, sizeof(tail), why) : rc;
    struct reader crc = reader_of(slice_of(tail, sizeof(tail)));
    uint32_t expected = crc32c(crc32c(reader->crc, slice_of(fields, sizeof(fields))),
                               slice_of(bytes, rc == 0 ? size : 0));
    if (rc == 0 && read_u32(&crc) != expected) {
        rc = damaged(reader, why);
    }
    if (rc == 0 && meta != NULL) {
        buffer_append(meta, bytes, size);
        rc = meta->failed ? LKV_ENOMEM : 0;
    }
    mem_free(bytes);
    reader->ended = rc == 0;
    return rc;
}

static int read_chunk(struct own_reader *reader, struct buffer *meta, struct reason *why) {
    uint8_t head[CHUNK_HEADER];
    int rc = read_all(reader, reader->at, head, sizeof(head), why);
    if (rc != 0) {
        return rc;
    }
    struct reader fields = reader_of(slice_of(head, sizeof(head)));
    uint32_t size = read_u32(&fields), crc = read_u32(&fields);
    if (size == 0) {
        return read_end(reader, meta, why);
    }
    if (size > OWN_CHUNK_MAX) {
        return damaged(reader, why);
    }
    rc = read_all(reader, reader->at + sizeof(head), reader->chunk, size, why);
    if (rc != 0) {
        return rc;
    }
    uint32_t found = crc32c(crc32c(reader->crc, slice_of(head, 4)), slice_of(reader->chunk, size));
    if (found != crc) {
        return damaged(reader, why);
    }
    reader->crc = crc;
    reader->at += sizeof(head) + size;
    reader->total += size;
    reader->size = size;
    reader->given = 0;
    return 0;
}

int own_reader_next(struct own_reader *reader, void *into, size_t size, size_t *got,
                    struct buffer *meta, struct reason *why) {
    *got = 0;
    if (reader->given == reader->size && !reader->ended) {
        int rc = read_chunk(reader, meta, why);
        if (rc != 0) {
            return rc;
        }
    }
    size_t left = reader->size - reader->given;
    *got = left < size ? left : size;
    memcpy(into, reader->chunk + reader->given, *got);
    reader->given += *got;
    return 0;
}

void own_reader_close(struct own_reader *reader) {
    disk_close(reader->file);
    mem_free(reader->chunk);
    reader->file = NULL;
    reader->chunk = NULL;
}

int own_image_scan(struct disk *disk, const char *path, const atomic_bool *cancel,
                   struct buffer *meta, struct reason *why) {
    struct own_reader reader;
    struct reason inner = {{0}};
    int rc = own_reader_open(&reader, disk, path, why);
    if (rc != 0) {
        return rc;
    }
    while (rc == 0 && !reader.ended) {
        rc = cancel != NULL && atomic_load(cancel)
                 ? reason_set(&inner, LKV_ECANCELED, "the node is closing")
                 : read_chunk(&reader, meta, &inner);
    }
    own_reader_close(&reader);
    return rc == 0 ? 0
                   : reason_set(why, rc, "%s: %.400s", path,
                                inner.text[0] != '\0' ? inner.text : error_text(rc));
}

int own_image_prefix(struct disk *disk, const char *path, uint64_t *size, struct reason *why) {
    struct own_reader reader;
    *size = 0;
    int rc = own_reader_open(&reader, disk, path, why);
    if (rc != 0) {
        return rc == LKV_EDAMAGED || rc == LKV_EVERSION ? 0 : rc; /* nothing of it */
    }
    while (rc == 0 && !reader.ended) {
        *size = reader.at;
        rc = read_chunk(&reader, NULL, why);
    }
    own_reader_close(&reader);
    return rc == LKV_EDAMAGED ? 0 : rc;
}

int own_image_load(struct disk *disk, const char *path, const atomic_bool *cancel, uint32_t known,
                   struct meta_image *out, struct reason *why) {
    struct buffer meta;
    struct reason inner = {{0}};
    buffer_init(&meta);
    int rc = own_image_scan(disk, path, cancel, &meta, why);
    if (rc == 0) {
        rc = meta_image_decode(buffer_slice(&meta), known, out, &inner);
        rc = rc == 0 ? 0 : reason_set(why, rc, "%s: %.400s", path, inner.text);
    }
    buffer_fini(&meta);
    return rc;
}
