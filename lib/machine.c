/* A program's own state machine on a node of model own, over the public verbs: nothing here is seen by the
 * node but a tail, appends and images.
 *
 *   lkv_machine_run, on the program's thread:
 *     newest image --> load --> tail --> apply, apply, ... --> an image of what has become of it, now and then
 *                      ^------ the log no longer has what comes next: another node's image has come
 *
 *   lkv_machine_propose, on any other: append --> wait until apply has had that index --> its answer
 *
 * An answer is kept while there is a proposal that began before its entry was applied: the append may be
 * answered, by another node, after the entry was applied here. */
#include "lib/machine.h"
#include "lib/records.h"

#include "base/mem.h"

#include <inttypes.h>

enum {
    CREDIT_BYTES = 4 * 1024 * 1024,
    SAVE_BYTES = 256 * 1024,           /* of an image, between two messages of the tail */
    KEPT_BYTES_MAX = 64 * 1024 * 1024, /* of answers */
    COMMIT_MS = 60 * 1000,
    BEHIND_MS = 200 /* between two looks for an image */
};

#define IMAGE_BYTES_DEFAULT (64ull * 1024 * 1024)

struct lkv_said {
    struct buffer bytes;
};

struct kept {
    struct list_link link;
    uint64_t index, term;
    struct blob *bytes; /* NULL: none were given */
};

struct proposal {
    struct list_link link; /* in the order in which they began */
    uint64_t since;        /* what was applied then */
};

struct lkv_machine {
    struct lkv *db;
    struct lkv_machine_calls calls;
    void *arg;
    uint64_t image_bytes;

    pthread_mutex_t mutex; /* around all below it */
    pthread_cond_t changed;
    uint64_t applied;
    bool running, stopping, ended;
    int ended_rc;
    struct list_link proposals, answers; /* of struct kept, ascending */
    uint64_t kept_bytes;

    /* The thread that runs it. */
    struct lkv_queue *queue;
    bool loaded, begun, tailing;
    bool committing; /* an image: its answer is owed */
    struct lkv_said answer;
    bool missed;             /* no image was new enough, and the node has been told */
    uint64_t since_image;    /* bytes of entries */
    struct lkv_image *image; /* that is being written; NULL: none is */
    void *view;
    uint8_t *chunk; /* owned, SAVE_BYTES */
};

/* ------------------------------------------------------------------ life */

int lkv_machine_new(struct lkv *db, const struct lkv_machine_calls *calls, void *arg,
                    uint64_t image_bytes, struct lkv_machine **out) {
    if (out != NULL) {
        *out = NULL;
    }
    if (db == NULL || calls == NULL || out == NULL || calls->apply == NULL ||
        calls->reset == NULL || calls->load == NULL || calls->freeze == NULL ||
        calls->save == NULL || calls->thaw == NULL) {
        return api_fail(LKV_EINVAL, "the handle or one of the machine's functions is NULL");
    }
    if (db->ops->own == NULL || db->ops->own(db) == NULL) {
        return api_fail(LKV_EUNSUPPORTED, "a machine runs on a node in this process, of model=own");
    }
    struct lkv_machine *machine = mem_calloc(1, sizeof(*machine));
    uint8_t *chunk = mem_alloc(SAVE_BYTES);
    if (machine == NULL || chunk == NULL) {
        mem_free(machine);
        mem_free(chunk);
        return api_fail(LKV_ENOMEM, "out of memory for a machine");
    }
    int rc = lkv_queue_new(&machine->queue);
    if (rc != 0) {
        mem_free(machine);
        mem_free(chunk);
        return rc;
    }
    machine->db = db;
    machine->calls = *calls;
    machine->arg = arg;
    machine->image_bytes = image_bytes > 0 ? image_bytes : IMAGE_BYTES_DEFAULT;
    machine->chunk = chunk;
    list_init(&machine->proposals);
    list_init(&machine->answers);
    buffer_init(&machine->answer.bytes);
    (void)pthread_mutex_init(&machine->mutex, NULL);
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&machine->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    *out = machine;
    return 0;
}

static void forget(struct lkv_machine *machine, struct kept *kept) {
    list_remove(&kept->link);
    machine->kept_bytes -= sizeof(*kept) + (kept->bytes != NULL ? kept->bytes->size : 0);
    blob_unref(kept->bytes);
    mem_free(kept);
}

