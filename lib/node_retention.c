/* Retention in log mode: looks now and then how old and how large the log is, and says how far its
 * beginning may go; the image station then makes the meta-image that must be durable first (rule 14).
 * Holds are durable before they are acknowledged. */
#include "lib/node.h"

#include "base/mem.h"
#include "lib/small_file.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LOOK_MS_MAX = 1000,
    SAMPLES_A_SPAN = 32, /* of retention_ms: what an age is rounded to */
    SAVE_MS = 10 * 1000  /* a crash makes no more than that seem younger than it is */
};

struct retention_job {
    struct loop_job job;
    struct node *node;
    struct retention retention; /* to be saved */
    struct request *request;    /* a hold that it makes durable, or NULL */
    int rc;
    struct reason why;
};

/* ------------------------------------------------------------------ saving */

static void next_hold(struct node *node);

static void save_run(struct loop_job *base) {
    struct retention_job *job = LIST_ITEM(base, struct retention_job, job);
    job->rc = retention_save(job->node->world.disk, job->node->dir, &job->retention, &job->why);
}

/* A drop that was under way may have taken what the hold was for. */
static void finish_hold(struct node *node, struct retention_job *job) {
    struct request *request = job->request;
    uint64_t first = node_log_first(node);
    if (job->rc != 0) {
        request_fail(request, job->rc, "%s", job->why.text);
    } else if (request->from != 0 && request->from < first) {
        msg_set_u64(request->reply, "first", first);
        request_fail(request, LKV_ETRUNCATED,
                     "index %" PRIu64 " is gone, the log begins at %" PRIu64, request->from, first);
    } else {
        request_finish(request);
    }
}

static void save_done(struct loop_job *base) {
    struct retention_job *job = LIST_ITEM(base, struct retention_job, job);
    struct node *node = job->node;
    node->hold_saving = NULL;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    node->retention_saving = false;
    if (job->rc != 0) {
        trace_line(&node->trace, TRACE_WARN, "retention-not-saved", "%s", job->why.text);
    }
    if (job->request != NULL) {
        finish_hold(node, job);
    }
    mem_free(job);
    next_hold(node);
}

/* False without memory. */
static bool save(struct node *node, struct request *request) {
    struct retention_job *job = mem_alloc(sizeof(*job));
    if (job == NULL) {
        return false;
    }
    *job = (struct retention_job){.node = node,
                                  .retention = node->retention,
                                  .request = request,
                                  .job = {.run = save_run, .done = save_done}};
    node->hold_saving = request != NULL ? job : NULL;
    node->retention_saving = true;
    node->retention_saved_ns = node_now(node);
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
    return true;
}

/* ------------------------------------------------------------------ holds */

static void begin_hold(struct node *node, struct request *request) {
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "%.*s", (int)request->key.size,
                   (const char *)request->key.data);
    uint64_t first = node_log_first(node);
    if (request->from != 0 && request->from < first) {
        msg_set_u64(request->reply, "first", first);
        request_fail(request, LKV_ETRUNCATED,
                     "index %" PRIu64 " is gone, the log begins at %" PRIu64, request->from, first);
        return;
    }
    struct retention before = node->retention;
    if (retention_hold(&node->retention, name, request->from) != 0) {
        request_fail(request, LKV_EBUSY, "there are %d holds already", RETENTION_HOLDS_MAX);
        return;
    }
    /* It counts from now on: what is decided later must not undo it before it is durable. */
    node->retention_drop_to = 0;
    node->retention_next_ns = 0;
    if (!save(node, request)) {
        node->retention = before;
        request_fail(request, LKV_ENOMEM, "no memory for a hold");
    }
}

static void next_hold(struct node *node) {
    while (!node->retention_saving && !list_empty(&node->hold_waits)) {
        struct list_link *link = list_pop_front(&node->hold_waits);
        begin_hold(node, LIST_ITEM(link, struct request, link));
    }
}

void node_hold(struct node *node, struct request *request) {
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
    list_push_back(&node->hold_waits, &request->link);
    next_hold(node);
}

