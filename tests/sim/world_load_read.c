/* Reads of older revisions, in any order, filtered, page by page: what each shows must be what the model
 * has of that very revision, and what is refused must be beyond what was kept (C7, C16). */
#include "tests/sim/world_call.h"

#include "base/assert.h"
#include "base/crc.h"

#include <inttypes.h>
#include <stdlib.h>

/* A key of a range, as the model has it. */
struct found {
    uint32_t key;
    const struct sim_version *version;
};

bool sim_same_item(const struct sim_model *model, uint32_t key, uint64_t index,
                   const struct lkv_kv *item, bool with_value) {
    const struct sim_version *version = sim_model_at(model, key, index);
    if (version == NULL || item == NULL) {
        return version == NULL && item == NULL;
    }
    uint32_t print = crc32c(0, slice_of(item->value.data, item->value.size));
    bool same_value = with_value ? print == version->print : item->value.size == 0;
    return same_value && item->mod_rev == version->mod_rev &&
           item->create_rev == version->create_rev && item->version == version->version;
}

/* ------------------------------------------------------------------ what is right */

static bool is_within(uint64_t number, uint64_t min, uint64_t max) {
    return number >= min && (max == 0 || number <= max);
}

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

/* Values begin with their numbers, all of which differ. */
static int compare_values(uint64_t a, uint64_t b) {
    return memcmp(&a, &b, sizeof(a));
}

static int compare_by(const struct sim_call *op, const struct found *a, const struct found *b) {
    switch (op->select.order) {
    case LKV_BY_KEY: return compare_numbers(a->key, b->key);
    case LKV_BY_VERSION: return compare_numbers(a->version->version, b->version->version);
    case LKV_BY_CREATE_REV: return compare_numbers(a->version->create_rev, b->version->create_rev);
    case LKV_BY_MOD_REV: return compare_numbers(a->version->mod_rev, b->version->mod_rev);
    case LKV_BY_VALUE: return compare_values(a->version->value, b->version->value);
    }
    return 0;
}

/* Keys were added in ascending order: of equal ones the lesser key stays in front. */
static void insert(const struct sim_call *op, struct found *found, size_t count,
                   struct found added) {
    int sign = (op->flags & LKV_DESCENDING) != 0 ? -1 : 1;
    size_t at = count;
    while (at > 0 && sign * compare_by(op, &found[at - 1], &added) > 0) {
        found[at] = found[at - 1];
        at--;
    }
    found[at] = added;
}

/* All keys of the range go into *total; returns how many pass the filters, in their order. */
static size_t right_items(const struct sim_call *op, uint64_t index,
                          struct found found[static SIM_KEYS_MAX], size_t *total) {
    const struct read_select *select = &op->select;
    size_t count = 0;
    *total = 0;
    for (uint32_t key = op->key; key < op->end && key < SIM_KEYS_MAX; key++) {
        const struct sim_version *version = sim_model_at(&op->world->model, key, index);
        if (version == NULL) {
            continue;
        }
        ++*total;
        if (is_within(version->mod_rev, select->mod_rev_min, select->mod_rev_max) &&
            is_within(version->create_rev, select->create_rev_min, select->create_rev_max)) {
            insert(op, found, count++, (struct found){key, version});
        }
    }
    return count;
}

/* ------------------------------------------------------------------ judging */

/* The entry whose state was to be read; false: an answer at `index` cannot have been given of it. */
bool sim_read_index(const struct sim_call *op, uint64_t index, uint64_t *of) {
    const struct sim_model *model = &op->world->model;
    uint64_t rev = op->select.rev;
    *of = index;
    if (rev == 0 || index == 0) {
        return true;
    }
    const struct sim_entry *entry = model->committed[index];
    *of = rev == entry->revision ? index : sim_model_made(model, rev);
    bool pinned = op->world->plan.view_permille > 0; /* perhaps, by somebody's view */
    return rev == entry->revision || ((rev >= entry->kept_from || pinned) && rev < entry->revision);
}

static void judge_rev(const struct sim_call *op, uint64_t index, const struct lkv_msg *reply) {
    uint64_t told = 0;
    uint64_t rev =
        op->select.rev != 0 ? op->select.rev : sim_model_revision(&op->world->model, index);
    if (!lkv_msg_u64(reply, "rev", &told) || told != rev) {
        sim_world_fail(op->world, "a read at %" PRIu64 " says revision %" PRIu64 ", not %" PRIu64,
                       index, told, rev);
    }
}

