/* A program on libuv: the queue's descriptor is watched with uv_poll like any socket, and everything that
 * the library has to say is handled on the program's own loop. A uv_timer submits a write every few
 * milliseconds; role changes and answers come through the same queue.
 *
 *     uv_loop DIR
 *
 *     cc uv_loop.c $(pkg-config --cflags --libs ledgerkv libuv) -o uv_loop */
#include <inttypes.h>
#include <ledgerkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { WRITES = 20, TICK_MS = 5 };

struct program {
    uv_loop_t loop;
    uv_poll_t poll;
    uv_timer_t timer;
    struct lkv *db;
    struct lkv_queue *queue;
    int submitted, answered;
};

static void fail(const char *what, int rc) {
    fprintf(stderr, "%s: %s (%s)\n", what, lkv_error_name(rc), lkv_last_text());
    exit(1);
}

/* ------------------------------------------------------------------ what happens on the loop */

static void on_answer(struct program *program, const struct lkv_msg *msg) {
    uint64_t rev = 0;
    program->answered++;
    if (lkv_msg_rc(msg) == 0 && lkv_msg_u64(msg, "rev", &rev)) {
        printf("write %d is revision %" PRIu64 "\n", program->answered, rev);
    } else {
        printf("write %d: %s\n", program->answered, lkv_msg_text(msg));
    }
    if (program->answered == WRITES) {
        uv_poll_stop(&program->poll); /* nothing is left to wait for: the loop ends */
    }
}

/* Takes everything: the descriptor stays readable until the queue is empty. */
static void on_readable(uv_poll_t *poll, int status, int events) {
    struct program *program = poll->data;
    struct lkv_msg *msg;
    (void)status, (void)events;
    while ((msg = lkv_queue_next(program->queue, 0)) != NULL) {
        if (lkv_msg_kind(msg) == LKV_ROLE) {
            printf("this node: %s\n", lkv_msg_str(msg, "role"));
        } else if (lkv_msg_kind(msg) == LKV_REPLY) {
            on_answer(program, msg);
        }
        lkv_msg_free(msg);
    }
}

static void on_tick(uv_timer_t *timer) {
    struct program *program = timer->data;
    char key[32];
    int size = snprintf(key, sizeof(key), "tick/%02d", program->submitted);
    struct lkv_bytes name = {key, (size_t)size}; /* copied before the call returns */
    int rc = lkv_put_submit(program->db, name, LKV_STR("x"), LKV_DEFAULT, program->queue, NULL);
    if (rc != 0) {
        fail("submit", rc);
    }
    if (++program->submitted == WRITES) {
        uv_timer_stop(timer);
    }
}

/* ------------------------------------------------------------------ open and run */

static void open_store(struct program *program, const char *dir) {
    struct lkv_options *options = lkv_options_new();
    int rc = lkv_options_set(options, "dir", dir);
    rc = rc == 0 ? lkv_open(&program->db, NULL, options, NULL) : rc;
    lkv_options_free(options);
    rc = rc == 0 ? lkv_queue_new(&program->queue) : rc;
    rc = rc == 0 ? lkv_role_watch(program->db, program->queue, NULL) : rc;
    if (rc != 0) {
        fail("open", rc);
    }
}

int main(int argc, char **argv) {
    static struct program program;
    open_store(&program, argc > 1 ? argv[1] : "./uv-data");
    uv_loop_init(&program.loop);
    uv_poll_init(&program.loop, &program.poll, lkv_queue_fd(program.queue));
    uv_timer_init(&program.loop, &program.timer);
    program.poll.data = program.timer.data = &program;
    uv_poll_start(&program.poll, UV_READABLE, on_readable);
    uv_timer_start(&program.timer, on_tick, TICK_MS, TICK_MS);
    uv_run(&program.loop, UV_RUN_DEFAULT);

    uv_close((uv_handle_t *)&program.poll, NULL); /* before its descriptor goes */
    uv_close((uv_handle_t *)&program.timer, NULL);
    uv_run(&program.loop, UV_RUN_DEFAULT);
    uv_loop_close(&program.loop);
    int rc = lkv_close(program.db, 0); /* queues what is still owed; here, nothing */
    lkv_queue_free(program.queue);
    return rc == 0 ? 0 : 1;
}
