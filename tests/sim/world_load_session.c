/* Sessions as a simulated client uses them: it repeats what it is in doubt about. Straight at the nodes
 * it says session and numbers itself; at its remote it has the handle of lkv_session_open, which ends
 * with the remote's life. What goes on then, by a new handle or by itself, is the same session.
 *
 *   none ──open──> by numbers <──── the remote ends ──── by handle <──open at the remote── none
 *                       └──────────────resume───────────────^ */
#include "tests/sim/world_call.h"

#include "lib/session.h"

#include <inttypes.h>

/* ------------------------------------------------------------------ what an answer means */

/* It says nothing of any write. */
static void kept_alive(struct sim_call *op, int rc) {
    struct sim_world *world = op->world;
    struct sim_session *session = sim_session_find(&world->model.sessions, op->session);
    if (rc == 0 && op->submitted_ns > session->active_ns) {
        session->active_ns = op->submitted_ns;
    }
    world->counts.kept += rc == 0;
    if (rc == LKV_ESESSION && session->open) {
        sim_world_fail(world, "session %" PRIu64 " is said to have ended", op->session);
    }
}

static void forget(struct sim_client *client) {
    sim_session_let_go(client);
    client->session = 0;
    memset(client->doubts, 0, sizeof(client->doubts));
}

void sim_session_let_go(struct sim_client *client) {
    int rc = lkv_session_close(client->held, 0);
    client->held = NULL;
    if (rc != 0) {
        sim_world_fail(client->world, "a session is let go: %s", error_name(rc));
    }
}

/* The number that the cluster knows as the greatest is one that was used. */
static void taken_up(const struct sim_call *op, const struct lkv_msg *reply) {
    uint64_t last = 0;
    bool told = lkv_msg_u64(reply, "count", &last);
    op->world->counts.resumed++;
    if (!told || last >= op->client->next_seq) {
        sim_world_fail(op->world,
                       "session %" PRIu64 " goes on behind number %" PRIu64
                       ", the next one is %" PRIu64,
                       op->session, last, op->client->next_seq);
    }
}

static void opened(struct sim_call *op, const struct lkv_msg *reply, int rc) {
    struct sim_client *client = op->client;
    struct sim_world *world = op->world;
    struct lkv_session *handle = op->opened;
    uint64_t id = op->session;
    client->opening = false;
    if (rc != 0) {
        (void)lkv_session_close(handle, 0);
        const struct sim_session *session =
            op->session != 0 ? sim_session_find(&world->model.sessions, op->session) : NULL;
        if (rc == LKV_ESESSION && (session == NULL || session->open)) {
            sim_world_fail(world, "session %" PRIu64 " is said to have ended", op->session);
        }
        if (rc == LKV_ESESSION) {
            forget(client);
        }
        return;
    }
    (void)lkv_msg_u64(reply, "session", &id); /* of a new one */
    if (id == 0 || (op->session != 0 && id != op->session) ||
        (handle != NULL && lkv_session_id(handle) != id)) {
        sim_world_fail(world, "session %" PRIu64 " is opened as %" PRIu64, op->session, id);
    }
    client->session = id;
    client->held = handle;
    if (op->session != 0) {
        taken_up(op, reply);
    } else {
        client->next_seq = 1;
        world->counts.sessions++;
    }
}

static void ended(const struct sim_call *op, int rc) {
    struct sim_world *world = op->world;
    const struct sim_session *session = sim_session_find(&world->model.sessions, op->session);
    world->counts.ended += rc == 0;
    if ((rc == 0 || rc == LKV_ESESSION) && session->open) {
        sim_world_fail(world, "session %" PRIu64 " is said to be closed, and is not", op->session);
    }
}

/* Each attempt so far was refused for certain: then the write is not there, until it is sent again. (What
 * the network repeats of a client's calls is an attempt that nobody knows of.) */
static void check_refused(struct sim_world *world, const struct sim_doubt *doubt) {
    const struct sim_value *value = sim_model_value(&world->model, doubt->value);
    bool replays = world->plan.remotes > 0 && world->plan.weights[SIM_REPLAY] > 0;
    if (!doubt->maybe_done && !replays && doubt->value != 0 && value->committed != 0) {
        sim_world_fail(world,
                       "number %" PRIu64 ", value %" PRIu64
                       ", was reported as not done by all that were asked, it is at %" PRIu64,
                       doubt->seq, doubt->value, value->committed);
    }
}

