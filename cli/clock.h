/* Time: durations as people write them, and a deadline for a whole command. */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t clock_us(void); /* monotonic */
int64_t clock_ms(void);

/* "5s", "250ms", "2m", "1h"; a number alone is seconds; fractions are allowed. */
bool duration_parse(const char *text, int64_t *out_ms);

struct deadline {
    int64_t at_ms; /* 0: none */
};

struct deadline deadline_in(int64_t ms);

/* Milliseconds left, at least 0; `otherwise` when there is no deadline. */
int64_t deadline_left(struct deadline deadline, int64_t otherwise);
bool deadline_passed(struct deadline deadline);

/* Waits for `ms`, or less. */
void clock_wait(int64_t ms);

#endif
