/* Time: see clock.h. */
#include "clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t clock_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_ms(void) {
    return clock_us() / 1000;
}

static double unit_ms(const char *unit) {
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(units[i].name, unit) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

bool duration_parse(const char *text, int64_t *out_ms) {
    /* strtod takes "inf", "nan", signs and hexadecimal too. */
    if (strspn(text, "0123456789.") == 0 || strpbrk(text, "xXeE") != NULL) {
        return false;
    }
    char *end;
    double number = strtod(text, &end);
    double ms = number * unit_ms(end);
    if (end == text || unit_ms(end) <= 0 || ms > 1e12) {
        return false;
    }
    *out_ms = (int64_t)(ms + 0.999); /* never less than was asked for */
    return true;
}

struct deadline deadline_in(int64_t ms) {
    return (struct deadline){clock_ms() + ms};
}

int64_t deadline_left(struct deadline deadline, int64_t otherwise) {
    if (deadline.at_ms == 0) {
        return otherwise;
    }
    int64_t left = deadline.at_ms - clock_ms();
    return left > 0 ? left : 0;
}

bool deadline_passed(struct deadline deadline) {
    return deadline.at_ms != 0 && clock_ms() >= deadline.at_ms;
}

void clock_wait(int64_t ms) {
    if (ms > 0) {
        poll(NULL, 0, ms > 60000 ? 60000 : (int)ms);
    }
}
