// No fault: allocates, frees, and counts under a lock on two threads.

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int shared;

static void *count(void *arg) {
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&mutex);
        shared++;
        pthread_mutex_unlock(&mutex);
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
    free(malloc(16));
    return shared == 2000 ? 0 : 1;
}
