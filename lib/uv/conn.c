/* One connection: reading, the output of a turn, and the ways in which it ends. */
#include "base/assert.h"
#include "base/mem.h"
#include "lib/uv/net_inside.h"

#include <sys/socket.h>

enum { BUFFERS_PER_CALL = 64 };

/* ---- Life ---- */

struct conn *conn_new(struct net_uv *net, bool is_unix) {
    struct conn *conn = mem_calloc(1, sizeof(*conn));
    if (conn == NULL) {
        return NULL;
    }
    conn->base.net = &net->base;
    conn->net = net;
    conn->is_unix = is_unix;
    conn->limit = NET_LIMIT_DEFAULT;
    output_init(&conn->output);
    list_push_back(&net->conns, &conn->link);
    list_init(&conn->dirty);
    list_init(&conn->released);
    conn_new_handle(conn);
    return conn;
}

void conn_new_handle(struct conn *conn) {
    uv_loop_t *uv = &conn->net->loop->uv;
    int rc = conn->is_unix ? uv_pipe_init(uv, &conn->at.pipe, 0) : uv_tcp_init(uv, &conn->at.tcp);
    ASSERT(rc == 0); /* it makes no socket yet */
    conn->at.handle.data = conn;
    conn->net->handles++;
}

static void on_handle_closed(uv_handle_t *handle) {
    struct conn *conn = handle->data;
    conn->net->handles--;
    if (conn->state != CONN_CLOSED) {
        connect_next(conn);
        return;
    }
    mem_free(conn->addresses);
    mem_free(conn);
}

void conn_close_handle(struct conn *conn) {
    uv_close(&conn->at.handle, on_handle_closed);
}

void conn_discard(struct conn *conn) {
    if (conn->state == CONN_CLOSED) {
        return;
    }
    if (conn->state != CONN_OPEN) {
        connect_given_up(conn);
    }
    conn->state = CONN_CLOSED;
    list_remove(&conn->link);
    list_remove(&conn->dirty);
    list_remove(&conn->released);
    if (!uv_is_closing(&conn->at.handle)) {
        conn_close_handle(conn);
    }
    /* Only after the handle: libuv points into it until then. */
    output_fini(&conn->output);
}

/* Whether there is an owner to call. */
static bool is_heard(const struct conn *conn) {
    return conn->attached && !conn->let_go && !conn->net->loop->ended;
}

void conn_end(struct conn *conn, int rc) {
    if (conn->state == CONN_CLOSED) {
        return;
    }
    bool tell = is_heard(conn);
    conn_discard(conn);
    if (tell) {
        loop_uv_mark_active(conn->net->loop);
        conn->events.on_close(conn->arg, rc);
    }
}

void conn_mark_dirty(struct conn *conn) {
    if (list_empty(&conn->dirty)) {
        list_push_back(&conn->net->dirty, &conn->dirty);
    }
}

/* The owner hears of it at the end of the turn, never from inside of a call that it makes. */
static void end_later(struct conn *conn, int rc) {
    conn->error = rc;
    conn_mark_dirty(conn);
}

/* ---- Reading ---- */

