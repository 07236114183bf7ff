#include "log/segment.h"

#include "base/mem.h"

struct segment *segment_new(const struct segment_header *header, struct disk_file *file,
                            uint64_t capacity) {
    struct segment *segment = mem_calloc(1, sizeof(*segment));
    if (segment == NULL) {
        return NULL;
    }
    segment->number = header->number;
    segment->first = header->first;
    segment->prev_term = header->prev_term;
    segment->capacity = capacity;
    segment->zeroed = header->zeroed;
    memcpy(segment->before, header->before, sizeof(segment->before));
    segment->file = file;
    segment->last = header->first - 1;
    segment->tail = LOG_BLOCK;
    return segment;
}

void segment_free(struct segment *segment) {
    if (segment == NULL) {
        return;
    }
    disk_close(segment->file);
    mem_free(segment->points);
    mem_free(segment);
}

void segment_note(struct segment *segment, uint64_t index, uint64_t offset) {
    if (segment->point_count > 0) {
        const struct segment_point *last = &segment->points[segment->point_count - 1];
        if (offset - (uint64_t)last->offset * LOG_ALIGN < SEGMENT_POINT_BYTES) {
            return;
        }
    }
    if (index - segment->first > UINT32_MAX || offset / LOG_ALIGN > UINT32_MAX) {
        return; /* beyond 32 GiB in one file: found by scanning */
    }
    struct segment_point *grown = mem_array_grow(segment->points, &segment->point_capacity,
                                                 segment->point_count + 1, sizeof(*grown));
    if (grown == NULL) {
        return;
    }
    segment->points = grown;
    grown[segment->point_count++] = (struct segment_point){
        .ordinal = (uint32_t)(index - segment->first), .offset = (uint32_t)(offset / LOG_ALIGN)};
}

void segment_forget(struct segment *segment, uint64_t index) {
    while (segment->point_count > 0 &&
           segment->first + segment->points[segment->point_count - 1].ordinal >= index) {
        segment->point_count--;
    }
}

void segment_forget_between(struct segment *segment, uint64_t first, uint64_t last) {
    size_t kept = 0;
    for (size_t i = 0; i < segment->point_count; i++) {
        uint64_t index = segment->first + segment->points[i].ordinal;
        if (index < first || index > last) {
            segment->points[kept++] = segment->points[i];
        }
    }
    segment->point_count = kept;
}

uint64_t segment_seek(const struct segment *segment, uint64_t index) {
    size_t low = 0, high = segment->point_count; /* the point sought is in [low, high) - 1 */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (segment->first + segment->points[middle].ordinal <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? (uint64_t)segment->points[low - 1].offset * LOG_ALIGN : LOG_BLOCK;
}
