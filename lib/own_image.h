/* The file of an image in model own: the program's bytes in chunks, as they come, and behind them a
 * meta-image. docs/formats/own-image.md is its table. Each checksum goes on from the one before, so that
 * chunks of two files, or in another order, are no file. Blocks. */
#ifndef LIB_OWN_IMAGE_H
#define LIB_OWN_IMAGE_H

#include "base/buffer.h"
#include "base/disk.h"

#include <stdatomic.h>

enum { OWN_IMAGE_VERSION = 1, OWN_CHUNK_MAX = 256 * 1024 };

/* A file whose end is still missing, under a name of its own. */
struct own_writer {
    struct disk_file *file; /* owned */
    uint64_t at, total;     /* bytes of the file; of the program's that are in it */
    uint32_t crc;           /* of the last chunk */
    uint8_t *chunk;         /* owned; what is gathered for the next one */
    size_t size;
};

/* A new file in the place of an old one. Nothing is left open on failure. */
MUST_USE int own_writer_open(struct own_writer *writer, struct disk *disk, const char *path,
                             struct reason *why);
MUST_USE int own_writer_put(struct own_writer *writer, struct slice bytes, struct reason *why);
MUST_USE int own_writer_flush(struct own_writer *writer, struct reason *why); /* no sync */
void own_writer_close(struct own_writer *writer);

/* Puts the end behind what a flushed writer left in `part`, makes it durable, and gives it the name
 * `path`, in the folder `dir`. */
MUST_USE int own_image_finish(const struct own_writer *writer, struct disk *disk, const char *dir,
                              const char *part, const char *path, struct slice meta,
                              struct reason *why);

struct own_reader {
    struct disk_file *file; /* owned */
    uint64_t at, total;
    uint32_t crc;
    uint8_t *chunk; /* owned */
    size_t size, given;
    bool ended; /* the end was read, and is right */
};

MUST_USE int own_reader_open(struct own_reader *reader, struct disk *disk, const char *path,
                             struct reason *why);
/* The next bytes, verified; 0 of them: that was all, and the end is right. LKV_EDAMAGED. `meta` (NULL: not
 * wanted) then has the meta-image. */
MUST_USE int own_reader_next(struct own_reader *reader, void *into, size_t size, size_t *got,
                             struct buffer *meta, struct reason *why);
void own_reader_close(struct own_reader *reader);

/* Verifies the whole file; `meta` gets its meta-image. `cancel` (may be NULL) ends it with LKV_ECANCELED. */
MUST_USE int own_image_scan(struct disk *disk, const char *path, const atomic_bool *cancel,
                            struct buffer *meta, struct reason *why);

/* How much of a file that is still being received is certainly what was sent: whole chunks. */
MUST_USE int own_image_prefix(struct disk *disk, const char *path, uint64_t *size,
                              struct reason *why);

/* own_image_scan, and the meta-image decoded (meta_image_fini); errors also as of meta_image_decode. */
struct meta_image;
MUST_USE int own_image_load(struct disk *disk, const char *path, const atomic_bool *cancel,
                            uint32_t known, struct meta_image *out, struct reason *why);

#define OWN_IMAGE_PART "own.part"

/* Where a node's program writes its next image. Whoever has `taken` it has the writer: a thread of the
 * program, and then the node, until the image is durable or was given up. */
struct own_place {
    struct disk *disk;
    const char *dir; /* borrowed: of the node's images */
    atomic_bool taken;
    /* The newest image is damaged: the program is to give another one, of this entry at least; 0: it is not. */
    _Atomic uint64_t wanted;
    atomic_bool
        missed; /* the program needs a newer image than it found: is the newest one there at all? */
    struct own_writer writer;
};

#endif