static void hear_end(struct conn *conn, ssize_t status) {
    if (!conn->let_go || status != UV_EOF || conn->shutting) {
        conn_end(conn, status == UV_EOF ? 0 : LKV_EIO);
        return;
    }
    /* Half-closed by a peer that may still wait for the last of our output. */
    conn->ended = true;
    conn->reading = false;
    (void)uv_read_stop(&conn->at.stream);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out) {
    (void)suggested;
    struct conn *conn = handle->data;
    *out = uv_buf_init((char *)conn->net->read_buffer, READ_BUFFER_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct conn *conn = stream->data;
    if (size < 0) {
        hear_end(conn, size);
    } else if (size > 0 && is_heard(conn)) {
        loop_uv_mark_active(conn->net->loop);
        conn->events.on_data(conn->arg, slice_of(buffer->base, (size_t)size));
    }
}

void conn_start_reading(struct conn *conn) {
    if (conn->reading || conn->paused || !conn->attached || conn->state != CONN_OPEN) {
        return;
    }
    int status = uv_read_start(&conn->at.stream, on_alloc, on_read);
    if (status != 0) {
        end_later(conn, LKV_EIO);
        return;
    }
    conn->reading = true;
}

void conn_pause(struct net_conn *base, bool paused) {
    struct conn *conn = conn_of(base);
    ASSERT(conn->state != CONN_CLOSED);
    conn->paused = paused;
    if (!paused) {
        conn_start_reading(conn);
    } else if (conn->reading) {
        conn->reading = false;
        (void)uv_read_stop(&conn->at.stream);
    }
}

/* Sending has failed, but what the peer said before it went may still lie in the socket: often it
 * is the reason. */
static void read_last_words(struct conn *conn) {
    uv_os_fd_t fd;
    if (!conn->reading || !is_heard(conn) || uv_fileno(&conn->at.handle, &fd) != 0) {
        return;
    }
    while (conn->state == CONN_OPEN && conn->reading) {
        ssize_t size = recv(fd, conn->net->read_buffer, READ_BUFFER_SIZE, MSG_DONTWAIT);
        if (size <= 0) {
            return;
        }
        on_read(&conn->at.stream, size, &(uv_buf_t){.base = (char *)conn->net->read_buffer});
    }
}

/* ---- Writing ---- */

size_t conn_queued(const struct net_conn *base) {
    const struct conn *conn = (const struct conn *)(const void *)base;
    size_t taken =
        conn->writing ? conn->in_flight - uv_stream_get_write_queue_size(&conn->at.stream) : 0;
    return conn->output.bytes - taken;
}

/* Whether `size` more bytes may be queued. A refusal promises on_drain, at a level that is reached
 * only by progress: half of what is queued may still be too much for the next try, but never for
 * ever, and the owner is not called in a circle. */
static bool has_room(struct conn *conn, size_t size) {
    size_t queued = conn_queued(&conn->base);
    if (queued <= conn->limit && size <= conn->limit - queued) {
        return true;
    }
    if (queued > 0) {
        size_t level = queued < conn->limit ? queued / 2 : conn->limit / 2;
        conn->drain_at = conn->drain_due && conn->drain_at < level ? conn->drain_at : level;
        conn->drain_due = true;
    }
    return false;
}

static void written(struct conn *conn) {
    if (!conn->drain_due && conn_queued(&conn->base) > conn->limit / 2) {
        conn->drain_due = true;
        conn->drain_at = conn->limit / 2;
    }
    conn_mark_dirty(conn);
}

int conn_write(struct net_conn *base, struct slice bytes) {
    struct conn *conn = conn_of(base);
    ASSERT(conn->state != CONN_CLOSED && !conn->let_go);
    if (!has_room(conn, bytes.size)) {
        return LKV_EBUSY;
    }
    int rc = output_write(&conn->output, bytes);
    if (rc == 0) {
        written(conn);
    }
    return rc;
}

int conn_write_blob(struct net_conn *base, struct blob *blob) {
    struct conn *conn = conn_of(base);
    ASSERT(conn->state != CONN_CLOSED && !conn->let_go);
    if (!has_room(conn, blob->size)) {
        return LKV_EBUSY;
    }
    int rc = output_write_blob(&conn->output, blob);
    if (rc == 0) {
        written(conn);
    }
    return rc;
}

void conn_set_limit(struct net_conn *base, size_t limit) {
    conn_of(base)->limit = limit;
}

static void fail_writing(struct conn *conn) {
    if (!conn->attached) {
        conn->error = LKV_EIO; /* nobody to tell yet: conn_attach sees to it */
        output_clear(&conn->output);
        return;
    }
    read_last_words(conn);
    conn_end(conn, LKV_EIO);
}

static void on_written(uv_write_t *write, int status) {
    struct conn *conn = write->data;
    if (conn->state == CONN_CLOSED) {
        return; /* canceled, and the output is gone */
    }
    conn->writing = false;
    output_consume(&conn->output, conn->in_flight);
    if (status != 0) {
        fail_writing(conn);
        return;
    }
    conn_flush(conn);
}

/* Gives the front of the queue to libuv, which waits until the socket takes it. */
static int send_waiting(struct conn *conn, const uv_buf_t *buffers, unsigned count) {
    size_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        size += buffers[i].len;
    }
    conn->write.data = conn;
    int status = uv_write(&conn->write, &conn->at.stream, buffers, count, on_written);
    if (status == 0) {
        conn->writing = true;
        conn->in_flight = size;
    }
    return status;
}

