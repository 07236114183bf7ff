/* The error table of ledgerkv: installed beside ledgerkv.h, and the one place where a code is born.
 *
 * Each line is X(name, number, outcome, retryable, text). The outcome is what the caller may
 * conclude about its operation (LKV_DONE, LKV_NOT_DONE, LKV_NEGATIVE, LKV_UNKNOWN); it travels in
 * the C return codes, on the wire, and in kvctl's exit codes. Numbers never change meaning: they
 * are on the wire. `retryable` says that the same call may succeed later without any change.
 */
#ifndef LEDGERKV_ERRORS_H
#define LEDGERKV_ERRORS_H

#include <stdbool.h>

enum lkv_outcome {
    LKV_DONE,     /* took effect exactly as asked */
    LKV_NOT_DONE, /* definitely did not and will not take effect */
    LKV_NEGATIVE, /* a valid answer that says no: no such key, compare failed */
    LKV_UNKNOWN   /* may have taken effect, or may still take effect */
};

#define LKV_ERROR_TABLE(X)                                                                   \
    X(LKV_EINVAL, -1, LKV_NOT_DONE, false, "invalid argument")                               \
    X(LKV_EOPTION, -2, LKV_NOT_DONE, false, "unknown option or bad option value")            \
    X(LKV_ENOMEM, -3, LKV_NOT_DONE, true, "out of memory")                                   \
    X(LKV_ETOOLARGE, -4, LKV_NOT_DONE, false, "larger than a limit allows")                  \
    X(LKV_EBUSY, -5, LKV_NOT_DONE, true, "a queue is full, try again")                       \
    X(LKV_ENOTFOUND, -6, LKV_NEGATIVE, false, "no such key")                                 \
    X(LKV_ECOMPARE, -7, LKV_NEGATIVE, false, "a compare failed")                             \
    X(LKV_ENOTLEADER, -8, LKV_NOT_DONE, true, "this node is not the leader")                 \
    X(LKV_ENOLEADER, -9, LKV_NOT_DONE, true, "no leader is known")                           \
    X(LKV_EUNKNOWN, -10, LKV_UNKNOWN, true, "outcome unknown: it may have been applied")     \
    X(LKV_ETIMEOUT, -11, LKV_NOT_DONE, true, "timed out before it was sent or answered")     \
    X(LKV_ECLOSED, -12, LKV_NOT_DONE, false, "the handle is closed or closing")              \
    X(LKV_ESTOPPED, -13, LKV_NOT_DONE, false, "the node has stopped")                        \
    X(LKV_EIO, -14, LKV_NOT_DONE, false, "input/output error")                               \
    X(LKV_ENOSPACE, -15, LKV_NOT_DONE, true, "no space left on the disk")                    \
    X(LKV_EDAMAGED, -16, LKV_NOT_DONE, false, "stored data is damaged")                      \
    X(LKV_ELOCKED, -17, LKV_NOT_DONE, false, "the directory is in use by another process")   \
    X(LKV_EIDENTITY, -18, LKV_NOT_DONE, false, "identity mismatch")                          \
    X(LKV_EPERM, -19, LKV_NOT_DONE, false, "permission denied")                              \
    X(LKV_EADDRINUSE, -20, LKV_NOT_DONE, false, "address already in use")                    \
    X(LKV_EUNREACHABLE, -21, LKV_NOT_DONE, true, "no endpoint is reachable")                 \
    X(LKV_EPROTOCOL, -22, LKV_NOT_DONE, false, "malformed or unexpected message")            \
    X(LKV_EVERSION, -23, LKV_NOT_DONE, false, "unsupported format or protocol version")      \
    X(LKV_ECOMPACTED, -24, LKV_NOT_DONE, false, "the revision has been compacted away")      \
    X(LKV_EFUTURE, -25, LKV_NOT_DONE, false, "the revision is in the future")                \
    X(LKV_ETERM, -26, LKV_NOT_DONE, false, "the term that fences this write has passed")     \
    X(LKV_ETRUNCATED, -27, LKV_NOT_DONE, false, "below the first index that the log keeps")  \
    X(LKV_ESESSION, -28, LKV_NOT_DONE, false, "unknown or expired session")                  \
    X(LKV_EREADONLY, -29, LKV_NOT_DONE, true, "the cluster accepts no writes now")           \
    X(LKV_EUNSUPPORTED, -30, LKV_NOT_DONE, false, "not supported by this handle or cluster") \
    X(LKV_ENOENT, -31, LKV_NOT_DONE, false, "no such file or directory")                     \
    X(LKV_EEXIST, -32, LKV_NOT_DONE, false, "it exists already")                             \
    X(LKV_ECANCELED, -33, LKV_NOT_DONE, false, "canceled before it was sent")                \
    X(LKV_ENOQUORUM, -34, LKV_NOT_DONE, true, "no quorum answered")                          \
    X(LKV_EANSWERED, -35, LKV_UNKNOWN, false, "its session has forgotten what it answered")  \
    X(LKV_ENUMBER, -36, LKV_NOT_DONE, false, "the value is not a number of 64 bits")         \
    X(LKV_EOVERFLOW, -37, LKV_NOT_DONE, false, "the result is beyond a number of 64 bits")   \
    X(LKV_ELEASE, -38, LKV_NOT_DONE, false, "unknown or expired lease")                      \
    X(LKV_EVIEW, -39, LKV_NOT_DONE, false, "the view is too old, or closed")

enum lkv_error {
#define LKV_ERROR_ENUM(name, number, outcome, retryable, text) name = number,
    LKV_ERROR_TABLE(LKV_ERROR_ENUM)
#undef LKV_ERROR_ENUM
        LKV_OK = 0
};

#endif
