/* The model in log mode: which records there are, which of them readers see, and the chain of hashes.
 *
 * An append in a session counts when its last record is committed, and then it must be one that was not
 * there before: numbers are judged before they are appended, so the log never holds one twice. */
#include "tests/sim/world_model.h"

#include "kv/digest.h"

#include <inttypes.h>
#include <stdio.h>

bool sim_model_see_log(struct sim_entry *seen, struct slice payload) {
    struct reason why = {{0}};
    switch (seen->type) {
    case ENTRY_NOOP:
    case ENTRY_CONFIG:
    case ENTRY_FEATURE:
    case ENTRY_DIGEST: return true;
    case ENTRY_COMMAND: seen->value = sim_value_number(payload); return true;
    case ENTRY_SESSION:
        return kv_command_decode(payload, &seen->command, &why) == 0 &&
               !kv_command_has_keys(&seen->command);
    case ENTRY_ONCE:
        if (once_decode(payload, &seen->once) != 0) {
            return false;
        }
        seen->value = sim_value_number(
            slice_of(payload.data + ONCE_HEADER_SIZE, payload.size - ONCE_HEADER_SIZE));
        return true;
    }
    return false;
}

static bool wrong(struct sim_model *model, const struct sim_entry *entry, const char *what,
                  uint64_t detail) {
    (void)snprintf(model->why, sizeof(model->why),
                   "entry %" PRIu64 ", value %" PRIu64 ": %s %" PRIu64, entry->index, entry->value,
                   what, detail);
    return false;
}

/* A record that counts: its value must not have been in the log before. */
static bool show(struct sim_model *model, struct sim_entry *entry) {
    entry->shown = true;
    if (entry->value == 0) {
        return true;
    }
    struct sim_value *value = sim_model_value(model, entry->value);
    bool fresh = value->committed == 0;
    uint64_t before = value->committed;
    value->committed = entry->index;
    if (!fresh) {
        return wrong(model, entry, "the same record is at", before);
    }
    return !value->not_done || wrong(model, entry, "it was reported as not done", 0);
}

/* Its last record: the others stand before it, in the same term. */
static bool commit_append(struct sim_model *model, struct sim_entry *last) {
    const struct kv_command command = {.op = KV_PUT, /* any that is carried out once */
                                       .session = last->once.call.id,
                                       .seq = last->once.call.seq,
                                       .acked_below = last->once.call.acked_below};
    uint64_t first = last->index - last->once.position, before = 0;
    last->rc = sim_sessions_commit(&model->sessions, &command, first, &before);
    if (last->rc != 0) {
        return wrong(model, last, "it was appended, and its session refuses it:", before);
    }
    if (before != first) {
        return wrong(model, last, "its number was appended before, at", before);
    }
    for (uint64_t i = first; i <= last->index; i++) {
        struct sim_entry *entry = model->committed[i];
        bool belongs = entry->type == ENTRY_ONCE && entry->term == last->term &&
                       entry->once.call.id == last->once.call.id &&
                       entry->once.call.seq == last->once.call.seq &&
                       entry->once.position == i - first && entry->once.count == last->once.count;
        if (!belongs) {
            return wrong(model, last, "it is the last of an append that is not there from", first);
        }
        if (!show(model, entry)) {
            return false;
        }
    }
    return true;
}

bool sim_model_commit_log(struct sim_model *model, struct sim_entry *entry) {
    const struct digest_link link = {.index = entry->index,
                                     .term = entry->term,
                                     .size = entry->size,
                                     .type = (uint32_t)entry->type,
                                     .crc = entry->crc};
    uint64_t first;
    bool fenced = entry->command.in_term != 0 && entry->command.in_term != entry->term;
    model->chain = entry->chain = digest_chain(model->chain, &link);
    const struct sim_entry *before = entry->index > 1 ? model->committed[entry->index - 1] : NULL;
    if (before != NULL && before->term != entry->term && before->type == ENTRY_ONCE) {
        model->voids += before->once.position + 1 < before->once.count;
    }
    entry->first = entry->index;
    if (entry->type == ENTRY_COMMAND) {
        return show(model, entry);
    }
    if (entry->type == ENTRY_SESSION) {
        entry->rc =
            fenced ? LKV_ETERM
                   : sim_sessions_commit(&model->sessions, &entry->command, entry->index, &first);
    } else if (entry->type == ENTRY_ONCE && entry->once.position + 1 == entry->once.count) {
        return commit_append(model, entry);
    }
    return true;
}
