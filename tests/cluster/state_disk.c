/* Preloaded into a node: its disk, as far as the state in DIR/state goes. STATE_DISK_DELAY_MS: each sync takes so much
 * longer. STATE_DISK_FAILS: while a file of this name is there, a sync fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int sync_fn(int file);

static int is_of_state(int file) {
    char link[64], path[4096];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof(path) - 1);
    path[size > 0 ? size : 0] = '\0';
    return strstr(path, "/state/") != NULL;
}

static int sync_with(const char *name, int file) {
    sync_fn *real = NULL;
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(&real, &symbol, sizeof(real));
    const char *delay = getenv("STATE_DISK_DELAY_MS");
    const char *fails = getenv("STATE_DISK_FAILS");
    if (is_of_state(file)) {
        if (delay != NULL) {
            (void)usleep((useconds_t)atoi(delay) * 1000);
        }
        if (fails != NULL && access(fails, F_OK) == 0) {
            errno = EIO;
            return -1;
        }
    }
    return real(file);
}

int fsync(int file) {
    return sync_with("fsync", file);
}

int fdatasync(int file) {
    return sync_with("fdatasync", file);
}
