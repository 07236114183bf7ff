/* Ctrl-C and SIGTERM as something that a loop asks about, so that a long command can end in order. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

struct interrupt {
    int fd; /* readable once a signal came; -1: signals end the process as usual */
};

/* From now on the signals do not end the process. Call it before a store is opened. */
void interrupt_start(struct interrupt *interrupt);

/* Whether one came since the last call; when one did, the next one ends the process. */
bool interrupt_came(struct interrupt *interrupt);
void interrupt_end(struct interrupt *interrupt);

#endif