void lkv_machine_free(struct lkv_machine *machine) {
    if (machine == NULL) {
        return;
    }
    while (!list_empty(&machine->answers)) {
        forget(machine, LIST_ITEM(machine->answers.next, struct kept, link));
    }
    lkv_queue_free(machine->queue);
    buffer_fini(&machine->answer.bytes);
    mem_free(machine->chunk);
    (void)pthread_cond_destroy(&machine->changed);
    (void)pthread_mutex_destroy(&machine->mutex);
    mem_free(machine);
}

void lkv_machine_stop(struct lkv_machine *machine) {
    if (machine == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&machine->mutex);
    machine->stopping = true;
    (void)pthread_mutex_unlock(&machine->mutex);
    int rc = lkv_cancel(machine->db, machine);
    (void)rc; /* no tail yet: it looks before it opens one */
}

static bool is_stopping(struct lkv_machine *machine) {
    (void)pthread_mutex_lock(&machine->mutex);
    bool stopping = machine->stopping;
    (void)pthread_mutex_unlock(&machine->mutex);
    return stopping;
}

/* ------------------------------------------------------------------ answers */

int lkv_machine_say(struct lkv_said *answer, struct lkv_bytes bytes) {
    struct slice slice;
    if (answer == NULL || api_slice(bytes, &slice) != 0) {
        return api_fail(LKV_EINVAL, "no answer to add to, or bytes at NULL");
    }
    buffer_append(&answer->bytes, slice.data, slice.size);
    return answer->bytes.failed ? api_fail(LKV_ENOMEM, "out of memory for an answer") : 0;
}

/* Under the mutex: what no proposal can ask for any more. */
static void trim(struct lkv_machine *machine) {
    uint64_t since = UINT64_MAX;
    if (!list_empty(&machine->proposals)) { /* the first one began first */
        since = LIST_ITEM(machine->proposals.next, struct proposal, link)->since;
    }
    while (!list_empty(&machine->answers)) {
        struct kept *kept = LIST_ITEM(machine->answers.next, struct kept, link);
        if (kept->index > since && machine->kept_bytes <= KEPT_BYTES_MAX) {
            return;
        }
        forget(machine, kept);
    }
}

static void keep_answer(struct lkv_machine *machine, const struct lkv_record *record) {
    struct slice bytes = buffer_slice(&machine->answer.bytes);
    (void)pthread_mutex_lock(&machine->mutex);
    if (!list_empty(&machine->proposals)) {
        struct kept *kept = mem_calloc(1, sizeof(*kept));
        struct blob *blob = kept != NULL && bytes.size > 0 ? blob_new(bytes.size) : NULL;
        if (kept != NULL && (bytes.size == 0 || blob != NULL)) { /* else it is lost: unknown */
            if (blob != NULL) {
                memcpy(blob->data, bytes.data, bytes.size);
            }
            *kept = (struct kept){.index = record->index, .term = record->term, .bytes = blob};
            list_push_back(&machine->answers, &kept->link);
            machine->kept_bytes += sizeof(*kept) + bytes.size;
        } else {
            mem_free(kept);
        }
    }
    (void)pthread_mutex_unlock(&machine->mutex);
}

static void set_applied(struct lkv_machine *machine, uint64_t applied) {
    (void)pthread_mutex_lock(&machine->mutex);
    machine->applied = applied;
    trim(machine);
    (void)pthread_cond_broadcast(&machine->changed);
    (void)pthread_mutex_unlock(&machine->mutex);
}

/* ------------------------------------------------------------------ images */

static void end_image(struct lkv_machine *machine) {
    machine->calls.thaw(machine->arg, machine->view);
    machine->view = NULL;
    lkv_image_close(machine->image);
    machine->image = NULL;
}

/* No image is no harm: the next one comes after as many bytes again. */
static int begin_image(struct lkv_machine *machine) {
    machine->since_image = 0;
    if (lkv_image_begin(machine->db, machine->applied, &machine->image) != 0) {
        machine->image = NULL;
        return 0;
    }
    int rc = machine->calls.freeze(machine->arg, &machine->view);
    if (rc != 0) {
        lkv_image_close(machine->image);
        machine->image = NULL;
    }
    return rc;
}

/* After so many bytes, or because the node's newest one is damaged, which is asked for once. */
static bool image_is_due(struct lkv_machine *machine) {
    struct own_place *place = machine->db->ops->own(machine->db);
    uint64_t wanted = atomic_load(&place->wanted);
    bool takes = wanted != 0 && machine->applied >= wanted &&
                 atomic_compare_exchange_strong(&place->wanted, &wanted, 0);
    return takes || machine->since_image >= machine->image_bytes;
}