/* Carried out, or an entry says why not: that is the number's answer. */
static bool is_answer(int rc) {
    return rc == 0 || rc == LKV_ECOMPARE || rc == LKV_ENOTFOUND || rc == LKV_ENUMBER ||
           rc == LKV_EOVERFLOW || rc == LKV_ECOMPACTED || rc == LKV_EFUTURE;
}

/* Rules 26, 28: a handle that has once said "unknown" of a number says "not done" no more, until an
 * entry's answer comes; that the session has ended is an unknown too then. */
static void check_doubt(const struct sim_call *op, struct sim_doubt *doubt, int rc) {
    unsigned handle = op->remote != NULL ? 1 + op->life : 0;
    bool final = is_answer(rc) || rc == LKV_ETERM || rc == LKV_ELEASE;
    if (handle != 0 && doubt->told == handle && !final && error_outcome(rc) == LKV_NOT_DONE) {
        sim_world_fail(op->world,
                       "number %" PRIu64 ", value %" PRIu64
                       ", was in doubt for its handle, which now says %s",
                       doubt->seq, doubt->value, error_name(rc));
    }
    if (error_outcome(rc) == LKV_UNKNOWN) {
        doubt->told = handle;
    }
}

static void written(struct sim_call *op, int rc, const char *text) {
    struct sim_client *client = op->client;
    struct sim_world *world = op->world;
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        struct sim_doubt *doubt = &client->doubts[i];
        if (doubt->seq == op->seq) {
            doubt->under_way = false;
            check_doubt(op, doubt, rc);
            doubt->maybe_done = doubt->maybe_done || error_outcome(rc) == LKV_UNKNOWN;
            if (!is_answer(rc)) {
                check_refused(world, doubt);
            }
            doubt->seq = is_answer(rc) ? 0 : op->seq;
        }
    }
    struct sim_session *session = sim_session_find(&world->model.sessions, op->session);
    if (rc == 0 && session != NULL && op->submitted_ns > session->active_ns) {
        session->active_ns = op->submitted_ns;
    }
    /* A handle's word on a number in doubt: the session has ended, or the handle itself. */
    bool over =
        rc == LKV_EANSWERED && op->remote != NULL && strstr(text, "earlier attempt") != NULL;
    if ((rc == LKV_EANSWERED && !over) || (rc == LKV_ESESSION && session->open)) {
        sim_world_fail(world, "number %" PRIu64 " of session %" PRIu64 " is refused: %s", op->seq,
                       op->session, error_name(rc));
    }
    if (rc == LKV_ESESSION || (over && !session->open)) {
        forget(client);
    }
}

void sim_session_answered(struct sim_call *op, const struct lkv_msg *reply, int rc) {
    if (op->kind == SIM_SESSION_KEEP) {
        kept_alive(op, rc);
    } else if (op->kind == SIM_SESSION_OPEN) {
        opened(op, reply, rc);
    } else if (op->kind == SIM_SESSION_CLOSE) {
        ended(op, rc);
    } else if (op->seq != 0 && op->session == op->client->session) {
        written(op, rc, lkv_msg_text(reply));
    }
}

/* ------------------------------------------------------------------ what is asked next */

uint64_t sim_session_acked_below(const struct sim_client *client) {
    uint64_t below = client->next_seq;
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        uint64_t seq = client->doubts[i].seq;
        below = seq != 0 && seq < below ? seq : below;
    }
    return below;
}

/* One handle at a time uses a session, and what has none says the numbers itself. */
static bool is_place_of(const struct sim_client *client, const struct sim_remote *remote) {
    return (client->held != NULL) == (remote != NULL);
}

static struct sim_call *repeat(struct sim_client *client, struct sim_node *node,
                               struct sim_remote *remote, struct sim_doubt *doubt) {
    check_refused(client->world, doubt);
    struct sim_call *op =
        sim_call_new(client->world, node, remote, (enum sim_call_kind)doubt->kind, doubt->key);
    op->end = doubt->end;
    op->to_last = doubt->end == SIM_KEYS_MAX;
    op->count = doubt->count;
    op->order = 0;
    op->shape = (enum sim_shape)doubt->shape;
    op->rev = doubt->rev;
    op->value = doubt->value;
    op->floor = doubt->floor;
    op->session = client->session;
    op->seq = doubt->seq;
    doubt->under_way = true;
    return op;
}

/* Opens one, or takes the client's up again. */
static struct sim_call *open_op(struct sim_client *client, struct sim_node *node,
                                struct sim_remote *remote) {
    struct sim_call *op = sim_call_new(client->world, node, remote, SIM_SESSION_OPEN, 0);
    op->session = client->session;
    client->opening = true;
    return op;
}

