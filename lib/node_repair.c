/* Damage on this node's disk, and what becomes of it (rule 11): nothing is forgotten, others give back
 * what cannot be read.
 *
 *   found at open, by a read or by the scrub --> noted in the log --> RAFT_DAMAGED
 *       --> peers' entries: update.fills --(log thread)--> PERSISTED, the gap is closed
 *       --> or it can be read again, by and by: node_reread.c
 *       --> or an image covers it: the leader's, or in model kv one of our own, from what is in memory
 *
 * A rotten image is written anew from memory at once. One that could not be read at open leaves a gap
 * at the log's beginning, and the leader's image fills it. */
#include "lib/node_repair.h"

#include "base/mem.h"
#include "lib/peer.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    GAPS_LOOKED = 64,   /* at once */
    NEIGHBOURS = 4096,  /* what one sector or block has taken is one gap */
    PATIENCE_MS = 5000, /* for peers, before an image of our own covers a gap */
    RETRY_MS = 1000     /* of a note in the log that found no room, of a fill that did not hold */
};

/* What an older copy lacks only the others know (rule 17). */
#define RESTORED                                                                                \
    "it was brought back with moved=on, so its log may lack what it acknowledged later, until " \
    "the other members have confirmed it. If nothing was written after the copy was made, as "  \
    "when a whole stopped cluster moved, start it once with moved=newest"

bool node_is_damage(int rc) {
    return rc == LKV_EDAMAGED || rc == LKV_EIO;
}

static bool has_helpers(const struct node *node) {
    return node->identity.member_count > 1;
}

/* ------------------------------------------------------------------ gaps */

uint64_t node_gap_below(struct node *node, uint64_t index) {
    struct log_gap gaps[GAPS_LOOKED];
    size_t count = log_gaps(node->log, gaps, GAPS_LOOKED);
    uint64_t last = 0;
    for (size_t i = 0; i < count && i < GAPS_LOOKED; i++) {
        last = gaps[i].last <= index && gaps[i].last > last ? gaps[i].last : last;
    }
    return last;
}

/* ------------------------------------------------------------------ found */

void node_repair_opened(struct node *node, const struct log_state *state) {
    struct repair *repair = &node->repair;
    for (size_t i = 0; i < state->gap_count; i++) {
        const struct log_gap *gap = &state->gaps[i];
        char place[DISK_PATH_SIZE + 32];
        log_gap_place(node->log, gap, place, sizeof(place));
        bool first = strncmp(state->damage.text, place, strlen(place)) == 0;
        trace_line(&node->trace, TRACE_ERROR, "damaged",
                   "entries %" PRIu64 " to %" PRIu64 " cannot be read: %s%s", gap->first, gap->last,
                   first ? state->damage.text : place,
                   first ? "" : ": no valid record (acknowledged)");
    }
    repair->log_why = state->damage;
    if (state->end_unknown) {
        repair->end_why = state->damage;
        if (node->identity.restored) {
            (void)reason_set(&repair->end_why, LKV_EDAMAGED, "%s", RESTORED);
        } else if (state->damage.text[0] == '\0') {
            (void)reason_set(&repair->end_why, LKV_EDAMAGED,
                             "an earlier life of this node lost the log's newest part");
        }
        trace_line(&node->trace, TRACE_ERROR, "end-unknown",
                   "it takes no part until it holds all that the leader has: %s",
                   repair->end_why.text);
    }
}

static void tell_core(struct node *node, const struct log_gap *gap) {
    struct raft_event event = {.kind = RAFT_DAMAGED,
                               .damaged = {.first = gap->first, .last = gap->last}};
    node_step(node, &event);
}

/* The log notices damage on its own, too, while it fills or builds a file anew. */
void node_repair_compare(struct node *node) {
    struct log_gap gaps[GAPS_LOOKED];
    struct raft_gap known[GAPS_LOOKED];
    size_t count = log_gaps(node->log, gaps, GAPS_LOOKED);
    for (size_t i = 0; i < count && i < GAPS_LOOKED; i++) {
        size_t have = raft_gaps(node->raft, known, GAPS_LOOKED);
        have = have < GAPS_LOOKED ? have : GAPS_LOOKED;
        uint64_t first = gaps[i].first > node->image_index ? gaps[i].first : node->image_index + 1;
        for (size_t k = 0; k < have; k++) {
            bool covers = known[k].first <= first && first <= known[k].last;
            first = covers ? known[k].last + 1 : first;
        }
        if (first <= gaps[i].last) {
            struct log_gap gap = {.first = first, .last = gaps[i].last};
            tell_core(node, &gap);
        }
    }
}