/* One piece of it. */
static int go_on_with_image(struct lkv_machine *machine) {
    size_t got = 0;
    int rc = machine->calls.save(machine->arg, machine->view, machine->chunk, SAVE_BYTES, &got);
    if (rc != 0) {
        end_image(machine);
        return rc;
    }
    if (got > 0) {
        struct lkv_bytes bytes = {machine->chunk, got};
        if (lkv_image_write(machine->image, bytes) != 0) {
            end_image(machine);
        }
        return 0;
    }
    struct lkv_image *image = machine->image;
    machine->image = NULL;
    end_image(machine);
    machine->committing = image_commit_submit(image, COMMIT_MS, machine->queue, machine) == 0;
    return 0; /* without an image no log goes: the next one is tried */
}

/* The state becomes that of the newest image, or that of no entry at all. */
static int load_newest(struct lkv_machine *machine) {
    struct lkv_image *image = NULL;
    uint64_t index = 0;
    int rc = lkv_image_open(machine->db, &image, &index);
    if (rc != 0 && rc != LKV_ENOENT) {
        return rc;
    }
    if (machine->loaded && index <= machine->applied) {
        lkv_image_close(image);
        if (!machine->missed) { /* once: whoever asks again and again has it read all the time */
            machine->missed = true;
            atomic_store(&machine->db->ops->own(machine->db)->missed, true);
        }
        return LKV_ETRUNCATED; /* what is missing is in no image */
    }
    rc = machine->calls.reset(machine->arg);
    size_t got = 1;
    while (rc == 0 && image != NULL && got > 0) {
        rc = lkv_image_read(image, machine->chunk, SAVE_BYTES, &got);
        struct lkv_bytes bytes = {machine->chunk, got};
        rc = rc == 0 ? machine->calls.load(machine->arg, bytes) : rc;
    }
    lkv_image_close(image);
    if (rc == 0) {
        machine->loaded = true;
        machine->missed = false;
        set_applied(machine, index);
    }
    return rc;
}

/* ------------------------------------------------------------------ the thread that applies */

static int apply_records(struct lkv_machine *machine, const struct lkv_msg *msg) {
    struct lkv_record record;
    for (size_t i = 0; lkv_msg_record(msg, i, &record); i++) {
        buffer_clear(&machine->answer.bytes);
        int rc = machine->calls.apply(machine->arg, &record, &machine->answer);
        if (rc != 0) { /* rule 22: nothing of it is passed over */
            return api_fail(rc, "entry %" PRIu64 ": the program's apply failed", record.index);
        }
        keep_answer(machine, &record);
        machine->since_image += record.data.size + 72;
    }
    uint64_t next = 0;
    if (lkv_msg_u64(msg, "next", &next) && next > machine->applied + 1) {
        set_applied(machine, next - 1);
    }
    return 0;
}

static int open_tail(struct lkv_machine *machine) {
    int rc = lkv_log_tail(machine->db, machine->applied + 1, CREDIT_BYTES, LKV_GATES_READY,
                          machine->queue, machine);
    machine->tailing = rc == 0;
    if (rc == 0 && is_stopping(machine)) {
        rc = lkv_cancel(machine->db, machine); /* it came before there was a tail */
    }
    return rc;
}

/* What comes next may be in no log and no image here, while a damaged node is given back what it lost: then
 * there is no tail for now. */
static int go_on_behind(struct lkv_machine *machine) {
    int rc = load_newest(machine);
    return rc == 0 ? open_tail(machine) : rc == LKV_ETRUNCATED ? 0 : rc;
}

static int take_end(struct lkv_machine *machine, const struct lkv_msg *msg) {
    int rc = lkv_msg_rc(msg);
    machine->tailing = false;
    if (rc != LKV_ETRUNCATED) {
        return rc == LKV_ECANCELED ? MACHINE_OVER : api_fail(rc, "%s", lkv_msg_text(msg));
    }
    if (machine->image != NULL) {
        end_image(machine); /* of a state that is over */
    }
    return go_on_behind(machine);
}

static int take_message(struct lkv_machine *machine, const struct lkv_msg *msg) {
    enum lkv_kind kind = lkv_msg_kind(msg);
    machine->committing = machine->committing && kind != LKV_REPLY;
    return kind == LKV_RECORDS ? apply_records(machine, msg)
           : kind == LKV_END   ? take_end(machine, msg)
                               : 0;
}

