// Planted fault: two threads count without a lock. The program itself succeeds.

#include <pthread.h>
#include <stddef.h>

static int shared;

static void *count(void *arg) {
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        shared++;
    }
    return NULL;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, count, NULL) != 0) {
        return 1;
    }
    count(NULL);
    pthread_join(thread, NULL);
    return 0;
}
