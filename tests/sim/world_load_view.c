/* Views and iterators as a program uses them, on nodes and on clients: what an iterator shows is what the
 * model has of the view's revision, key by key, whatever is written, compacted or restarted meanwhile. */
#include "tests/sim/world_call.h"

#include "base/assert.h"
#include "lib/client.h"
#include "lib/view.h"

#include <inttypes.h>

/* ------------------------------------------------------------------ the view of a client */

static struct lkv *handle_of(const struct sim_view *view) {
    return view->remote != NULL ? client_handle(view->remote->client) : &view->node->node->handle;
}

/* Whether the handle that it was opened through is still there. */
static bool is_in_place(const struct sim_view *view) {
    return view->remote != NULL ? view->remote->client != NULL && view->remote->lives == view->life
                                : sim_node_runs(view->node) && view->node->lives == view->life;
}

static void let_go(struct sim_view *view) {
    lkv_iter_close(view->iter);
    lkv_view_close(view->view);
    *view = (struct sim_view){0};
}

void sim_view_fini(struct sim_client *client) {
    let_go(&client->view);
}

/* Some keys, from one end or the other, with values or without. */
static void begin_walk(struct sim_client *client) {
    struct sim_view *view = &client->view;
    struct prng *prng = &client->world->prng_read;
    char from[SIM_KEY_SIZE], to[SIM_KEY_SIZE];
    view->from =
        prng_below(prng, 3) == 0 ? (uint32_t)prng_below(prng, client->world->plan.keys) : 0;
    view->end =
        prng_below(prng, 3) == 0 ? view->from + 1 + (uint32_t)prng_below(prng, 8) : SIM_KEYS_MAX;
    view->flags = (prng_below(prng, 2) == 0 ? LKV_KEYS_ONLY : 0) |
                  (prng_below(prng, 2) == 0 ? LKV_DESCENDING : 0);
    view->next = (view->flags & LKV_DESCENDING) != 0 ? view->end : view->from;
    sim_key_text(view->from, from);
    sim_key_text(view->end, to);
    lkv_iter_close(view->iter);
    view->iter = NULL;
    size_t end_size = view->end == SIM_KEYS_MAX ? 0 : strlen(to);
    int rc = lkv_iter_open(view->view, (struct lkv_bytes){from, strlen(from)},
                           (struct lkv_bytes){to, end_size}, view->flags, &view->iter);
    ASSERT(rc == 0 || rc == LKV_EVIEW);
}

/* ------------------------------------------------------------------ items */

/* The walk's next key that the view's revision has; false: none. */
static bool next_key(const struct sim_world *world, struct sim_view *view, uint32_t *key) {
    const struct sim_model *model = &world->model;
    if ((view->flags & LKV_DESCENDING) != 0) {
        while (view->next > view->from) {
            *key = --view->next;
            if (*key < SIM_KEYS_MAX && sim_model_at(model, *key, view->index) != NULL) {
                return true;
            }
        }
        return false;
    }
    while (view->next < view->end && view->next < SIM_KEYS_MAX) {
        *key = view->next++;
        if (sim_model_at(model, *key, view->index) != NULL) {
            return true;
        }
    }
    return false;
}

static void judge_item(struct sim_world *world, struct sim_view *view, const struct lkv_kv *item) {
    uint32_t key = 0, number = 0;
    bool expected = next_key(world, view, &key);
    bool same =
        expected && sim_key_number(slice_of(item->key.data, item->key.size), &number) &&
        number == key &&
        sim_same_item(&world->model, key, view->index, item, (view->flags & LKV_KEYS_ONLY) == 0);
    world->counts.view_items++;
    if (!same) {
        sim_world_fail(world,
                       "an iterator over revision %" PRIu64 " (at %" PRIu64
                       ") shows key %u, not key %u as it was",
                       lkv_view_rev(view->view), view->index, number, key);
    }
}

static void judge_end(struct sim_world *world, struct sim_view *view) {
    uint32_t key;
    if (next_key(world, view, &key)) {
        sim_world_fail(world, "an iterator over revision %" PRIu64 " ends before key %u",
                       lkv_view_rev(view->view), key);
    }
}

/* The handle's clock may run ahead of the world's. */
static void judge_too_old(struct sim_world *world, const struct sim_view *view) {
    uint64_t drift_ns = view->age_ns / 1000000 * (uint64_t)world->plan.drift_ppm + MS_NS;
    world->counts.views_old++;
    if (world->time.now_ns + drift_ns < view->opened_ns + view->age_ns) {
        sim_world_fail(world, "a view of %" PRIu64 " ms is too old after %" PRIu64 " ms",
                       view->age_ns / MS_NS, (world->time.now_ns - view->opened_ns) / MS_NS);
    }
}

/* ------------------------------------------------------------------ answers */

