/* What the leader gives up of history: it looks now and then, and proposes a compaction (rule 22: decided
 * here, from its own options, and the entry says the revision).
 *
 *      kept_from ....... by count ..... by age ............. revision
 *          |  goes when either says so     |  stays             |
 *
 * Age is told by samples, which revision there was when. A new leader has none, so what it keeps because
 * of its age it keeps too long rather than too short. */
#include "lib/node.h"

enum { LOOK_MS = 250 };

static bool may_look(const struct node *node) {
    return node->kv != NULL && node->role == RAFT_LEADER && node->running && !node->closing &&
           node->stop_rc == 0;
}

uint64_t node_compact_deadline(const struct node *node) {
    if (!may_look(node)) {
        return UINT64_MAX;
    }
    struct kv_stamp stamp;
    kv_stamp(node->kv, &stamp);
    /* Without a change nothing becomes too much; it only becomes old. */
    bool ages = node->options.history_ms > 0 && stamp.kept_from < stamp.revision;
    bool changed = stamp.revision != node->compact.looked;
    return ages || changed ? node->compact.next_ns : UINT64_MAX;
}

/* ------------------------------------------------------------------ how far */

static void take_sample(struct node *node, uint64_t now_ns, uint64_t revision) {
    struct compact *compact = &node->compact;
    if (compact->term != node->term) {
        compact->term = node->term;
        compact->sample_count = 0;
    }
    if (node->options.history_ms == 0) {
        return;
    }
    if (compact->sample_count > 0) {
        size_t last = (compact->sample_first + compact->sample_count - 1) % COMPACT_SAMPLES;
        uint64_t apart_ns = node->options.history_ms * MS_NS / (COMPACT_SAMPLES - 1);
        if (now_ns - compact->samples[last].at_ns < apart_ns) {
            return;
        }
    }
    if (compact->sample_count == COMPACT_SAMPLES) {
        compact->sample_first = (compact->sample_first + 1) % COMPACT_SAMPLES;
        compact->sample_count--;
    }
    size_t at = (compact->sample_first + compact->sample_count++) % COMPACT_SAMPLES;
    compact->samples[at] = (struct compact_sample){.at_ns = now_ns, .revision = revision};
}

/* The newest revision that there was so long ago; 0: not known. */
static uint64_t by_age(const struct node *node, uint64_t now_ns) {
    const struct compact *compact = &node->compact;
    uint64_t revision = 0;
    for (size_t i = 0; i < compact->sample_count; i++) {
        const struct compact_sample *sample =
            &compact->samples[(compact->sample_first + i) % COMPACT_SAMPLES];
        if (now_ns - sample->at_ns >= node->options.history_ms * MS_NS) {
            revision = sample->revision;
        }
    }
    return revision;
}

/* A tenth more than is asked for may gather, so that not every write brings an entry. */
static uint64_t by_count(const struct node *node, const struct kv_stats *stats) {
    uint64_t wanted = node->options.history_revisions;
    uint64_t there = stats->revision - stats->kept_from;
    return wanted > 0 && there > wanted + wanted / 10 ? stats->revision - wanted : 0;
}

/* What an earlier compaction has left in memory goes first: only then is it known what is too much. A
 * view, of an image that is being written or of a reader, may hold that back. */
static uint64_t by_memory(const struct node *node, const struct kv_stats *stats) {
    uint64_t limit = node->options.history_bytes;
    bool too_much =
        limit > 0 && stats->history_memory > limit && !node->tidy_wanted && !stats->history_held;
    return too_much ? stats->kept_from + (stats->revision - stats->kept_from + 1) / 2 : 0;
}

static uint64_t compact_to(const struct node *node, const struct kv_stats *stats, uint64_t now_ns) {
    const uint64_t wishes[] = {by_count(node, stats), by_age(node, now_ns), by_memory(node, stats)};
    uint64_t to = 0;
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        to = wishes[i] > to ? wishes[i] : to;
    }
    return to;
}

/* ------------------------------------------------------------------ proposing */

static void on_compacted(struct request *request) {
    struct node *node = request->owner;
    node->compact.proposed = false; /* whatever became of it, the next look sees what there is */
    node->compact.looked = 0;
}

static void propose(struct node *node, uint64_t revision) {
    const struct kv_command command = {.op = KV_COMPACT, .revision = revision};
    struct request *request = request_new(REQUEST_WRITE);
    if (request == NULL) {
        return; /* the next look tries again */
    }
    request->command = kv_command_encode(&command);
    if (request->command == NULL) {
        request_free(request);
        return;
    }
    request->level = (uint8_t)kv_command_level(&command);
    request->forwarded = request->no_park = true; /* this leader's, or nobody's */
    request->on_finish = on_compacted;
    request->owner = node;
    node->compact.proposed = true;
    trace_line(&node->trace, TRACE_DEBUG, "compaction", "history before revision %llu goes",
               (unsigned long long)revision);
    node_route(node, request);
}

void node_compact_look(struct node *node, uint64_t now_ns) {
    struct compact *compact = &node->compact;
    if (!may_look(node) || now_ns < compact->next_ns) {
        return;
    }
    compact->next_ns = now_ns + LOOK_MS * MS_NS;
    if (!node_leads_ready(node) || compact->proposed) {
        return;
    }
    struct kv_stats stats;
    kv_stats(node->kv, &stats);
    compact->looked = stats.revision;
    if (node->state->feature_level(node) < KV_LEVEL_HISTORY) {
        return;
    }
    take_sample(node, now_ns, stats.revision);
    uint64_t to = stats.kept_from < stats.revision ? compact_to(node, &stats, now_ns) : 0;
    if (to > stats.kept_from) {
        propose(node, to);
    }
}
