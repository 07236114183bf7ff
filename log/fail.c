/* Rule 10: an error on the way to the disk is final. After a failed sync the kernel has dropped
 * the dirty pages and calls them clean; a second sync would succeed and prove nothing. */
#include "log/internal.h"

int log_failed(struct log *log, struct reason *why) {
    pthread_mutex_lock(&log->mutex);
    int rc = log->failed;
    pthread_mutex_unlock(&log->mutex);
    return rc != 0 ? reason_set(why, rc, "%s: an earlier write has failed: %s", log->dir,
                                error_text(rc))
                   : 0;
}

int log_fail(struct log *log, int rc, struct reason *why, const char *doing) {
    /* These mean "nothing has changed, try again" to the caller: not any more. */
    int final = rc == LKV_ENOSPACE || rc == LKV_ENOMEM ? LKV_EIO : rc;
    pthread_mutex_lock(&log->mutex);
    if (log->failed == 0) {
        log->failed = final;
    }
    final = log->failed;
    pthread_mutex_unlock(&log->mutex);
    trace_line(log->options.trace, TRACE_ERROR, "log.failed", "%s: cannot %s: %s", log->dir, doing,
               error_text(rc));
    return reason_set(why, final, "%s: cannot %s: %s", log->dir, doing, error_text(rc));
}