/* A disk that hangs keeps nobody waiting. */
uint64_t node_hold_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    struct list_link *next;
    for (struct list_link *at = node->hold_waits.next; at != &node->hold_waits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            request_fail(request, LKV_ETIMEOUT, "the disk did not take it in time");
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    struct retention_job *saving = node->hold_saving;
    struct request *request = saving != NULL ? saving->request : NULL;
    if (request != NULL && request->deadline_ns <= now_ns) {
        saving->request = NULL;
        request_fail(request, LKV_EUNKNOWN, "the disk has not taken the hold in time, and may yet");
    } else if (request != NULL && request->deadline_ns < earliest) {
        earliest = request->deadline_ns;
    }
    return earliest;
}

void node_hold_fail_all(struct node *node, int rc, const char *text) {
    struct list_link *link;
    while ((link = list_pop_front(&node->hold_waits)) != NULL) {
        request_fail(LIST_ITEM(link, struct request, link), rc, "%s", text);
    }
}

/* ------------------------------------------------------------------ the next image's file */

static const char spare_name[] = "image.spare";

enum { SPARE_BYTES = 64 * 1024, SPARE_BYTES_LEAST = 4096 };

void node_retention_image_bytes(struct node *node, uint64_t bytes) {
    node->image_bytes = bytes;
    if (bytes > node->image_spare_bytes / 2) {
        atomic_store(&node->spare_wanted, true);
    }
}

int node_retention_spare_use(struct node *node, const char *path, struct slice bytes,
                             struct reason *why) {
    if (bytes.size > node->image_spare_bytes) {
        return LKV_ENOENT;
    }
    node->image_spare_bytes = 0;
    atomic_store(&node->spare_wanted, true);
    return small_file_save_over(node->world.disk, node->dir, spare_name, path, bytes, why);
}

/* What an earlier start has prepared is used, since there may be no room for another one. */
static uint64_t size_of_spare(struct node *node) {
    char path[DISK_PATH_SIZE];
    struct disk_file *file;
    uint64_t size = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", node->dir, spare_name);
    if (disk_open(node->world.disk, path, DISK_READ, &file) != 0) {
        return 0;
    }
    int rc = disk_size(file, &size);
    disk_close(file);
    return rc == 0 ? size : 0;
}

/* Room for an image of twice the size, so that growing a little does not outgrow it. */
static void prepare_run(struct loop_job *base) {
    struct retention_job *job = LIST_ITEM(base, struct retention_job, job);
    struct node *node = job->node;
    uint64_t least = 2 * node->image_bytes;
    least = least > SPARE_BYTES_LEAST ? least : SPARE_BYTES_LEAST;
    uint64_t wanted = least > SPARE_BYTES ? least : SPARE_BYTES;
    node->image_spare_bytes = size_of_spare(node);
    if (node->image_spare_bytes < least) {
        job->rc = small_file_prepare(node->world.disk, node->dir, spare_name, wanted, &job->why);
        if (job->rc == LKV_ENOSPACE && least < wanted) {
            wanted = least; /* better than none */
            job->rc =
                small_file_prepare(node->world.disk, node->dir, spare_name, wanted, &job->why);
        }
        node->image_spare_bytes = job->rc == 0 ? wanted : 0;
    }
    if (job->rc == 0) {
        atomic_store(&node->spare_wanted, false);
    }
}

