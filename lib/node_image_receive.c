/* An image that comes from the leader, because our next entry is no longer in its log.
 *
 *   chunks --(bulk thread: write at the offset, sync now and then)--> incoming file --last one: sync,
 *   verify all of it--> rename, directory sync --> restart the log after it (log thread) --> swap the
 *   state --> tell the core
 *
 * Until the rename nothing of the present state has changed; after it recovery would take the image,
 * and a log that does not reach it begins anew behind it.
 *
 * The incoming file is named after what comes: index, term, size and id of the sender's file. When a
 * connection, the leader or this process ends in the middle, the file stays, and chunks of the same image
 * go on where its verified part ends; any other image's first chunk removes it. Whatever the parts were,
 * only the whole is believed, after all its checksums and its digest. */
#include "lib/image_wire.h"
#include "lib/node_repair.h"
#include "lib/peer.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    INSTALL_RETRY_MS = 250,
    RECEIVE_RETRY_MS = 1000, /* after a failure, as a rule of this disk: not in a busy loop */
    SILENCE_MS = 30000,      /* the sender has other worries, and own images wait for it */
    RIVAL_MS = 5000,         /* of silence, after which another sender's image is taken instead */
    SYNC_BYTES = 8 * 1024 * 1024
};

struct image_receive {
    struct loop_job job;
    struct node *node;
    uint64_t from; /* member id of the sender */
    uint64_t index, term, size, file_id;
    uint64_t offset;        /* bytes that are in the file */
    uint64_t synced;        /* of them, on the disk for certain */
    uint64_t heard_ns;      /* the last chunk */
    struct disk_file *file; /* owned; opened by the first job */
    uint8_t *chunk;         /* owned: what the job writes, at chunk_offset */
    size_t chunk_size;
    uint64_t chunk_offset;
    bool busy;
    struct state_loaded loaded; /* owned: the verified state */
    int rc;
    struct reason why;
};

#define INCOMING "incoming-"

static void incoming_name(const struct image_receive *receive, char *out, size_t size) {
    /* Term and size in one word with the id: if two were ever confused, the digest would tell. */
    uint64_t key = receive->file_id ^ receive->term << 24 ^ receive->size;
    (void)snprintf(out, size, INCOMING "%020" PRIu64 "-%016" PRIx64 ".tmp", receive->index, key);
}

static void incoming_path(const struct image_receive *receive, char *out, size_t size) {
    char name[120];
    incoming_name(receive, name, sizeof(name));
    (void)snprintf(out, size, "%s/%s", receive->node->image_dir, name);
}

bool node_image_is_incoming(const char *name) {
    return strncmp(name, INCOMING, sizeof(INCOMING) - 1) == 0;
}

/* A state that nobody uses any more, on its way to be freed where there is time for it. */
struct disposal {
    struct loop_job job;
    struct node *node;
    struct state_loaded loaded;
};

static void dispose_run(struct loop_job *base) {
    struct disposal *disposal = LIST_ITEM(base, struct disposal, job);
    disposal->node->state->discard(&disposal->loaded);
    mem_trim();
}

static void dispose_done(struct loop_job *base) {
    struct disposal *disposal = LIST_ITEM(base, struct disposal, job);
    disposal->node->jobs_outstanding--;
    disposal->node->turn_wanted = true;
    mem_free(disposal);
}

static void dispose(struct node *node, struct state_loaded *loaded) {
    struct disposal *disposal = loaded->state != NULL ? mem_calloc(1, sizeof(*disposal)) : NULL;
    if (disposal == NULL) {
        node->state->discard(loaded);
        return;
    }
    *disposal = (struct disposal){
        .node = node, .loaded = *loaded, .job = {.run = dispose_run, .done = dispose_done}};
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &disposal->job);
}

static void receive_free(struct node *node) {
    struct image_receive *receive = node->receive;
    node->receive = NULL;
    if (receive != NULL) {
        disk_close(receive->file);
        dispose(node, &receive->loaded);
        mem_free(receive->chunk);
        mem_free(receive);
    }
}

static void send_ack(struct node *node, uint64_t to, const struct image_chunk *chunk,
                     uint64_t next_offset, enum image_ack_state state) {
    struct peer *peer = peer_by_id(node, to);
    struct image_ack ack = {.image_index = chunk->image_index,
                            .file_id = chunk->file_id,
                            .next_offset = next_offset,
                            .state = state};
    struct buffer body;
    buffer_init(&body);
    image_ack_encode(&ack, &body);
    if (peer != NULL && !body.failed) {
        (void)peer_send(peer, FRAME_IMAGE_ACK, buffer_slice(&body));
    }
    buffer_fini(&body);
}

