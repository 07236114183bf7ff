/* The disk seam on POSIX files: pread, pwritev and fdatasync; never a mapping, since writing one on
 * a full disk is SIGBUS.
 *
 * Files are made for the owner alone (0600, directories 0700). Any thread. */
#ifndef LIB_UV_DISK_POSIX_H
#define LIB_UV_DISK_POSIX_H

#include "base/disk.h"

int disk_posix_open(struct disk **out) MUST_USE; /* LKV_ENOMEM */

/* Files and locks must be closed already. NULL is fine. */
void disk_posix_close(struct disk *disk);

#endif
