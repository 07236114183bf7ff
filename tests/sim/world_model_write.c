/* What writes with conditions, counters, transactions and compactions do, once more and simply: a
 * transaction is looked through on the state before it, then carried out. */
#include "base/assert.h"
#include "base/crc.h"
#include "kv/txn.h"
#include "tests/sim/world_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBER_SIZE = 24 };

/* ------------------------------------------------------------------ seen */

/* The number that the first put or add of a program carries. */
static uint64_t marker_of(struct slice program) {
    struct txn_parts parts;
    struct kv_step step;
    if (!txn_open(program, &parts) || !txn_next_step(&parts.then_steps, &step)) {
        return 0;
    }
    return sim_value_number(step.value);
}

bool sim_model_see_write(struct sim_entry *seen, struct slice payload) {
    const struct kv_command *command = &seen->command;
    void *copy = malloc(payload.size);
    ASSERT(copy != NULL);
    memcpy(copy, payload.data, payload.size);
    seen->other = slice_of(copy, payload.size);
    if (command->op == KV_COMPACT) {
        return true;
    }
    if (command->op == KV_TXN) {
        seen->value = marker_of(command->txn);
        return seen->value != 0;
    }
    seen->value =
        command->op == KV_ADD ? (uint64_t)command->delta : sim_value_number(command->value);
    return sim_key_number(command->key, &seen->key);
}

/* ------------------------------------------------------------------ the state before */

static uint32_t key_of(struct slice text) {
    uint32_t key = 0;
    bool ours = sim_key_number(text, &key);
    ASSERT(ours && key < SIM_KEYS_MAX);
    return key;
}

static const struct sim_version *live(struct sim_model *model, uint32_t key) {
    const struct sim_version *version = sim_model_newest(model, key);
    return version != NULL && version->live ? version : NULL;
}

static int rc_of(struct sim_model *model, const struct kv_step *step) {
    if (step->op == KV_RANGE || step->end.size > 0) {
        return 0;
    }
    const struct sim_version *old = live(model, key_of(step->key));
    if ((step->flags & KV_IF_ABSENT) && old != NULL) {
        return LKV_ECOMPARE;
    }
    if (step->if_rev != 0 && (old == NULL || old->mod_rev != step->if_rev)) {
        return LKV_ECOMPARE;
    }
    if ((step->flags & KV_KEEP_VALUE) && old == NULL) {
        return LKV_ENOTFOUND;
    }
    return step->op == KV_ADD && old != NULL && !old->is_number ? LKV_ENUMBER : 0;
}

static bool holds(struct sim_model *model, const struct kv_compare *compare) {
    const struct sim_version *old = live(model, key_of(compare->key));
    uint64_t found = 0;
    if (old != NULL) {
        switch (compare->field) {
        case KV_FIELD_EXISTS: found = 1; break;
        case KV_FIELD_MOD_REV: found = old->mod_rev; break;
        case KV_FIELD_CREATE_REV: found = old->create_rev; break;
        case KV_FIELD_VERSION: found = old->version; break;
        case KV_FIELD_VALUE:
        case KV_FIELD_LEASE: ASSERT(false); /* the workload has none */
        }
    }
    switch (compare->relation) {
    case KV_EQUAL: return found == compare->number;
    case KV_NOT_EQUAL: return found != compare->number;
    case KV_LESS: return found < compare->number;
    case KV_GREATER: return found > compare->number;
    }
    return false;
}

/* ------------------------------------------------------------------ effects */

struct effect {
    struct sim_model *model;
    uint64_t index, revision; /* of what it changes */
    uint64_t changed;
    int64_t number;
};

static struct sim_version *change(struct effect *effect, uint32_t key) {
    const struct sim_version *found = sim_model_newest(effect->model, key);
    struct sim_version old = found != NULL ? *found : (struct sim_version){0};
    struct sim_version *version = sim_model_add(effect->model, key, effect->index);
    effect->changed++;
    version->live = true;
    version->value = old.live ? old.value : 0;
    version->print = old.live ? old.print : 0;
    version->is_number = old.live && old.is_number;
    version->number = old.live ? old.number : 0;
    version->mod_rev = effect->revision;
    version->create_rev = old.live ? old.create_rev : effect->revision;
    version->version = old.live ? old.version + 1 : 1;
    return version;
}