static void answer(struct image_receive *receive, uint64_t next_offset,
                   enum image_ack_state state) {
    const struct image_chunk chunk = {.image_index = receive->index, .file_id = receive->file_id};
    send_ack(receive->node, receive->from, &chunk, next_offset, state);
}

/* ------------------------------------------------------------------ bulk thread */

static int remove_other(void *arg, const char *name) {
    struct image_receive *receive = arg;
    char own[120], path[DISK_PATH_SIZE];
    incoming_name(receive, own, sizeof(own));
    if (node_image_is_incoming(name) && strcmp(name, own) != 0) {
        (void)snprintf(path, sizeof(path), "%s/%s", receive->node->image_dir, name);
        int rc = disk_remove(receive->node->world.disk, path);
        (void)rc; /* a leftover costs space only; the next one tries again */
    }
    return 0;
}

/* What an earlier attempt left of the same image is gone on with. */
static int open_file(struct image_receive *receive, const char *path) {
    struct node *node = receive->node;
    struct disk *disk = node->world.disk;
    int rc = disk_list(disk, node->image_dir, remove_other, receive);
    rc = rc == 0 ? disk_open(disk, path, DISK_WRITE | DISK_CREATE, &receive->file) : rc;
    if (rc != 0) {
        receive->file = NULL;
        return reason_set(&receive->why, rc, "%s: %s", path, error_text(rc));
    }
    rc = node->state->prefix(node, path, &receive->offset, &receive->why);
    if (receive->offset >= receive->size) {
        receive->offset = 0; /* not what the name says */
    }
    if (rc == 0 && receive->offset > 0) {
        trace_line(&node->trace, TRACE_INFO, "image-resumed",
                   "image %" PRIu64 ": %" PRIu64 " of %" PRIu64 " bytes are here", receive->index,
                   receive->offset, receive->size);
    }
    return rc;
}

static int finish_file(struct image_receive *receive) {
    struct node *node = receive->node;
    struct disk *disk = node->world.disk;
    char incoming[DISK_PATH_SIZE];
    char final[DISK_PATH_SIZE];
    incoming_path(receive, incoming, sizeof(incoming));
    node_image_path(node, receive->index, final, sizeof(final));
    int rc = disk_sync(receive->file);
    if (rc != 0) {
        return reason_set(&receive->why, rc, "%s: sync: %s", incoming, error_text(rc));
    }
    struct state_loaded *loaded = &receive->loaded;
    rc = node->state->load(node, incoming, loaded, &receive->why);
    if (rc != 0) {
        return rc;
    }
    if (loaded->index != receive->index || loaded->term != receive->term ||
        loaded->cluster_id != node->identity.cluster_id) {
        return reason_set(&receive->why, LKV_EDAMAGED,
                          "image of entry %" PRIu64 " term %" PRIu64 ", announced as %" PRIu64
                          " term %" PRIu64,
                          loaded->index, loaded->term, receive->index, receive->term);
    }
    rc = disk_rename(disk, incoming, final);
    if (rc == 0) {
        rc = disk_sync_dir(disk, node->image_dir);
    }
    return rc == 0 ? 0 : reason_set(&receive->why, rc, "%s: %s", final, error_text(rc));
}

/* Synced in pieces: what is resumed behind is on the disk, and the log's syncs on the same disk never wait
 * for all of it. */
static int write_chunk(struct image_receive *receive, const char *path) {
    if (receive->chunk_offset != receive->offset) {
        return 0; /* the answer says where to go on */
    }
    struct slice bytes = slice_of(receive->chunk, receive->chunk_size);
    int rc = disk_write(receive->file, receive->offset, &bytes, 1);
    receive->offset += rc == 0 ? receive->chunk_size : 0;
    if (rc == 0 && receive->offset - receive->synced >= SYNC_BYTES) {
        rc = disk_sync(receive->file);
        receive->synced = receive->offset;
    }
    return rc == 0 ? 0 : reason_set(&receive->why, rc, "%s: %s", path, error_text(rc));
}

static void write_run(struct loop_job *base) {
    struct image_receive *receive = LIST_ITEM(base, struct image_receive, job);
    char path[DISK_PATH_SIZE];
    incoming_path(receive, path, sizeof(path));
    receive->rc = receive->file == NULL ? open_file(receive, path) : 0;
    if (receive->rc == 0) {
        receive->rc = write_chunk(receive, path);
    }
    if (receive->rc == 0 && receive->offset == receive->size) {
        receive->rc = finish_file(receive);
    }
    if (receive->rc != 0 && receive->rc != LKV_ECANCELED) {
        /* Rule 10, and room on a full disk: it begins anew. */
        int rc = disk_remove(receive->node->world.disk, path);
        (void)rc;
    }
}

