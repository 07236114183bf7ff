/* One node: its core is stepped, and the update is carried out in the order of its fields. */
#include "tests/sim/raft_world_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

/* ------------------------------------------------------------------ payloads and tokens */

static struct w_packet *find_kept(const struct w_node *node, uint64_t token, size_t *at) {
    for (size_t i = 0; i < node->kept_count; i++) {
        if (node->kept[i]->token == token) {
            *at = i;
            return node->kept[i];
        }
    }
    return NULL;
}

static void take(struct world *world, struct w_node *node, const struct raft_take *t,
                 struct w_packet *packet) {
    size_t at;
    struct w_packet *from =
        packet != NULL && packet->token == t->token ? packet : find_kept(node, t->token, &at);
    if (from == NULL) {
        w_violate(world, "n%d takes from token %llu that nobody keeps", (int)node->id,
                  (ull)t->token);
        return;
    }
    for (uint64_t index = t->first; index <= t->last; index++) {
        uint64_t i = index - from->message.append.prev_index - 1;
        if (i >= from->message.append.count || index != node->log.last + 1) {
            w_violate(world,
                      "n%d takes %llu..%llu from a request of %u behind %llu, its log ends "
                      "at %llu",
                      (int)node->id, (ull)t->first, (ull)t->last, from->message.append.count,
                      (ull)from->message.append.prev_index, (ull)node->log.last);
            return;
        }
        w_log_put(&node->log, index,
                  (struct w_entry){.term = from->metas[i].term,
                                   .id = from->ids[i],
                                   .size = from->metas[i].size});
        w_check_entry(world, node, index);
    }
}

/* What was unreadable comes back: log matching is checked with what is before and behind. */
static void take_fill(struct world *world, struct w_node *node, const struct raft_fill *f,
                      const struct w_packet *packet) {
    for (uint64_t index = f->first; index <= f->last; index++) {
        uint64_t i = index - packet->message.repair_reply.first;
        const struct w_entry *there = w_log_at(&node->log, index);
        if (packet->token != f->token || i >= packet->message.repair_reply.count || there == NULL) {
            w_violate(world, "n%d fills %llu, nobody gave it that", (int)node->id, (ull)index);
            return;
        }
        node->log.items[index] = (struct w_entry){.term = packet->metas[i].term,
                                                  .id = packet->ids[i],
                                                  .size = packet->metas[i].size,
                                                  .bad = true}; /* until the disk has it */
        w_check_entry(world, node, index);
        const struct w_entry *next = w_log_at(&node->log, index + 1);
        if (next != NULL && next->term != 0) {
            w_check_entry(world, node, index + 1);
        }
    }
}

static void drop(struct world *world, struct w_node *node, uint64_t token) {
    size_t at;
    struct w_packet *kept = find_kept(node, token, &at);
    if (kept == NULL) {
        w_violate(world, "n%d drops token %llu that nobody keeps", (int)node->id, (ull)token);
        return;
    }
    node->kept[at] = node->kept[--node->kept_count];
    w_packet_free(kept);
}

static void own_entries(struct world *world, struct w_node *node, const struct raft_event *event) {
    struct raft_update *update = &node->update;
    bool submitted = event->kind == RAFT_SUBMIT && update->submit_rc == 0;
    for (size_t i = 0; submitted && i < event->submit.count; i++) {
        w_log_put(&node->log, update->submit_first + i,
                  (struct w_entry){.term = update->term,
                                   .id = ++world->next_id,
                                   .size = event->submit.sizes[i]});
        w_check_entry(world, node, node->log.last);
    }
    while (update->write.last >= update->write.first && node->log.last < update->write.last) {
        if (update->role != RAFT_LEADER || update->write.first != update->write.last) {
            w_violate(world, "n%d writes entries that nobody gave it", (int)node->id);
            return;
        }
        w_log_put(&node->log, node->log.last + 1, (struct w_entry){.term = update->term});
        w_check_entry(world, node, node->log.last);
    }
}

/* ------------------------------------------------------------------ messages */

