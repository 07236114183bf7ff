/* This node's own images: when one is taken, where it lies, what goes when it is durable (rule 14). */
#include "lib/node_repair.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { HOLD_IMAGES = 4, HOLD_BYTES = 64 * 1024 * 1024 }; /* of log, at most, for slow followers */
enum {
    RETRY_MS = 1000, /* after an image that failed: the first, twice that the next, and so on */
    RETRY_MS_MAX = 64000,
    ROOM_MS = 8000 /* on a full disk at most; and from one image there to the next */
};

struct image_job {
    struct loop_job job;
    struct node *node;
    struct state_image image;
    char path[DISK_PATH_SIZE];
    uint64_t bytes_before; /* bytes_since_image when it was begun */
    uint64_t hold;         /* the log above it stays */
    uint64_t keep;         /* images from this one on stay */
    uint64_t covered;      /* by the image there is: the log goes up to here if this one fits not */
    uint64_t keep_covered; /* and these images stay */
    bool freed;            /* so it was */
    int rc, clean_rc;
    struct reason why;
};

void node_image_path(const struct node *node, uint64_t index, char *out, size_t size) {
    (void)snprintf(out, size, "%s/%020" PRIu64 ".img", node->image_dir, index);
}

uint64_t node_image_name_index(const char *name) {
    uint64_t index = 0;
    int end = 0;
    bool whole =
        sscanf(name, "%20" SCNu64 ".img%n", &index, &end) == 1 && end == 24 && name[end] == '\0';
    return whole ? index : 0;
}

#define ASIDE ".damaged"

bool node_image_is_aside(const char *name) {
    size_t size = strlen(name), tail = strlen(ASIDE);
    return size > tail && strcmp(name + size - tail, ASIDE) == 0;
}

struct aside {
    struct node *node;
    bool any;
    int rc;
};

static int put_aside(void *arg, const char *name) {
    struct aside *aside = arg;
    struct node *node = aside->node;
    if (node_image_name_index(name) > node->image_index) {
        char from[DISK_PATH_SIZE], to[DISK_PATH_SIZE + sizeof(ASIDE)];
        (void)snprintf(from, sizeof(from), "%s/%s", node->image_dir, name);
        (void)snprintf(to, sizeof(to), "%s%s", from, ASIDE);
        aside->any = true;
        aside->rc = disk_rename(node->world.disk, from, to);
    }
    return aside->rc;
}

int node_image_put_aside(struct node *node) {
    struct aside aside = {.node = node};
    int rc = disk_list(node->world.disk, node->image_dir, put_aside, &aside);
    return rc == 0 && aside.any ? disk_sync_dir(node->world.disk, node->image_dir) : rc;
}

struct removal {
    struct node *node;
    uint64_t keep;
};

static int remove_older(void *arg, const char *name) {
    const struct removal *removal = arg;
    uint64_t index = node_image_name_index(name);
    if ((index != 0 && index < removal->keep) || node_image_is_aside(name) ||
        node_image_is_incoming(name)) {
        char path[DISK_PATH_SIZE];
        (void)snprintf(path, sizeof(path), "%s/%s", removal->node->image_dir, name);
        /* A leftover costs space only; the next image tries again. */
        int rc = disk_remove(removal->node->world.disk, path);
        (void)rc;
    }
    return 0;
}

int node_image_remove_older(struct node *node, uint64_t keep) {
    struct removal removal = {.node = node, .keep = keep};
    return disk_list(node->world.disk, node->image_dir, remove_older, &removal);
}

bool node_short_of_room(const struct node *node) {
    return node->no_spare || node->room != RAFT_ROOM_FREE;
}

/* It did not fit beside what is there: what the image before it stands for goes now (rules 14 and 15). */
static void make_room(struct image_job *job) {
    struct reason why;
    struct node *node = job->node;
    if (job->covered == 0 || node_image_remove_older(node, job->keep_covered) != 0) {
        return;
    }
    uint64_t to = job->covered < job->hold ? job->covered : job->hold;
    job->freed = to >= log_first(node->log);
    int rc = job->freed ? log_drop_prefix(node->log, to, &why) : 0;
    (void)rc; /* the next attempt tries again */
}

static void image_run(struct loop_job *base) {
    struct image_job *job = LIST_ITEM(base, struct image_job, job);
    struct node *node = job->node;
    job->rc = node->state->save(node, &job->image, job->path, &job->why);
    node->state->end(&job->image); /* here: what it was the last to pin takes a while to free */
    if (job->image.checkpoint) {
        return; /* nothing goes for it */
    }
    if (job->rc == LKV_ENOSPACE) {
        make_room(job);
    }
    if (job->rc == 0) {
        job->clean_rc = node_image_remove_older(node, job->keep);
    }
    uint64_t drop_to = job->image.drop_to < job->hold ? job->image.drop_to : job->hold;
    if (job->rc == 0 && job->clean_rc == 0 && drop_to > 0) {
        job->clean_rc = log_drop_prefix(node->log, drop_to, &job->why);
    }
}

void node_step_prefix(struct node *node) {
    struct raft_event event = {.kind = RAFT_LOG_PREFIX,
                               .log_prefix = {.first = log_first(node->log),
                                              .image_index = node->image_index,
                                              .image_term = node->image_term}};
    node_step(node, &event);
}