/* ------------------------------------------------------------------ loop thread */

/* The image is durable under its name. Our log is kept when it holds the image's last entry: then the
 * image is only a shorter way to where the log leads. */
static void begin_install(struct node *node) {
    node->installing = true;
    node->install_retry_ns = 0;
    node->restart_given = false;
    node_image_receive_turn(node);
}

static void write_done(struct loop_job *base) {
    struct image_receive *receive = LIST_ITEM(base, struct image_receive, job);
    struct node *node = receive->node;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    receive->busy = false;
    if (receive->rc != 0) {
        trace_line(&node->trace, TRACE_WARN, "image-receive-failed", "%s", receive->why.text);
        int rc = receive->rc;
        struct reason why = receive->why;
        answer(receive, 0, IMAGE_ACK_FAILED);
        receive_free(node);
        node->receive_retry_ns = node_now(node) + RECEIVE_RETRY_MS * MS_NS;
        if (rc == LKV_EVERSION) { /* rule 22: nor will it understand the next one */
            node_stop(node, rc, "%s", why.text);
        }
    } else if (node->closing) {
        receive_free(node);
    } else if (receive->offset == receive->size) {
        begin_install(node);
    } else {
        answer(receive, receive->offset, IMAGE_ACK_MORE);
    }
}

/* Rule 31: an image of a later term is like its entries: not before the program has stopped acting. */
static bool program_acts(const struct node *node, uint64_t term) {
    const struct role *role = &node->role_events;
    return term > role->term && (role->kind == ROLE_READY || role_gate_closed(role));
}

/* Nothing of the old log waits to be written, also not for room on a full disk: entries of the old log do
 * not fit behind the image. And no image of our own is being written: a newer one would let go the
 * entries by which this one joins the log. */
static bool may_restart(const struct node *node) {
    return node->installing && !node->restart_given && !node->closing && node->stop_rc == 0 &&
           node_now(node) >= node->install_retry_ns && node->batch.no == 0 &&
           node->jobs_in_flight == 0 && list_empty(&node->full_jobs) && !node->reading_for_apply &&
           !node->image_running;
}

/* Gives the restart to the log thread. */
void node_image_receive_turn(struct node *node) {
    struct image_receive *receive = node->receive;
    if (!may_restart(node)) {
        return;
    }
    if (receive->index <= node->image_index) { /* our own became durable meanwhile (rule 14, P2) */
        node->installing = false;
        answer(receive, receive->size, IMAGE_ACK_INSTALLED);
        receive_free(node);
        return;
    }
    if (program_acts(node, receive->term)) {
        return; /* what frees the message wakes the loop */
    }
    node->restart_given = true;
    int rc = raft_keeps_log(node->raft, receive->index, receive->term)
                 ? node_repair_cover(node, receive->index, receive->term, true)
                 : node_restart_log(node, receive->index, receive->term);
    if (rc != 0) {
        node_stop(node, LKV_ENOMEM, "no memory to install an image");
    }
}

/* A full disk changed nothing: it is tried again until there is room (rule 15). */
static void restart_later(struct node *node, const struct reason *why) {
    trace_line(&node->trace, TRACE_WARN, "disk-full", "%s", why->text);
    node->restart_given = false;
    node->install_retry_ns = node_now(node) + INSTALL_RETRY_MS * MS_NS;
}

uint64_t node_image_receive_timer(struct node *node, uint64_t now_ns) {
    const struct image_receive *receive = node->receive;
    if (receive != NULL && !receive->busy && !node->installing && !node->closing) {
        uint64_t until_ns = receive->heard_ns + SILENCE_MS * MS_NS;
        if (now_ns < until_ns) {
            return until_ns;
        }
        receive_free(node); /* its file stays, should the same image be sent again */
        node->turn_wanted = true;
    }
    bool waits = node->installing && !node->restart_given && !node->closing;
    return waits && now_ns < node->install_retry_ns ? node->install_retry_ns : UINT64_MAX;
}