static void prepare_done(struct loop_job *base) {
    struct retention_job *job = LIST_ITEM(base, struct retention_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    node->spare_preparing = false;
    if (job->rc != 0) {
        trace_line(&node->trace, TRACE_WARN, "no-image-spare", "%s", job->why.text);
    }
    mem_free(job);
}

/* Retention must be able to make room on a disk that has none left, and an image comes first: its file
 * is written beforehand (rule 15). */
static void prepare_spare(struct node *node) {
    if (node->spare_preparing || !atomic_load(&node->spare_wanted)) {
        return;
    }
    struct retention_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        return; /* the next look */
    }
    job->node = node;
    job->job = (struct loop_job){.run = prepare_run, .done = prepare_done};
    node->spare_preparing = true;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

/* ------------------------------------------------------------------ looking */

static void decide(struct node *node, uint64_t wall_ms) {
    const struct lkv_options *options = &node->options;
    const struct retention_rules rules = {.retention_ms = options->retention_ms,
                                          .retention_bytes = options->retention_bytes,
                                          .hold_bytes_max = options->hold_bytes_max,
                                          .keep_entries = options->keep_entries};
    size_t capacity = log_segments(node->log, NULL, 0);
    struct log_segment *segments = mem_calloc(capacity, sizeof(*segments));
    if (segments == NULL) {
        return; /* the next look */
    }
    size_t count = log_segments(node->log, segments, capacity);
    if (count <= capacity) { /* else one was begun meanwhile: the next look */
        struct retention_verdict verdict;
        retention_decide(&node->retention, &rules, segments, count, node->ledger.visible, wall_ms,
                         &verdict);
        node->retention_drop_to = verdict.drop_to;
        if (verdict.lost != NULL) {
            trace_line(&node->trace, TRACE_WARN, "hold-lost",
                       "hold %s from %" PRIu64 " keeps more than hold_bytes_max (%" PRIu64
                       "): the log goes on at %" PRIu64,
                       verdict.lost->name, verdict.lost->keep_from, options->hold_bytes_max,
                       verdict.drop_to + 1);
        }
    }
    mem_free(segments);
}

/* What an image covers already, and stayed for a follower that was being served: it goes when that is
 * over, or when the disk is short of room. */
struct prefix_job {
    struct loop_job job;
    struct node *node;
    uint64_t to;
    int rc;
    struct reason why;
};

static void prefix_run(struct loop_job *base) {
    struct prefix_job *job = LIST_ITEM(base, struct prefix_job, job);
    job->rc = log_drop_prefix(job->node->log, job->to, &job->why);
}

static void prefix_done(struct loop_job *base) {
    struct prefix_job *job = LIST_ITEM(base, struct prefix_job, job);
    struct node *node = job->node;
    node->jobs_outstanding--;
    node->prefix_dropping = false;
    node->turn_wanted = true;
    if (job->rc != 0) { /* the next look tries again */
        trace_line(&node->trace, TRACE_WARN, "retention", "%s", job->why.text);
    } else {
        node->spare_retry_ns = 0; /* what went may have made room */
        node_step_prefix(node);
    }
    mem_free(job);
}

static void drop_covered(struct node *node) {
    uint64_t hold = node_image_hold(node);
    uint64_t to = node->retention_drop_to < hold ? node->retention_drop_to : hold;
    to = to < node->image_index ? to : node->image_index;
    struct prefix_job *job = NULL;
    if (to >= log_first(node->log) && !node->prefix_dropping && !node->image_running &&
        !node->installing) {
        job = mem_calloc(1, sizeof(*job));
    }
    if (job == NULL) {
        return;
    }
    *job = (struct prefix_job){
        .node = node, .to = to, .job = {.run = prefix_run, .done = prefix_done}};
    node->prefix_dropping = true;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

static uint64_t look_every_ms(const struct node *node) {
    uint64_t part = node->options.retention_ms / SAMPLES_A_SPAN;
    return part > 0 && part < LOOK_MS_MAX ? part : LOOK_MS_MAX;
}

static void look(struct node *node, uint64_t now_ns) {
    uint64_t wall_ms = loop_wall_ms(node->world.loop);
    uint64_t part_ms = node->options.retention_ms / SAMPLES_A_SPAN;
    bool sampled = node->options.retention_ms > 0 &&
                   retention_sample(&node->retention, wall_ms, node->applied, part_ms);
    if (sampled && !node->retention_saving &&
        now_ns - node->retention_saved_ns >= SAVE_MS * MS_NS) {
        (void)save(node, NULL);
    }
    prepare_spare(node);
    decide(node, wall_ms);
    if (node->retention_drop_to > node->image_index) {
        node->turn_wanted = true; /* an image is due */
    } else {
        drop_covered(node);
    }
}

uint64_t node_retention_timer(struct node *node, uint64_t now_ns) {
    bool asked = node->options.retention_ms > 0 || node->options.retention_bytes > 0;
    if (!asked || node->identity.model != MODEL_LOG || !node->running || node->closing ||
        node->stop_rc != 0) {
        return UINT64_MAX;
    }
    if (now_ns >= node->retention_next_ns) {
        node->retention_next_ns = now_ns + look_every_ms(node) * MS_NS;
        look(node, now_ns);
    }
    return node->retention_next_ns;
}
