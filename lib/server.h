/* The clients' side of a node: connections that speak MessagePack-RPC (docs/formats/client-rpc.md).
 *
 * Bounded per connection: bytes of requests being worked on (reading pauses beyond it) and bytes of
 * replies not yet taken (beyond it replies wait in their requests' place and reading pauses; a client
 * that takes nothing for 10 s is closed: N14). Bounded over all: bytes of replies not yet taken; beyond
 * it only small ones go on, and the others wait, pinned in the store and not encoded. A frame is
 * pre-scanned as it arrives; a malformed one gets one error reply and the connection is closed, and so is one whose frame arrives slower than
 * 64 KiB/s after the first 10 s (N3). Loop thread only.
 */
#ifndef LIB_SERVER_H
#define LIB_SERVER_H

#include "base/loop.h"
#include "base/net.h"
#include "lib/request.h"

struct server;

struct server_host {
    /* Takes the request on success; an error is answered by the server. */
    int (*submit)(void *arg, struct request *request);
    void *arg;
};

struct server_options {
    uint64_t key_bytes_max, value_bytes_max;
    uint64_t sessions_max;
    uint64_t connections_max;
    uint64_t output_bytes_max; /* replies not taken yet, of all connections together */
    uint64_t timeout_ms_max;   /* a client's timeout is cut to it */
    const struct trace *trace;
};

MUST_USE int server_open(struct server **out, struct loop *loop,
                         const struct server_options *options, const struct server_host *host);

/* Takes over a connection whose first bytes (already read) say that it is a client's. Beyond the
 * limit it gets LKV_EBUSY and is closed. */
void server_adopt(struct server *server, struct net_conn *conn, struct slice first_bytes);

size_t server_connections(const struct server *server); /* 0 of NULL */

/* Goes on reading where a connection was paused, and closes those that send a frame or take their
 * replies too slowly. The owner calls it at the end of each turn, before it flushes what requests
 * have left behind, and when its timer fires; returns when to call it again if nothing happens
 * (UINT64_MAX: never). Costs one compare when nothing is due. */
uint64_t server_expire(struct server *server, uint64_t now_ns);

/* Closes all connections. Requests still being worked on finish into nothing; the server frees itself
 * when the last has. */
void server_close(struct server *server);

#endif
