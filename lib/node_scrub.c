/* The scrub: reads all that lies at rest before somebody needs it, so that rot is found while the others
 * still have what it took.
 *
 *   every scrub_hours: newest image --(bulk thread, whole)--> log, a step of it, a pause, a step ... --> done
 *
 * One small step at a time and a pause behind it, so that a laggard's read or a spare segment waits
 * for no more than that. What is found goes the way of any damage (node_repair.c); a rotten image is
 * written anew from the state in memory at once. */
#include "lib/node_repair.h"

#include "base/mem.h"

#include <inttypes.h>

enum {
    STEP_BYTES = 1024 * 1024,
    PAUSE_MS = 50,   /* at most 20 MiB a second */
    FIRST_PART = 24, /* of the period, after a start: also one that restarts daily gets a pass */
    RETRY_MS = 60 * 1000 /* after a step that found no memory */
};

struct scrub_job {
    struct loop_job job;
    struct node *node;
    bool of_image;
    uint64_t image_index;
    uint64_t index; /* of the log: where it begins, then where the next step does; 0: at its end */
    struct log_gap found;
    bool found_any;
    int rc;
    struct reason why;
};

static void image_run(struct scrub_job *job) {
    struct node *node = job->node;
    char path[DISK_PATH_SIZE];
    node_image_path(node, job->image_index, path, sizeof(path));
    struct disk_file *file;
    if (disk_open(node->world.disk, path, DISK_READ, &file) == 0) {
        disk_forget_cached(file);
        disk_close(file);
    } /* else the check says so */
    job->rc = node->state->check(node, path, &job->why);
}

static void scrub_run(struct loop_job *base) {
    struct scrub_job *job = LIST_ITEM(base, struct scrub_job, job);
    if (job->of_image) {
        image_run(job);
    } else {
        job->rc = log_scrub(job->node->log, &job->index, STEP_BYTES, &job->found, &job->found_any,
                            &job->why);
    }
}

/* A newer image may have replaced it while it was read. */
static void image_read(struct node *node, const struct scrub_job *job) {
    bool bad = node_is_damage(job->rc) || job->rc == LKV_ENOENT;
    if (bad && job->image_index == node->image_index) {
        node->scrub.findings++;
        node_image_damaged(node, &job->why);
    }
}

static void pass_ended(struct node *node) {
    struct scrub *scrub = &node->scrub;
    uint64_t period_ns = node->options.scrub_ms * MS_NS;
    uint64_t next_ns = scrub->begun_ns + period_ns;
    uint64_t least_ns = node_now(node) + PAUSE_MS * MS_NS;
    scrub->next_ns = next_ns > least_ns ? next_ns : least_ns;
    scrub->index = 0;
    scrub->passes++;
    scrub->passed_wall_ms = loop_wall_ms(node->world.loop);
    trace_line(&node->trace, TRACE_INFO, "scrubbed", "%" PRIu64 " findings", scrub->findings);
}

static void log_read_step(struct node *node, const struct scrub_job *job) {
    struct scrub *scrub = &node->scrub;
    if (job->found_any) {
        scrub->findings++;
        node_log_damaged(node, &job->found, &job->why);
    }
    scrub->index = job->index;
    if (job->index == 0) {
        pass_ended(node);
    }
}

static void scrub_done(struct loop_job *base) {
    struct scrub_job *job = LIST_ITEM(base, struct scrub_job, job);
    struct node *node = job->node;
    struct scrub *scrub = &node->scrub;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    scrub->running = false;
    scrub->next_ns = node_now(node) + PAUSE_MS * MS_NS;
    if (job->rc != 0 && !node_is_damage(job->rc) && job->rc != LKV_ENOENT) {
        trace_line(&node->trace, TRACE_WARN, "scrub", "%s", job->why.text);
        scrub->next_ns = node_now(node) + RETRY_MS * MS_NS;
    } else if (job->of_image) {
        image_read(node, job);
        scrub->index = scrub->index == 0 && node->options.scrub_ms > 0 ? 1 : scrub->index;
    } else {
        log_read_step(node, job);
    }
    mem_free(job);
}

static void begin_step(struct node *node, uint64_t now_ns) {
    struct scrub *scrub = &node->scrub;
    struct scrub_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        scrub->next_ns = now_ns + RETRY_MS * MS_NS;
        return;
    }
    if (scrub->index == 0) {
        scrub->begun_ns = now_ns;
        scrub->findings = 0;
    }
    bool of_image = (scrub->index == 0 || scrub->image_suspect) && node->image_index > 0;
    *job = (struct scrub_job){.node = node,
                              .of_image = of_image,
                              .image_index = node->image_index,
                              .index = scrub->index > 1 ? scrub->index : 0,
                              .job = {.run = scrub_run, .done = scrub_done}};
    scrub->running = true;
    scrub->image_suspect = false;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_BULK, &job->job);
}

/* Somebody who was sent the newest image could not use it. */
void node_image_suspect(struct node *node) {
    if (!node->scrub.image_suspect) { /* else whoever asks again and again puts it off for ever */
        node->scrub.image_suspect = true;
        node->scrub.next_ns = node_now(node) + PAUSE_MS * MS_NS;
    }
}

uint64_t node_scrub_timer(struct node *node, uint64_t now_ns) {
    struct scrub *scrub = &node->scrub;
    uint64_t period_ns = node->options.scrub_ms * MS_NS;
    if (atomic_exchange(&node->own.missed, false)) {
        node_image_suspect(node);
    }
    bool wanted = period_ns > 0 || scrub->image_suspect;
    if (!wanted || !node->running || node->closing || node->stop_rc != 0 || scrub->running) {
        return UINT64_MAX;
    }
    if (scrub->next_ns == 0) {
        scrub->next_ns = now_ns + period_ns / FIRST_PART;
    }
    if (now_ns < scrub->next_ns) {
        return scrub->next_ns;
    }
    if (node->installing) { /* the log is being replaced: a moment later */
        scrub->next_ns = now_ns + PAUSE_MS * MS_NS;
        return scrub->next_ns;
    }
    begin_step(node, now_ns);
    return scrub->running ? UINT64_MAX : scrub->next_ns;
}