static void judge_item(const struct sim_call *op, uint64_t index, const struct lkv_msg *reply,
                       size_t at, uint32_t key) {
    struct lkv_kv item;
    uint32_t number = UINT32_MAX;
    bool have = lkv_msg_kv(reply, at, &item) &&
                sim_key_number(slice_of(item.key.data, item.key.size), &number) && number == key;
    bool with_value = (op->flags & LKV_KEYS_ONLY) == 0;
    if (!sim_same_item(&op->world->model, key, index, have ? &item : NULL, with_value)) {
        sim_world_fail(op->world, "a range read at %" PRIu64 " has not the key %u of then", index,
                       key);
    }
}

static void judge_numbers(const struct sim_call *op, const struct lkv_msg *reply, size_t shown,
                          size_t passing, size_t total) {
    uint64_t told = 0, more = 0;
    (void)lkv_msg_u64(reply, "total", &told);
    (void)lkv_msg_u64(reply, "more", &more);
    bool counts = (op->flags & (LKV_COUNT_ONLY | LKV_TOTAL)) != 0;
    bool pages = (op->flags & LKV_COUNT_ONLY) == 0;
    if (lkv_msg_count(reply) != shown) {
        sim_world_fail(op->world, "a range read has %zu keys, %zu are right", lkv_msg_count(reply),
                       shown);
    } else if ((counts && told != total) || (pages && more != (shown < passing))) {
        sim_world_fail(op->world,
                       "a range read of %zu of %zu keys says %" PRIu64 " in all, more: %" PRIu64,
                       shown, total, told, more);
    }
}

static void judge_range(const struct sim_call *op, uint64_t index, const struct lkv_msg *reply) {
    struct found found[SIM_KEYS_MAX];
    size_t total;
    size_t passing = right_items(op, index, found, &total);
    size_t shown = op->limit != 0 && op->limit < passing ? op->limit : passing;
    shown = (op->flags & LKV_COUNT_ONLY) != 0 ? 0 : shown;
    for (size_t i = 0; i < shown; i++) {
        judge_item(op, index, reply, i, found[i].key);
    }
    judge_numbers(op, reply, shown, passing, total);
}

/* The next page is asked for at this one's revision. */
static void note_page(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_paging *paging = &op->client->paging;
    uint64_t more = 0;
    struct lkv_kv last;
    uint32_t key;
    size_t count = lkv_msg_count(reply);
    *paging = (struct sim_paging){0};
    (void)lkv_msg_u64(reply, "more", &more);
    if (more != 0 && count > 0 && lkv_msg_kv(reply, count - 1, &last) &&
        sim_key_number(slice_of(last.key.data, last.key.size), &key)) {
        (void)lkv_msg_u64(reply, "rev", &paging->rev);
        paging->next = key + 1;
        paging->end = op->end;
    }
}

void sim_read_judge(const struct sim_call *op, uint64_t index, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    uint64_t of;
    world->counts.past_reads += op->select.rev != 0;
    if (!sim_read_index(op, index, &of)) {
        sim_world_fail(world,
                       "revision %" PRIu64 " is read at %" PRIu64 ", which keeps %" PRIu64
                       " to %" PRIu64,
                       op->select.rev, index, world->model.committed[index]->kept_from,
                       sim_model_revision(&world->model, index));
        return;
    }
    judge_rev(op, index, reply);
    if (op->kind == SIM_RANGE) {
        judge_range(op, of, reply);
        world->counts.next_pages += op->pages && op->select.rev != 0;
        if (op->pages) {
            note_page(op, reply);
        }
        return;
    }
    struct lkv_kv item;
    bool have = lkv_msg_kv(reply, 0, &item);
    if (!sim_same_item(&world->model, op->key, of, have ? &item : NULL, true)) {
        sim_world_fail(world, "a read of key %u at %" PRIu64 " is not what was written", op->key,
                       of);
    }
}

void sim_read_judge_refusal(const struct sim_call *op, const struct lkv_msg *reply) {
    struct sim_world *world = op->world;
    uint64_t rev = op->select.rev;
    uint64_t index = 0, told_rev = 0, told_from = 0;
    bool future = lkv_msg_rc(reply) == LKV_EFUTURE;
    bool told = lkv_msg_u64(reply, "index", &index) && lkv_msg_u64(reply, "rev", &told_rev) &&
                lkv_msg_u64(reply, "kept_from", &told_from);
    if (op->pages) {
        op->client->paging = (struct sim_paging){0};
    }
    world->counts.past_refusals++;
    if (!told || index > world->model.commit) {
        sim_world_fail(world, "a refusal of revision %" PRIu64 " at %" PRIu64 " says not why", rev,
                       index);
        return;
    }
    uint64_t newest = sim_model_revision(&world->model, index);
    uint64_t kept = index > 0 ? world->model.committed[index]->kept_from : 2;
    uint64_t from = kept < newest ? kept : newest;
    bool late = future && sim_call_is_newest(op) && index < op->floor;
    if (told_rev != newest || told_from != from || (future ? rev <= newest : rev >= from) || late) {
        sim_world_fail(world,
                       "revision %" PRIu64 " is refused (%s): %" PRIu64 " to %" PRIu64
                       " are kept, but at %" PRIu64 " it was %" PRIu64 " to %" PRIu64,
                       rev, error_name(lkv_msg_rc(reply)), told_from, told_rev, index, from,
                       newest);
    }
}

