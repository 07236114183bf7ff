/* A node for clients to talk to: the real clients' server, and behind it a store that applies at once
 * and a role that a test chooses. On any loop and network.
 */
#ifndef TESTS_SUPPORT_CLIENT_HOST_H
#define TESTS_SUPPORT_CLIENT_HOST_H

#include "kv/kv.h"
#include "lib/server.h"

#include <stdatomic.h>

/* What all nodes of a cluster agree on. */
struct host_store {
    struct kv *kv;
    uint64_t index;
};

void host_store_open(struct host_store *store);
void host_store_close(struct host_store *store);

enum host_role {
    HOST_LEADER,    /* answers */
    HOST_FOLLOWER,  /* refuses what must not be passed on, with leader_address */
    HOST_NO_LEADER, /* LKV_ENOLEADER to who does not wait; keeps the others */
    HOST_SILENT,    /* keeps everything */
    HOST_FULL,      /* LKV_EBUSY */
    HOST_STOPPED    /* LKV_ESTOPPED */
};

struct host {
    struct host_store *store;
    struct loop *loop;
    struct server *server;
    struct net_listener *listener;
    struct list_link kept, greeting;
    size_t kept_count;
    atomic_int role; /* enum host_role */
    char leader_address[128];
    atomic_size_t calls, passed_on; /* requests that came; those that a follower passed on */
    struct server_options options;
};

/* Listens at `address`; `options` with zero fields takes defaults. */
void host_open(struct host *host, struct host_store *store, struct loop *loop, struct net *net,
               const char *address, const struct server_options *options);
void host_close(struct host *host); /* what it kept ends as LKV_ECLOSED */
void host_answer_kept(struct host *host);
void host_fail_kept(struct host *host, int rc);
uint64_t host_turn(struct host *host); /* at each turn's end, also when closed: when next */

#endif