/* Nobody may be using it under its numbers meanwhile. */
static bool is_idle(const struct sim_client *client) {
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        if (client->doubts[i].seq != 0 && client->doubts[i].under_way) {
            return false;
        }
    }
    return true;
}

struct sim_call *sim_session_op(struct sim_client *client, struct sim_node *node,
                                struct sim_remote *remote) {
    struct sim_world *world = client->world;
    if (world->plan.session_permille == 0 || client->opening) {
        return NULL;
    }
    if (client->session == 0) {
        return open_op(client, node, remote);
    }
    if (!is_place_of(client, remote)) {
        bool takes_up =
            remote != NULL && is_idle(client) && prng_below(&world->prng_remote, 2) == 0;
        return takes_up ? open_op(client, node, remote) : NULL;
    }
    if (world->plan.keep_permille > 0 && remote == NULL && /* a handle does that itself */
        prng_below(&world->prng_load, 1000) < world->plan.keep_permille) {
        struct sim_call *op = sim_call_new(world, node, remote, SIM_SESSION_KEEP, 0);
        op->session = client->session;
        return op;
    }
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        struct sim_doubt *doubt = &client->doubts[i];
        if (doubt->seq != 0 && !doubt->under_way && prng_below(&world->prng_load, 2) == 0) {
            return repeat(client, node, remote, doubt);
        }
    }
    return NULL;
}

void sim_session_put_in(struct sim_client *client, struct sim_call *op) {
    struct sim_world *world = client->world;
    if (client->session == 0 || !sim_call_is_write(op) || client->opening ||
        !is_place_of(client, op->remote) ||
        prng_below(&world->prng_load, 1000) >= world->plan.session_permille) {
        return;
    }
    if (client->next_seq - sim_session_acked_below(client) >= KV_SESSION_WINDOW) {
        return; /* one old doubt holds the window: what is beyond it would rightly be refused */
    }
    for (size_t i = 0; i < SIM_DOUBTS_MAX; i++) {
        if (client->doubts[i].seq == 0) {
            op->session = client->session;
            op->seq = client->next_seq++;
            client->doubts[i] = (struct sim_doubt){.seq = op->seq,
                                                   .under_way = true,
                                                   .kind = (int)op->kind,
                                                   .shape = (int)op->shape,
                                                   .rev = op->rev,
                                                   .key = op->key,
                                                   .end = op->end,
                                                   .value = op->value,
                                                   .count = op->count,
                                                   .floor = op->floor};
            return;
        }
    }
}

struct sim_call *sim_session_end(struct sim_client *client, struct sim_node *node,
                                 struct sim_remote *remote) {
    if (client->session == 0 || client->opening || !is_place_of(client, remote) ||
        !is_idle(client)) {
        return NULL;
    }
    struct sim_call *op = sim_call_new(client->world, node, remote, SIM_SESSION_CLOSE, 0);
    op->session = client->session;
    op->opened = client->held; /* goes with the call that ends it */
    client->held = NULL;
    forget(client);
    return op;
}

/* ------------------------------------------------------------------ what an entry means */

void sim_check_session(struct sim_world *world, const struct sim_entry *entry) {
    world->counts.repeated += entry->first != entry->index;
    if (entry->rc == LKV_EBUSY && entry->command.seq != 0) { /* 0: an open, beyond their limit */
        sim_world_fail(world,
                       "entry %" PRIu64 ": number %" PRIu64 " of session %" PRIu64
                       " is beyond its window, acknowledged below %" PRIu64,
                       entry->index, entry->command.seq, entry->command.session,
                       entry->command.acked_below);
    }
    bool may_end = entry->type == ENTRY_COMMAND || entry->type == ENTRY_SESSION;
    if (!may_end || entry->command.op != KV_SESSION_EXPIRE || entry->rc != 0) {
        return;
    }
    const struct sim_session *session =
        sim_session_find(&world->model.sessions, entry->command.session);
    uint64_t drift_ns = session->ttl_ms * (uint64_t)world->plan.drift_ppm + MS_NS;
    world->counts.expired++;
    if (world->time.now_ns + drift_ns < session->active_ns + session->ttl_ms * MS_NS) {
        sim_world_fail(world, "session %" PRIu64 " ends %" PRIu64 " ms after it was active",
                       session->id, (world->time.now_ns - session->active_ns) / MS_NS);
    }
}
