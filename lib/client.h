/* The handle of lkv_connect: a client of the nodes in the option "endpoints". */
#ifndef LIB_CLIENT_H
#define LIB_CLIENT_H

#include "base/loop.h"
#include "base/net.h"
#include "lib/handle.h"

struct client;

/* With a loop and sockets of its own. */
MUST_USE int client_open(struct lkv **out, const struct lkv_options *options, struct reason *why);

/* The same on a given loop and network, whose owner drives them: client_new, then a loop with the
 * client's events, then client_start. client_stop is for when the loop runs no more, or on its
 * thread: every request gets its final message. At least one endpoint. `close` is what lkv_close
 * calls. NULL is fine. */
MUST_USE int client_new(struct client **out, const struct lkv_options *options,
                        int (*close)(struct lkv *db, int64_t handover_ms));
struct loop_events client_events(struct client *client);
void client_start(struct client *client, struct loop *loop, struct net *net);
struct lkv *client_handle(struct client *client);
struct client *client_of(struct lkv *handle);
void client_world(const struct client *client, struct loop **loop, struct net **net);
void client_stop(struct client *client);
void client_free(struct client *client);

#endif
