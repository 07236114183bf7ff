/* Running another program. */
#ifndef CLI_SPAWN_H
#define CLI_SPAWN_H

#include "bytes.h"

/* Runs the command (found as a shell finds it) with these bytes as its stdin and the environment of this process,
 * and waits for its end. Its exit code, 128 + the signal that ended it, or the negative errno of why it could not
 * be run. */
int spawn_with_input(char *const *command, struct lkv_bytes input);

#endif
