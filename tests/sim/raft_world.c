#include "tests/sim/raft_world_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ small things */

void *w_grow(void *items, size_t *capacity, size_t needed, size_t size) {
    if (needed <= *capacity && items != NULL) {
        return items;
    }
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < needed) {
        wanted *= 2;
    }
    char *grown = realloc(items, wanted * size);
    if (grown == NULL) {
        abort();
    }
    size_t old = items != NULL ? *capacity : 0;
    memset(grown + old * size, 0, (wanted - old) * size);
    *capacity = wanted;
    return grown;
}

void w_trace(struct world *world, const char *format, ...) {
    if (world->options.trace == NULL) {
        return;
    }
    char line[700];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    world->options.trace(world->options.trace_arg, line);
}

struct w_node *w_node(const struct world *world, uint64_t id) {
    return id >= 1 && id <= world->options.nodes ? (struct w_node *)&world->nodes[id - 1] : NULL;
}

void w_packet_free(struct w_packet *packet) {
    free(packet->metas);
    free(packet->ids);
    free(packet);
}

static void fetched_free(struct w_fetched *fetched) {
    if (fetched != NULL) {
        free(fetched->entries);
        free(fetched->sizes);
        free(fetched);
    }
}

/* ------------------------------------------------------------------ a heap of what will happen */

