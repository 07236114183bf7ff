/* How many descriptors this process may have open. */
#ifndef LIB_UV_DESCRIPTORS_H
#define LIB_UV_DESCRIPTORS_H

#include <stdint.h>

/* The process's present limit; UINT64_MAX when there is none. Any thread. */
uint64_t descriptors_max(void);

#endif
