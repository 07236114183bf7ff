#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* A file that has no name: a child that does not read it blocks nobody, and one that reads it twice may. */
static FILE *file_of(struct lkv_bytes input) {
    FILE *file = tmpfile();
    if (file == NULL) {
        return NULL;
    }
    bool good = fwrite(input.data, 1, input.size, file) == input.size && fflush(file) == 0;
    if (!good || lseek(fileno(file), 0, SEEK_SET) != 0) {
        (void)fclose(file);
        return NULL;
    }
    return file;
}

/* With no signal blocked, whatever this process waits for. */
static int start(char *const *command, int input, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    (void)sigemptyset(&none);
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0) {
        return rc;
    }
    rc = posix_spawnattr_init(&attributes);
    if (rc == 0) {
        rc = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
        rc = rc == 0 ? posix_spawnattr_setsigmask(&attributes, &none) : rc;
        rc = rc == 0 ? posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK) : rc;
        rc = rc == 0 ? posix_spawnp(pid, command[0], &actions, &attributes, command, environ) : rc;
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

int spawn_with_input(char *const *command, struct lkv_bytes input) {
    FILE *file = file_of(input);
    if (file == NULL) {
        return -errno;
    }
    pid_t pid;
    int status = 0, rc = start(command, fileno(file), &pid);
    while (rc == 0 && waitpid(pid, &status, 0) < 0) {
        rc = errno == EINTR ? 0 : errno;
    }
    (void)fclose(file);
    if (rc != 0) {
        return -rc;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
