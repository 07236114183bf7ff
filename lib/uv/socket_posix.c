#include "lib/uv/socket_posix.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Only a refusal proves that nobody listens: a full backlog is EAGAIN, a foreign owner's EACCES. */
static bool is_stale(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (size >= sizeof(address.sun_path)) {
        return false;
    }
    memcpy(address.sun_path, path, size);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    bool refused = connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 &&
                   errno == ECONNREFUSED;
    (void)close(fd);
    return refused;
}

int socket_remove_stale(const char *path) {
    struct stat status;
    if (lstat(path, &status) != 0) {
        return 0; /* nothing there, or bind will say what is wrong */
    }
    if (!S_ISSOCK(status.st_mode) || !is_stale(path)) {
        return LKV_EADDRINUSE;
    }
    return unlink(path) == 0 || errno == ENOENT ? 0 : LKV_EPERM;
}

int socket_make_private(const char *path) {
    return chmod(path, S_IRUSR | S_IWUSR) == 0 ? 0 : LKV_EPERM;
}