static const struct w_entry *payload(struct world *world, const struct w_node *node,
                                     const struct raft_message *m, uint64_t index) {
    const struct w_fetched *fetched = node->fetched;
    if (fetched != NULL && fetched->fetch.peer == m->to) {
        uint64_t i = index - fetched->fetch.from;
        if (i >= fetched->count) {
            w_violate(world, "n%d sends %llu to n%d, it was not fetched", (int)node->id, (ull)index,
                      (int)m->to);
            return NULL;
        }
        return &fetched->entries[i];
    }
    const struct w_entry *entry = w_log_at(&node->log, index);
    if (entry == NULL || index < node->window_first) {
        w_violate(world, "n%d sends %llu, its window begins at %llu", (int)node->id, (ull)index,
                  (ull)node->window_first);
        return NULL;
    }
    return entry;
}

static bool fill(struct world *world, const struct w_node *node, struct w_packet *packet) {
    uint64_t first;
    uint32_t count = w_packet_entries(&packet->message, &first);
    packet->metas = calloc(count, sizeof *packet->metas);
    packet->ids = calloc(count, sizeof *packet->ids);
    if (packet->metas == NULL || packet->ids == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct w_entry *entry = payload(world, node, &packet->message, first + i);
        if (entry == NULL) {
            return false;
        }
        packet->metas[i] =
            (struct raft_entry_meta){.term = entry->term,
                                     .size = entry->size,
                                     .type = entry->id == 0 ? ENTRY_NOOP : ENTRY_COMMAND};
        packet->ids[i] = entry->id;
    }
    w_packet_point(packet);
    return true;
}

static void trace_message(struct world *world, const struct raft_message *m) {
    bool beat = m->kind == RAFT_HEARTBEAT || m->kind == RAFT_HEARTBEAT_REPLY;
    if (world->options.trace_messages && !beat) {
        char text[160];
        w_message_text(m, text, sizeof text);
        w_trace(world, "n%d > n%d, term %llu: %s", (int)m->from, (int)m->to, (ull)m->term, text);
    }
}

static void count_message(struct world *world, const struct raft_message *m) {
    trace_message(world, m);
    world->counts.messages++;
    if (m->kind == RAFT_APPEND) {
        world->counts.appends++;
        world->counts.append_entries += m->append.count;
    } else if (m->kind == RAFT_HEARTBEAT) {
        world->counts.heartbeats++;
    }
}

static void send_all(struct world *world, struct w_node *node) {
    for (size_t i = 0; i < node->update.message_count; i++) {
        const struct raft_message *m = &node->update.messages[i];
        w_check_message(world, node, m);
        count_message(world, m);
        if (w_node(world, m->to) == NULL) {
            continue;
        }
        struct w_packet *packet = calloc(1, sizeof *packet);
        if (packet == NULL) {
            abort();
        }
        packet->message = *m;
        packet->boot = node->boot;
        if (w_packet_entries(m, NULL) > 0 && !fill(world, node, packet)) {
            w_packet_free(packet);
            return;
        }
        w_send(world, packet);
    }
}

/* ------------------------------------------------------------------ fetches and images */

/* What is read is what the log holds now: by the time it comes back it may be of another life. */
static void fetch(struct world *world, struct w_node *node, const struct raft_fetch *asked) {
    struct w_fetched *fetched = calloc(1, sizeof *fetched);
    if (fetched == NULL) {
        abort();
    }
    fetched->fetch = *asked;
    uint64_t bytes = 0;
    size_t entries = 0, sizes = 0;
    for (uint64_t index = asked->from; index <= asked->to; index++) {
        const struct w_entry *entry = w_log_at(&node->log, index);
        const struct w_entry *there = w_log_at(&node->disk.log, index);
        if (entry != NULL && (entry->bad || (there != NULL && there->bad))) {
            fetched->damaged = true;
            break;
        }
        bytes += entry != NULL ? entry->size : 0;
        if (entry == NULL || (fetched->count > 0 && bytes > asked->bytes_max)) {
            break;
        }
        fetched->entries =
            w_grow(fetched->entries, &entries, fetched->count + 1, sizeof *fetched->entries);
        fetched->sizes = w_grow(fetched->sizes, &sizes, fetched->count + 1, sizeof *fetched->sizes);
        fetched->entries[fetched->count] = *entry;
        fetched->sizes[fetched->count++] = entry->size;
    }
    world->counts.fetches++;
    uint64_t us = 200 + prng_below(&world->prng, world->options.fetch_max_us + 1u);
    w_push(world, (struct w_event){.at_ns = world->now_ns + us * 1000,
                                   .kind = W_FETCHED,
                                   .node = node->id,
                                   .boot = node->boot,
                                   .fetched = fetched});
}

