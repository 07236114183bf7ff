/* lkv_watch: what a caller asks for, as a range. */
#include "base/buffer.h"
#include "lib/api.h"
#include "lib/watch.h"

enum {
    FLAGS_KNOWN = LKV_WATCH_KEY | LKV_WATCH_PREVIOUS | LKV_WATCH_NO_PUTS | LKV_WATCH_NO_DELETES |
                  LKV_WATCH_PROGRESS
};

static int check(const struct lkv *db, const struct lkv_queue *queue, int flags) {
    if (db == NULL || queue == NULL) {
        return api_fail(LKV_EINVAL, "the handle or the queue is NULL");
    }
    if ((flags & ~(int)FLAGS_KNOWN) != 0) {
        return api_fail(LKV_EINVAL, "unknown flags of a watch: %#x", (unsigned)flags);
    }
    int nothing = LKV_WATCH_NO_PUTS | LKV_WATCH_NO_DELETES;
    return (flags & nothing) != nothing
               ? 0
               : api_fail(LKV_EINVAL, "a watch without puts and deletes tells nothing");
}

static int check_key(const struct lkv *db, struct lkv_bytes bytes, bool may_be_empty,
                     struct slice *out) {
    int rc = api_slice(bytes, out);
    if (rc != 0) {
        return rc;
    }
    struct limits limits = api_limits(db);
    struct reason why = {{0}};
    rc = may_be_empty ? limits_check_end(&limits, *out, true, &why)
                      : limits_check_key(&limits, *out, &why);
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

static int open_watch(struct lkv *db, const struct watch_options *options) {
    int rc = watch_open(db, options);
    return rc == 0 ? 0 : api_fail(rc, "%s", error_text(rc));
}

/* One key is the range from it to the next possible one. */
static int open_on_key(struct lkv *db, struct watch_options *options) {
    struct buffer behind;
    buffer_init(&behind);
    buffer_append(&behind, options->from.data, options->from.size);
    buffer_append(&behind, "", 1);
    options->to = buffer_slice(&behind);
    int rc =
        behind.failed ? api_fail(LKV_ENOMEM, "out of memory for a key") : open_watch(db, options);
    buffer_fini(&behind);
    return rc;
}

int lkv_watch(struct lkv *db, struct lkv_bytes from, struct lkv_bytes to, uint64_t rev, int flags,
              struct lkv_queue *queue, void *tag) {
    bool one = (flags & LKV_WATCH_KEY) != 0;
    struct watch_options options = {
        .rev = rev, .flags = flags & ~(int)LKV_WATCH_KEY, .queue = queue, .tag = tag};
    int rc = check(db, queue, flags);
    rc = rc == 0 ? check_key(db, from, !one, &options.from) : rc;
    if (rc == 0 && !one) {
        rc = check_key(db, to, true, &options.to);
    }
    if (rc != 0) {
        return rc;
    }
    return one ? open_on_key(db, &options) : open_watch(db, &options);
}
