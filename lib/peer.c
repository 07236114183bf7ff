#include "lib/peer.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/node_repair.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    DIAL_FIRST_MS = 20,
    DIAL_LONGEST_MS = 1000,
    HELLO_DEADLINE_MS = 3000, /* a connection without a hello is closed (N3) */
    PATIENCE_MS_MIN = 1000,
    SILENCES_MAX = 5,
    OUTPUT_MAX = 32 * 1024 * 1024,
    WAITING_MAX = 2 * FRAME_HELLO_MAX /* bytes behind a hello that is not accepted yet */
};

/* ------------------------------------------------------------------ peers */

int peer_open(struct node *node, const char *name, const char *address, struct peer **out) {
    struct peer *peer = mem_calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return LKV_ENOMEM;
    }
    peer->node = node;
    (void)snprintf(peer->name, sizeof(peer->name), "%s", name);
    (void)snprintf(peer->address, sizeof(peer->address), "%s", address);
    buffer_init(&peer->scratch);
    *out = peer;
    return 0;
}

struct peer *peer_by_id(struct node *node, uint64_t id) {
    for (size_t i = 0; id != RAFT_NOBODY && i < node->peer_count; i++) {
        if (node->peers[i]->id == id) {
            return node->peers[i];
        }
    }
    return NULL;
}

static struct peer *peer_by_name(struct node *node, const char *name) {
    for (size_t i = 0; i < node->peer_count; i++) {
        if (strcmp(node->peers[i]->name, name) == 0) {
            return node->peers[i];
        }
    }
    return NULL;
}

static void tell_core(struct peer *peer, bool up) {
    struct node *node = peer->node;
    struct raft_event event = {.kind = RAFT_PEER,
                               .peer = {.peer = peer->id,
                                        .up = up,
                                        .boot_nonce = peer->hello.boot_nonce,
                                        .promises = peer->hello.feature_level >= FEATURE_PROMISES}};
    if (!up) {
        node_image_peer_down(node, peer);
    }
    node_step(node, &event);
}

/* ------------------------------------------------------------------ hellos */

static void fill_hello(struct node *node, const struct link *link, struct hello *hello) {
    const struct identity *identity = &node->identity;
    *hello = (struct hello){.protocol_min = PROTOCOL_MIN,
                            .protocol_max = PROTOCOL_MAX,
                            .feature_level = node_knows_level(node),
                            .group_id = identity->group_id,
                            .cluster_id = identity->cluster_id,
                            .member_id = identity->member_id,
                            .start_counter = identity->start_counter,
                            .boot_nonce = node->boot_nonce,
                            .conn_nonce = link->conn_nonce,
                            .sequence = ++node->hello_sequence,
                            .model = identity->model};
    (void)snprintf(hello->name, sizeof(hello->name), "%s", identity->name);
    (void)snprintf(hello->address, sizeof(hello->address), "%s", node->founding.self_address);
    if (identity->cluster_id != 0) {
        hello->member_count = identity->member_count;
        memcpy(hello->members, identity->members, sizeof(hello->members));
    } else {
        hello->member_count = founding_list(&node->founding, hello->members);
    }
    hello->grown_index = identity->grown_index;
    hello->grown_term = identity->grown_term;
    if (node->running) {
        struct raft_status status;
        raft_status(node->raft, &status);
        hello->last_index = status.last;
        hello->last_term = status.last_term;
        hello->end_unknown = status.end_unknown;
    }
}

static void send_hello(struct link *link) {
    struct hello hello;
    fill_hello(link->node, link, &hello);
    struct buffer body;
    struct buffer frame;
    buffer_init(&body);
    buffer_init(&frame);
    hello_encode(&hello, &body);
    frame_encode(FRAME_HELLO, hello.group_id, 0, buffer_slice(&body), &frame);
    if (!body.failed && !frame.failed) {
        int rc = net_write(link->conn, buffer_slice(&frame));
        (void)
            rc; /* a full output means a dead peer; the next hello goes with the next connection */
    }
    buffer_fini(&body);
    buffer_fini(&frame);
}

static void send_hello_if_open(struct link *link) {
    if (link != NULL && link->conn != NULL && (!link->outgoing || link->opened_ns != 0)) {
        send_hello(link);
    }
}

void peers_send_hello(struct node *node) {
    for (size_t i = 0; i < node->peer_count; i++) {
        send_hello_if_open(node->peers[i]->out);
        send_hello_if_open(node->peers[i]->in);
    }
}