static void judge_opened(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    struct sim_view *view = &op->client->view;
    uint64_t index = 0;
    api_view_opened(view->view, reply);
    if (!lkv_msg_u64(reply, "index", &index) || index > world->model.commit) {
        sim_world_fail(world, "a view is opened at %" PRIu64 ", committed is %" PRIu64, index,
                       world->model.commit);
        return;
    }
    if (sim_call_is_newest(op) && op->select.rev == 0 && index < op->floor) {
        sim_world_fail(world, "a view shows %" PRIu64 ", but began after %" PRIu64, index,
                       op->floor);
    }
    if (!sim_read_index(op, index, &view->index) ||
        (op->select.rev == 0 ? sim_model_revision(&world->model, index) : op->select.rev) !=
            lkv_view_rev(view->view)) {
        sim_world_fail(world,
                       "a view of revision %" PRIu64 " is opened as one of %" PRIu64 " at %" PRIu64,
                       op->select.rev, lkv_view_rev(view->view), index);
    }
    world->counts.views++;
    begin_walk(op->client);
}

/* A view is held where it was opened. A client may have gone on to another node: there the revision may be
 * compacted, or, for local reads, not applied yet. */
static void judge_refused_page(const struct sim_call *op, int rc) {
    const struct sim_model *model = &op->world->model;
    const struct sim_view *view = &op->client->view;
    uint64_t rev = lkv_view_rev(view->view);
    bool moved = view->remote != NULL;
    bool gone = op->world->time.now_ns >= view->opened_ns + view->age_ns;
    bool right = true;
    if (rc == LKV_ECOMPACTED) {
        right = (moved || gone) && rev < model->kept_from && rev < model->revision;
    } else if (rc == LKV_EFUTURE) {
        right = moved && view->how != LKV_LINEARIZABLE && view->how != LKV_LEASED;
    }
    if (!right) {
        sim_world_fail(op->world, "%s: a page of a view of revision %" PRIu64 " is refused: %s",
                       sim_call_place(op), rev, error_name(rc));
    }
}

bool sim_view_answered(const struct sim_call *op, struct lkv_msg *reply, bool heard) {
    struct sim_view *view = &op->client->view;
    int rc = heard ? lkv_msg_rc(reply) : LKV_ECLOSED;
    view->busy = false;
    if (op->kind == SIM_VIEW_OPEN) {
        if (rc == 0) {
            judge_opened(op, reply);
        } else if (rc == LKV_ECOMPACTED || rc == LKV_EFUTURE) {
            sim_read_judge_refusal(op, reply);
        }
        if (rc != 0) {
            let_go(view);
        }
        return false;
    }
    if (rc == 0) {
        api_iter_take(view->iter, reply);
    } else {
        judge_refused_page(op, rc);
    }
    return rc == 0;
}

/* ------------------------------------------------------------------ what comes next */

static struct sim_call *open_view(struct sim_client *client, struct sim_node *node,
                                  struct sim_remote *remote) {
    struct sim_world *world = client->world;
    struct prng *prng = &world->prng_read;
    static const uint64_t ages_ms[] = {50, 500, 3000, 20000};
    struct sim_view *view = &client->view;
    struct sim_call *op = sim_call_new(world, node, remote, SIM_VIEW_OPEN, 0);
    op->how = sim_read_draw_how(world);
    op->select.rev = sim_read_draw_rev(world);
    *view = (struct sim_view){.node = remote == NULL ? node : NULL,
                              .remote = remote,
                              .life = op->life,
                              .how = op->how,
                              .opened_ns = world->time.now_ns,
                              .busy = true};
    uint64_t age_ms = ages_ms[prng_below(prng, 4)];
    view->age_ns = age_ms * MS_NS;
    int rc = api_view_open(handle_of(view), op->how, op->select.rev, (int64_t)age_ms, &view->view,
                           &op->request);
    ASSERT(rc == 0);
    return op;
}

static struct sim_call *ask_page(struct sim_client *client) {
    struct sim_view *view = &client->view;
    struct lkv *db;
    struct request *request;
    int rc = api_iter_ask(view->iter, &db, &request);
    if (rc != 0) {
        ASSERT(rc == LKV_EVIEW);
        judge_too_old(client->world, view);
        let_go(view);
        return NULL;
    }
    struct sim_call *op =
        sim_call_new(client->world, view->node, view->remote, SIM_VIEW_PAGE, view->next);
    request->limit = 1 + (size_t)prng_below(&client->world->prng_read, 5); /* small pages */
    op->request = request;
    op->how = view->how;
    view->busy = true;
    return op;
}

static struct sim_call *go_on(struct sim_client *client) {
    struct sim_view *view = &client->view;
    struct lkv_kv item;
    int step;
    if (view->iter == NULL) {
        let_go(view); /* too old to begin with */
        return NULL;
    }
    while ((step = api_iter_step(view->iter, &item)) == 1) {
        judge_item(client->world, view, &item);
    }
    if (step == ITER_ASK) {
        return ask_page(client);
    }
    judge_end(client->world, view);
    begin_walk(client);
    return NULL;
}

struct sim_call *sim_view_draw(struct sim_client *client, struct sim_node *node,
                               struct sim_remote *remote) {
    struct sim_view *view = &client->view;
    if (view->view == NULL) {
        return open_view(client, node, remote);
    }
    if (view->busy) {
        return NULL;
    }
    if (!is_in_place(view) || prng_below(&client->world->prng_read, 24) == 0) {
        let_go(view);
        return NULL;
    }
    return go_on(client);
}