int machine_step(struct lkv_machine *machine, int64_t wait_ms, bool *idle) {
    *idle = false;
    if (!machine->begun) {
        machine->begun = true;
        return go_on_behind(machine);
    }
    bool waits = !machine->tailing;
    if (waits && is_stopping(machine)) {
        return MACHINE_OVER;
    }
    wait_ms = waits && wait_ms != 0 ? BEHIND_MS : wait_ms;
    struct lkv_msg *msg = lkv_queue_next(machine->queue, machine->image != NULL ? 0 : wait_ms);
    int rc = msg != NULL ? take_message(machine, msg) : 0;
    bool none = msg == NULL;
    lkv_msg_free(msg);
    *idle = none && machine->image == NULL;
    rc = rc == 0 && waits && none ? go_on_behind(machine) : rc;
    if (rc == 0 && machine->image != NULL) {
        rc = go_on_with_image(machine);
    } else if (rc == 0 && !machine->committing && image_is_due(machine)) {
        rc = begin_image(machine);
    }
    return rc;
}

void machine_end(struct lkv_machine *machine, int rc) {
    if (machine->image != NULL) {
        end_image(machine);
    }
    if (machine->tailing && lkv_cancel(machine->db, machine) != 0) {
        machine->tailing = false;
    }
    while (machine->tailing || machine->committing) {
        struct lkv_msg *msg = lkv_queue_next(machine->queue, LKV_DEFAULT);
        machine->tailing = machine->tailing && lkv_msg_kind(msg) != LKV_END;
        machine->committing = machine->committing && lkv_msg_kind(msg) != LKV_REPLY;
        lkv_msg_free(msg);
    }
    (void)pthread_mutex_lock(&machine->mutex);
    machine->running = false;
    machine->ended = true;
    machine->ended_rc = rc < 0 ? rc : LKV_ECANCELED;
    (void)pthread_cond_broadcast(&machine->changed);
    (void)pthread_mutex_unlock(&machine->mutex);
}

int lkv_machine_run(struct lkv_machine *machine) {
    if (machine == NULL) {
        return api_fail(LKV_EINVAL, "the machine is NULL");
    }
    (void)pthread_mutex_lock(&machine->mutex);
    bool busy = machine->running || machine->ended;
    machine->running = true;
    (void)pthread_mutex_unlock(&machine->mutex);
    if (busy) {
        return api_fail(LKV_EBUSY, "the machine runs, or has run, already");
    }
    bool idle;
    int rc = 0;
    while (rc == 0) {
        rc = machine_step(machine, LKV_DEFAULT, &idle);
    }
    struct reason why = {{0}};
    (void)reason_set(&why, rc, "%.400s", lkv_last_text());
    machine_end(machine, rc);
    return rc < 0 ? api_fail_with(rc, &why) : 0;
}

/* ------------------------------------------------------------------ the other threads */

static uint64_t deadline_of(const struct lkv_machine *machine, int64_t timeout_ms) {
    uint64_t ms = timeout_ms == LKV_DEFAULT ? machine->db->timeout_ms : (uint64_t)timeout_ms;
    return machine->db->ops->now_ns(machine->db) + ms * 1000000;
}

/* Under the mutex. False: not by then, or never. */
static bool wait_applied(struct lkv_machine *machine, uint64_t index, uint64_t deadline_ns) {
    const struct timespec at = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                .tv_nsec = (long)(deadline_ns % 1000000000)};
    int rc = 0;
    while (machine->applied < index && !machine->ended && rc == 0) {
        rc = pthread_cond_timedwait(&machine->changed, &machine->mutex, &at);
    }
    return machine->applied >= index;
}

/* Under the mutex. */
static struct lkv_msg *make_answer(struct lkv_machine *machine, uint64_t index) {
    for (struct list_link *at = machine->answers.next; at != &machine->answers; at = at->next) {
        const struct kept *kept = LIST_ITEM(at, struct kept, link);
        if (kept->index != index) {
            continue;
        }
        struct lkv_msg *msg = msg_new(LKV_REPLY, NULL);
        if (msg == NULL || msg_records_reserve(msg, 1, NULL) != 0) {
            lkv_msg_free(msg);
            return NULL;
        }
        const struct entry entry = {
            .index = index, .term = kept->term, .type = ENTRY_COMMAND, .payload = kept->bytes};
        msg_records_add(msg, &entry, 0);
        msg_set_u64(msg, "index", index);
        msg_set_u64(msg, "term", kept->term);
        return msg;
    }
    return NULL;
}

