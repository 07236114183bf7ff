#include "log/scan.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/mem.h"

enum { UNREADABLE_BYTE = 0xe7 };

int log_scan_init(struct log_scan *scan, struct disk_file *file,
                  const struct log_identity *identity, uint64_t segment, uint64_t from,
                  uint64_t limit, size_t window_capacity) {
    ASSERT(from % LOG_ALIGN == 0);
    *scan = (struct log_scan){.file = file, .identity = *identity, .segment = segment};
    scan->at = from;
    scan->limit = limit;
    if (from < limit && limit - from < window_capacity) {
        window_capacity = (size_t)(limit - from);
    }
    scan->window_capacity =
        window_capacity > LOG_SCAN_WINDOW_MIN ? window_capacity : LOG_SCAN_WINDOW_MIN;
    scan->window = mem_alloc(scan->window_capacity);
    return scan->window != NULL ? 0 : LKV_ENOMEM;
}

void log_scan_fini(struct log_scan *scan) {
    mem_free(scan->window);
    scan->window = NULL;
}

/* S11: one unreadable sector fails the whole read; so they are read one by one, and each that is not
 * returned becomes bytes in which no header starts and no payload's checksum holds. */
static int read_piecewise(struct log_scan *scan, uint64_t offset, size_t want, size_t *got) {
    *got = 0;
    while (*got < want) {
        uint64_t at = offset + *got;
        size_t step = (size_t)(LOG_SCAN_SECTOR - at % LOG_SCAN_SECTOR);
        step = step < want - *got ? step : want - *got;
        size_t part;
        int rc = disk_read(scan->file, at, scan->window + *got, step, &part);
        if (rc == LKV_EIO) {
            memset(scan->window + *got, UNREADABLE_BYTE, step);
            scan->unreadable = true;
            part = step;
        } else if (rc != 0) {
            return rc;
        }
        *got += part;
        if (part < step) {
            break; /* the file's end */
        }
    }
    return 0;
}

/* Makes bytes [offset, offset + size) part of the window; fewer are there only at the file's end.
 * `*bytes` is valid until the next call. */
static int window_cover(struct log_scan *scan, uint64_t offset, size_t size,
                        const uint8_t **bytes) {
    ASSERT(size <= scan->window_capacity);
    bool inside = offset >= scan->window_at && offset + size <= scan->window_at + scan->window_size;
    if (!inside) {
        uint64_t want = scan->limit - offset;
        if (want > scan->window_capacity) {
            want = scan->window_capacity;
        }
        scan->window_size = 0;
        size_t got;
        int rc = disk_read(scan->file, offset, scan->window, (size_t)want, &got);
        if (rc == LKV_EIO && scan->passes_unreadable) {
            rc = read_piecewise(scan, offset, (size_t)want, &got);
        }
        if (rc != 0) {
            return rc;
        }
        /* A file shorter than its segment reads as zeros: never as somebody's old bytes. */
        memset(scan->window + got, 0, (size_t)want - got);
        scan->window_at = offset;
        scan->window_size = (size_t)want;
    }
    *bytes = scan->window + (offset - scan->window_at);
    return 0;
}

static bool room_for(const struct log_scan *scan, uint64_t offset, uint64_t size) {
    return offset <= scan->limit && scan->limit - offset >= size; /* no sum that could wrap */
}

/* The first place from `at` on, within the window, where a header could start; the place behind the
 * last one if there is none. A segment's unused rest is millions of places. */
static uint64_t skip_within_window(const struct log_scan *scan, uint64_t at) {
    const uint8_t *bytes = scan->window + (at - scan->window_at);
    uint64_t end = scan->window_at + scan->window_size - LOG_RECORD_HEADER;
    while (at <= end && !record_magic_at(bytes)) {
        at += LOG_ALIGN;
        bytes += LOG_ALIGN;
    }
    return at;
}

int log_scan_next(struct log_scan *scan, struct log_scan_item *item) {
    item->hole_at = scan->at;
    uint64_t at = scan->at;
    while (room_for(scan, at, LOG_RECORD_HEADER)) {
        const uint8_t *bytes;
        int rc = window_cover(scan, at, LOG_RECORD_HEADER, &bytes);
        if (rc != 0) {
            return rc;
        }
        if (!record_magic_at(bytes)) {
            at = skip_within_window(scan, at);
            continue;
        }
        if (!record_header_decode(bytes, &scan->identity, scan->segment, at, &item->header) ||
            !room_for(scan, at, record_size(item->header.length))) {
            at += LOG_ALIGN;
            continue;
        }
        item->offset = at;
        item->end = at + record_size(item->header.length);
        item->after_hole = at != item->hole_at;
        scan->at = item->end;
        return 1;
    }
    return 0;
}

int log_scan_payload(struct log_scan *scan, const struct log_scan_item *item, uint8_t *into,
                     bool *intact) {
    uint64_t offset = item->offset + LOG_RECORD_HEADER;
    uint64_t left = item->header.length;
    uint32_t crc = 0;
    while (left > 0) {
        size_t step = left < scan->window_capacity ? (size_t)left : scan->window_capacity;
        const uint8_t *bytes;
        int rc = window_cover(scan, offset, step, &bytes);
        if (rc != 0) {
            return rc;
        }
        if (into != NULL) {
            memcpy(into, bytes, step);
            into += step;
        }
        crc = crc32c(crc, slice_of(bytes, step));
        offset += step;
        left -= step;
    }
    *intact = crc == item->header.payload_crc;
    return 0;
}

int log_scan_entry(struct log_scan *scan, const struct log_scan_item *item, struct entry *out,
                   bool *intact) {
    struct blob *payload = NULL;
    if (item->header.length > 0) {
        payload = blob_new(item->header.length);
        if (payload == NULL) {
            return LKV_ENOMEM;
        }
    }
    int rc = log_scan_payload(scan, item, payload != NULL ? payload->data : NULL, intact);
    if (rc != 0 || !*intact) {
        blob_unref(payload);
        return rc;
    }
    if (payload != NULL) {
        payload->crc = item->header.payload_crc;
        payload->crc_known = true;
    }
    *out = (struct entry){.index = item->header.index,
                          .term = item->header.term,
                          .type = (enum entry_type)item->header.type,
                          .payload = payload};
    return 0;
}

int log_scan_all_zero(struct log_scan *scan, uint64_t from, bool *all_zero) {
    *all_zero = true;
    while (*all_zero && from < scan->limit) {
        uint64_t left = scan->limit - from;
        size_t step = left < scan->window_capacity ? (size_t)left : scan->window_capacity;
        const uint8_t *bytes;
        int rc = window_cover(scan, from, step, &bytes);
        if (rc != 0) {
            return rc;
        }
        /* Equal to itself shifted by one, and zero in front. */
        *all_zero = bytes[0] == 0 && memcmp(bytes, bytes + 1, step - 1) == 0;
        from += step;
    }
    return 0;
}