bool node_note_damage(struct node *node, uint64_t index, struct log_gap *gap) {
    return !log_damage_at(node->log, index, NULL) &&
           log_note_damage(node->log, index, index + NEIGHBOURS, gap) == 0;
}

void node_log_damaged(struct node *node, const struct log_gap *gap, const struct reason *why) {
    trace_line(&node->trace, TRACE_ERROR, "damaged",
               "entries %" PRIu64 " to %" PRIu64 " cannot be read: %s", gap->first, gap->last,
               why->text);
    node->repair.log_why = *why;
    tell_core(node, gap);
    if (node->state->replays && gap->last <= node->applied) {
        node_image_want(node, has_helpers(node) ? PATIENCE_MS : 0);
    }
}

void node_image_damaged(struct node *node, const struct reason *why) {
    trace_line(&node->trace, TRACE_ERROR, "image-damaged", "%s: it is written anew", why->text);
    node->repair.image_why = *why;
    node->repair.image_rotten = true;
    node_image_want(node, 0);
}

void node_image_unreadable(struct node *node, const struct reason *why) {
    trace_line(&node->trace, TRACE_ERROR, "image-damaged", "%s: it is passed over", why->text);
    node->repair.image_why = *why;
    node->repair.image_rotten = true;
    node->repair.image_wanted_ns = 0; /* as soon as there is a state to make one of */
}

/* ------------------------------------------------------------------ an image of our own */

void node_image_want(struct node *node, uint64_t in_ms) {
    uint64_t at_ns = node_now(node) + in_ms * MS_NS;
    struct repair *repair = &node->repair;
    repair->image_wanted_ns = at_ns < repair->image_wanted_ns ? at_ns : repair->image_wanted_ns;
    node->turn_wanted = true;
}

/* A gap that is applied here and that no image covers. */
static bool gap_needs_image(struct node *node) {
    return node->state->replays && node_gap_below(node, node->applied) > node->image_index;
}

static void look_for_need(struct node *node) {
    node->repair.image_wanted_ns = UINT64_MAX;
    node->image_wanted = node->repair.image_rotten || gap_needs_image(node);
    if (node->identity.model == MODEL_OWN && node->repair.image_rotten) {
        atomic_store(&node->own.wanted, node->image_index); /* the program has the state */
    }
    node->turn_wanted = node->turn_wanted || node->image_wanted;
}

/* A newer image is durable: our own, or the leader's. */
void node_image_mended(struct node *node) {
    struct repair *repair = &node->repair;
    if (repair->image_why.text[0] != '\0') {
        trace_line(&node->trace, TRACE_INFO, "image-repaired", "entry %" PRIu64, node->image_index);
    }
    repair->image_rotten = node->image_wanted = false;
    atomic_store(&node->own.wanted, 0);
    repair->image_why.text[0] = '\0';
    repair->changed = true;
}

bool node_image_helps(struct node *node, uint64_t index) {
    struct raft_gap gap;
    return raft_gaps(node->raft, &gap, 1) > 0 && gap.first <= index && index > node->image_index;
}

struct cover_job {
    struct loop_job job;
    struct node *node;
    uint64_t index, term;
    bool installs;
};

static void cover_run(struct loop_job *base) {
    struct cover_job *job = LIST_ITEM(base, struct cover_job, job);
    log_cover(job->node->log, job->index, job->term);
}

static void cover_done(struct loop_job *base) {
    struct cover_job *job = LIST_ITEM(base, struct cover_job, job);
    struct node *node = job->node;
    struct reason why = {{0}};
    node->jobs_outstanding--;
    node->turn_wanted = true;
    node->repair.changed = true;
    if (job->installs) {
        node_log_restarted(node, 0, &why);
    } else {
        node_step_prefix(node);
    }
    mem_free(job);
}

int node_repair_cover(struct node *node, uint64_t index, uint64_t term, bool installs) {
    struct log_gap gap;
    if (log_gaps(node->log, &gap, 1) == 0 || gap.first > index) {
        struct reason why = {{0}};
        if (installs) {
            node_log_restarted(node, 0, &why);
        }
        return 0;
    }
    struct cover_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        return LKV_ENOMEM;
    }
    *job = (struct cover_job){.node = node,
                              .index = index,
                              .term = term,
                              .installs = installs,
                              .job = {.run = cover_run, .done = cover_done}};
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_LOG, &job->job);
    return 0;
}

/* ------------------------------------------------------------------ filled */