/* ------------------------------------------------------------------ closing */

static void link_free(struct link *link) {
    buffer_fini(&link->input);
    mem_free(link);
}

static void schedule_dial(struct peer *peer) {
    uint64_t delay = DIAL_FIRST_MS;
    for (uint32_t i = 0; i < peer->dial_failures && delay < DIAL_LONGEST_MS; i++) {
        delay *= 2;
    }
    delay = delay < DIAL_LONGEST_MS ? delay : DIAL_LONGEST_MS;
    /* Spread: two nodes that lost each other must not dial in step for ever. */
    delay = delay / 2 + loop_random(peer->node->world.loop) % (delay / 2 + 1);
    peer->dial_failures++;
    peer->dial_ns = node_now(peer->node) + delay * MS_NS;
}

/* The connection is gone (`conn` closed already or closed here). */
static void link_gone(struct link *link, bool close_conn) {
    struct peer *peer = link->peer;
    struct node *node = link->node;
    if (close_conn) {
        net_close(link->conn);
    }
    link->conn = NULL;
    if (link->outgoing) {
        ASSERT(peer->out == link);
        peer->out = NULL;
        schedule_dial(peer);
        if (peer->up) {
            peer->up = false;
            node_seen_peer_down(node);
            tell_core(peer, false);
        }
    } else {
        list_remove(&link->link);
        if (peer != NULL && peer->in == link) {
            peer->in = NULL;
        }
    }
    node->turn_wanted = true;
    link_free(link);
}

static void link_refuse_as(struct link *link, enum refusal_code code, const struct reason *why) {
    trace_line(&link->node->trace, TRACE_WARN, "peer-refused", "%s (%s): %s",
               link->peer != NULL ? link->peer->name : "unknown", net_peer_name(link->conn),
               why->text);
    struct buffer body;
    struct buffer frame;
    buffer_init(&body);
    buffer_init(&frame);
    buffer_append(&body, &(uint8_t){(uint8_t)code}, code != REFUSAL_PLAIN);
    buffer_append(&body, why->text, strlen(why->text));
    frame_encode(FRAME_REFUSED, link->node->identity.group_id, 0, buffer_slice(&body), &frame);
    if (!body.failed && !frame.failed && net_write(link->conn, buffer_slice(&frame)) == 0) {
        net_close_after_flush(link->conn);
        link_gone(link, false);
    } else {
        link_gone(link, true);
    }
    buffer_fini(&body);
    buffer_fini(&frame);
}

static void link_refuse(struct link *link, const struct reason *why) {
    link_refuse_as(link, REFUSAL_PLAIN, why);
}

void peer_close(struct peer *peer) {
    if (peer == NULL) {
        return;
    }
    if (peer->out != NULL) {
        net_close(peer->out->conn);
        link_free(peer->out);
    }
    buffer_fini(&peer->scratch);
    mem_free(peer);
}

void links_close_incoming(struct node *node) {
    while (!list_empty(&node->incoming)) {
        struct link *link = LIST_ITEM(node->incoming.next, struct link, link);
        net_close(link->conn);
        list_remove(&link->link);
        if (link->peer != NULL && link->peer->in == link) {
            link->peer->in = NULL;
        }
        link_free(link);
    }
}

/* ------------------------------------------------------------------ judging a hello */

static int check_cluster(const struct node *node, const struct hello *hello, struct reason *why) {
    const struct identity *own = &node->identity;
    if (hello->group_id != own->group_id) {
        return reason_set(why, LKV_EIDENTITY, "group %" PRIu64 " expected, %s has %" PRIu64,
                          own->group_id, hello->name, hello->group_id);
    }
    if (hello->model != own->model) {
        return reason_set(why, LKV_EIDENTITY, "%s has model %s, %s has model %s", own->name,
                          model_name(own->model), hello->name, model_name(hello->model));
    }
    if (own->cluster_id != 0 && hello->cluster_id != 0 && hello->cluster_id != own->cluster_id) {
        return reason_set(why, LKV_EIDENTITY,
                          "%s belongs to cluster %016" PRIx64 ", %s to cluster %016" PRIx64,
                          own->name, own->cluster_id, hello->name, hello->cluster_id);
    }
    if (hello->member_id == own->member_id) {
        return reason_set(why, LKV_EIDENTITY,
                          "%s has this node's own identity %016" PRIx64 ": a copied directory",
                          hello->name, own->member_id);
    }
    return 0;
}

