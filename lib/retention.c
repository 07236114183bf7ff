#include "lib/retention.h"

#include "base/buffer.h"
#include "lib/small_file.h"

#include <inttypes.h>
#include <stdio.h>

static const struct small_text file_format = {
    .format = "ledgerkv-retention", .version = 1, .size_max = 64 * 1024};

/* ------------------------------------------------------------------ holds and samples */

static struct retention_hold *find_hold(struct retention *retention, const char *name) {
    for (size_t i = 0; i < retention->hold_count; i++) {
        if (strcmp(retention->holds[i].name, name) == 0) {
            return &retention->holds[i];
        }
    }
    return NULL;
}

int retention_hold(struct retention *retention, const char *name, uint64_t keep_from) {
    struct retention_hold *hold = find_hold(retention, name);
    if (keep_from == 0) {
        if (hold != NULL) {
            *hold = retention->holds[--retention->hold_count];
        }
        return 0;
    }
    if (hold == NULL) {
        if (retention->hold_count == RETENTION_HOLDS_MAX) {
            return LKV_EBUSY;
        }
        hold = &retention->holds[retention->hold_count++];
        (void)snprintf(hold->name, sizeof(hold->name), "%s", name);
    }
    hold->keep_from = keep_from;
    return 0;
}

bool retention_sample(struct retention *retention, uint64_t wall_ms, uint64_t index,
                      uint64_t every_ms) {
    if (retention->sample_count > 0) {
        const struct retention_sample *last = &retention->samples[retention->sample_count - 1];
        bool early = wall_ms >= last->wall_ms && wall_ms - last->wall_ms < every_ms;
        if (early || index <= last->index) {
            return false;
        }
    }
    if (retention->sample_count == RETENTION_SAMPLES_MAX) {
        memmove(retention->samples, retention->samples + 1,
                (RETENTION_SAMPLES_MAX - 1) * sizeof(retention->samples[0]));
        retention->sample_count--;
    }
    retention->samples[retention->sample_count++] =
        (struct retention_sample){.wall_ms = wall_ms, .index = index};
    return true;
}

/* ------------------------------------------------------------------ the verdict */

/* Entries up to the result are at least `age_ms` old. */
static uint64_t aged(const struct retention *retention, uint64_t wall_ms, uint64_t age_ms) {
    uint64_t index = 0;
    for (size_t i = 0; i < retention->sample_count; i++) {
        const struct retention_sample *sample = &retention->samples[i];
        if (wall_ms >= sample->wall_ms && wall_ms - sample->wall_ms >= age_ms) {
            index = sample->index;
        }
    }
    return index;
}

/* How many of the oldest segments age or bytes let go. */
static size_t wanted(const struct retention *retention, const struct retention_rules *rules,
                     const struct log_segment *segments, size_t count, uint64_t applied,
                     uint64_t wall_ms) {
    uint64_t old = rules->retention_ms > 0 ? aged(retention, wall_ms, rules->retention_ms) : 0;
    uint64_t ceiling = applied > rules->keep_entries ? applied - rules->keep_entries : 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += segments[i].bytes;
    }
    size_t go = 0;
    while (go + 1 < count && segments[go].last <= ceiling) {
        uint64_t left = bytes - segments[go].bytes;
        bool much = rules->retention_bytes > 0 && left >= rules->retention_bytes;
        if (segments[go].last > old && !much) {
            break;
        }
        bytes = left;
        go++;
    }
    return go;
}

static const struct retention_hold *lowest(const struct retention *retention) {
    const struct retention_hold *found = NULL;
    for (size_t i = 0; i < retention->hold_count; i++) {
        const struct retention_hold *hold = &retention->holds[i];
        found = found == NULL || hold->keep_from < found->keep_from ? hold : found;
    }
    return found;
}

void retention_decide(const struct retention *retention, const struct retention_rules *rules,
                      const struct log_segment *segments, size_t count, uint64_t applied,
                      uint64_t wall_ms, struct retention_verdict *out) {
    *out = (struct retention_verdict){0};
    size_t want = wanted(retention, rules, segments, count, applied, wall_ms);
    const struct retention_hold *floor = lowest(retention);
    size_t go = 0;
    while (go < want && (floor == NULL || segments[go].last < floor->keep_from)) {
        go++;
    }
    uint64_t held = 0;
    for (size_t i = go; i < want; i++) {
        held += segments[i].bytes;
    }
    for (; go < want && held > rules->hold_bytes_max; go++) {
        held -= segments[go].bytes;
        out->lost = floor;
    }
    out->drop_to = go > 0 ? segments[go - 1].last : 0;
}

/* ------------------------------------------------------------------ the file */

int retention_save(struct disk *disk, const char *dir, const struct retention *retention,
                   struct reason *why) {
    struct buffer text;
    buffer_init(&text);
    buffer_printf(&text, "%s %d\n", file_format.format, file_format.version);
    for (size_t i = 0; i < retention->hold_count; i++) {
        buffer_printf(&text, "hold %s %" PRIu64 "\n", retention->holds[i].name,
                      retention->holds[i].keep_from);
    }
    for (size_t i = 0; i < retention->sample_count; i++) {
        buffer_printf(&text, "sample %" PRIu64 " %" PRIu64 "\n", retention->samples[i].wall_ms,
                      retention->samples[i].index);
    }
    small_text_seal(&text);
    int rc = text.failed ? reason_set(why, LKV_ENOMEM, "no memory for the holds")
                         : small_file_save(disk, dir, "retention", buffer_slice(&text), why);
    buffer_fini(&text);
    return rc;
}

static bool decode_line(void *arg, const char *line) {
    struct retention *out = arg;
    struct retention_hold hold = {.keep_from = 0};
    struct retention_sample sample = {0};
    int end = 0;
    if (sscanf(line, "hold %63s %" SCNu64 "%n", hold.name, &hold.keep_from, &end) == 2 &&
        line[end] == '\0' && out->hold_count < RETENTION_HOLDS_MAX) {
        out->holds[out->hold_count++] = hold;
        return true;
    }
    if (sscanf(line, "sample %" SCNu64 " %" SCNu64 "%n", &sample.wall_ms, &sample.index, &end) ==
            2 &&
        line[end] == '\0' && out->sample_count < RETENTION_SAMPLES_MAX) {
        out->samples[out->sample_count++] = sample;
        return true;
    }
    return false;
}

int retention_load(struct disk *disk, const char *dir, struct retention *out, struct reason *why) {
    *out = (struct retention){0};
    struct reason inner = {{0}};
    int rc = small_text_load(disk, dir, "retention", &file_format, decode_line, out, &inner);
    return rc == 0 || rc == LKV_ENOENT ? 0 : reason_set(why, rc, "%s", inner.text);
}
