/* An image on its way to a follower whose next entry is no longer in the log.
 *
 *   install asked -> read a chunk (bulk thread) -> send it -> ack says where to go on -> ...
 *
 * One chunk at a time: the follower's disk sets the pace, and a lost chunk or ack costs one resend. How
 * large one is follows how long the last took: what is sent behind it, heartbeats above all, waits for it.
 * Story: chunks of a megabyte on a path of 200 KB a second; the follower hears no heartbeat and no
 * question, the connection is given up before the chunk is through, and the next one ends likewise.
 *
 * A connection that breaks ends the sending; the next one begins with the same image's first chunk, and
 * the follower answers with how far it has got. For a while that image, and the log behind it, stay for it
 * although there may be a newer one: a path that breaks more often than an image takes, and a leader that
 * makes images more often, would otherwise begin anew for ever (P9). */
#include "lib/image_wire.h"
#include "lib/node.h"
#include "lib/peer.h"

#include "base/mem.h"

enum {
    CHUNK_BYTES = 1024 * 1024,
    CHUNK_BYTES_MIN = 16 * 1024,
    CHUNK_BYTES_FIRST = 64 * 1024,
    RESEND_MS = 2000,
    RESUME_MS = 60000
};

struct image_send {
    struct loop_job job;
    struct node *node;
    uint64_t peer_id;
    uint64_t index, term;
    struct disk_file *file; /* owned, opened by the first job */
    uint64_t size, file_id, offset;
    uint8_t *chunk;                    /* owned, CHUNK_BYTES */
    size_t chunk_size, chunk_size_max; /* max: of the next one */
    uint64_t sent_ns;
    bool leads;   /* as a leader; else the peer asked, leader or not, to repair its log */
    bool reading; /* the job runs */
    bool ended;   /* waits for the job to be freed */
    uint64_t resend_ns;
    int rc;
};

static void send_free(struct image_send *send) {
    disk_close(send->file);
    mem_free(send->chunk);
    mem_free(send);
}

/* Ends it and tells the core; frees it, now or when its job is back. */
static void send_end(struct image_send *send, int rc) {
    struct node *node = send->node;
    struct peer *peer = peer_by_id(node, send->peer_id);
    if (peer != NULL && peer->send == send) {
        peer->send = NULL;
        bool broke = rc == LKV_EUNREACHABLE && node->role == RAFT_LEADER;
        peer->resume = (struct image_resume){0};
        if (broke) {
            peer->resume = (struct image_resume){.index = send->index,
                                                 .term = send->term,
                                                 .until_ns = node_now(node) + RESUME_MS * MS_NS};
        }
    }
    struct raft_event event = {
        .kind = RAFT_IMAGE_SENT,
        .image_sent = {.peer = send->peer_id, .index = send->index, .rc = rc}};
    send->ended = true;
    if (!send->reading) {
        send_free(send);
    }
    node_step(node, &event);
}

static int open_image(struct image_send *send) {
    char path[DISK_PATH_SIZE];
    node_image_path(send->node, send->index, path, sizeof(path));
    int rc = disk_open(send->node->world.disk, path, DISK_READ, &send->file);
    rc = rc != 0 ? rc : disk_size(send->file, &send->size);
    if (rc != 0) {
        return rc;
    }
    uint8_t head[IMAGE_ID_BYTES], tail[IMAGE_ID_BYTES];
    uint64_t at = send->size > sizeof(tail) ? send->size - sizeof(tail) : 0;
    size_t head_size, tail_size;
    rc = disk_read(send->file, 0, head, sizeof(head), &head_size);
    rc = rc != 0 ? rc : disk_read(send->file, at, tail, sizeof(tail), &tail_size);
    if (rc == 0) {
        send->file_id = image_file_id(slice_of(head, head_size), slice_of(tail, tail_size));
    }
    return rc;
}

static void read_run(struct loop_job *base) {
    struct image_send *send = LIST_ITEM(base, struct image_send, job);
    send->rc = send->file == NULL ? open_image(send) : 0;
    if (send->rc == 0) {
        send->rc = disk_read(send->file, send->offset, send->chunk, send->chunk_size_max,
                             &send->chunk_size);
    }
}

static void send_chunk(struct image_send *send) {
    struct node *node = send->node;
    struct peer *peer = peer_by_id(node, send->peer_id);
    struct image_chunk chunk = {.leader_term = node->term,
                                .image_index = send->index,
                                .image_term = send->term,
                                .size = send->size,
                                .file_id = send->file_id,
                                .offset = send->offset,
                                .bytes = slice_of(send->chunk, send->chunk_size)};
    struct buffer body;
    buffer_init(&body);
    image_chunk_encode(&chunk, &body);
    if (!body.failed && peer != NULL) {
        (void)peer_send(peer, FRAME_IMAGE_CHUNK, buffer_slice(&body));
    }
    buffer_fini(&body);
    send->sent_ns = node_now(node);
    send->resend_ns = send->sent_ns + RESEND_MS * MS_NS;
}

