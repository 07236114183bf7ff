#include "base/feature.h"
#include "base/mem.h"
#include "kv/batch.h"
#include "kv/durable.h"
#include "kv/thin.h"
#include "kv/work.h"

enum { PREFETCH_GAP = 4 /* operations: about the time that memory takes */ };

/* ---------------------------------------------------------------------------- preparing */

static int prepare_put(struct batch *batch, const struct entry *entry, struct operation *operation,
                       struct reason *why) {
    const struct kv_command *command = &operation->command;
    const struct version_new fresh = {.key = command->key,
                                      .value = command->value,
                                      .lease = command->lease,
                                      .payload = entry->payload,
                                      .pool = batch->store->pool};
    operation->fresh = version_new(&fresh);
    if (operation->fresh == NULL) {
        return reason_set(why, LKV_ENOMEM, "out of memory for a value of %zu bytes",
                          command->value.size);
    }
    operation->hash = table_hash(&batch->store->table, command->key);
    return 0;
}

static int prepare_command(struct batch *batch, const struct entry *entry,
                           struct operation *operation, struct reason *why) {
    struct kv_command *command = &operation->command;
    struct slice bytes = blob_slice(entry->payload);
    bool again = batch->store->work->index == entry->index; /* it goes on */
    int rc = again ? kv_command_decode_again(bytes, command, why)
                   : kv_command_decode(bytes, command, why);
    if (rc != 0) {
        return rc;
    }
    operation->is_command = true;
    bool is_plain = command->op == KV_PUT && command->flags == 0 && command->if_rev == 0;
    return is_plain ? prepare_put(batch, entry, operation, why) : 0;
}

/* The reason with the entry in front of it. */
static int named(uint64_t index, int rc, const struct reason *detail, struct reason *why) {
    return rc == 0 ? 0
                   : reason_set(why, rc, "entry %llu: %s", (unsigned long long)index, detail->text);
}

static int prepare_entry(struct batch *batch, const struct entry *entry, uint64_t index,
                         struct reason *why) {
    struct operation *operation = &batch->operations[batch->prepared];
    struct reason detail = {{0}};
    *operation = (struct operation){0};
    if (entry->index != index) {
        return reason_set(why, LKV_EINVAL, "entry %llu came where %llu was due",
                          (unsigned long long)entry->index, (unsigned long long)index);
    }
    switch (entry->type) {
    case ENTRY_NOOP:
    case ENTRY_CONFIG:
    case ENTRY_DIGEST: return 0;
    case ENTRY_COMMAND:
        return named(index, prepare_command(batch, entry, operation, &detail), &detail, why);
    case ENTRY_FEATURE:
        return named(index,
                     feature_decode(blob_slice(entry->payload), batch->kv->feature_level,
                                    &operation->feature_level, &detail),
                     &detail, why);
    case ENTRY_SESSION:
    case ENTRY_ONCE: break; /* of log mode: none of ours */
    }
    /* Rule 22: an entry that this program does not know stops it. */
    (void)reason_set(&detail, LKV_EVERSION, "type %d, which this program does not know",
                     (int)entry->type);
    return named(index, LKV_EVERSION, &detail, why);
}

/* As many as fit into one turn. An error is that of the entry behind the prepared ones. */
static int prepare(struct batch *batch, const struct entry *entries, size_t count,
                   struct reason *why) {
    int rc = 0;
    batch->prepared = 0;
    while (rc == 0 && batch->prepared < count && batch->prepared < TURN_ENTRIES) {
        rc = prepare_entry(batch, &entries[batch->prepared],
                           batch->stamp.index + batch->prepared + 1, why);
        if (rc == 0) {
            batch->prepared++;
        }
    }
    return rc;
}

/* Versions that were prepared and not linked, because an earlier entry failed. */
static void drop_prepared(struct batch *batch) {
    for (size_t i = 0; i < batch->prepared; i++) {
        if (batch->operations[i].fresh != NULL) {
            version_unref(batch->operations[i].fresh);
        }
    }
    batch->prepared = 0;
}