void node_not_filled(struct node *node, const struct log_gap *gap, const struct reason *why) {
    trace_line(&node->trace, TRACE_WARN, "not-filled", "entries %" PRIu64 " to %" PRIu64 ": %s",
               gap->first, gap->last, why->text);
    node->repair.fill_next_ns = node_now(node) + RETRY_MS * MS_NS;
    tell_core(node, gap);
}

bool node_may_fill(const struct node *node) {
    return node_now(node) >= node->repair.fill_next_ns;
}

void node_repaired(struct node *node, uint64_t entries, uint64_t own) {
    struct log_gap gap;
    struct repair *repair = &node->repair;
    repair->changed = true;
    repair->filled += entries;
    repair->regained += own;
    repair->filled_ever += entries;
    node->turn_wanted = true;
    if (log_gaps(node->log, &gap, 1) == 0) {
        trace_line(&node->trace, TRACE_INFO, "repaired",
                   "%" PRIu64 " entries came from peers, %" PRIu64 " could be read here again",
                   repair->filled - repair->regained, repair->regained);
        repair->log_why.text[0] = '\0';
        repair->filled = repair->regained = 0;
    }
}

/* ------------------------------------------------------------------ the log's end */

struct note_job {
    struct loop_job job;
    struct node *node;
    bool settle; /* else doubt */
    struct identity identity;
    int rc;
    struct reason why;
};

static void note_run(struct loop_job *base) {
    struct note_job *job = LIST_ITEM(base, struct note_job, job);
    const struct node *node = job->node;
    job->rc =
        job->settle ? log_settle_end(node->log, &job->why) : log_doubt_end(node->log, &job->why);
    if (job->rc == 0 && job->settle && job->identity.restored) {
        job->identity.restored = false;
        job->rc = identity_save(node->world.disk, node->dir, &job->identity, &job->why);
    }
}

static void end_settled(struct node *node) {
    struct raft_event event = {.kind = RAFT_END_SETTLED};
    trace_line(&node->trace, TRACE_INFO, "end-settled",
               "the log holds all that the leader had: the node takes part again");
    node->repair.end_why.text[0] = '\0';
    node_step(node, &event);
}

static void note_done(struct loop_job *base) {
    struct note_job *job = LIST_ITEM(base, struct note_job, job);
    struct node *node = job->node;
    struct repair *repair = &node->repair;
    node->jobs_outstanding--;
    node->turn_wanted = true;
    repair->note_running = false;
    if (job->rc == LKV_ENOSPACE || job->rc == LKV_ENOMEM) {
        repair->note_retry_ns = node_now(node) + RETRY_MS * MS_NS;
    } else if (job->rc != 0) {
        node_log_failed(node, job->rc, &job->why);
    } else if (job->settle) {
        repair->settle_due = false;
        node->identity.restored = false;
        if (!repair->doubt_due) { /* else it is in doubt again */
            end_settled(node);
        }
    } else {
        repair->doubt_due = false;
    }
    mem_free(job);
}

/* One note at a time; a doubt goes first, since it makes what was to be settled void. */
static void give_note(struct node *node) {
    struct repair *repair = &node->repair;
    if (repair->note_running || node->log_failed || node->closing ||
        !(repair->doubt_due || repair->settle_due)) {
        return;
    }
    struct note_job *job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        repair->note_retry_ns = node_now(node) + RETRY_MS * MS_NS;
        return;
    }
    *job = (struct note_job){.node = node,
                             .settle = !repair->doubt_due,
                             .identity = node->identity,
                             .job = {.run = note_run, .done = note_done}};
    repair->note_running = true;
    repair->note_retry_ns = UINT64_MAX;
    node->jobs_outstanding++;
    loop_submit(node->world.loop, LOOP_LOG, &job->job);
}

void node_settle_end(struct node *node) {
    node->repair.settle_due = true;
    give_note(node);
}

void node_doubt_end(struct node *node, const struct reason *why) {
    struct repair *repair = &node->repair;
    struct raft_event event = {.kind = RAFT_END_DOUBTED};
    if (!node->running || node->stop_rc != 0) {
        return;
    }
    if (repair->end_why.text[0] == '\0') {
        trace_line(&node->trace, TRACE_ERROR, "end-unknown", "%s", why->text);
    }
    repair->end_why = *why;
    repair->doubt_due = true;
    repair->settle_due = false;
    /* At once: nothing is voted or acknowledged while the note is written. */
    node_step(node, &event);
    give_note(node);
}

/* ------------------------------------------------------------------ reads that wait */

void node_repair_wait(struct node *node, struct request *request) {
    if (!has_helpers(node)) {
        request_fail(request, LKV_EDAMAGED, "entry %" PRIu64 " cannot be read: %s", request->from,
                     node->repair.log_why.text);
        return;
    }
    list_push_back(&node->repair.waits, &request->link);
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
}

