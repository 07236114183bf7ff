/* Ids of leases as words. */
#ifndef CLI_LEASE_ID_H
#define CLI_LEASE_ID_H

#include <stdbool.h>
#include <stdint.h>

/* False: not hexadecimal, or not 1 to 2^63 - 1. */
bool lease_id_take(const char *word, int64_t *id);

#endif
