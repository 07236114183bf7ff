#include "lib/uv/resolver.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/uv/thread.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CLOSE_WAIT_SECONDS = 1 };

/*
 *     running ──(its thread)──> finished ──(loop: resolver_deliver)──> joined, freed
 *        │
 *        └──(close, after a second)──> detached: its thread frees it, and the last one the resolver
 */
struct lookup {
    struct list_link link; /* under the resolver's mutex */
    struct resolver *resolver;
    pthread_t thread; /* loop thread */
    char host[ADDRESS_HOST_SIZE];
    uint16_t port;
    struct lookup_result result; /* the lookup's thread; then the loop's */

    void (*done)(void *arg, const struct lookup_result *result); /* loop; NULL: canceled */
    void *arg;
};

struct resolver {
    pthread_mutex_t mutex;
    pthread_cond_t changed;

    /* under mutex */
    struct loop_uv *loop; /* NULL: closed */
    struct list_link running;
    struct list_link finished;
    size_t running_count;

    size_t count; /* loop thread: running or finished */
};

/* ---- On the lookup's thread ---- */

static void add_addresses(const struct addrinfo *list, struct lookup_result *out) {
    for (; list != NULL && out->count < LOOKUP_ADDRESSES_MAX; list = list->ai_next) {
        bool known = list->ai_family == AF_INET || list->ai_family == AF_INET6;
        if (known && list->ai_addrlen <= sizeof(out->addresses[0])) {
            memcpy(&out->addresses[out->count], list->ai_addr, list->ai_addrlen);
            out->count++;
        }
    }
}

void resolve_now(const char *host, uint16_t port, struct lookup_result *out) {
    *out = (struct lookup_result){.rc = LKV_EUNREACHABLE};
    char service[8];
    (void)snprintf(service, sizeof(service), "%u", (unsigned)port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int status = getaddrinfo(host, service, &hints, &list);
    if (status == 0) {
        add_addresses(list, out);
        freeaddrinfo(list);
        out->rc = out->count > 0 ? 0 : LKV_EUNREACHABLE;
    } else if (status == EAI_MEMORY) {
        out->rc = LKV_ENOMEM;
    }
}

static void free_resolver(struct resolver *resolver) {
    (void)pthread_cond_destroy(&resolver->changed);
    (void)pthread_mutex_destroy(&resolver->mutex);
    mem_free(resolver);
}

static void *run(void *arg) {
    struct lookup *lookup = arg;
    struct resolver *resolver = lookup->resolver;
    resolve_now(lookup->host, lookup->port, &lookup->result);

    (void)pthread_mutex_lock(&resolver->mutex);
    list_remove(&lookup->link);
    bool last = --resolver->running_count == 0;
    bool abandoned = resolver->loop == NULL;
    if (!abandoned) {
        list_push_back(&resolver->finished, &lookup->link);
        (void)pthread_cond_signal(&resolver->changed);
        /* Under the mutex: close takes it before the loop can go. */
        loop_uv_notify(resolver->loop, LOOP_NOTICE_HOOK);
    }
    (void)pthread_mutex_unlock(&resolver->mutex);

    if (abandoned) {
        mem_free(lookup);
        if (last) {
            free_resolver(resolver);
        }
    }
    return NULL;
}

/* ---- On the loop's thread ---- */

int resolver_start(struct resolver *resolver, const char *host, uint16_t port,
                   void (*done)(void *arg, const struct lookup_result *result), void *arg,
                   struct lookup **out) {
    *out = NULL;
    if (resolver->count == LOOKUPS_MAX) {
        return LKV_EBUSY;
    }
    struct lookup *lookup = mem_calloc(1, sizeof(*lookup));
    if (lookup == NULL) {
        return LKV_ENOMEM;
    }
    lookup->resolver = resolver;
    lookup->port = port;
    lookup->done = done;
    lookup->arg = arg;
    (void)snprintf(lookup->host, sizeof(lookup->host), "%s", host);

    (void)pthread_mutex_lock(&resolver->mutex);
    list_push_back(&resolver->running, &lookup->link);
    resolver->running_count++;
    (void)pthread_mutex_unlock(&resolver->mutex);
    int rc = thread_start(&lookup->thread, "lkv-lookup", THREAD_STACK_SIZE_FOREIGN, run, lookup);
    if (rc != 0) {
        (void)pthread_mutex_lock(&resolver->mutex);
        list_remove(&lookup->link);
        resolver->running_count--;
        (void)pthread_mutex_unlock(&resolver->mutex);
        mem_free(lookup);
        return rc;
    }
    resolver->count++;
    *out = lookup;
    return 0;
}

void resolver_cancel(struct lookup *lookup) {
    lookup->done = NULL;
}

static struct lookup *next_finished(struct resolver *resolver) {
    (void)pthread_mutex_lock(&resolver->mutex);
    struct list_link *link = list_pop_front(&resolver->finished);
    (void)pthread_mutex_unlock(&resolver->mutex);
    return link != NULL ? LIST_ITEM(link, struct lookup, link) : NULL;
}

void resolver_deliver(struct resolver *resolver) {
    for (struct lookup *lookup; (lookup = next_finished(resolver)) != NULL;) {
        (void)pthread_join(lookup->thread, NULL); /* it has nothing left to do */
        resolver->count--;
        if (lookup->done != NULL) {
            lookup->done(lookup->arg, &lookup->result);
        }
        mem_free(lookup);
    }
}

/* ---- Life ---- */

static int init_changed(pthread_cond_t *changed) {
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return LKV_ENOMEM;
    }
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return failed == 0 ? 0 : LKV_ENOMEM;
}

int resolver_open(struct resolver **out, struct loop_uv *loop) {
    *out = NULL;
    struct resolver *resolver = mem_calloc(1, sizeof(*resolver));
    if (resolver == NULL) {
        return LKV_ENOMEM;
    }
    resolver->loop = loop;
    list_init(&resolver->running);
    list_init(&resolver->finished);
    if (pthread_mutex_init(&resolver->mutex, NULL) != 0) {
        goto fail_after_alloc;
    }
    if (init_changed(&resolver->changed) != 0) {
        goto fail_after_mutex;
    }
    *out = resolver;
    return 0;

fail_after_mutex:
    (void)pthread_mutex_destroy(&resolver->mutex);
fail_after_alloc:
    mem_free(resolver);
    return LKV_ENOMEM;
}

/* With the mutex held. */
static void wait_for_running(struct resolver *resolver) {
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CLOSE_WAIT_SECONDS;
    int failed = 0;
    while (resolver->running_count > 0 && failed == 0) {
        failed = pthread_cond_timedwait(&resolver->changed, &resolver->mutex, &until);
    }
}

void resolver_close(struct resolver *resolver) {
    if (resolver == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&resolver->mutex);
    wait_for_running(resolver);
    resolver->loop = NULL;
    bool last = resolver->running_count == 0;
    for (struct list_link *link = resolver->running.next; link != &resolver->running;
         link = link->next) {
        (void)pthread_detach(LIST_ITEM(link, struct lookup, link)->thread);
    }
    /* Out of the resolver before the mutex is let go: if lookups are left, the last of them frees
     * it at any moment from then on. */
    struct list_link finished;
    list_take(&finished, &resolver->finished);
    (void)pthread_mutex_unlock(&resolver->mutex);

    for (struct list_link *link; (link = list_pop_front(&finished)) != NULL;) {
        struct lookup *lookup = LIST_ITEM(link, struct lookup, link);
        (void)pthread_join(lookup->thread, NULL);
        mem_free(lookup);
    }
    if (last) {
        free_resolver(resolver);
    }
}
