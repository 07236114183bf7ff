/* Walks the records of one segment file from an offset on, and passes holes: where no valid record
 * header starts, the next one is looked for at every multiple of 8. What is beyond `limit` is never
 * looked at, whatever a length field says (L19). One thread; no locks. */
#ifndef LOG_SCAN_H
#define LOG_SCAN_H

#include "base/disk.h"
#include "log/format.h"

struct log_scan {
    struct disk_file *file;       /* borrowed */
    struct log_identity identity; /* records of others are holes */
    uint64_t segment;
    uint64_t at;     /* where to look next */
    uint64_t limit;  /* end of the file, or of the part to be read */
    uint8_t *window; /* owned: bytes [window_at, window_at + window_size) of the file */
    size_t window_capacity;
    uint64_t window_at;
    size_t window_size;
    bool passes_unreadable; /* sectors that the disk does not return (S11) are a hole, no error */
    bool unreadable;        /* there were some */
};

struct log_scan_item {
    uint64_t offset; /* of the header */
    uint64_t end;    /* first offset behind the padding */
    bool after_hole;
    uint64_t hole_at; /* where the bytes before it stopped making sense */
    struct record_header header;
};

enum { LOG_SCAN_WINDOW = 256 * 1024, LOG_SCAN_WINDOW_MIN = 4096, LOG_SCAN_SECTOR = 512 };

MUST_USE int log_scan_init(struct log_scan *scan, struct disk_file *file,
                           const struct log_identity *identity, uint64_t segment, uint64_t from,
                           uint64_t limit, size_t window_capacity);
void log_scan_fini(struct log_scan *scan);

/* 1: `item` is the next record or mark with a valid header; 0: there is none before the limit (then
 * item->hole_at is where the search began); negative: the disk failed (never LKV_EIO with
 * passes_unreadable). */
MUST_USE int log_scan_next(struct log_scan *scan, struct log_scan_item *item);

/* Reads the payload of the last item into `into` (may be NULL) and says whether its checksum holds. */
MUST_USE int log_scan_payload(struct log_scan *scan, const struct log_scan_item *item,
                              uint8_t *into, bool *intact);

/* The same as an entry, whose payload is owned by the caller when *intact; else nothing is. LKV_ENOMEM. */
MUST_USE int log_scan_entry(struct log_scan *scan, const struct log_scan_item *item,
                            struct entry *out, bool *intact);

/* Are all bytes from `from` to the limit zero? */
MUST_USE int log_scan_all_zero(struct log_scan *scan, uint64_t from, bool *all_zero);

#endif
