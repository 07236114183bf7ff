/* The error table, as the caller sees it. */
#include "base/error.h"
#include "lib/ledgerkv.h"

enum lkv_outcome lkv_outcome(int rc) {
    return error_outcome(rc);
}

bool lkv_retryable(int rc) {
    return error_retryable(rc);
}

const char *lkv_error_name(int rc) {
    return error_name(rc);
}

const char *lkv_error_text(int rc) {
    return error_text(rc);
}
