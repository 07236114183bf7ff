/* A progress bar: see progress.h. */
#include "progress.h"

#include "clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24, EVERY_US = 100000 };

void progress_start(struct progress *progress, const char *verb) {
    const char *terminal = getenv("TERM");
    bool dumb = terminal != NULL && strcmp(terminal, "dumb") == 0;
    *progress = (struct progress){.verb = verb, .shown = isatty(STDERR_FILENO) && !dumb};
    progress->start_us = clock_us();
    progress->next_us = progress->start_us;
}

const char *time_name(uint64_t seconds, char buf[static 24]) {
    unsigned hours = (unsigned)(seconds / 3600 % 100000);
    unsigned minutes = (unsigned)(seconds / 60 % 60);
    unsigned rest = (unsigned)(seconds % 60);
    if (hours > 0) {
        snprintf(buf, 24, "%u:%02u:%02u", hours, minutes, rest);
    } else {
        snprintf(buf, 24, "%u:%02u", minutes, rest);
    }
    return buf;
}

const char *size_name(uint64_t bytes, char buf[static 24]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t unit = 0;
    while (size >= 1024 && unit < 4) {
        size /= 1024;
        unit++;
    }
    snprintf(buf, 24, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
    return buf;
}

static void draw_bar(uint64_t part, uint64_t whole) {
    int filled = part < whole ? (int)((double)part / (double)whole * BAR_WIDTH) : BAR_WIDTH;
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[BAR_WIDTH] = '\0';
    fprintf(stderr, " [%s] %3.0f%%", bar,
            part < whole ? (double)part / (double)whole * 100 : 100.0);
}

void progress_update(struct progress *progress, uint64_t done, uint64_t part, uint64_t whole) {
    if (!progress->shown) {
        return;
    }
    int64_t now = clock_us();
    if (now < progress->next_us) {
        return;
    }
    progress->next_us = now + EVERY_US;
    double seconds = (double)(now - progress->start_us) / 1e6;
    fprintf(stderr, "\r%s", progress->verb);
    if (whole > 0) {
        draw_bar(part, whole);
    }
    fprintf(stderr, "  %" PRIu64, done);
    if (seconds > 0.2) {
        fprintf(stderr, "  %.0f/s", (double)done / seconds);
    }
    if (whole > 0 && part > 0 && part < whole && seconds > 0.5) {
        char left[24];
        double rest = seconds * ((double)whole / (double)part - 1);
        fprintf(stderr, "  %s left", time_name((uint64_t)(rest + 0.5), left));
    }
    fputs("\033[K", stderr);
}

void progress_end(struct progress *progress) {
    if (progress->shown) {
        fputs("\r\033[K", stderr);
        progress->shown = false;
    }
}
