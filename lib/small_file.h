/* Files of some kilobytes that are replaced whole: who a node is, what it holds, a meta-image. A crash
 * leaves the old file or the new one, and perhaps NAME.new, which the next save overwrites. Blocks. */
#ifndef LIB_SMALL_FILE_H
#define LIB_SMALL_FILE_H

#include "base/disk.h"

enum { SMALL_FILE_PATH_SIZE = 1300 };

/* DIR/NAME.new is written and synced, renamed to DIR/NAME, the directory synced. */
MUST_USE int small_file_save(struct disk *disk, const char *dir, const char *name,
                             struct slice bytes, struct reason *why);

/* All of it, followed by a NUL that does not count; the caller frees it with mem_free. At most
 * size_max bytes: a larger file is LKV_EDAMAGED. LKV_ENOENT. */
MUST_USE int small_file_load(struct disk *disk, const char *path, size_t size_max, char **out,
                             size_t *size, struct reason *why);

#endif
