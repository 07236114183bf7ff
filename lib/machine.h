/* The steps of which lkv_machine_run is made, for whoever must not wait in it. */
#ifndef LIB_MACHINE_H
#define LIB_MACHINE_H

#include "lib/api.h"

enum { MACHINE_OVER = 1 };

/* Takes one message, or waits for it so long (as lkv_queue_next), and goes on with an image. 0: goes on;
 * `*idle` when nothing had come. MACHINE_OVER: it was stopped. An error: that of lkv_machine_run. */
MUST_USE int machine_step(struct lkv_machine *machine, int64_t wait_ms, bool *idle);

/* After the last step: `rc` is what it came to. Waits for what is still owed to it. */
void machine_end(struct lkv_machine *machine, int rc);

/* As lkv_image_commit, with an LKV_REPLY. */
MUST_USE int image_commit_submit(struct lkv_image *image, int64_t timeout_ms,
                                 struct lkv_queue *queue, void *tag);

#endif
