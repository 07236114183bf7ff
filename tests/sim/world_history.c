#include "tests/sim/world_history.h"

#include "base/assert.h"
#include "tests/sim/world_call.h"

#include <stdlib.h>

/* Beyond that a history is too wide to be judged at a seed's pace; one in ten is. */
enum { STATES_MAX = 1 << 14 };

void sim_history_fini(struct sim_history *history) {
    free(history->ops);
}

/* What promises the newest state, and all of it. */
static bool is_newest(const struct sim_call *call) {
    return sim_call_is_newest(call) && call->select.rev == 0 && !select_picks(&call->select);
}

static bool is_recorded(const struct sim_call *call) {
    switch (call->kind) {
    case SIM_PUT:
    case SIM_DELETE:
    case SIM_DELETE_RANGE: return true;
    case SIM_GET: return is_newest(call);
    case SIM_RANGE: return is_newest(call) && call->flags == 0 && call->limit == 0;
    case SIM_CHANGE:
    case SIM_GET_LOCAL:
    case SIM_SESSION_OPEN:
    case SIM_SESSION_KEEP:
    case SIM_SESSION_CLOSE:
    case SIM_LEASE_GRANT:
    case SIM_LEASE_KEEP:
    case SIM_LEASE_REVOKE:
    case SIM_LEASE_TTL:
    case SIM_LEASE_LIST:
    case SIM_LEASE_PUT:
    case SIM_STATUS:
    case SIM_DIGEST:
    case SIM_VIEW_OPEN:
    case SIM_VIEW_PAGE:
    case SIM_APPEND:
    case SIM_LOG_READ:
    case SIM_LOG_SPAN:
    case SIM_HOLD: break;
    }
    return false;
}

/* Writes with conditions are the model's to judge, and keys with leases, which vanish by themselves. */
static uint32_t end_of(const struct sim_call *call) {
    return call->end < SIM_OWN_KEYS ? call->end : SIM_OWN_KEYS;
}

static enum lin_kind kind_of(const struct sim_call *call) {
    if (call->kind == SIM_PUT) {
        return LIN_PUT;
    }
    return sim_call_is_write(call) ? LIN_DELETE : LIN_GET;
}

static struct lin_op *add(struct sim_history *history) {
    if (history->count == history->capacity) {
        history->capacity = history->capacity * 2 + 256;
        history->ops = realloc(history->ops, history->capacity * sizeof(*history->ops));
        ASSERT(history->ops != NULL);
    }
    return &history->ops[history->count++];
}

static struct sim_doubt *doubt_of(const struct sim_call *call) {
    for (size_t i = 0; i < SIM_DOUBTS_MAX && call->seq != 0; i++) {
        if (call->client->doubts[i].seq == call->seq) {
            return &call->client->doubts[i];
        }
    }
    return NULL;
}

void sim_history_begin(struct sim_call *call) {
    struct sim_world *world = call->world;
    struct sim_doubt *doubt = doubt_of(call);
    if (!is_recorded(call)) {
        return;
    }
    if (doubt != NULL && doubt->history != 0) {
        call->history = doubt->history;
        return;
    }
    call->history = world->history.count + 1;
    for (uint32_t key = call->key; key < end_of(call); key++) {
        *add(&world->history) = (struct lin_op){.key = key,
                                                .begun_ns = world->time.now_ns,
                                                .ended_ns = LIN_NEVER,
                                                .kind = kind_of(call),
                                                .outcome = LIN_INFO,
                                                .value = call->value};
    }
    if (doubt != NULL) {
        doubt->history = call->history;
    }
}

/* What a read shows of a key; keys come in ascending order, `*at` is where the next one may be. */
static uint64_t shown(const struct lkv_msg *reply, uint32_t key, size_t *at) {
    struct lkv_kv item;
    uint32_t number;
    if (!lkv_msg_kv(reply, *at, &item) ||
        !sim_key_number(slice_of(item.key.data, item.key.size), &number) || number != key) {
        return LIN_ABSENT;
    }
    ++*at;
    return sim_value_number(slice_of(item.value.data, item.value.size));
}

void sim_history_end(const struct sim_call *call, const struct lkv_msg *reply) {
    struct sim_world *world = call->world;
    enum lkv_outcome outcome = reply != NULL ? error_outcome(lkv_msg_rc(reply)) : LKV_UNKNOWN;
    /* In a session "not done" is said of one attempt, and another one may be done. */
    if (call->history == 0 || outcome == LKV_UNKNOWN ||
        (outcome == LKV_NOT_DONE && call->seq != 0)) {
        return;
    }
    size_t at = 0;
    for (uint32_t key = call->key; key < end_of(call); key++) {
        struct lin_op *op = &world->history.ops[call->history - 1 + key - call->key];
        op->ended_ns = world->time.now_ns;
        op->outcome = outcome == LKV_NOT_DONE ? LIN_FAIL : LIN_OK;
        if (op->kind == LIN_GET && op->outcome == LIN_OK) {
            op->value = shown(reply, key, &at);
        }
    }
}

static void print_key(const void *arg, uint64_t key, FILE *out) {
    char text[SIM_KEY_SIZE];
    (void)arg;
    sim_key_text((uint32_t)key, text);
    fputs(text, out);
}

void sim_history_check(struct sim_world *world) {
    const struct sim_history *history = &world->history;
    const struct lin_names names = {.key = print_key};
    struct lin_result result;
    char text[sizeof(world->failure)] = "";
    lin_check(history->ops, history->count, STATES_MAX, &result);
    if (result.verdict != LIN_LINEARIZABLE) {
        FILE *out = fmemopen(text, sizeof(text), "w");
        ASSERT(out != NULL);
        lin_print(&result, history->ops, history->count, &names, out);
        (void)fclose(out);
        text[sizeof(text) - 1] = '\0';
    }
    if (result.verdict == LIN_VIOLATED) {
        sim_world_fail(world, "%s", text);
    } else if (result.verdict == LIN_UNDECIDED) {
        world->counts.undecided++;
        sim_world_tell(world, "%s", text);
    }
    lin_result_fini(&result);
}