int lkv_machine_propose(struct lkv_machine *machine, struct lkv_bytes bytes, uint64_t in_term,
                        int64_t timeout_ms, struct lkv_msg **answer) {
    if (answer != NULL) {
        *answer = NULL;
    }
    if (machine == NULL || timeout_ms < LKV_DEFAULT) {
        return api_fail(LKV_EINVAL, "the machine is NULL, or the timeout below LKV_DEFAULT");
    }
    uint64_t deadline_ns = deadline_of(machine, timeout_ms), index = 0;
    struct proposal proposal;
    (void)pthread_mutex_lock(&machine->mutex);
    proposal.since = machine->applied;
    list_push_back(&machine->proposals, &proposal.link);
    (void)pthread_mutex_unlock(&machine->mutex);
    int rc = lkv_append(machine->db, &bytes, 1, in_term, timeout_ms, &index);
    struct lkv_msg *msg = NULL;
    (void)pthread_mutex_lock(&machine->mutex);
    bool applied = rc == 0 && wait_applied(machine, index, deadline_ns);
    msg = applied ? make_answer(machine, index) : NULL;
    int ended = machine->ended ? machine->ended_rc : 0;
    list_remove(&proposal.link);
    trim(machine);
    (void)pthread_mutex_unlock(&machine->mutex);
    if (rc != 0) {
        return rc;
    }
    if (msg == NULL) {
        return api_fail(LKV_EUNKNOWN,
                        "entry %" PRIu64 " is in the log and takes effect, but its answer %s",
                        index,
                        applied      ? "was lost: an image has overtaken it, or there was no memory"
                        : ended != 0 ? "never comes: the machine has ended"
                                     : "did not come in time");
    }
    if (answer != NULL) {
        *answer = msg;
    } else {
        lkv_msg_free(msg);
    }
    return 0;
}

/* The first record behind what is applied; 0: none up to `upto`. The cluster's own entries bring none, and a page
 * may have nothing else. */
static int next_record(struct lkv_machine *machine, uint64_t applied, uint64_t upto,
                       int64_t timeout_ms, uint64_t *index) {
    uint64_t from = applied + 1;
    int rc = 0;
    *index = 0;
    while (rc == 0 && *index == 0 && from <= upto) {
        struct lkv_msg *msg = NULL;
        struct lkv_record record;
        uint64_t next = 0;
        rc = lkv_log_read(machine->db, from, 1, timeout_ms, &msg);
        if (rc == 0 && lkv_msg_record(msg, 0, &record)) {
            from = record.index;
            *index = from <= upto ? from : 0;
        } else if (rc == 0 && lkv_msg_u64(msg, "next", &next) && next > from) {
            from = next;
            lkv_msg_free(msg);
            continue;
        }
        lkv_msg_free(msg);
        break;
    }
    return rc;
}

int lkv_machine_read(struct lkv_machine *machine, int64_t timeout_ms, uint64_t *index) {
    if (machine == NULL || timeout_ms < LKV_DEFAULT) {
        return api_fail(LKV_EINVAL, "the machine is NULL, or the timeout below LKV_DEFAULT");
    }
    uint64_t deadline_ns = deadline_of(machine, timeout_ms), commit = 0, record = 0;
    int rc = lkv_log_span(machine->db, LKV_LINEARIZABLE, timeout_ms, NULL, &commit);
    if (rc != 0) {
        return rc;
    }
    (void)pthread_mutex_lock(&machine->mutex);
    bool there = true;
    while (rc == 0 && there && machine->applied < commit) {
        uint64_t applied = machine->applied;
        (void)pthread_mutex_unlock(&machine->mutex);
        rc = next_record(machine, applied, commit, timeout_ms, &record);
        (void)pthread_mutex_lock(&machine->mutex);
        if (rc == LKV_ETRUNCATED) { /* an image has come, or one does: it is loaded */
            rc = 0;
            record = applied + 1;
        } else if (rc == 0 && record == 0) {
            break;
        }
        there = rc == 0 && wait_applied(machine, record, deadline_ns);
    }
    int ended = machine->ended ? machine->ended_rc : 0;
    if (index != NULL) {
        *index = machine->applied > commit ? machine->applied : commit;
    }
    (void)pthread_mutex_unlock(&machine->mutex);
    if (rc != 0) {
        return rc;
    }
    return there        ? 0
           : ended != 0 ? api_fail(ended, "the machine has ended")
                        : api_fail(LKV_ETIMEOUT,
                                   "the machine has not applied entry %" PRIu64 " in time", record);
}