static int check_member(struct node *node, const struct hello *hello, struct reason *why) {
    const struct identity *own = &node->identity;
    const struct identity_member *listed =
        own->cluster_id != 0 ? identity_by_name(own, hello->name) : NULL;
    if (listed != NULL && listed->id != hello->member_id) {
        return reason_set(why, LKV_EIDENTITY,
                          "cluster %016" PRIx64 " knows %s as %016" PRIx64
                          ", it came as %016" PRIx64 ": its directory was wiped or replaced; put "
                          "it back, or a copy of it with moved=on; this "
                          "version cannot replace a member",
                          own->cluster_id, hello->name, listed->id, hello->member_id);
    }
    return seen_judge(&node->seen, hello, why);
}

static int judge_hello(struct link *link, const struct hello *hello, struct reason *why) {
    struct node *node = link->node;
    int rc = check_cluster(node, hello, why);
    if (rc != 0) {
        return rc;
    }
    struct peer *peer = peer_by_name(node, hello->name);
    /* A connection is one peer's for its whole life: its second hello cannot be another's. */
    if (peer == NULL || (link->peer != NULL && peer != link->peer)) {
        return reason_set(why, LKV_EIDENTITY, "%s came as \"%s\", which is %s",
                          net_peer_name(link->conn), hello->name,
                          peer == NULL ? "no member named in the option peers"
                                       : "another member's name");
    }
    rc = check_member(node, hello, why);
    if (rc == 0) {
        link->peer = peer;
    }
    return rc;
}

/* ------------------------------------------------------------------ a hello comes */

/* Of a frame: taken; left where it is until a save has ended; or the link is gone. */
enum outcome { TAKEN, WAITS, GONE };

/* The core hears of a peer when both ends are founded and our connection to it stands. */
static void consider_up(struct peer *peer) {
    struct node *node = peer->node;
    if (peer->out == NULL || !peer->out->hello_came || !node->running ||
        peer->hello.cluster_id == 0) {
        return;
    }
    peer->up = true;
    node->refusal.text[0] = '\0';
    peer->dial_failures = 0;
    peer->unanswered_ns = 0;
    tell_core(peer, true);
}

/* Rule 17: a newer hello closes the connections of an earlier life, in both directions: it could be
 * another process, with another log, that goes on listening. */
static void close_earlier_life(struct link *link) {
    struct peer *peer = link->peer;
    if (peer->out != NULL && peer->out != link && peer->out->hello_came) {
        link_gone(peer->out, true);
    }
    if (peer->in != NULL && peer->in != link) {
        link_gone(peer->in, true);
    }
}

static void replace_incoming(struct link *link) {
    struct link *old = link->peer->in;
    link->peer->in = link;
    if (old != NULL && old != link) {
        link_gone(old, true); /* a newer connection closes the older (rule 17) */
    }
}

/* Who answers our hello with its own has no objection any more, and what a newer life of it will say is to
 * be heard yet. */
static void forget_refusal(struct link *link, bool new_life) {
    struct reason *refusal = &link->node->refusal;
    size_t size = strlen(link->peer->name);
    if ((link->outgoing || new_life) && strncmp(refusal->text, link->peer->name, size) == 0 &&
        refusal->text[size] == ':') {
        refusal->text[0] = '\0';
    }
}

static enum outcome on_hello(struct link *link, struct slice body) {
    struct node *node = link->node;
    struct hello hello;
    struct reason why = {{0}};
    int rc = hello_decode(body, &hello, &why);
    if (rc == 0) {
        rc = judge_hello(link, &hello, &why);
    }
    if (rc != 0) {
        link_refuse(link, &why);
        return GONE;
    }
    node_seen_acknowledged(node);
    if (seen_judge_end(&node->seen, &hello, &why) != 0) {
        link_refuse_as(link, REFUSAL_END_DOUBTED, &why);
        return GONE;
    }
    if (!node_seen_is_durable(node, &hello)) {
        return WAITS;
    }
    struct peer *peer = link->peer;
    bool first = !link->hello_came;
    bool new_life = peer->hello.boot_nonce != hello.boot_nonce;
    if (new_life) {
        close_earlier_life(link);
    }
    if (new_life || hello.sequence > peer->hello.sequence) {
        peer->hello = hello;
    }
    peer->id = hello.member_id;
    link->hello_came = true;
    forget_refusal(link, new_life);
    link->send_seed = frame_seed(hello.conn_nonce);
    if (!link->outgoing) {
        replace_incoming(link);
        if (first) {
            send_hello(link);
        }
    }
    if (founding_hear(&node->founding, &hello) && node->identity.cluster_id == 0) {
        peers_send_hello(node);
    }
    consider_up(peer);
    node->turn_wanted = true;
    return TAKEN;
}

