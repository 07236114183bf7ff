/* Names to addresses, without blocking the loop.
 *
 * Each lookup has a thread of its own for as long as it lasts: a name whose server does not answer
 * must not keep the loop from reaching the other peers. (libuv's own pool would stay in the host's
 * process after the last handle is closed.)
 */
#ifndef LIB_UV_RESOLVER_H
#define LIB_UV_RESOLVER_H

#include "lib/uv/address.h"
#include "lib/uv/loop_inside.h"

enum {
    LOOKUPS_MAX = 16, /* at a time */
    LOOKUP_ADDRESSES_MAX = 8
};

struct lookup_result {
    int rc; /* 0, LKV_EUNREACHABLE or LKV_ENOMEM */
    size_t count;
    struct sockaddr_storage addresses[LOOKUP_ADDRESSES_MAX];
};

struct resolver;
struct lookup;

/* Finished lookups reach the loop as LOOP_NOTICE_HOOK. */
int resolver_open(struct resolver **out, struct loop_uv *loop) MUST_USE;

/* Waits a second for lookups that are going on; one that takes longer is left to end by itself,
 * touching nothing of the loop's. No `done` is called. NULL is fine. */
void resolver_close(struct resolver *resolver);

/* `done` is called by resolver_deliver; `result` is valid until it returns. LKV_EBUSY, LKV_ENOMEM. */
int resolver_start(struct resolver *resolver, const char *host, uint16_t port,
                   void (*done)(void *arg, const struct lookup_result *result), void *arg,
                   struct lookup **out) MUST_USE;

void resolver_cancel(struct lookup *lookup); /* its `done` will not be called */
void resolver_deliver(struct resolver *resolver);

/* Looks up on the calling thread. */
void resolve_now(const char *host, uint16_t port, struct lookup_result *out);

#endif