static bool before(const struct w_event *a, const struct w_event *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(struct w_event *a, struct w_event *b) {
    struct w_event c = *a;
    *a = *b;
    *b = c;
}

void w_push(struct world *world, struct w_event event) {
    event.order = ++world->order;
    world->heap =
        w_grow(world->heap, &world->heap_capacity, world->heap_count + 1, sizeof *world->heap);
    size_t at = world->heap_count++;
    world->heap[at] = event;
    while (at > 0 && before(&world->heap[at], &world->heap[(at - 1) / 2])) {
        swap(&world->heap[at], &world->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct w_event pop(struct world *world) {
    struct w_event top = world->heap[0];
    world->heap[0] = world->heap[--world->heap_count];
    for (size_t at = 0;;) {
        size_t least = at, left = 2 * at + 1, right = left + 1;
        if (left < world->heap_count && before(&world->heap[left], &world->heap[least])) {
            least = left;
        }
        if (right < world->heap_count && before(&world->heap[right], &world->heap[least])) {
            least = right;
        }
        if (least == at) {
            return top;
        }
        swap(&world->heap[at], &world->heap[least]);
        at = least;
    }
}

/* ------------------------------------------------------------------ the network */

uint32_t w_packet_entries(const struct raft_message *m, uint64_t *first) {
    bool append = m->kind == RAFT_APPEND;
    if (first != NULL) {
        *first = append ? m->append.prev_index + 1 : m->repair_reply.first;
    }
    return append ? m->append.count : m->kind == RAFT_REPAIR_REPLY ? m->repair_reply.count : 0;
}

void w_packet_point(struct w_packet *packet) {
    if (packet->message.kind == RAFT_APPEND) {
        packet->message.append.entries = packet->metas;
    } else {
        packet->message.repair_reply.entries = packet->metas;
    }
}

static struct w_packet *copy_packet(const struct w_packet *packet) {
    struct w_packet *copy = calloc(1, sizeof *copy);
    if (copy == NULL) {
        abort();
    }
    *copy = *packet;
    uint32_t count = w_packet_entries(&packet->message, NULL);
    copy->metas = NULL;
    copy->ids = NULL;
    if (count > 0) {
        copy->metas = malloc(count * sizeof *copy->metas);
        copy->ids = malloc(count * sizeof *copy->ids);
        if (copy->metas == NULL || copy->ids == NULL) {
            abort();
        }
        memcpy(copy->metas, packet->metas, count * sizeof *copy->metas);
        memcpy(copy->ids, packet->ids, count * sizeof *copy->ids);
        w_packet_point(copy);
    }
    return copy;
}

static void deliver_later(struct world *world, struct w_packet *packet) {
    const struct world_options *options = &world->options;
    uint64_t us = options->delay_min_us +
                  prng_below(&world->prng, options->delay_max_us - options->delay_min_us + 1u);
    uint64_t at = world->now_ns + us * 1000;
    if (options->ordered && packet->message.from <= options->nodes) {
        uint64_t *last = &world->link_ns[packet->message.from - 1][packet->message.to - 1];
        at = at > *last ? at : *last;
        *last = at;
    }
    w_push(world,
           (struct w_event){
               .at_ns = at, .kind = W_MESSAGE, .node = packet->message.to, .packet = packet});
}

static bool chance(struct world *world, uint32_t permille) {
    return permille > 0 && prng_below(&world->prng, 1000) < permille;
}

void w_send(struct world *world, struct w_packet *packet) {
    const struct raft_message *m = &packet->message;
    if (world->cut[m->from - 1][m->to - 1] || chance(world, world->options.drop_permille)) {
        w_packet_free(packet);
        return;
    }
    if (chance(world, world->options.double_permille)) {
        deliver_later(world, copy_packet(packet));
    }
    deliver_later(world, packet);
}

/* ------------------------------------------------------------------ what happens */

static void happen_message(struct world *world, struct w_packet *packet) {
    const struct raft_message *m = &packet->message;
    struct w_node *node = w_node(world, m->to);
    const struct w_node *from = w_node(world, m->from);
    /* Rule 17: a newer hello closes the older connections, and with them goes what they still carried.
     * Elsewhere here such messages arrive all the same; from a life whose end is lost they would state
     * what is not there any more. */
    bool over = from != NULL && packet->boot != 0 && packet->boot <= from->disk.lost_end_boot;
    if (node->raft == NULL || over) {
        w_packet_free(packet);
        return;
    }
    /* Likewise a hello comes before all else of a connection. */
    if (from != NULL && from->disk.lost_end_boot != 0 &&
        node->greeted[from->id - 1] < packet->boot) {
        node->greeted[from->id - 1] = packet->boot;
        struct raft_event hello = {.kind = RAFT_PEER};
        hello.peer.peer = from->id;
        hello.peer.up = true;
        hello.peer.boot_nonce = from->id * 1000 + packet->boot;
        hello.peer.promises = (world->options.plain >> (from->id - 1) & 1) == 0;
        w_step(world, node, &hello, NULL);
    }
    packet->token = ++world->next_token;
    struct raft_event event = {.kind = RAFT_RECEIVE};
    event.receive.message = m;
    event.receive.token = packet->token;
    w_step(world, node, &event, packet);
}

static void happen_fetched(struct world *world, struct w_node *node, struct w_fetched *fetched) {
    struct raft_event event = {.kind = RAFT_FETCHED};
    event.fetched.peer = fetched->fetch.peer;
    event.fetched.from = fetched->fetch.from;
    event.fetched.sizes = fetched->sizes;
    event.fetched.count = fetched->count;
    event.fetched.rc = fetched->count > 0 ? 0 : fetched->damaged ? LKV_EDAMAGED : LKV_EIO;
    event.fetched.repair = fetched->fetch.repair;
    if (fetched->damaged && fetched->count == 0) {
        w_found(world, node, fetched->fetch.from); /* the owner's duty: first that, then this */
    }
    node->fetched = fetched;
    w_step(world, node, &event, NULL);
    node->fetched = NULL;
}

/* The image is durable there and has replaced the log up to it, as the owner does it. */
static void put_image(struct world *world, struct w_node *to, uint64_t index, uint64_t term) {
    struct w_disk *disk = &to->disk;
    if (raft_wants_image(to->raft, index)) {
        if (!raft_keeps_log(to->raft, index, term)) {
            disk->log.last = index;
        }
        disk->log.items = w_grow(disk->log.items, &disk->log.capacity, (size_t)disk->log.last + 1,
                                 sizeof *disk->log.items);
        if (disk->log.items[index].term != term) {
            disk->log.items[index] = (struct w_entry){.term = term};
        }
        disk->log.first = index + 1;
        disk->image_index = index;
        disk->image_term = term;
    }
    struct raft_event event = {.kind = RAFT_IMAGE_INSTALLED};
    event.image_installed.index = index;
    event.image_installed.term = term;
    event.image_installed.config = world->config;
    w_step(world, to, &event, NULL);
}

static void happen_image(struct world *world, const struct w_event *event) {
    struct w_node *from = w_node(world, event->node), *to = w_node(world, event->peer);
    bool open = !world->cut[from->id - 1][to->id - 1] && !world->cut[to->id - 1][from->id - 1];
    /* An owner lets its own writes drain first; with a disk that does not, the install fails. */
    bool ok =
        open && to->raft != NULL && to->disk.count == 0 && !to->disk.hung && event->image_index > 0;
    if (ok) {
        put_image(world, to, event->image_index, event->image_term);
    }
    struct raft_event sent = {.kind = RAFT_IMAGE_SENT};
    sent.image_sent.peer = to->id;
    sent.image_sent.index = event->image_index;
    sent.image_sent.rc = ok ? 0 : LKV_EIO;
    w_step(world, from, &sent, NULL);
}

static void happen_hello(struct world *world, struct w_node *node, uint64_t peer) {
    const struct w_node *other = w_node(world, peer);
    if (other->raft == NULL || world->cut[node->id - 1][peer - 1] ||
        world->cut[peer - 1][node->id - 1]) {
        return;
    }
    struct raft_event event = {.kind = RAFT_PEER};
    event.peer.peer = peer;
    event.peer.up = true;
    event.peer.boot_nonce = peer * 1000 + other->boot;
    event.peer.promises = (world->options.plain >> (peer - 1) & 1) == 0;
    w_step(world, node, &event, NULL);
}

static void happen(struct world *world, struct w_event *event) {
    struct w_node *node = w_node(world, event->node);
    if (node->paused_until_ns > world->now_ns) {
        event->at_ns = node->paused_until_ns;
        w_push(world, *event);
        return;
    }
    bool alive = node->raft != NULL && (event->boot == 0 || event->boot == node->boot);
    switch (event->kind) {
    case W_MESSAGE:
        if (world->cut[event->packet->message.from - 1][event->node - 1]) {
            w_packet_free(event->packet);
        } else {
            happen_message(world, event->packet);
        }
        return;
    case W_FETCHED:
        if (alive) {
            happen_fetched(world, node, event->fetched);
        }
        fetched_free(event->fetched);
        return;
    case W_IMAGE:
        if (alive) {
            happen_image(world, event);
        }
        return;
    case W_HELLO:
        if (alive) {
            happen_hello(world, node, event->peer);
        }
        return;
    }
}

/* The node whose deadline or disk is next; NULL when something of the heap comes first. */
static struct w_node *next_node(struct world *world, uint64_t *at_ns, bool *disk) {
    struct w_node *best = NULL;
    *at_ns = world->heap_count > 0 ? world->heap[0].at_ns : UINT64_MAX;
    for (size_t i = 0; i < world->options.nodes; i++) {
        struct w_node *node = &world->nodes[i];
        if (node->raft == NULL) {
            continue;
        }
        uint64_t done_ns = w_awake(node, node->disk.done_ns);
        if (node->disk.busy > 0 && done_ns < *at_ns) {
            best = node;
            *at_ns = done_ns;
            *disk = true;
        }
        uint64_t due_ns = w_awake(node, w_when(node, node->deadline_ns));
        if (due_ns < *at_ns) {
            best = node;
            *at_ns = due_ns;
            *disk = false;
        }
    }
    return best;
}

static bool advance(struct world *world, uint64_t limit_ns) {
    uint64_t at_ns;
    bool disk = false;
    struct w_node *node = next_node(world, &at_ns, &disk);
    if (at_ns > limit_ns) {
        world->now_ns = limit_ns;
        return false;
    }
    world->now_ns = at_ns > world->now_ns ? at_ns : world->now_ns;
    if (node == NULL) {
        struct w_event event = pop(world);
        happen(world, &event);
    } else if (disk) {
        w_disk_done(world, node);
    } else {
        world->counts.ticks++;
        w_step(world, node, &(struct raft_event){.kind = RAFT_TICK}, NULL);
    }
    return true;
}

/* ------------------------------------------------------------------ the world */

struct world_options world_options_default(size_t nodes, uint64_t seed) {
    return (struct world_options){.nodes = nodes,
                                  .seed = seed,
                                  .raft = raft_options_default(),
                                  .delay_min_us = 100,
                                  .delay_max_us = 300,
                                  .disk_min_us = 200,
                                  .disk_max_us = 600};
}

struct world *world_new(const struct world_options *options) {
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL) {
        abort();
    }
    world->options = *options;
    world->prng = prng_of(options->seed);
    world->clock_prng = prng_of(options->seed ^ 0xc10c);
    world->now_ns = 1000000000;
    world->config.count = options->nodes;
    for (size_t i = 0; i < options->nodes; i++) {
        world->config.members[i] =
            (struct raft_member){.id = i + 1, .voter = i + options->learners < options->nodes};
        struct w_node *node = &world->nodes[i];
        node->id = i + 1;
        w_clock_begin(world, node);
        node->disk = (struct w_disk){.log.first = 1,
                                     .room = RAFT_ROOM_FREE,
                                     .min_us = options->disk_min_us,
                                     .max_us = options->disk_max_us,
                                     .done_ns = UINT64_MAX};
    }
    for (size_t i = 0; i < options->nodes; i++) {
        w_start(world, &world->nodes[i]);
    }
    return world;
}

static void shut(struct w_node *node) {
    raft_close(node->raft);
    node->raft = NULL;
    for (size_t i = 0; i < node->kept_count; i++) {
        w_packet_free(node->kept[i]);
    }
    node->kept_count = node->read_count = 0;
}

void world_free(struct world *world) {
    for (size_t i = 0; i < world->options.nodes; i++) {
        struct w_node *node = &world->nodes[i];
        shut(node);
        raft_update_fini(&node->update);
        w_disk_forget(&node->disk);
        free(node->disk.queue);
        free(node->disk.log.items);
        free(node->log.items);
        free(node->kept);
        free(node->reads);
    }
    for (size_t i = 0; i < world->heap_count; i++) {
        if (world->heap[i].packet != NULL) {
            w_packet_free(world->heap[i].packet);
        }
        fetched_free(world->heap[i].fetched);
    }
    free(world->heap);
    free(world->committed);
    free(world->leaders);
    free(world->known);
    free(world);
}

const char *world_violation(const struct world *world) {
    return world->violation[0] != '\0' ? world->violation : NULL;
}

void world_trace_messages(struct world *world, bool on) {
    world->options.trace_messages = on;
}

uint64_t world_now_ms(const struct world *world) {
    return world->now_ns / 1000000;
}

void world_run_us(struct world *world, uint64_t us) {
    uint64_t limit_ns = world->now_ns + us * 1000;
    while (world->violation[0] == '\0' && advance(world, limit_ns)) {
    }
}

void world_run_ms(struct world *world, uint64_t time_ms) {
    world_run_us(world, time_ms * 1000);
}

bool world_until(struct world *world, bool (*question)(struct world *world, void *arg), void *arg,
                 uint64_t limit_ms) {
    uint64_t limit_ns = world->now_ns + limit_ms * 1000000;
    while (world->violation[0] == '\0') {
        if (question(world, arg)) {
            return true;
        }
        if (!advance(world, limit_ns)) {
            return false;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ faults */

void world_crash(struct world *world, uint64_t id, bool keep_some) {
    struct w_node *node = w_node(world, id);
    if (node->raft == NULL) {
        return;
    }
    world->counts.crashes++;
    w_disk_crash(world, node, keep_some);
    shut(node);
    w_trace(world, "n%d crashes", (int)id);
}

void world_restart(struct world *world, uint64_t id) {
    struct w_node *node = w_node(world, id);
    if (node->raft == NULL) {
        node->disk.hung = false;
        w_trace(world, "n%d starts", (int)id);
        w_start(world, node);
    }
}

bool world_is_up(const struct world *world, uint64_t id) {
    return w_node(world, id)->raft != NULL;
}

void world_cut(struct world *world, uint64_t from, uint64_t to, bool cut) {
    world->cut[from - 1][to - 1] = cut;
}

void world_isolate(struct world *world, uint64_t id, bool cut) {
    for (uint64_t i = 1; i <= world->options.nodes; i++) {
        if (i != id) {
            world_cut(world, i, id, cut);
            world_cut(world, id, i, cut);
        }
    }
}

void world_heal(struct world *world) {
    memset(world->cut, 0, sizeof world->cut);
    world->options.drop_permille = world->options.double_permille = 0;
    world->options.fetch_max_us = 0;
    for (uint64_t i = 1; i <= world->options.nodes; i++) {
        struct w_node *node = w_node(world, i);
        if (!node->disk.failing && (node->raft == NULL || node->role != RAFT_STOPPED)) {
            world_disk_hang(world, i, false);
        }
        node->paused_until_ns = 0;
        node->disk.min_us = world->options.disk_min_us;
        node->disk.max_us = world->options.disk_max_us;
        world_disk_space(world, i, RAFT_ROOM_FREE);
    }
}

void world_loss(struct world *world, uint32_t drop_permille, uint32_t double_permille) {
    world->options.drop_permille = drop_permille;
    world->options.double_permille = double_permille;
}

void world_delay(struct world *world, uint32_t min_us, uint32_t max_us) {
    world->options.delay_min_us = min_us;
    world->options.delay_max_us = max_us;
}

void world_disk_hang(struct world *world, uint64_t id, bool hang) {
    struct w_disk *disk = &w_node(world, id)->disk;
    if (disk->hung == hang) {
        return;
    }
    disk->hung = hang;
    if (hang) {
        disk->done_ns = UINT64_MAX; /* also the sync that runs */
    } else if (disk->busy > 0) {
        disk->done_ns = world->now_ns;
    } else {
        w_disk_begin(world, w_node(world, id));
    }
}

void world_disk_fail(struct world *world, uint64_t id) {
    w_node(world, id)->disk.failing = true;
}

void world_disk_space(struct world *world, uint64_t id, enum raft_room room) {
    struct w_node *node = w_node(world, id);
    if (node->disk.room == room) {
        return;
    }
    node->disk.room = room;
    if (node->raft != NULL) {
        struct raft_event event = {.kind = RAFT_SPACE};
        event.space.room = room;
        w_step(world, node, &event, NULL);
    }
}

void world_disk_delay(struct world *world, uint64_t id, uint32_t min_us, uint32_t max_us) {
    w_node(world, id)->disk.min_us = min_us;
    w_node(world, id)->disk.max_us = max_us;
}

void world_reconnect(struct world *world, uint64_t id, uint64_t peer) {
    struct w_node *node = w_node(world, id);
    if (node->raft == NULL) {
        return;
    }
    struct raft_event event = {.kind = RAFT_PEER};
    event.peer.peer = peer;
    w_step(world, node, &event, NULL);
    w_push(world, (struct w_event){
                      .at_ns = world->now_ns + 1000000, .kind = W_HELLO, .node = id, .peer = peer});
}

void world_compact(struct world *world, uint64_t id, uint64_t keep) {
    struct w_node *node = w_node(world, id);
    if (node->raft == NULL || node->disk.count > 0 || node->applied <= node->disk.image_index) {
        return;
    }
    const struct w_entry *entry = w_log_at(&node->disk.log, node->applied);
    if (entry == NULL) {
        return;
    }
    node->disk.image_index = node->applied;
    node->disk.image_term = entry->term;
    uint64_t first = node->applied + 1 > keep ? node->applied + 1 - keep : 1;
    if (first > node->log.first) {
        node->disk.log.first = node->log.first = first;
    }
    node->window_first = first > node->window_first ? first : node->window_first;
    struct raft_event event = {.kind = RAFT_LOG_PREFIX};
    event.log_prefix.first = node->log.first;
    event.log_prefix.image_index = node->disk.image_index;
    event.log_prefix.image_term = node->disk.image_term;
    w_step(world, node, &event, NULL);
}

/* ------------------------------------------------------------------ acts */

static int submit(struct world *world, uint64_t id, size_t count, uint32_t size, uint64_t in_term,
                  bool reserved, uint64_t *first) {
    struct w_node *node = w_node(world, id);
    if (node->raft == NULL) {
        return LKV_ECLOSED;
    }
    uint32_t *sizes = w_grow(NULL, &(size_t){0}, count, sizeof *sizes);
    for (size_t i = 0; i < count; i++) {
        sizes[i] = size;
    }
    struct raft_event event = {.kind = RAFT_SUBMIT};
    event.submit.sizes = sizes;
    event.submit.count = count;
    event.submit.in_term = in_term;
    event.submit.reserved = reserved;
    w_step(world, node, &event, NULL);
    free(sizes);
    if (first != NULL) {
        *first = node->update.submit_first;
    }
    return node->update.submit_rc;
}

int world_submit(struct world *world, uint64_t id, size_t count, uint32_t size, uint64_t in_term,
                 uint64_t *first) {
    return submit(world, id, count, size, in_term, false, first);
}

int world_delete(struct world *world, uint64_t id, uint64_t *first) {
    return submit(world, id, 1, 10, 0, true, first);
}

void world_read(struct world *world, uint64_t id, bool leased) {
    struct w_node *node = w_node(world, id);
    if (node->raft == NULL) {
        return;
    }
    struct raft_event event = {.kind = RAFT_READ};
    event.read.context = ++world->next_context;
    event.read.leased = leased;
    node->reads =
        w_grow(node->reads, &node->read_capacity, node->read_count + 1, sizeof *node->reads);
    node->reads[node->read_count++] =
        (struct w_read){.context = event.read.context, .floor = world->committed_last};
    bool alone = world->options.nodes - world->options.learners == 1;
    uint64_t done = world->counts.reads_done;
    w_step(world, node, &event, NULL);
    world->counts.reads_leased += leased && !alone && world->counts.reads_done > done;
}

int world_transfer(struct world *world, uint64_t id, uint64_t target) {
    struct raft_event event = {.kind = RAFT_TRANSFER};
    event.transfer.target = target;
    w_step(world, w_node(world, id), &event, NULL);
    return w_node(world, id)->update.submit_rc;
}

void world_gate(struct world *world, uint64_t id, bool may_campaign) {
    struct w_node *node = w_node(world, id);
    if (node->raft != NULL) {
        struct raft_event event = {.kind = RAFT_GATE};
        event.gate.may_campaign = may_campaign;
        w_step(world, node, &event, NULL);
    }
}

void world_inject(struct world *world, const struct raft_message *message, const uint64_t *ids) {
    struct w_packet source = {.message = *message};
    uint64_t made_up[64] = {0};
    for (size_t i = 0; i < 64; i++) {
        made_up[i] = 1000000 + i;
    }
    if (message->kind == RAFT_APPEND) {
        source.metas = (struct raft_entry_meta *)(uintptr_t)message->append.entries;
        source.ids = (uint64_t *)(uintptr_t)(ids != NULL ? ids : made_up);
    }
    struct w_packet *packet = copy_packet(&source);
    if (w_node(world, message->to)->raft == NULL) {
        w_packet_free(packet);
        return;
    }
    happen_message(world, packet);
}

/* ------------------------------------------------------------------ looking */

uint64_t world_leader(const struct world *world) {
    const struct w_node *best = NULL;
    for (size_t i = 0; i < world->options.nodes; i++) {
        const struct w_node *node = &world->nodes[i];
        if (node->raft != NULL && node->role == RAFT_LEADER &&
            (best == NULL || node->term > best->term)) {
            best = node;
        }
    }
    return best != NULL ? best->id : 0;
}

struct raft_status world_status(const struct world *world, uint64_t id) {
    struct raft_status status = {0};
    if (w_node(world, id)->raft != NULL) {
        raft_status(w_node(world, id)->raft, &status);
    }
    return status;
}

struct raft *world_raft(struct world *world, uint64_t id) {
    return w_node(world, id)->raft;
}

uint64_t world_committed(const struct world *world) {
    return world->committed_last;
}

uint64_t world_disk_last(const struct world *world, uint64_t id) {
    return w_node(world, id)->disk.log.last;
}

uint64_t world_disk_term(const struct world *world, uint64_t id) {
    return w_node(world, id)->disk.term;
}

uint64_t world_term_at(const struct world *world, uint64_t id, uint64_t index) {
    const struct w_entry *entry = w_log_at(&w_node(world, id)->log, index);
    return entry != NULL ? entry->term : 0;
}

const struct world_counts *world_counts(const struct world *world) {
    return &world->counts;
}

uint64_t world_unsynced_bytes(const struct world *world, uint64_t id) {
    const struct w_node *node = w_node(world, id);
    uint64_t bytes = 0;
    for (uint64_t i = node->disk.log.last + 1; i <= node->log.last; i++) {
        bytes += node->log.items[i].size;
    }
    for (size_t i = 0; i < node->kept_count; i++) {
        const struct w_packet *kept = node->kept[i];
        for (uint32_t k = 0; k < kept->message.append.count; k++) {
            bytes += kept->metas[k].size;
        }
    }
    return bytes;
}
