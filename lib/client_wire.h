/* MessagePack-RPC between clients and nodes, as bytes: docs/formats/client-rpc.md is the contract.
 *
 * Only frames that passed the scan (lib/wire_input.h) may be decoded. Every field is checked for
 * type and range. Loop thread. */
#ifndef LIB_CLIENT_WIRE_H
#define LIB_CLIENT_WIRE_H

#include "base/buffer.h"
#include "base/scan.h"
#include "lib/msg.h"
#include "lib/select.h"

enum { WIRE_FRAME_BYTES_MAX = 17 * 1024 * 1024 };

extern const struct scan_limits wire_call_limits;  /* of what a client sends */
extern const struct scan_limits wire_reply_limits; /* of what a node answers */

enum wire_method {
    WIRE_PING,
    WIRE_PUT,
    WIRE_DELETE,
    WIRE_GET,
    WIRE_RANGE,
    WIRE_STATUS,
    WIRE_DIGEST,
    WIRE_PROPOSE,
    WIRE_SESSION_OPEN,
    WIRE_SESSION_CLOSE,
    WIRE_APPEND,
    WIRE_LOG_READ,
    WIRE_LOG_SPAN,
    WIRE_SESSION_KEEP,
    WIRE_VIEW_OPEN,
    WIRE_VIEW_CLOSE,
    WIRE_LEASE_GRANT,
    WIRE_LEASE_REVOKE,
    WIRE_LEASE_KEEP,
    WIRE_LEASE_TTL,
    WIRE_LEASE_LIST,
    WIRE_WATCH
};

/* On the wire: numbers never change meaning. */
enum wire_flags {
    WIRE_HERE = 1,   /* answer here or refuse: do not pass it on to the leader */
    WIRE_NO_WAIT = 2 /* LKV_ENOLEADER at once instead of waiting for a leader */
};

/* Of read: on the wire, too. */
enum wire_read_flags {
    WIRE_READ_WAIT = 1 /* answer when there is a record, or when the time is up */
};

/* Of watch: on the wire, too. */
enum wire_watch_flags {
    WIRE_WATCH_WAIT = 1, /* answer when there is an event, or when the time is up */
    WIRE_WATCH_PREVIOUS = 2,
    WIRE_WATCH_NO_PUTS = 4,
    WIRE_WATCH_NO_DELETES = 8
};

struct wire_call {
    uint64_t number;
    enum wire_method method;
    struct slice key; /* put, delete, get; of range, watch and a delete of a range: its first end */
    struct slice end; /* range, watch, delete */
    bool has_end;     /* delete: a range, not one key */
    struct slice value;   /* put */
    struct slice command; /* propose */
    uint64_t
        session; /* put, delete, append: that they belong to, 0 = none; session_open: to be resumed */
    uint64_t seq, acked_below;   /* put, delete, append in a session */
    int64_t lease;               /* lease_*; of lease_list: from behind it */
    uint64_t ttl_ms;             /* session_open, lease_grant */
    uint64_t view_age_ms;        /* view_open */
    uint64_t view;               /* view_close */
    const struct slice *records; /* append; decoded: valid until the next frame is */
    size_t record_count;
    uint64_t in_term; /* append */
    bool has_refusals;
    uint64_t refusals; /* append: refused appends that the sender has heard of on this connection */
    uint64_t from;     /* read; watch: a revision */
    uint32_t from_sub; /* watch: number of a change within it */
    int watch_flags;   /* watch: enum lkv_watch_flags */
    uint64_t bytes_max;        /* read, watch */
    bool wait;                 /* read, watch */
    uint64_t limit;            /* range */
    int range_flags;           /* enum lkv_range_flags */
    struct read_select select; /* get: of its numbers the revision only; range */
    enum lkv_read how;
    bool has_timeout; /* false: as long as the node allows */
    uint64_t timeout_ms;
    unsigned flags; /* enum wire_flags */
};

/* Scratch memory of decoding, reused from frame to frame. NULL when out of memory. */
struct wire_decoder;
struct wire_decoder *wire_decoder_new(void);
void wire_decoder_free(struct wire_decoder *decoder); /* NULL is fine */

/* Appends a frame. */
void wire_encode_call(struct buffer *out, const struct wire_call *call);

/* Slices point into the frame. Returns 0; with `*numbered` a refusal that answers this one call
 * (LKV_EUNSUPPORTED: a method, argument or flag that this version does not know; LKV_EINVAL: a bad
 * argument), without it LKV_EPROTOCOL (or LKV_ENOMEM): the connection cannot go on. */
MUST_USE int wire_decode_call(struct wire_decoder *decoder, struct slice frame,
                              struct wire_call *out, bool *numbered, struct reason *why);

void wire_encode_reply(struct buffer *out, uint64_t number, const struct lkv_msg *reply);

/* An error about the connection itself, which belongs to no call; it is closed afterwards. `untouched`: no
 * call that came on it was looked at, nor will be. */
void wire_encode_refusal(struct buffer *out, int rc, const char *text, bool untouched);

/* Of such a frame: whether it says so. */
bool wire_is_untouched(struct wire_decoder *decoder, struct slice frame);

/* Looks at a reply: 0 and its number, or the error that the node gave about the connection itself,
 * or LKV_EPROTOCOL. */
MUST_USE int wire_open_reply(struct wire_decoder *decoder, struct slice frame, uint64_t *number,
                             struct reason *why);

/* Then fills the message, which is empty, from the same frame. LKV_EPROTOCOL, LKV_ENOMEM: it may
 * be half filled. */
MUST_USE int wire_read_reply(struct wire_decoder *decoder, struct slice frame,
                             struct lkv_msg *reply, struct reason *why);

#endif
