/* Files of some kilobytes that are replaced whole: who a node is, what it holds, a meta-image. A crash
 * leaves the old file or the new one, and perhaps NAME.new, which the next save overwrites. Blocks. */
#ifndef LIB_SMALL_FILE_H
#define LIB_SMALL_FILE_H

#include "base/buffer.h"
#include "base/disk.h"

/* DIR/NAME.new is written and synced, renamed to DIR/NAME, the directory synced. */
MUST_USE int small_file_save(struct disk *disk, const char *dir, const char *name,
                             struct slice bytes, struct reason *why);

/* A file of `size` zeros, durable as DIR/NAME, whose room a later save takes. LKV_ENOSPACE: there is
 * none, and nothing is left behind. */
MUST_USE int small_file_prepare(struct disk *disk, const char *dir, const char *name, uint64_t size,
                                struct reason *why);
/* As small_file_save to `path`, but the bytes go over those of the prepared file, which is renamed: it
 * takes no room on a disk that writes in place. It must be at least as large. */
MUST_USE int small_file_save_over(struct disk *disk, const char *dir, const char *name,
                                  const char *path, struct slice bytes, struct reason *why);

/* All of it, followed by a NUL that does not count; the caller frees it with mem_free. At most
 * size_max bytes: a larger file is LKV_EDAMAGED. LKV_ENOENT. */
MUST_USE int small_file_load(struct disk *disk, const char *path, size_t size_max, char **out,
                             size_t *size, struct reason *why);

/* Texts of lines "name value": the first names format and version, the last is a checksum of the rest.
 * Appends that line. */
void small_text_seal(struct buffer *text);

struct small_text {
    const char *format; /* the first line's name */
    int version;
    size_t size_max; /* of the file, in bytes */
};

/* Reads DIR/NAME and gives each line between the first and the last to `line`, which returns false when
 * it cannot understand it. LKV_EDAMAGED or LKV_EVERSION, with the path, unless the text is of this format
 * and version, whole and understood; LKV_ENOENT. */
MUST_USE int small_text_load(struct disk *disk, const char *dir, const char *name,
                             const struct small_text *expected,
                             bool (*line)(void *arg, const char *line), void *arg,
                             struct reason *why);

#endif