/* ------------------------------------------------------------------ which one */

uint64_t sim_read_draw_rev(struct sim_world *world) {
    struct prng *prng = &world->prng_read;
    uint64_t newest = world->model.revision;
    switch (prng_below(prng, 8)) {
    case 0: return 0;
    case 1: return newest + prng_below(prng, 4); /* perhaps not applied where it is asked for */
    case 2:
    case 3: return 1 + prng_below(prng, newest);
    default: break;
    }
    uint64_t back = prng_below(prng, 32);
    return back < newest ? newest - back : 1;
}

enum lkv_read sim_read_draw_leased(struct sim_world *world) {
    uint32_t share = world->plan.leased_permille;
    bool leased = share > 0 && prng_below(&world->prng_leased, 1000) < share;
    return leased ? LKV_LEASED : LKV_LINEARIZABLE;
}

enum lkv_read sim_read_draw_how(struct sim_world *world) {
    static const enum lkv_read ways[] = {LKV_LINEARIZABLE, LKV_LINEARIZABLE, LKV_BOUNDED,
                                         LKV_BOUNDED, LKV_LOCAL};
    enum lkv_read how = ways[prng_below(&world->prng_read, sizeof(ways) / sizeof(ways[0]))];
    return how == LKV_LINEARIZABLE ? sim_read_draw_leased(world) : how;
}

static void draw_select(struct sim_call *op) {
    struct prng *prng = &op->world->prng_read;
    uint64_t newest = op->world->model.revision;
    struct read_select *select = &op->select;
    select->order = (enum lkv_order)prng_below(prng, 5);
    if (prng_below(prng, 2) == 0) {
        select->mod_rev_min = prng_below(prng, newest + 1);
        select->mod_rev_max = prng_below(prng, 2) == 0 ? 0 : prng_below(prng, newest + 2);
    }
    if (prng_below(prng, 2) == 0) {
        select->create_rev_min = prng_below(prng, newest + 1);
        select->create_rev_max = prng_below(prng, 2) == 0 ? 0 : prng_below(prng, newest + 2);
    }
}

static void draw_page(struct sim_client *client, struct sim_call *op) {
    struct prng *prng = &client->world->prng_read;
    op->pages = true;
    op->limit = 1 + (size_t)prng_below(prng, 6);
    op->end = SIM_KEYS_MAX;
    op->to_last = true;
    if (client->paging.rev != 0) {
        op->key = client->paging.next;
        op->select.rev = client->paging.rev;
    } else {
        op->key = 0;
    }
}

static void draw_range(struct sim_call *op) {
    struct prng *prng = &op->world->prng_read;
    op->flags = (int)prng_below(prng, 16);
    op->limit = prng_below(prng, 2) == 0 ? 0 : 1 + (size_t)prng_below(prng, 8);
    if (prng_below(prng, 2) == 0) {
        op->end = SIM_KEYS_MAX;
        op->to_last = true;
    }
    op->select.rev = sim_read_draw_rev(op->world);
    if (prng_below(prng, 2) == 0) {
        draw_select(op);
    }
    if (op->select.order == LKV_BY_VALUE && op->to_last) { /* counters do not begin with a number */
        op->end = op->key + 6;
        op->to_last = false;
    }
}

struct sim_call *sim_read_draw(struct sim_client *client, struct sim_node *node,
                               struct sim_remote *remote, uint32_t key) {
    struct sim_world *world = client->world;
    struct prng *prng = &world->prng_read;
    if (world->plan.read_permille == 0 || world->plan.log_mode ||
        prng_below(prng, 1000) >= world->plan.read_permille) {
        return NULL;
    }
    if (prng_below(prng, 1000) < world->plan.view_permille) {
        return sim_view_draw(client, node, remote);
    }
    uint64_t way = prng_below(prng, 4);
    struct sim_call *op = sim_call_new(world, node, remote, way == 0 ? SIM_GET : SIM_RANGE, key);
    op->client = client;
    op->how = sim_read_draw_how(world);
    if (way == 0) {
        op->select.rev = sim_read_draw_rev(world);
    } else if (way == 1) {
        draw_page(client, op);
    } else {
        draw_range(op);
    }
    return op;
}
