/* The loop seam on libuv: one thread of its own, and one more for each work queue.
 *
 *     struct loop *loop;
 *     rc = loop_uv_open(&loop, &events, "lkv-n1", true, &why);
 *     ... net_uv_open, net_listen, anything else of the loop's thread: nobody else is there yet
 *     rc = loop_uv_start(loop);
 *     ...
 *     loop_uv_stop(loop);     joins; from here on the caller is "the loop's thread" again
 *     net_uv_close(net);
 *     loop_uv_close(loop);
 *
 * All threads are owned by the handle and gone after close; none takes a signal of the host. A loop
 * with nothing to do does not wake up. After close libuv keeps two descriptors for the life of the
 * process, whatever the number of loops.
 */
#ifndef LIB_UV_LOOP_UV_H
#define LIB_UV_LOOP_UV_H

#include "base/error.h"
#include "base/loop.h"

/* Copies `events` and `thread_name` (the threads are called NAME, NAME-log, NAME-bulk, cut to 15
 * bytes). Without workers loop_submit must not be called. The work queues' threads run from here
 * on. LKV_ENOMEM, LKV_EIO (no descriptors left). */
int loop_uv_open(struct loop **out, const struct loop_events *events, const char *thread_name,
                 bool with_workers, struct reason *why) MUST_USE;

/* Starts the loop's thread. Once. LKV_ENOMEM. */
int loop_uv_start(struct loop *loop) MUST_USE;

/* Ends the loop's thread and joins it. Jobs submitted so far run and get their `done`, on the loop's
 * thread; no other callback follows. Output that a socket takes at once is still sent. From any
 * thread but the loop's own; repeating it is fine, and so is a loop that was never started. */
void loop_uv_stop(struct loop *loop);

/* Stops first if need be. What uses the loop (net_uv_close) must be closed already. NULL is fine. */
void loop_uv_close(struct loop *loop);

/* Whether the caller may call what belongs to the loop's thread: it is that thread, or the thread
 * does not run. For asserts. */
bool loop_uv_is_here(const struct loop *loop);

#endif