/* ---------------------------------------------------------------------------- turns */

void batch_enter(struct batch *batch) {
    gate_enter_alone(batch->kv->gate);
}

void batch_leave(struct batch *batch) {
    gate_leave_alone(batch->kv->gate);
    dead_free(batch->dead);
    batch->dead = NULL;
}

void batch_breathe(struct batch *batch) {
    batch_leave(batch);
    batch_enter(batch);
    for (size_t i = 0; i < batch->prepared; i++) { /* what they point to may be gone */
        batch->operations[i].guess = NULL;
        batch->operations[i].leaf = NULL;
    }
}

/* Gives back what nobody can ask for any more, up to a bound: large values cost a system call each, and
 * their pages. Not less than what the call brought in or looked at, so that it does not gather. */
static void collect_versions(struct batch *batch) {
    uint64_t bytes = CALL_GARBAGE_BYTES + batch->bytes;
    size_t most = CALL_GARBAGE + batch->carried_out + batch->looked_at;
    for (size_t versions = 0; versions < most; versions += TURN_KEYS) {
        if (versions > 0) {
            batch_breathe(batch);
        }
        if (!history_collect(batch->store, TURN_KEYS, &bytes, &batch->dead)) {
            return;
        }
    }
}

/* The trees of leases hold still while a command walks in one. */
static bool may_tidy(const struct store *store) {
    return store->leases.garbage != NULL && store->work->index == 0;
}

/* A turn that moves what is left of many keys together. True: there is more to do. */
static bool thin(struct batch *batch) {
    struct store *store = batch->store;
    if (store->durable != NULL || store->work->index != 0) {
        return false;
    }
    return thin_some(store, TURN_KEYS / THIN_KEYS, &batch->dead);
}

/* Outside: whole slabs go back to the system. True: there are more. */
static bool trim(const struct batch *batch) {
    bool more = pool_trim(batch->store->pool, CALL_SLABS);
    return pool_trim(batch->store->index.pool, CALL_SLABS) || more;
}

/* Gives back what nobody can ask for any more, up to a bound. */
static void collect(struct batch *batch) {
    collect_versions(batch);
    for (size_t keys = 0; keys < CALL_GARBAGE && may_tidy(batch->store); keys += TURN_KEYS) {
        batch_breathe(batch);
        if (leases_tidy(batch->store, TURN_KEYS) < TURN_KEYS) {
            return;
        }
    }
}

/* What an operation will touch is asked for a few operations before its turn, each step a little
 * later than the one whose memory tells where to look: bucket, newest version, leaf. */
static void prefetch(struct batch *batch, size_t step) {
    const struct store *store = batch->store;
    struct operation *operations = batch->operations;
    if (step < batch->prepared && operations[step].fresh != NULL) {
        table_prefetch(&store->table, operations[step].hash);
    }
    size_t second = step - PREFETCH_GAP; /* below 0 it is huge */
    if (second < batch->prepared && operations[second].fresh != NULL) {
        struct operation *operation = &operations[second];
        operation->guess = table_guess(&store->table, operation->hash);
        if (operation->guess != NULL) {
            version_prefetch(operation->guess);
        } else {
            operation->leaf = index_prefetch_insert(&store->index, operation->command.key);
        }
    }
    size_t third = second - PREFETCH_GAP;
    if (third < batch->prepared && operations[third].guess != NULL) {
        index_prefetch_replace(operations[third].guess);
    } else if (third < batch->prepared && operations[third].leaf != NULL) {
        index_prefetch_leaf(operations[third].leaf);
    }
}

/* A command that is fenced has no effect in another term. */
static int carry_out_fenced(struct batch *batch, const struct entry *entry,
                            struct operation *operation, struct kv_result *result) {
    uint64_t in_term = operation->command.in_term;
    if (in_term != 0 && in_term != entry->term) {
        result->rc = LKV_ETERM;
        return 0;
    }
    return effect_of(batch, entry, operation, result);
}