static int send_queued(struct conn *conn) {
    while (conn->output.bytes > 0 && !conn->writing) {
        uv_buf_t buffers[BUFFERS_PER_CALL];
        unsigned count = output_peek(&conn->output, buffers, BUFFERS_PER_CALL);
        int taken = uv_try_write(&conn->at.stream, buffers, count);
        if (taken == UV_EAGAIN) {
            return send_waiting(conn, buffers, count);
        }
        if (taken < 0) {
            return taken;
        }
        output_consume(&conn->output, (size_t)taken);
    }
    return 0;
}

static void on_shut(uv_shutdown_t *shutdown, int status) {
    struct conn *conn = shutdown->data;
    if (conn->state != CONN_CLOSED && status != 0) {
        conn_discard(conn);
    }
}

/* Everything is sent. Closing now would reset the connection if the peer has sent something that
 * nobody read, and the reset would overtake our last words: so say that this is the end, and read
 * on until the peer closes. */
static void finish(struct conn *conn) {
    if (conn->ended) {
        conn_discard(conn);
        return;
    }
    if (conn->shutting) {
        return;
    }
    conn->shutting = true;
    conn->shutdown.data = conn;
    if (uv_shutdown(&conn->shutdown, &conn->at.stream, on_shut) != 0) {
        conn_discard(conn);
    }
}

static void tell_drained(struct conn *conn) {
    if (!conn->drain_due || !is_heard(conn) || conn_queued(&conn->base) > conn->drain_at) {
        return;
    }
    conn->drain_due = false;
    if (conn->events.on_drain != NULL) {
        loop_uv_mark_active(conn->net->loop);
        conn->events.on_drain(conn->arg);
    }
}

void conn_flush(struct conn *conn) {
    if (conn->error != 0 && conn->attached) {
        conn_end(conn, conn->error);
        return;
    }
    if (conn->error != 0 || conn->state != CONN_OPEN) {
        return;
    }
    if (send_queued(conn) != 0) {
        fail_writing(conn);
        return;
    }
    if (conn->let_go && conn->output.bytes == 0) {
        finish(conn);
    } else {
        tell_drained(conn);
    }
}

/* ---- The owner's calls ---- */

void conn_opened(struct conn *conn) {
    conn->state = CONN_OPEN;
    if (!conn->is_unix) {
        (void)uv_tcp_nodelay(&conn->at.tcp, 1);
    }
    conn_mark_dirty(conn);
}

void conn_attach(struct net_conn *base, const struct net_conn_events *events, void *arg) {
    struct conn *conn = conn_of(base);
    ASSERT(conn->state != CONN_CLOSED && !conn->let_go);
    conn->events = *events;
    conn->arg = arg;
    conn->attached = true;
    conn_start_reading(conn);
    if (conn->error != 0) {
        conn_mark_dirty(conn);
    }
}

void conn_close(struct net_conn *base) {
    struct conn *conn = conn_of(base);
    ASSERT(!conn->let_go);
    conn_discard(conn);
}

void conn_close_after_flush(struct net_conn *base) {
    struct conn *conn = conn_of(base);
    if (conn->state == CONN_CLOSED) {
        return; /* from inside its on_close */
    }
    ASSERT(!conn->let_go);
    conn->let_go = true;
    conn->attached = true; /* what is read from now on is dropped */
    conn->paused = false;
    conn_start_reading(conn);
    net_uv_linger(conn);
    conn_mark_dirty(conn);
}

const char *conn_peer_name(const struct net_conn *base) {
    return ((const struct conn *)(const void *)base)->peer_name;
}
