/* One connection to a node as its client: pipelined requests over MessagePack-RPC, matched by number.
 * Used by lkv_connect's client for each endpoint, and by a follower that forwards to the leader.
 * Loop thread only.
 */
#ifndef LIB_REMOTE_H
#define LIB_REMOTE_H

#include "base/loop.h"
#include "base/net.h"
#include "lib/request.h"

struct remote;

struct remote_events {
    void (*on_up)(void *arg);           /* connected */
    void (*on_down)(void *arg, int rc); /* gone; every request was handed to on_lost before */
    /* The connection broke, or the deadline passed, before the request was answered. `sent`: bytes of
     * it may have reached the node, so a write is now unknown. Takes the request. */
    void (*on_lost)(void *arg, struct request *request, bool sent, int rc);
    /* A definite refusal that another node may not share: LKV_ENOTLEADER with strings "leader",
     * "leader_address" in request->reply, LKV_ENOLEADER, LKV_ESTOPPED, LKV_ECLOSED. Takes the request;
     * everything else is finished by the remote itself. */
    void (*on_refused)(void *arg, struct request *request);
    void *arg;
};

/* Begins to connect. */
MUST_USE int remote_open(struct remote **out, struct loop *loop, struct net *net,
                         const char *address, const struct remote_events *events);
void remote_close(struct remote *remote); /* every request it holds goes to on_lost first */
bool remote_up(const struct remote *remote);

/* Takes the request on success; LKV_EBUSY when its output is full (nothing taken), LKV_ENOMEM. */
MUST_USE int remote_submit(struct remote *remote, struct request *request);

/* Loses requests whose deadline has passed; returns the earliest deadline left (UINT64_MAX: none).
 * The owner calls it when its timer fires. */
uint64_t remote_expire(struct remote *remote, uint64_t now_ns);

#endif