/* Rule 26: once for each number of its session, and what is repeated gets the first answer. The effect
 * and its reply are recorded in the same turn, before the stamp moves (rule 23). */
static int carry_out_once(struct batch *batch, const struct entry *entry,
                          struct operation *operation, struct kv_result *result) {
    struct sessions *sessions = &batch->store->sessions;
    const struct kv_command *command = &operation->command;
    const struct session_call call = {
        .id = command->session, .seq = command->seq, .acked_below = command->acked_below};
    struct session_reply reply;
    int rc = sessions_judge(sessions, &call, &reply);
    if (rc == SESSION_REPEATED) {
        result->repeated = true;
        result->rc = reply.rc;
        result->index = reply.index;
        result->term = reply.term;
        result->revision = reply.revision;
        result->count = reply.count;
        return 0;
    }
    if (rc != SESSION_EXECUTE) {
        result->rc = rc;
        return 0;
    }
    rc = sessions_reserve(sessions, &call);
    rc = rc == 0 ? carry_out_fenced(batch, entry, operation, result) : rc;
    if (rc == 0) {
        reply = (struct session_reply){.seq = command->seq,
                                       .index = entry->index,
                                       .term = entry->term,
                                       .revision = result->revision,
                                       .count = result->count,
                                       .rc = result->rc};
        sessions_record(sessions, &call, &reply);
        if (batch->store->durable != NULL) {
            durable_note_session(batch->store, call.id, call.seq);
        }
    }
    return rc;
}

/* Until the level that has history, `kept_from` runs ahead of the revision: not even the changes of the
 * newest one are kept. Nothing had been changed by revision 1, so a store that is still empty has all of
 * its history. */
static void raise_level(struct batch *batch, uint32_t level) {
    struct store *store = batch->store;
    bool before = has_history(store);
    if (level > store->feature_level) { /* it never falls */
        store->feature_level = level;
    }
    if (!before) {
        bool whole = has_history(store) && batch->stamp.revision == 1;
        batch->stamp.kept_from = batch->stamp.revision + !whole;
    }
}

static int carry_out(struct batch *batch, const struct entry *entry, struct operation *operation,
                     struct kv_result *result) {
    const struct kv_command *command = &operation->command;
    *result = (struct kv_result){.index = entry->index,
                                 .term = entry->term,
                                 .revision = batch->stamp.revision,
                                 .session = command->session};
    if (operation->is_command) {
        if (kv_command_level(command) > batch->store->feature_level) {
            return LKV_EVERSION; /* rule 22: it may mean nothing to another member */
        }
        bool once = command->session != 0 && kv_command_has_keys(command);
        int rc = once ? carry_out_once(batch, entry, operation, result)
                      : carry_out_fenced(batch, entry, operation, result);
        if (rc != 0) {
            return rc;
        }
    }
    if (!result->repeated) {
        batch->stamp.revision = result->revision;
    }
    raise_level(batch, operation->feature_level);
    batch->stamp.index = entry->index;
    batch->stamp.term = entry->term;
    result->kept_from = batch->stamp.kept_from;
    return 0;
}

/* Carries out what was prepared; `*done` counts the entries that took effect. */
static int run_turn(struct batch *batch, const struct entry *entries, struct kv_result *results,
                    size_t *done) {
    enum { AHEAD = 3 * PREFETCH_GAP };
    for (size_t step = 0; step < batch->prepared + AHEAD; step++) {
        prefetch(batch, step);
        if (step < AHEAD) {
            continue;
        }
        int rc =
            carry_out(batch, &entries[*done], &batch->operations[step - AHEAD], &results[*done]);
        if (rc != 0) {
            return rc;
        }
        batch->bytes += blob_slice(entries[*done].payload).size;
        (*done)++;
        batch->carried_out++;
    }
    return 0;
}

