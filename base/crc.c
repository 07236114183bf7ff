#include "base/crc.h"

#include <isa-l/crc.h>
#include <limits.h>

uint32_t crc32c(uint32_t crc, struct slice bytes) {
    while (bytes.size > 0) {
        size_t step = bytes.size < INT_MAX ? bytes.size : INT_MAX;
        /* ISA-L leaves the inversion before and after to the caller, and forgot a const. */
        crc = ~crc32_iscsi((unsigned char *)(uintptr_t)bytes.data, (int)step, ~crc);
        bytes.data += step;
        bytes.size -= step;
    }
    return crc;
}
