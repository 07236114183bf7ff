/* Looking at the cluster, and messages out of nowhere. */
#include "tests/scenarios/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

void scenario_show(struct scenario *scenario) {
    static const char *const roles[] = {[RAFT_FOLLOWER] = "follower",
                                        [RAFT_CANDIDATE] = "candidate",
                                        [RAFT_LEADER] = "leader",
                                        [RAFT_STOPPED] = "stopped"};
    for (uint64_t i = 1; i <= scenario->nodes; i++) {
        if (!world_is_up(scenario->world, i)) {
            scenario_print(scenario, "n%llu down, disk has term %llu, log to %llu", (ull)i,
                           (ull)world_disk_term(scenario->world, i),
                           (ull)world_disk_last(scenario->world, i));
            continue;
        }
        struct raft_status s = world_status(scenario->world, i);
        scenario_print(scenario, "n%llu %s in term %llu, log %llu..%llu, durable %llu, commit %llu",
                       (ull)i, roles[s.role], (ull)s.term, (ull)s.first, (ull)s.last,
                       (ull)s.durable, (ull)s.commit);
        if (s.gap_count > 0) {
            scenario_print(scenario, "   cannot read %llu..%llu", (ull)s.first_gap.first,
                           (ull)s.first_gap.last);
        }
    }
}

/* ------------------------------------------------------------------ checks */

/* A number, a count since `mark`, or a field of a node such as n2.commit. */
static uint64_t value(struct scenario *scenario, const char *word) {
    struct world *world = scenario->world;
    const struct world_counts *now = world_counts(world), *then = &scenario->marked;
    const char *field = strchr(word, '.');
    uint64_t id = scenario_node(word);
    if (id != 0 && field == NULL) {
        return id;
    }
    if (id != 0) {
        struct raft_status s = world_status(world, id);
        return strcmp(field, ".term") == 0        ? s.term
               : strcmp(field, ".commit") == 0    ? s.commit
               : strcmp(field, ".last") == 0      ? s.last
               : strcmp(field, ".durable") == 0   ? s.durable
               : strcmp(field, ".campaigns") == 0 ? s.campaigns
               : strcmp(field, ".prevotes") == 0  ? s.prevotes
               : strcmp(field, ".gaps") == 0      ? s.gap_count
               : strcmp(field, ".damaged") == 0   ? s.damaged_entries
               : strcmp(field, ".doubts") == 0    ? s.end_unknown
               : strcmp(field, ".lease") == 0     ? world_lease_ms(world, id)
               : strcmp(field, ".unsynced") == 0  ? world_unsynced_bytes(world, id)
                                                  : UINT64_MAX;
    }
    return strcmp(word, "leader") == 0       ? world_leader(world)
           : strcmp(word, "committed") == 0  ? world_committed(world)
           : strcmp(word, "ms") == 0         ? world_now_ms(world) - scenario->mark_ms
           : strcmp(word, "messages") == 0   ? now->messages - then->messages
           : strcmp(word, "appends") == 0    ? now->appends - then->appends
           : strcmp(word, "entries") == 0    ? now->append_entries - then->append_entries
           : strcmp(word, "heartbeats") == 0 ? now->heartbeats - then->heartbeats
           : strcmp(word, "ticks") == 0      ? now->ticks - then->ticks
           : strcmp(word, "leaders") == 0    ? now->leaders - then->leaders
           : strcmp(word, "installs") == 0   ? now->installs - then->installs
           : strcmp(word, "fetches") == 0    ? now->fetches - then->fetches
           : strcmp(word, "reads") == 0      ? now->reads_done - then->reads_done
           : strcmp(word, "leased") == 0     ? now->reads_leased - then->reads_leased
           : strcmp(word, "filled") == 0     ? now->filled - then->filled
           : strcmp(word, "discarded") == 0  ? now->discarded - then->discarded
                                             : strtoull(word, NULL, 10);
}

void scenario_check(struct scenario *scenario, char **words, size_t count) {
    if (count != 4) {
        scenario_print(scenario, "check A OP B");
        return;
    }
    uint64_t a = value(scenario, words[1]), b = value(scenario, words[3]);
    const char *op = words[2];
    bool holds = strcmp(op, "=") == 0    ? a == b
                 : strcmp(op, "!=") == 0 ? a != b
                 : strcmp(op, "<") == 0  ? a < b
                 : strcmp(op, "<=") == 0 ? a <= b
                 : strcmp(op, ">") == 0  ? a > b
                 : strcmp(op, ">=") == 0 ? a >= b
                                         : false;
    if (!holds) {
        scenario_print(scenario, "it is %llu and %llu", (ull)a, (ull)b);
    }
}

