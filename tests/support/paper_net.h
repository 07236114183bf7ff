/* Loops and a network on paper: virtual time, no sockets, no threads, the same run every time. For
 * tests of what speaks through base/loop.h and base/net.h; everything happens inside of paper_run and
 * paper_advance.
 */
#ifndef TESTS_SUPPORT_PAPER_NET_H
#define TESTS_SUPPORT_PAPER_NET_H

#include "base/loop.h"
#include "base/net.h"

struct paper;

struct paper *paper_new(void);
void paper_free(struct paper *paper); /* frees loops, networks and connections, without callbacks */

/* Owned by the paper. */
struct loop *paper_loop(struct paper *paper, const struct loop_events *events);
struct net *paper_net(struct paper *paper, struct loop *loop);

uint64_t paper_now_ns(const struct paper *paper);
void paper_run(struct paper *paper);                       /* until nothing more happens now */
void paper_advance(struct paper *paper, uint64_t time_ms); /* with all timers on the way */

/* From now on nothing gets to or from connections accepted at `address`; what is written waits. New
 * connections to it hang. */
void paper_cut(struct paper *paper, const char *address, bool cut);
void paper_reset(struct paper *paper, const char *address); /* both ends: on_close(LKV_EIO) */
void paper_chunk(struct paper *paper, size_t size);         /* bytes of one on_data at most */

size_t paper_open_conns(const struct paper *paper); /* ends not closed yet */

#endif