void peers_founded(struct node *node) {
    peers_send_hello(node);
    for (size_t i = 0; i < node->peer_count; i++) {
        struct peer *peer = node->peers[i];
        const struct identity_member *member = identity_by_name(&node->identity, peer->name);
        if (member != NULL) {
            peer->id = member->id; /* not an incarnation that was heard of before or after */
        }
        if (peer->hello.member_id == peer->id) {
            consider_up(peer);
        }
    }
}

/* ------------------------------------------------------------------ frames come */

static enum outcome on_raft(struct link *link, struct slice body) {
    struct raft_packet packet = {0};
    struct reason why = {{0}};
    int rc = raft_wire_decode(body, &packet, &why);
    if (rc == LKV_ENOMEM) {
        return TAKEN; /* a lost message */
    }
    if (rc == 0 && packet.message.from != link->peer->id) {
        rc = reason_set(&why, LKV_EPROTOCOL, "message of %016" PRIx64 " on the connection of %s",
                        packet.message.from, link->peer->name);
        raft_packet_fini(&packet);
    }
    if (rc != 0) {
        link_refuse(link, &why);
        return GONE;
    }
    if (packet.message.to != link->node->identity.member_id) {
        raft_packet_fini(&packet); /* for an earlier incarnation in this directory's place */
        return TAKEN;
    }
    node_receive(link->node, &packet);
    return TAKEN;
}

/* Only a member that this node has dialed is believed that the log lacks what was acknowledged to it. */
static void on_refused(struct link *link, struct slice body) {
    uint8_t code = REFUSAL_PLAIN;
    if (body.size > 0 && body.data[0] < REFUSAL_CODES) {
        code = body.data[0];
        body = slice_of(body.data + 1, body.size - 1);
    }
    struct reason why = {{0}};
    (void)reason_set(&why, LKV_EIDENTITY, "%s: %.*s",
                     link->peer != NULL ? link->peer->name : "unknown", (int)body.size,
                     (const char *)body.data);
    trace_line(&link->node->trace, TRACE_WARN, "refused-by-peer", "%s", why.text);
    if (link->outgoing) {
        link->node->refusal = why;
    }
    if (code == REFUSAL_END_DOUBTED && link->outgoing) {
        node_doubt_end(link->node, &why);
    }
    link_gone(link, true);
}

static enum outcome on_digest(struct link *link, struct slice body) {
    struct reason why = {{0}};
    if (node_agree_hear(link->node, link->peer, body, &why) != 0) {
        link_refuse(link, &why);
        return GONE;
    }
    link->node->turn_wanted = true;
    return TAKEN;
}

static enum outcome on_frame(struct link *link, const struct frame *frame) {
    if (frame->kind == FRAME_HELLO) {
        return on_hello(link, frame->body);
    }
    if (frame->kind == FRAME_REFUSED) {
        on_refused(link, frame->body);
        return GONE;
    }
    if (frame->group_id != link->node->identity.group_id) { /* rule 20 */
        struct reason why = {{0}};
        (void)reason_set(&why, LKV_EIDENTITY, "frame of group %" PRIu64 ", expected %" PRIu64,
                         frame->group_id, link->node->identity.group_id);
        link_refuse(link, &why);
        return GONE;
    }
    if (!link->hello_came || link->outgoing) {
        struct reason why = {{0}};
        (void)reason_set(&why, LKV_EPROTOCOL, "frame kind %d before a hello", (int)frame->kind);
        link_refuse(link, &why);
        return GONE;
    }
    link->peer->unanswered_ns = 0;
    link->peer->silences = 0;
    if (frame->kind == FRAME_RAFT) {
        return on_raft(link, frame->body);
    }
    if (frame->kind == FRAME_DIGEST) {
        return on_digest(link, frame->body);
    }
    if (frame->kind == FRAME_IMAGE_CHUNK) {
        node_image_chunk(link->node, link->peer, frame->body);
    } else {
        node_image_ack(link->node, link->peer, frame->body);
    }
    return TAKEN;
}

/* Hellos and refusals are never seeded: they come before the other end's nonce is known, and may be
 * the only thing that a refused node ever hears. */