static void do_put(struct effect *effect, const struct kv_step *step) {
    struct sim_version *version = change(effect, key_of(step->key));
    if ((step->flags & KV_KEEP_VALUE) == 0) {
        version->is_number = false;
        version->value = sim_value_number(step->value);
        version->print = crc32c(0, step->value);
    }
}

static void do_add(struct effect *effect, const struct kv_step *step) {
    char text[NUMBER_SIZE];
    struct sim_version *version = change(effect, key_of(step->key));
    version->number += step->delta;
    version->is_number = true;
    (void)snprintf(text, sizeof(text), "%" PRId64, version->number);
    version->value = sim_value_number(slice_text(text));
    version->print = crc32c(0, slice_text(text));
    effect->number = version->number;
}

static void do_delete(struct effect *effect, const struct kv_step *step) {
    uint32_t key = key_of(step->key);
    uint32_t end = step->end.size > 0 ? key_of(step->end) : key + 1;
    for (; key < end; key++) {
        if (live(effect->model, key) != NULL) {
            struct sim_version *version = sim_model_add(effect->model, key, effect->index);
            version->live = false;
            effect->changed++;
        }
    }
}

static void do_step(struct effect *effect, const struct kv_step *step) {
    if (step->op == KV_PUT) {
        do_put(effect, step);
    } else if (step->op == KV_ADD) {
        do_add(effect, step);
    } else if (step->op == KV_DELETE) {
        do_delete(effect, step);
    }
}

/* The operations that a program's compares choose, those of programs inside in their place. */
enum { STEPS_MAX = 32 };
struct way {
    struct kv_step steps[STEPS_MAX];
    size_t count;
};

static bool find_way(struct sim_model *model, struct slice program, struct way *way) {
    struct txn_parts parts;
    bool held = true, good = txn_open(program, &parts);
    ASSERT(good);
    for (uint32_t i = 0; i < parts.compare_count; i++) {
        struct kv_compare compare;
        good = txn_next_compare(&parts.compares, &compare);
        ASSERT(good);
        held = held && holds(model, &compare);
    }
    struct reader *branch = held ? &parts.then_steps : &parts.else_steps;
    while (branch->left > 0) {
        struct kv_step step;
        good = txn_next_step(branch, &step);
        ASSERT(good && way->count < STEPS_MAX);
        if (step.op == KV_TXN) {
            (void)find_way(model, step.txn, way);
        } else {
            way->steps[way->count++] = step;
        }
    }
    return held;
}

static void compact(struct sim_model *model, struct sim_entry *entry, uint64_t to) {
    if (to > model->revision) {
        entry->rc = LKV_EFUTURE;
    } else if (to <= model->kept_from) {
        entry->rc = LKV_ECOMPACTED;
    } else {
        model->kept_from = to;
    }
}

void sim_model_commit_write(struct sim_model *model, struct sim_entry *entry) {
    struct kv_command command;
    struct way way = {.count = 0};
    bool held = false;
    int rc = kv_command_decode(entry->other, &command, NULL);
    ASSERT(rc == 0);
    if (command.op == KV_COMPACT) {
        compact(model, entry, command.revision);
        return;
    }
    if (command.op == KV_TXN) {
        held = find_way(model, command.txn, &way);
    } else {
        way.steps[way.count++] = step_of(&command);
    }
    for (size_t i = 0; i < way.count && entry->rc == 0; i++) {
        entry->rc = rc_of(model, &way.steps[i]);
    }
    struct effect effect = {.model = model, .index = entry->index, .revision = model->revision + 1};
    for (size_t i = 0; i < way.count && entry->rc == 0; i++) {
        do_step(&effect, &way.steps[i]);
    }
    model->revision += effect.changed > 0;
    entry->count = command.op == KV_TXN   ? held
                   : command.op == KV_ADD ? (uint64_t)effect.number
                                          : effect.changed;
}