/* ------------------------------------------------------------------ messages */

/* The text behind `name=`; "" when there is none. */
static const char *text_of(char **words, size_t count, const char *name) {
    size_t size = strlen(name);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(words[i], name, size) == 0 && words[i][size] == '=') {
            return words[i] + size + 1;
        }
    }
    return "";
}

/* INDEX/TERM */
static void pair(const char *text, uint64_t *index, uint64_t *term) {
    char *end = NULL;
    *index = strtoull(text, &end, 10);
    *term = end != NULL && *end == '/' ? strtoull(end + 1, NULL, 10) : 0;
}

static uint32_t entries(const char *list, struct raft_entry_meta *metas, uint32_t most) {
    uint32_t count = 0;
    while (*list != '\0' && count < most) {
        char *end = NULL;
        metas[count++] = (struct raft_entry_meta){
            .term = strtoull(list, &end, 10), .size = 1, .type = ENTRY_COMMAND};
        list = *end == ',' ? end + 1 : end;
    }
    return count;
}

static void fill(struct raft_message *m, char **words, size_t count,
                 struct raft_entry_meta *metas) {
    const char *kind = words[1];
    if (strcmp(kind, "append") == 0) {
        m->kind = RAFT_APPEND;
        pair(text_of(words, count, "prev"), &m->append.prev_index, &m->append.prev_term);
        m->append.commit = scenario_option(words, count, "commit", 0);
        m->append.request_no = scenario_option(words, count, "no", 1);
        m->append.count = entries(text_of(words, count, "terms"), metas, 64);
        m->append.entries = metas;
    } else if (strcmp(kind, "heartbeat") == 0) {
        m->kind = RAFT_HEARTBEAT;
        m->heartbeat.commit = scenario_option(words, count, "commit", 0);
        m->heartbeat.round = scenario_option(words, count, "round", 1);
    } else if (strcmp(kind, "vote") == 0 || strcmp(kind, "prevote") == 0) {
        m->kind = RAFT_VOTE_REQUEST;
        m->vote_request.pre = kind[0] == 'p';
        pair(text_of(words, count, "last"), &m->vote_request.last_index,
             &m->vote_request.last_term);
        m->vote_request.round = scenario_option(words, count, "round", 1);
        const char *token = text_of(words, count, "token");
        m->vote_request.by_transfer = token[0] != '\0';
        pair(token[0] == 'n' ? token + 1 : "0", &m->vote_request.token_leader,
             &m->vote_request.token_term);
    } else if (strcmp(kind, "yes") == 0 || strcmp(kind, "no") == 0) {
        m->kind = RAFT_VOTE_REPLY;
        m->vote_reply.answer = kind[0] == 'y' ? RAFT_VOTE_ACCEPT : RAFT_VOTE_TERM_SMALL;
        m->vote_reply.round = scenario_option(words, count, "round", 1);
        m->vote_reply.pre = scenario_option(words, count, "pre", 0) != 0;
    } else if (strcmp(kind, "ok") == 0) {
        m->kind = RAFT_APPEND_REPLY;
        m->append_reply.result = RAFT_APPEND_OK;
        m->append_reply.request_no = scenario_option(words, count, "no", 1);
        m->append_reply.durable = scenario_option(words, count, "durable", 0);
        m->append_reply.received = scenario_option(words, count, "received", 0);
        m->append_reply.room = RAFT_ROOM_FREE;
    } else if (strcmp(kind, "now") == 0) {
        m->kind = RAFT_TRANSFER_NOW;
        m->transfer_now.last_index = scenario_option(words, count, "last", 0);
    }
}

/* inject KIND from=nX to=nY term=T ...; a node beyond the cluster is a stranger */
void scenario_inject(struct scenario *scenario, char **words, size_t count) {
    struct raft_message message = {.from = scenario_node(text_of(words, count, "from")),
                                   .to = scenario_node(text_of(words, count, "to")),
                                   .term = scenario_option(words, count, "term", 1)};
    struct raft_entry_meta metas[64];
    if (count > 1) {
        fill(&message, words, count, metas);
    }
    if (message.kind == 0 || message.to == 0 || message.to > scenario->nodes) {
        scenario_print(scenario, "inject append|heartbeat|vote|prevote|yes|no|ok|now from= to=");
        return;
    }
    world_inject(scenario->world, &message, NULL);
}