void node_repair_serve(struct node *node) {
    if (!node->repair.changed) {
        return;
    }
    node->repair.changed = false;
    struct list_link waits;
    list_init(&waits);
    struct list_link *link;
    while ((link = list_pop_front(&node->repair.waits)) != NULL) {
        list_push_back(&waits, link);
    }
    while ((link = list_pop_front(&waits)) != NULL) { /* one that meets a gap again waits again */
        node_log_read(node, LIST_ITEM(link, struct request, link));
    }
}

uint64_t node_repair_expire(struct node *node, uint64_t now_ns) {
    uint64_t earliest = UINT64_MAX;
    struct list_link *next;
    for (struct list_link *at = node->repair.waits.next; at != &node->repair.waits; at = next) {
        next = at->next;
        struct request *request = LIST_ITEM(at, struct request, link);
        if (request->deadline_ns <= now_ns) {
            list_remove(at);
            request_fail(request, LKV_EDAMAGED,
                         "entry %" PRIu64 " cannot be read, and no peer has given it yet: %s",
                         request->from, node->repair.log_why.text);
        } else if (request->deadline_ns < earliest) {
            earliest = request->deadline_ns;
        }
    }
    return earliest;
}

void node_repair_fail_all(struct node *node, int rc, const char *text) {
    struct list_link *link;
    while ((link = list_pop_front(&node->repair.waits)) != NULL) {
        request_fail(LIST_ITEM(link, struct request, link), rc, "%s", text);
    }
}

/* ------------------------------------------------------------------ time, and what is told */

static void replace(struct reason *text, const char *what, const char *with) {
    struct reason out = {{0}};
    const char *at = strstr(text->text, what);
    if (at != NULL) {
        (void)snprintf(out.text, sizeof(out.text), "%.*s%s%s", (int)(at - text->text), text->text,
                       with, at + strlen(what));
        *text = out;
    }
}

void node_name_members(const struct node *node, struct reason *text) {
    for (size_t i = 0; i < node->identity.member_count; i++) {
        const struct identity_member *member = &node->identity.members[i];
        char id[20];
        (void)snprintf(id, sizeof(id), "%016" PRIx64, member->id);
        replace(text, id, member->name);
    }
}

void node_name_place(struct node *node, struct reason *text) {
    struct log_gap gap;
    struct reason what = *text;
    char path[DISK_PATH_SIZE + 32] = "";
    if (log_gaps(node->log, &gap, 1) == 0) {
        return;
    }
    log_gap_place(node->log, &gap, path, sizeof(path));
    size_t dir = strlen(node->dir);
    bool inside = strncmp(path, node->dir, dir) == 0 && path[dir] == '/';
    (void)snprintf(text->text, sizeof(text->text), "%.360s; the first gap here is at %.120s",
                   what.text,
                   path[0] == '\0' ? node->repair.log_why.text
                   : inside        ? path + dir + 1
                                   : path);
}

uint64_t node_repair_timer(struct node *node, uint64_t now_ns) {
    struct repair *repair = &node->repair;
    if (!node->running || node->closing || node->stop_rc != 0) {
        return UINT64_MAX;
    }
    if (now_ns >= repair->image_wanted_ns) {
        look_for_need(node);
    }
    if (now_ns >= repair->note_retry_ns) {
        give_note(node);
    }
    return repair->image_wanted_ns < repair->note_retry_ns ? repair->image_wanted_ns
                                                           : repair->note_retry_ns;
}

uint64_t node_damaged_entries(struct node *node) {
    return node->running ? log_damaged_entries(node->log) : 0;
}

bool node_repair_state(struct node *node, char *out, size_t size) {
    const struct repair *repair = &node->repair;
    struct log_gap first;
    size_t count = node->running ? log_gaps(node->log, &first, 1) : 0;
    if (repair->end_why.text[0] != '\0') {
        (void)snprintf(out, size, "end unknown: %s", repair->end_why.text);
    } else if (repair->image_why.text[0] != '\0') {
        (void)snprintf(out, size, "repairing: image unreadable (%s)", repair->image_why.text);
    } else if (count == 1) {
        (void)snprintf(out, size, "repairing: entries %" PRIu64 "..%" PRIu64 " unreadable (%s)",
                       first.first, first.last, repair->log_why.text);
    } else if (count > 1) {
        (void)snprintf(out, size,
                       "repairing: %" PRIu64 " entries from %" PRIu64 " on unreadable (%s)",
                       log_damaged_entries(node->log), first.first, repair->log_why.text);
    }
    return out[0] != '\0';
}