/* The image is durable; whether the clean-up behind it went well is another matter. */
static void take_image(struct node *node, const struct image_job *job) {
    trace_line(&node->trace, TRACE_INFO, "image-saved", "%s: %s", job->path, job->image.summary);
    if (job->clean_rc != 0) {
        trace_line(&node->trace, TRACE_WARN, "image-cleanup", "behind %s: %s: %s", job->path,
                   error_text(job->clean_rc), job->why.text);
    }
    node->image_index = job->image.index;
    node->image_term = job->image.term;
    node->image_visible = job->image.visible;
    node->spare_retry_ns = 0; /* what went may have made room */
    node_image_mended(node);
    node_step_prefix(node);
    if (node_repair_cover(node, node->image_index, node->image_term, false) != 0) {
        trace_line(&node->trace, TRACE_WARN, "image-cleanup",
                   "no memory"); /* the next one does it */
    }
}

/* Before its program hears that it is durable, it is the node's newest image. */
static void image_done_own(struct node *node, const struct image_job *job) {
    if (job->rc == 0 && job->image.index >= node->image_index) {
        take_image(node, job);
    }
    node_own_done(node, job->rc, &job->why);
}

/* By time, since on a full disk no more log comes that could make another one due. */
static void image_failed(struct node *node, const struct image_job *job) {
    trace_line(&node->trace, TRACE_WARN, "image-failed", "%s: %s", job->path, job->why.text);
    uint64_t most_ms = job->rc == LKV_ENOSPACE ? ROOM_MS : RETRY_MS_MAX;
    uint64_t in_ms = node->image_backoff_ms > 0 ? node->image_backoff_ms * 2 : RETRY_MS;
    node->image_backoff_ms = in_ms < most_ms ? in_ms : most_ms;
    node->image_retry_ns = node_now(node) + node->image_backoff_ms * MS_NS;
    node_image_want(node, RETRY_MS);
    if (job->freed) {
        node->spare_retry_ns = 0; /* what went may have made room */
        node_step_prefix(node);
    }
}

static bool has_reason(const struct node *node) {
    bool makes_room = node_short_of_room(node) && node->state->replays;
    return node->bytes_since_image >= node->options.image_log_bytes ||
           (makes_room && node->bytes_since_image > 0);
}

/* A segment is made on the same thread, and puts wait for it. */
static bool segment_comes_first(const struct node *node) {
    bool due = node->spare_running || node_now(node) >= node->spare_retry_ns;
    return node->no_spare && !node->log_failed && due;
}

/* Rule 15: an image after deletes and a compaction is what makes room on a full disk. */
bool node_image_due(const struct node *node) {
    return has_reason(node) && node_now(node) >= node->image_retry_ns && !segment_comes_first(node);
}

uint64_t node_image_retry_timer(const struct node *node, uint64_t now_ns) {
    bool waits = node->running && !node->closing && !node->image_running && has_reason(node);
    return waits && node->image_retry_ns > now_ns ? node->image_retry_ns : UINT64_MAX;
}

static void image_done(struct loop_job *base) {
    struct image_job *job = LIST_ITEM(base, struct image_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    node->image_running = false;
    node->turn_wanted = true;
    if (job->image.own) {
        image_done_own(node, job);
    }
    if (job->rc != 0) {
        image_failed(node, job); /* no log entry was lost for it */
        mem_free(job);
        return;
    }
    node->image_backoff_ms = 0;
    node->image_retry_ns = node_short_of_room(node) ? node_now(node) + ROOM_MS * MS_NS : 0;
    node->bytes_since_image -=
        job->bytes_before < node->bytes_since_image ? job->bytes_before : node->bytes_since_image;
    if (job->image.checkpoint) {
        trace_line(&node->trace, TRACE_INFO, "checkpoint-saved", "%s", job->image.summary);
    } else if (!job->image.own && job->image.index >= node->image_index) {
        take_image(node, job);
    }
    mem_free(job);
}

/* What followers that are being served still need: without it one that gets an image under load finds
 * the log gone behind it, and needs the next image, and the next. Bounded: a follower too slow for a log
 * of this size gets a newer image after all. */
uint64_t node_image_hold(struct node *node) {
    if (node_short_of_room(node) || /* rule 15: room comes first */
        log_bytes(node->log) > HOLD_IMAGES * node->options.image_log_bytes + HOLD_BYTES) {
        return UINT64_MAX;
    }
    struct raft_peer_status rows[RAFT_MEMBERS_MAX];
    size_t count = raft_peers(node->raft, rows, RAFT_MEMBERS_MAX);
    uint64_t hold = node_image_send_oldest(node);
    for (size_t i = 0; i < count; i++) {
        if (node->role == RAFT_LEADER && rows[i].up && rows[i].state != RAFT_INSTALL &&
            rows[i].match < hold) {
            hold = rows[i].match;
        }
    }
    return hold;
}

void node_image_consider(struct node *node) {
    if (!node->running || node->closing || node->stop_rc != 0 || node->image_running ||
        node->installing || node->receive != NULL || node->diverged) {
        return;
    }
    struct state_image image;
    if (!node->state->begin(node, &image)) {
        return;
    }
    struct image_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        node->state->end(&image);
        return;
    }
    job->node = node;
    job->image = image;
    job->bytes_before = node->bytes_since_image;
    job->hold = node_image_hold(node);
    job->keep = node_image_send_oldest(node);
    job->keep_covered = job->keep < node->image_index ? job->keep : node->image_index;
    job->keep = job->keep < image.index ? job->keep : image.index;
    job->covered = node_short_of_room(node) && node->state->replays ? node->image_index : 0;
    node_image_path(node, image.index, job->path, sizeof(job->path));
    job->job.run = image_run;
    job->job.done = image_done;
    node->image_wanted = node->image_wanted && image.checkpoint;
    node->image_running = true;
    node->own_saving = image.own;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}