static void install(struct world *world, struct w_node *node, uint64_t peer) {
    struct raft_status status;
    raft_status(node->raft, &status);
    world->counts.installs++;
    w_push(world, (struct w_event){.at_ns = world->now_ns + 20000000,
                                   .kind = W_IMAGE,
                                   .node = node->id,
                                   .boot = node->boot,
                                   .peer = peer,
                                   .image_index = node->disk.image_index,
                                   .image_term = node->disk.image_term});
}

/* ------------------------------------------------------------------ carrying out */

static void trace_role(struct world *world, struct w_node *node) {
    static const char *const names[] = {[RAFT_FOLLOWER] = "follows",
                                        [RAFT_CANDIDATE] = "is candidate",
                                        [RAFT_LEADER] = "leads",
                                        [RAFT_STOPPED] = "stopped"};
    const struct raft_update *update = &node->update;
    if (update->role == RAFT_FOLLOWER && update->leader == RAFT_NOBODY) {
        w_trace(world, "n%d follows nobody in term %llu", (int)node->id, (ull)update->term);
    } else if (update->role == RAFT_FOLLOWER) {
        w_trace(world, "n%d follows n%d in term %llu", (int)node->id, (int)update->leader,
                (ull)update->term);
    } else {
        w_trace(world, "n%d %s in term %llu", (int)node->id, names[update->role],
                (ull)update->term);
    }
}

static void finish_reads(struct world *world, struct w_node *node) {
    for (size_t i = 0; i < node->update.read_count; i++) {
        const struct raft_read_result *result = &node->update.reads[i];
        w_check_read(world, node, result);
        if (result->rc == 0) {
            w_trace(world, "n%d may serve a read at %llu", (int)node->id, (ull)result->index);
        } else {
            w_trace(world, "n%d fails a read: %s", (int)node->id, error_name(result->rc));
        }
    }
}

static void trim_window(struct world *world, struct w_node *node) {
    if (world->options.window_entries == 0) {
        return;
    }
    uint64_t needed = raft_window_needed(node->raft);
    uint64_t first = node->applied + 1 < needed ? node->applied + 1 : needed;
    uint64_t keep = world->options.window_entries;
    first = first > keep ? first - keep : 1;
    if (first > node->window_first) {
        node->window_first = first;
        raft_window_first(node->raft, first);
    }
}

static void carry_out(struct world *world, struct w_node *node, const struct raft_event *event,
                      struct w_packet *packet) {
    struct raft_update *update = &node->update;
    for (size_t i = 0; i < update->fill_count; i++) {
        take_fill(world, node, &update->fills[i], packet);
    }
    if (update->discarded_from != 0) {
        world->counts.discarded++;
        w_trace(world, "n%d discards from %llu: %s", (int)node->id, (ull)update->discarded_from,
                update->note.text);
    }
    if (update->kept) {
        node->kept =
            w_grow(node->kept, &node->kept_capacity, node->kept_count + 1, sizeof *node->kept);
        node->kept[node->kept_count++] = packet;
    }
    if (update->write.cut_from != 0) {
        node->log.last = update->write.cut_from - 1;
        if (node->window_first > update->write.cut_from) {
            node->window_first = update->write.cut_from;
        }
    }
    for (size_t i = 0; i < update->take_count; i++) {
        take(world, node, &update->takes[i], packet);
    }
    for (size_t i = 0; i < update->drop_count; i++) {
        drop(world, node, update->drops[i]);
    }
    own_entries(world, node, event);
    if (update->write.no != 0) {
        w_disk_write(world, node, &update->write, update->fill_count > 0 ? update->fills : NULL);
    }
    if (update->settle_end) {
        w_disk_settle(world, node);
    }
    send_all(world, node);
    for (size_t i = 0; i < update->fetch_count; i++) {
        fetch(world, node, &update->fetches[i]);
    }
    for (size_t i = 0; i < update->install_count; i++) {
        install(world, node, update->installs[i]);
    }
}