static int decode_next(const struct link *link, struct slice rest, struct frame *frame,
                       struct reason *why) {
    enum { KIND_OFFSET = 2 };
    bool early = rest.size > KIND_OFFSET &&
                 (rest.data[KIND_OFFSET] == FRAME_HELLO || rest.data[KIND_OFFSET] == FRAME_REFUSED);
    size_t limit = link->hello_came && !early ? FRAME_BODY_MAX : FRAME_HELLO_MAX;
    return frame_decode(rest, early ? 0 : link->receive_seed, limit, frame, why);
}

static void link_parse(struct link *link) {
    size_t at = 0;
    for (;;) {
        struct slice rest = slice_of(link->input.data + at, link->input.size - at);
        struct frame frame;
        struct reason why = {{0}};
        int rc = rest.size > 0 ? decode_next(link, rest, &frame, &why) : 0;
        if (rc < 0) {
            link_refuse(link, &why);
            return;
        }
        enum outcome outcome = rc > 0 ? on_frame(link, &frame) : WAITS;
        if (outcome == GONE) {
            return;
        }
        if (outcome == WAITS) {
            link->waits = rc > 0;
            break;
        }
        at += frame.size;
    }
    buffer_consume(&link->input, at);
}

static struct link *find_resuming(struct node *node) {
    for (size_t i = 0; i < node->peer_count; i++) {
        struct link *out = node->peers[i]->out;
        if (out != NULL && out->resumes) {
            return out;
        }
    }
    for (struct list_link *at = node->incoming.next; at != &node->incoming; at = at->next) {
        struct link *link = LIST_ITEM(at, struct link, link);
        if (link->resumes) {
            return link;
        }
    }
    return NULL;
}

static void resume_later(struct link *link) {
    if (link != NULL && link->waits) {
        link->waits = false;
        link->resumes = true;
    }
}

/* One link that goes on may end others, and may have to wait again. */
void peers_parse_waiting(struct node *node) {
    for (size_t i = 0; i < node->peer_count; i++) {
        resume_later(node->peers[i]->out);
    }
    for (struct list_link *at = node->incoming.next; at != &node->incoming; at = at->next) {
        resume_later(LIST_ITEM(at, struct link, link));
    }
    for (struct link *link = find_resuming(node); link != NULL; link = find_resuming(node)) {
        link->resumes = false;
        link_parse(link);
    }
}

static void on_data(void *arg, struct slice bytes) {
    struct link *link = arg;
    buffer_append(&link->input, bytes.data, bytes.size);
    if (link->input.failed || (link->waits && link->input.size > WAITING_MAX)) {
        link_gone(link, true);
        return;
    }
    if (!link->waits) {
        link_parse(link);
    }
}

static void on_open(void *arg) {
    struct link *link = arg;
    link->opened_ns = node_now(link->node);
    net_set_limit(link->conn, OUTPUT_MAX);
    send_hello(link);
}

static void on_close(void *arg, int rc) {
    struct link *link = arg;
    if (link->hello_came) {
        trace_line(&link->node->trace, TRACE_INFO, "peer-closed", "%s (%s): %s", link->peer->name,
                   link->outgoing ? "dialed" : "accepted",
                   rc == 0 ? "closed by it" : error_text(rc));
    }
    link_gone(link, false);
}

static const struct net_conn_events link_events = {
    .on_open = on_open, .on_data = on_data, .on_close = on_close};

static struct link *link_new(struct node *node, struct peer *peer, bool outgoing) {
    struct link *link = mem_calloc(1, sizeof(*link));
    if (link == NULL) {
        return NULL;
    }
    list_init(&link->link);
    link->node = node;
    link->peer = peer;
    link->outgoing = outgoing;
    link->begun_ns = node_now(node);
    link->conn_nonce = loop_random(node->world.loop);
    link->receive_seed = frame_seed(link->conn_nonce);
    buffer_init(&link->input);
    return link;
}

void link_adopt(struct node *node, struct net_conn *conn, struct slice first_bytes) {
    struct link *link = link_new(node, NULL, false);
    if (link == NULL) {
        net_close(conn);
        return;
    }
    link->conn = conn;
    link->opened_ns = node_now(node);
    list_push_back(&node->incoming, &link->link);
    net_attach(conn, &link_events, link);
    net_set_limit(conn, OUTPUT_MAX);
    on_data(link, first_bytes);
}

