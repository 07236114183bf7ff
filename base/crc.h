/* CRC32C (Castagnoli), the checksum of every record, frame and image; the work is ISA-L's. */
#ifndef BASE_CRC_H
#define BASE_CRC_H

#include "base/slice.h"

/* The checksum of the bytes whose checksum so far is `crc` (0 for none) followed by `bytes`. */
uint32_t crc32c(uint32_t crc, struct slice bytes);

#endif