void w_step(struct world *world, struct w_node *node, struct raft_event *event,
            struct w_packet *packet) {
    event->now_ns = w_clock(world, node);
    world->counts.steps++;
    if (raft_step(node->raft, event, &node->update) != 0) {
        abort(); /* nothing here injects allocation failures */
    }
    if (event->kind == RAFT_IMAGE_INSTALLED) {
        struct raft_status status;
        raft_status(node->raft, &status);
        node->log.first = status.first;
        node->log.last = status.last > node->log.last ? status.last : node->log.last;
        if (node->log.last < node->log.first) {
            node->log.last = node->log.first - 1;
        }
        node->window_first = status.first > node->window_first ? status.first : node->window_first;
    }
    carry_out(world, node, event, packet);
    w_check_step(world, node);
    if (node->update.stop_rc != 0) {
        world->counts.newest_stop = node->id;
        w_trace(world, "n%d stops: %s", (int)node->id, node->update.stop_why.text);
    }
    if (node->update.role_changed) {
        trace_role(world, node);
    }
    node->role = node->update.role;
    node->term = node->update.term;
    node->leader = node->update.leader;
    finish_reads(world, node);
    if (packet != NULL && !node->update.kept) {
        w_packet_free(packet);
    }
    trim_window(world, node);
    node->deadline_ns = node->update.deadline_ns;
    if (node->applied > node->told_applied) {
        node->told_applied = node->applied;
        struct raft_event done = {.kind = RAFT_APPLIED};
        done.applied.index = node->applied;
        w_step(world, node, &done, NULL);
    }
}

/* ------------------------------------------------------------------ start */

static void greet(struct world *world, struct w_node *node) {
    for (size_t i = 0; i < world->options.nodes; i++) {
        struct w_node *peer = &world->nodes[i];
        if (peer == node || peer->raft == NULL) {
            continue;
        }
        uint64_t at = world->now_ns + 1000000;
        w_push(world,
               (struct w_event){.at_ns = at, .kind = W_HELLO, .node = peer->id, .peer = node->id});
        w_push(world,
               (struct w_event){.at_ns = at, .kind = W_HELLO, .node = node->id, .peer = peer->id});
    }
}

/* From what is on the disk, as after recovery: everything there is durable. */
void w_start(struct world *world, struct w_node *node) {
    struct w_disk *disk = &node->disk;
    for (uint64_t i = disk->log.first; i <= disk->image_index && i <= disk->log.last; i++) {
        disk->log.first = disk->log.items[i].bad ? i + 1 : disk->log.first; /* rule 14 */
    }
    node->boot++;
    node->had_gaps = false;
    memset(node->greeted, 0, sizeof node->greeted);
    node->log.last = disk->log.first - 1;
    node->log.first = disk->log.first;
    for (uint64_t i = disk->log.first; i <= disk->log.last; i++) {
        bool bad = disk->log.items[i].bad && i > disk->image_index;
        w_log_put(&node->log, i, bad ? (struct w_entry){.bad = true} : disk->log.items[i]);
        node->log.items[i].bad = bad; /* at or below the image nobody has looked yet */
    }
    size_t run_count, gap_count;
    struct raft_run *runs = w_runs_of(world, disk, &run_count);
    struct raft_gap *gaps = w_gaps_of(disk, &gap_count);
    uint64_t log_term = run_count > 0 ? runs[run_count - 1].term : disk->image_term;
    struct raft_start start = {.self = node->id,
                               .config = world->config,
                               .options = world->options.raft,
                               .seed = prng_next(&world->prng),
                               .now_ns = w_clock(world, node),
                               .term = disk->term > log_term ? disk->term : log_term,
                               .voted_for = disk->term >= log_term ? disk->voted_for : 0,
                               .promised_ms = disk->promised_ms,
                               .first = disk->log.first,
                               .last = disk->log.last,
                               .runs = runs,
                               .run_count = run_count,
                               .gaps = gaps,
                               .gap_count = gap_count,
                               .end_unknown = disk->end_unknown,
                               .image_index = disk->image_index,
                               .image_term = disk->image_term};
    w_draw_times(world, &start.options);
    struct reason why = {{0}};
    if (raft_open(&node->raft, &start, &why) != 0) {
        w_violate(world, "n%d does not start: %s", (int)node->id, why.text);
        free(runs);
        free(gaps);
        return;
    }
    free(runs);
    free(gaps);
    disk->term = start.term;
    disk->voted_for = start.voted_for;
    disk->done_ns = UINT64_MAX;
    node->window_first = disk->log.last + 1;
    node->applied = node->told_applied = node->known_commit = disk->image_index;
    node->role = RAFT_FOLLOWER;
    node->term = start.term;
    node->leader = RAFT_NOBODY;
    greet(world, node);
    w_step(world, node, &(struct raft_event){.kind = RAFT_TICK}, NULL);
}
