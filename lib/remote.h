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
     * "leader_address" in request->reply, LKV_ENOLEADER, LKV_ESTOPPED, LKV_ECLOSED. Or, of a write that
     * may be repeated, LKV_EUNKNOWN. Takes the request; everything else is finished by the remote
     * itself. */
    void (*on_refused)(void *arg, struct request *request);
    void *arg;
    /* The node may pass requests on to its leader; otherwise it answers them itself or refuses. */
    bool may_pass_on;
};

/* Definite, and perhaps another node's answer would be another one: what on_refused is for. */
static inline bool remote_is_refusal(int rc) {
    return rc == LKV_ENOTLEADER || rc == LKV_ENOLEADER || rc == LKV_ESTOPPED || rc == LKV_ECLOSED;
}

/* Begins to connect; gives up after 2 s (on_down). Afterwards a node that answers nothing for 2.5 s
 * while it owes answers, not even a ping, counts as gone too. LKV_EINVAL (address), LKV_ENOMEM. */
MUST_USE int remote_open(struct remote **out, struct loop *loop, struct net *net,
                         const char *address, const struct remote_events *events);

/* Every request it holds goes to on_lost (LKV_ECLOSED) first. From any callback, too. NULL is fine. */
void remote_close(struct remote *remote);
/* Why the node took nothing from this connection, which it has closed; NULL: it did not say so. */
const char *remote_refusal(const struct remote *remote);
bool remote_up(const struct remote *remote);
size_t remote_in_flight(const struct remote *remote);
size_t remote_appends_in_flight(const struct remote *remote);
/* An append that was submitted before one that is under way here, and comes again: it has to wait until
 * that one is decided, or it gets a later index. */
bool remote_would_overtake(const struct remote *remote, const struct request *request);
uint64_t remote_answers(const struct remote *remote); /* replies that were no refusal, in total */

/* Silent for half a second although it owes answers: better send it nothing more for now. */
bool remote_suspect(const struct remote *remote);

/* Takes the request on success, also while the connection is being made; what an earlier attempt left
 * in its reply is dropped. LKV_EBUSY: its output is full; LKV_EUNREACHABLE: the connection is gone;
 * LKV_ETIMEOUT: the deadline has passed; LKV_ENOMEM. Then nothing was taken or sent. */
MUST_USE int remote_submit(struct remote *remote, struct request *request);

/* Loses requests whose deadline has passed, and the connection when it is silent; returns when to be
 * called again if nothing happens (UINT64_MAX: never), at most 4 ms late. The owner calls it at the
 * end of a turn or when its timer fires. */
uint64_t remote_expire(struct remote *remote, uint64_t now_ns);

/* Replies to no request that is known (late ones, mostly): dropped and counted. */
uint64_t remote_strays(const struct remote *remote);

#endif
