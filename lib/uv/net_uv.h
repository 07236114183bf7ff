/* The network seam on libuv: TCP and unix sockets on a loop of loop_uv.h.
 *
 * What a turn of the loop writes leaves at its end, small pieces together, without delay by the
 * kernel (TCP_NODELAY). A name with several addresses is tried address by address; when an attempt
 * is given up, the next one begins with another address. Unix sockets are made for the owner alone
 * (0600), and a file left by a process that died is replaced. A connection that is closed after
 * flush has LINGER_MS for it.
 */
#ifndef LIB_UV_NET_UV_H
#define LIB_UV_NET_UV_H

#include "base/loop.h"
#include "base/net.h"

/* `loop` is one of loop_uv_open. On its thread, or before it is started. LKV_ENOMEM. */
int net_uv_open(struct net **out, struct loop *loop) MUST_USE;

/* After loop_uv_stop, before loop_uv_close. Closes listeners and connections that are left, without
 * callbacks. NULL is fine. */
void net_uv_close(struct net *net);

#endif