/* A heartbeat behind a chunk must be in time, whatever the path is. */
static void adapt_size(struct image_send *send) {
    const struct node *node = send->node;
    uint64_t took_ns = node_now(node) - send->sent_ns;
    if (took_ns > node->options.election_ms * MS_NS / 4) {
        send->chunk_size_max /= 2;
    } else if (took_ns < node->options.heartbeat_ms * MS_NS) {
        send->chunk_size_max *= 2;
    }
    if (send->chunk_size_max < CHUNK_BYTES_MIN) {
        send->chunk_size_max = CHUNK_BYTES_MIN;
    } else if (send->chunk_size_max > CHUNK_BYTES) {
        send->chunk_size_max = CHUNK_BYTES;
    }
}

static void read_done(struct loop_job *base) {
    struct image_send *send = LIST_ITEM(base, struct image_send, job);
    struct node *node = send->node;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    send->reading = false;
    if (send->ended) {
        send_free(send);
    } else if (send->rc != 0) {
        node_image_suspect(node);
        send_end(send, send->rc);
    } else if (send->leads && node->role != RAFT_LEADER) {
        send_end(send, LKV_ENOTLEADER);
    } else {
        send_chunk(send);
    }
}

static void read_chunk(struct image_send *send) {
    send->reading = true;
    send->resend_ns = UINT64_MAX;
    send->node->jobs_outstanding++;
    loop_submit(send->node->world.loop, LOOP_BULK, &send->job);
}

/* The newest, or the one that broke off, as long as the log goes on behind it. */
static void choose_image(struct node *node, struct peer *peer, struct image_send *send) {
    const struct image_resume *resume = &peer->resume;
    if (resume->index != 0 && node_now(node) < resume->until_ns &&
        log_first(node->log) <= resume->index + 1) {
        send->index = resume->index;
        send->term = resume->term;
    }
    peer->resume = (struct image_resume){0};
}

void node_image_install(struct node *node, uint64_t peer_id) {
    struct peer *peer = peer_by_id(node, peer_id);
    struct image_send *send = mem_calloc(1, sizeof(*send));
    uint8_t *chunk = mem_alloc(CHUNK_BYTES);
    if (peer == NULL || peer->send != NULL || node->closing || node->diverged || send == NULL ||
        chunk == NULL) {
        mem_free(send);
        mem_free(chunk);
        if (peer != NULL) {
            peer->install_refused = true; /* told at the turn's end, not within an update */
        }
        return;
    }
    *send = (struct image_send){.node = node,
                                .peer_id = peer_id,
                                .leads = node->role == RAFT_LEADER,
                                .index = node->image_index,
                                .term = node->image_term,
                                .chunk = chunk,
                                .chunk_size_max = CHUNK_BYTES_FIRST,
                                .resend_ns = UINT64_MAX,
                                .job = {.run = read_run, .done = read_done}};
    choose_image(node, peer, send);
    trace_line(&node->trace, TRACE_INFO, "image-send", "image %llu to %s",
               (unsigned long long)send->index, peer->name);
    peer->send = send;
    read_chunk(send);
}

void node_image_ack(struct node *node, struct peer *from, struct slice body) {
    struct image_ack ack;
    struct image_send *send = from->send;
    if (image_ack_decode(body, &ack) != 0 || send == NULL || send->reading ||
        ack.image_index != send->index || ack.file_id != send->file_id) {
        return;
    }
    node->turn_wanted = true;
    if (ack.state == IMAGE_ACK_INSTALLED) {
        send_end(send, 0);
    } else if (ack.state == IMAGE_ACK_FAILED || ack.next_offset > send->size) {
        node_image_suspect(node); /* what it verified was perhaps read from a rotten file */
        send_end(send, LKV_EIO);
    } else {
        send->offset = ack.next_offset;
        adapt_size(send);
        read_chunk(send);
    }
}

void node_image_peer_down(struct node *node, struct peer *peer) {
    (void)node;
    if (peer->send != NULL) {
        send_end(peer->send, LKV_EUNREACHABLE);
    }
}

void node_image_send_cancel(struct node *node) {
    for (size_t i = 0; i < node->peer_count; i++) {
        struct image_send *send = node->peers[i]->send;
        node->peers[i]->send = NULL;
        if (send != NULL && send->reading) {
            send->ended = true;
        } else if (send != NULL) {
            send_free(send);
        }
    }
}

static void tell_refused(struct node *node, struct peer *peer) {
    if (peer->install_refused) {
        peer->install_refused = false;
        struct raft_event event = {.kind = RAFT_IMAGE_SENT,
                                   .image_sent = {.peer = peer->id, .rc = LKV_EBUSY}};
        node_step(node, &event);
    }
}

uint64_t node_image_send_oldest(const struct node *node) {
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < node->peer_count; i++) {
        const struct image_send *send = node->peers[i]->send;
        const struct image_resume *resume = &node->peers[i]->resume;
        bool waits = resume->index != 0 && node_now(node) < resume->until_ns;
        oldest = send != NULL && send->index < oldest ? send->index : oldest;
        oldest = waits && resume->index < oldest ? resume->index : oldest;
    }
    return oldest;
}

uint64_t node_image_timer(struct node *node, uint64_t now_ns) {
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < node->peer_count; i++) {
        tell_refused(node, node->peers[i]);
        struct image_send *send = node->peers[i]->send;
        if (send == NULL || send->reading) {
            continue;
        }
        if (now_ns >= send->resend_ns) {
            read_chunk(send);
        } else if (send->resend_ns < next) {
            next = send->resend_ns;
        }
    }
    return next;
}
