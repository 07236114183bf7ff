/* Error codes and the text that goes with one.
 *
 * Functions return 0 or a negative LKV_E code. Where a person must act on the failure (open, a
 * damaged file, a refused option), a caller-owned `struct reason` carries what was expected and
 * what came. Any thread; no globals.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "base/ledgerkv_errors.h"

#define MUST_USE                __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))

enum { REASON_SIZE = 512 };

/* Zero-initialise: `struct reason why = {{0}};`. Always NUL-terminated; long texts are cut. */
struct reason {
    char text[REASON_SIZE];
};

/* "LKV_EBUSY", "LKV_OK" for 0 alone, or "LKV_E?" for a number outside the table. Static storage. */
const char *error_name(int rc);

/* The table's sentence, without a full stop. Static storage. */
const char *error_text(int rc);

/* An unknown number is LKV_UNKNOWN: never claim more than is known. rc >= 0 is LKV_DONE. */
enum lkv_outcome error_outcome(int rc);

bool error_retryable(int rc);

/* Writes the formatted text into `why` (which may be NULL) and returns rc, so that a failure reads
 * `return reason_set(why, LKV_EIO, "%s: ...", path);`. */
int reason_set(struct reason *why, int rc, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