static void dial(struct peer *peer) {
    struct node *node = peer->node;
    struct link *link = link_new(node, peer, true);
    if (link != NULL &&
        net_connect(node->world.net, peer->address, &link_events, link, &link->conn) == 0) {
        peer->out = link;
        return;
    }
    if (link != NULL) {
        link_free(link);
    }
    schedule_dial(peer);
}

/* ------------------------------------------------------------------ time */

/* After a path was cut, TCP tries again as late as it had been cut for: half-open connections and
 * dials that wait for such an attempt are given up, and a new one finds the path that works (N9). */
static uint64_t patience_ns(const struct node *node) {
    uint64_t ms = 4 * node->options.election_ms;
    return (ms > PATIENCE_MS_MIN ? ms : PATIENCE_MS_MIN) * MS_NS;
}

/* When the connection is given up if nothing happens. */
static uint64_t link_deadline(const struct link *link) {
    const struct peer *peer = link->peer;
    if (link->opened_ns == 0) {
        return link->begun_ns + patience_ns(link->node);
    }
    if (!link->hello_came) {
        return link->opened_ns + HELLO_DEADLINE_MS * MS_NS;
    }
    if (!link->outgoing || peer->unanswered_ns == 0) {
        return UINT64_MAX;
    }
    return peer->unanswered_ns + (patience_ns(link->node) << peer->silences);
}

static uint64_t link_timer(struct link *link, uint64_t now_ns) {
    uint64_t deadline = link_deadline(link);
    if (now_ns < deadline) {
        return deadline;
    }
    if (link->hello_came && link->peer->silences < SILENCES_MAX) {
        link->peer->silences++; /* it may live and not answer: then not all too often */
    }
    if (link->hello_came && link->peer->in != NULL) {
        /* Its answers come on that one, where a length that was changed on the way may wait for bytes that
         * nobody sends. The peer itself waits for no answers and would never notice. */
        link_gone(link->peer->in, true);
    }
    link_gone(link, true);
    return UINT64_MAX;
}

uint64_t peers_timer(struct node *node, uint64_t now_ns) {
    if (node->offline) {
        return UINT64_MAX; /* it must not say hello: the member itself may be running (rule 17) */
    }
    uint64_t next = node_seen_timer(node, now_ns);
    for (size_t i = 0; i < node->peer_count; i++) {
        struct peer *peer = node->peers[i];
        uint64_t at = peer->out != NULL ? link_timer(peer->out, now_ns) : UINT64_MAX;
        if (peer->out == NULL && now_ns >= peer->dial_ns) {
            dial(peer);
        }
        if (peer->out == NULL) {
            at = peer->dial_ns;
        }
        next = at < next ? at : next;
    }
    struct list_link *following;
    for (struct list_link *at = node->incoming.next; at != &node->incoming; at = following) {
        following = at->next;
        uint64_t deadline = link_timer(LIST_ITEM(at, struct link, link), now_ns);
        next = deadline < next ? deadline : next;
    }
    return next;
}

/* ------------------------------------------------------------------ sending */

bool peer_send(struct peer *peer, enum frame_kind kind, struct slice body) {
    if (!peer->up) {
        return false;
    }
    struct link *link = peer->out;
    buffer_clear(&peer->scratch);
    frame_encode(kind, peer->node->identity.group_id, link->send_seed, body, &peer->scratch);
    return !peer->scratch.failed && net_write(link->conn, buffer_slice(&peer->scratch)) == 0;
}

/* A peer that lives reacts to these at once, if only by a refusal. (A node that takes no part until it is
 * repaired may ask for nothing else.) */
static bool wants_answer(const struct raft_message *message) {
    return message->kind == RAFT_VOTE_REQUEST || message->kind == RAFT_APPEND ||
           message->kind == RAFT_HEARTBEAT || message->kind == RAFT_READ_REQUEST ||
           (message->kind == RAFT_REPAIR_REQUEST &&
            message->repair_request.want == RAFT_REPAIR_STATUS);
}

void peer_send_raft(struct peer *peer, const struct raft_message *message,
                    const struct entry *entries) {
    struct buffer *body = &peer->node->frame_body;
    buffer_clear(body);
    raft_wire_encode(message, entries, body);
    if (body->failed || !peer_send(peer, FRAME_RAFT, buffer_slice(body))) {
        return;
    }
    if (wants_answer(message) && peer->unanswered_ns == 0) {
        peer->unanswered_ns = node_now(peer->node);
    }
}
