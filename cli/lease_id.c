#include "lease_id.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool lease_id_take(const char *word, int64_t *id) {
    char *end;
    errno = 0;
    unsigned long long number = strtoull(word, &end, 16);
    bool plain = strspn(word, "0123456789abcdefABCDEF") == strlen(word);
    *id = (int64_t)number;
    return plain && *word != '\0' && *end == '\0' && errno == 0 && number > 0 &&
           number <= INT64_MAX;
}