int batch_settle(struct batch *batch, struct reason *why) {
    struct store *store = batch->store;
    int rc = store->durable != NULL ? durable_commit(store, &batch->stamp, why) : 0;
    if (rc == 0) {
        store_publish(store, &batch->stamp);
    }
    return rc;
}

/* The end of a call: what is complete becomes visible. Of what failed half-way nothing ever does: in memory
 * it stays above the revision, and a map's batch is given up as a whole, with what came before it. */
static int settle_call(struct batch *batch, int turn, struct reason *why) {
    struct durable *durable = batch->store->durable;
    if (durable == NULL) {
        return batch_settle(batch, why);
    }
    if (durable->fault != 0) {
        return reason_set(why, durable->fault, "%s", durable->why.text);
    }
    if (turn == LKV_ENOMEM) {
        return turn;
    }
    /* Without history what an unfinished command does cannot be undone: it waits in the batch. */
    bool waits = turn == UNFINISHED && !has_history(batch->store);
    return waits ? 0 : batch_settle(batch, why);
}

/* Only what has become visible is applied. */
static void forget_results(const struct batch *batch, const struct entry *entries,
                           struct kv_result *results, size_t *done) {
    uint64_t shown = batch->store->shown.index;
    size_t kept = shown >= entries[0].index ? (size_t)(shown - entries[0].index + 1) : 0;
    while (*done > kept) {
        kv_result_fini(&results[--*done]);
    }
}

static int run(struct batch *batch, const struct entry *entries, size_t count,
               struct kv_result *results, size_t *done, struct reason *why) {
    for (;;) {
        int rc = prepare(batch, entries + *done, count - *done, why);
        batch_enter(batch);
        int turn = run_turn(batch, entries, results, done);
        if (turn < 0) {
            rc = reason_set(why, turn, "entry %llu: %s", (unsigned long long)entries[*done].index,
                            error_text(turn));
        }
        bool ended = rc != 0 || turn != 0 || *done == count;
        int settled = ended ? settle_call(batch, turn, why) : 0;
        if (settled != 0) {
            forget_results(batch, entries, results, done);
        } else if (ended) {
            collect(batch);
            (void)thin(batch);
        }
        batch_leave(batch);
        drop_prepared(batch);
        if (ended) {
            (void)trim(batch);
            rc = turn == UNFINISHED ? 0 : rc;
            return settled != 0 ? settled : rc;
        }
    }
}

static void batch_init(struct batch *batch, struct kv *kv) {
    batch->kv = kv;
    batch->store = kv->store;
    batch->stamp = kv->store->shown;
    batch->prepared = 0;
    batch->looked_at = batch->in_turn = 0;
    batch->bytes = 0;
    batch->carried_out = 0;
    batch->dead = NULL;
}

int kv_apply(struct kv *kv, const struct entry *entries, size_t count, struct kv_result *results,
             size_t *applied, struct reason *why) {
    *applied = 0;
    if (kv->failed != 0) {
        return reason_set(why, kv->failed, "stopped by an earlier error");
    }
    struct durable *durable = kv->store->durable;
    if (count == 0 || (durable != NULL && durable_busy(durable))) {
        return 0;
    }
    struct batch batch; /* not cleared: most of it is room for operations */
    batch_init(&batch, kv);
    int rc = run(&batch, entries, count, results, applied, why);
    if (rc != 0 && rc != LKV_EINVAL) {
        kv->failed = rc;
        trace_line(kv->trace, TRACE_ERROR, "kv.stopped", "index %llu: %s",
                   (unsigned long long)(batch.stamp.index + 1), error_name(rc));
    }
    return rc;
}

bool kv_tidy(struct kv *kv) {
    struct batch batch;
    batch_init(&batch, kv);
    batch_enter(&batch);
    collect(&batch);
    bool more = thin(&batch) || history_has_garbage(batch.store) || may_tidy(batch.store);
    batch_leave(&batch);
    return trim(&batch) || more;
}
