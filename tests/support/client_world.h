/* Loops and a network on paper: virtual time, no sockets, no threads, the same run every time. For
 * tests of what speaks through base/loop.h and base/net.h; everything happens inside of world_run and
 * world_advance.
 */
#ifndef TESTS_SUPPORT_CLIENT_WORLD_H
#define TESTS_SUPPORT_CLIENT_WORLD_H

#include "base/loop.h"
#include "base/net.h"

struct world;

struct world *world_new(void);
void world_free(struct world *world); /* frees loops, networks and connections, without callbacks */

/* Owned by the world. */
struct loop *world_loop(struct world *world, const struct loop_events *events);
struct net *world_net(struct world *world, struct loop *loop);

uint64_t world_now_ns(const struct world *world);
void world_run(struct world *world);                       /* until nothing more happens now */
void world_advance(struct world *world, uint64_t time_ms); /* with all timers on the way */

/* From now on nothing gets to or from connections accepted at `address`; what is written waits. New
 * connections to it hang. */
void world_cut(struct world *world, const char *address, bool cut);
void world_reset(struct world *world, const char *address); /* both ends: on_close(LKV_EIO) */
void world_chunk(struct world *world, size_t size);         /* bytes of one on_data at most */

size_t world_open_conns(const struct world *world); /* ends not closed yet */

#endif
