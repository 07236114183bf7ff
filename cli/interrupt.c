/* Signals as something that a loop asks about: see interrupt.h. */
#include "interrupt.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

void interrupt_start(struct interrupt *interrupt) {
    sigset_t set;
    signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    interrupt->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (interrupt->fd < 0) {
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
}

bool interrupt_came(struct interrupt *interrupt) {
    struct signalfd_siginfo info;
    if (interrupt->fd < 0 || read(interrupt->fd, &info, sizeof(info)) != sizeof(info)) {
        return false;
    }
    /* Whoever asks twice does not want to wait for an orderly end. */
    sigset_t set;
    signals(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return true;
}

void interrupt_end(struct interrupt *interrupt) {
    if (interrupt->fd >= 0) {
        close(interrupt->fd);
        interrupt->fd = -1;
    }
}