void node_log_restarted(struct node *node, int rc, const struct reason *why) {
    struct image_receive *receive = node->receive;
    if (rc == LKV_ENOSPACE && !node->closing) {
        restart_later(node, why);
        return;
    }
    if (rc != 0) {
        node_stop(node, rc, "image installed, but the log cannot continue: %s", why->text);
    }
    if (rc != 0 || node->closing || node->stop_rc != 0) {
        /* The disk is in order: recovery takes the image. The core of a node that has stopped would not
         * hear of it. */
        receive_free(node);
        return;
    }
    bool kept_log = raft_keeps_log(node->raft, receive->index, receive->term);
    node->image_index = receive->index;
    node->image_term = receive->term;
    node->bytes_since_image = 0;
    if (receive->index > node->applied) {
        /* receive_free disposes of the old contents. */
        node->state->restore(node, &receive->loaded);
        node->applied = receive->index;
        pending_skip(&node->pending, receive->index);
    }
    if (!kept_log) {
        node_staged_free_all(node);
        log_window_restart(&node->window, receive->index + 1);
        node->given_next = receive->index + 1;
    }
    node->installing = false;
    struct raft_event event = {.kind = RAFT_IMAGE_INSTALLED,
                               .image_installed = {.index = receive->index, .term = receive->term}};
    node_config(&node->identity, &event.image_installed.config);
    node_step(node, &event);
    trace_line(&node->trace, TRACE_INFO, "image-installed", "entry %" PRIu64, receive->index);
    answer(receive, receive->size, IMAGE_ACK_INSTALLED);
    receive_free(node);
    node_image_mended(node);
    struct raft_event applied = {.kind = RAFT_APPLIED, .applied = {.index = node->applied}};
    node_step(node, &applied);
    node->turn_wanted = true;
}

static bool is_of(const struct image_receive *receive, const struct image_chunk *chunk) {
    return receive->index == chunk->image_index && receive->term == chunk->image_term &&
           receive->size == chunk->size && receive->file_id == chunk->file_id;
}

/* False when this chunk cannot be used; what should be answered has been. */
static bool accept_chunk(struct node *node, const struct peer *from,
                         const struct image_chunk *chunk) {
    struct image_receive *receive = node->receive;
    if (receive != NULL && (receive->busy || node->installing)) {
        return false; /* the answer to the chunk in work tells the sender where to go on */
    }
    if (receive != NULL && !is_of(receive, chunk) && receive->from != from->id &&
        node_now(node) - receive->heard_ns < RIVAL_MS * MS_NS) {
        return false; /* two senders, each with an image of its own, would begin anew for ever */
    }
    if (receive == NULL || !is_of(receive, chunk)) {
        receive_free(node);
        node->receive = mem_calloc(1, sizeof(*node->receive));
        if (node->receive == NULL) {
            return false;
        }
        receive = node->receive;
        *receive = (struct image_receive){.node = node,
                                          .index = chunk->image_index,
                                          .term = chunk->image_term,
                                          .size = chunk->size,
                                          .file_id = chunk->file_id,
                                          .job = {.run = write_run, .done = write_done}};
    }
    receive->from = from->id;
    receive->heard_ns = node_now(node);
    if (receive->file != NULL && chunk->offset != receive->offset) {
        answer(receive, receive->offset, IMAGE_ACK_MORE);
        return false;
    }
    return true;
}

/* L4: not from a deposed leader, nor from one that we do not know yet: it will send again. What is in
 * an image is committed, whoever sends it: one that repairs our log is taken from anybody (rule 11). */
static bool may_come_from(struct node *node, const struct peer *from,
                          const struct image_chunk *chunk) {
    bool leader = chunk->leader_term == node->term && from->id == node->leader;
    return leader || node_image_helps(node, chunk->image_index);
}

void node_image_chunk(struct node *node, struct peer *from, struct slice body) {
    struct image_chunk chunk;
    if (!node->running || node->closing || image_chunk_decode(body, &chunk) != 0 ||
        !may_come_from(node, from, &chunk)) {
        return;
    }
    if (chunk.image_index <= node->applied && !node_image_helps(node, chunk.image_index)) {
        send_ack(node, from->id, &chunk, chunk.size, IMAGE_ACK_INSTALLED);
        return;
    }
    if (node_now(node) < node->receive_retry_ns || !accept_chunk(node, from, &chunk)) {
        return;
    }
    struct image_receive *receive = node->receive;
    uint8_t *bytes = mem_realloc(receive->chunk, chunk.bytes.size);
    if (bytes == NULL) {
        return;
    }
    memcpy(bytes, chunk.bytes.data, chunk.bytes.size);
    receive->chunk = bytes;
    receive->chunk_size = chunk.bytes.size;
    receive->chunk_offset = chunk.offset;
    receive->busy = true;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &receive->job);
}

void node_image_receive_cancel(struct node *node) {
    bool writing = node->receive != NULL && node->receive->busy;
    bool restarting = node->installing && node->restart_given;
    if (!writing && !restarting) { /* else it goes when the job is back */
        receive_free(node);
    }
}
