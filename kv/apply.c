/* Replaying entries into the store.
 *
 *      kv_apply: | prepare | in turn, alone: carry out | prepare | in turn: carry out, publish, collect |
 *
 * Preparing decodes a few entries and makes their versions without any lock. A turn carries them out
 * while readers wait, so turns are short; the last one also publishes. What was superseded is given
 * back to the allocator outside. */
#include "base/mem.h"
#include "kv/command.h"
#include "kv/store.h"

enum {
    TURN_ENTRIES = 64, /* prepared and carried out in one turn */
    TURN_KEYS = 128,   /* deleted in one turn */
    PREFETCH_GAP = 4   /* operations: about the time that memory takes */
};

/* One entry, ready to be carried out. */
struct operation {
    bool has_effect;
    int rc; /* why not */
    struct kv_command command;
    uint64_t hash;
    struct kv_version *fresh;       /* owned; of a put, until it is linked */
    const struct kv_version *guess; /* probably the newest version there is, or NULL: then */
    const struct index_node *leaf;  /* probably where the key will go */
};

struct batch {
    struct kv *kv;
    struct store *store;
    struct kv_stamp stamp; /* after the last entry that is complete */
    struct operation operations[TURN_ENTRIES];
    size_t prepared;
    size_t superseded;       /* versions given to `garbage` so far */
    struct garbage *garbage; /* owned; the newest block first */
    struct kv_version *dead;
};

/* ---------------------------------------------------------------------------- preparing */

static int prepare_put(struct batch *batch, const struct entry *entry, struct operation *operation,
                       struct reason *why) {
    const struct kv_command *command = &operation->command;
    const struct version_new fresh = {.key = command->key,
                                      .value = command->value,
                                      .lease = command->lease,
                                      .payload = entry->payload};
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
    int rc = kv_command_decode(blob_slice(entry->payload), &operation->command, why);
    if (rc != 0) {
        return rc;
    }
    const struct kv_command *command = &operation->command;
    if (command->in_term != 0 && command->in_term != entry->term) {
        operation->rc = LKV_ETERM;
        return 0;
    }
    if (command->session != 0) {
        operation->rc = LKV_ESESSION; /* rule 26: not executed; no session can have been opened */
        return 0;
    }
    operation->has_effect = true;
    return command->op == KV_PUT ? prepare_put(batch, entry, operation, why) : 0;
}

static int prepare_entry(struct batch *batch, const struct entry *entry, uint64_t index,
                         struct reason *why) {
    struct operation *operation = &batch->operations[batch->prepared];
    *operation = (struct operation){0};
    if (entry->index != index) {
        return reason_set(why, LKV_EINVAL, "entry %llu came where %llu was due",
                          (unsigned long long)entry->index, (unsigned long long)index);
    }
    switch (entry->type) {
    case ENTRY_NOOP:
    case ENTRY_CONFIG: return 0;
    case ENTRY_COMMAND: {
        struct reason detail = {{0}};
        int rc = prepare_command(batch, entry, operation, &detail);
        return rc == 0
                   ? 0
                   : reason_set(why, rc, "entry %llu: %s", (unsigned long long)index, detail.text);
    }
    }
    /* Rule 22: an entry that this program does not know stops it. */
    return reason_set(why, LKV_EVERSION, "entry %llu: unknown type %d", (unsigned long long)index,
                      (int)entry->type);
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

static void enter(struct batch *batch) {
    gate_enter_alone(batch->kv->gate);
}

static void leave(struct batch *batch) {
    gate_leave_alone(batch->kv->gate);
    dead_free(batch->dead);
    batch->dead = NULL;
}

/* Room for one more superseded version, asked for before anything is changed. */
static int garbage_reserve(struct batch *batch) {
    if (batch->garbage != NULL && batch->garbage->count < GARBAGE_ITEMS) {
        return 0;
    }
    struct garbage *block = mem_alloc(sizeof(*block));
    if (block == NULL) {
        return LKV_ENOMEM;
    }
    block->next = batch->garbage;
    block->count = 0;
    batch->garbage = block;
    return 0;
}

static void garbage_add(struct batch *batch, struct kv_version *version) {
    batch->garbage->items[batch->garbage->count++] = version;
    batch->superseded++;
}

/* Forgets the last items: their versions stay linked. */
static void garbage_forget(struct batch *batch, size_t items) {
    batch->superseded -= items;
    while (items > 0) {
        struct garbage *block = batch->garbage;
        size_t here = items < block->count ? items : block->count;
        block->count -= here;
        items -= here;
        if (block->count == 0) {
            batch->garbage = block->next;
            mem_free(block);
        }
    }
}

/* Publishes what is complete; then, turn by turn, gives back what nobody can ask for any more. */
static void publish(struct batch *batch) {
    uint64_t before = batch->store->shown.revision;
    store_publish(batch->store, &batch->stamp);
    while (batch->garbage != NULL) {
        struct garbage *block = batch->garbage;
        batch->garbage = block->next;
        block = store_collect(batch->store, block, before, &batch->dead);
        mem_free(block);
        if (batch->garbage != NULL) {
            leave(batch);
            enter(batch);
        }
    }
}

/* ---------------------------------------------------------------------------- effects */

static uint64_t entry_bytes(const struct kv_version *version) {
    return (uint64_t)version->key_size + version->value_size;
}

static int carry_out_put(struct batch *batch, struct operation *operation, uint64_t revision) {
    struct store *store = batch->store;
    struct kv_version *fresh = operation->fresh;
    fresh->main = fresh->create_rev = revision;
    fresh->version = 1;
    struct kv_version **slot = table_find(&store->table, operation->hash, operation->command.key);
    if (slot == NULL) {
        int rc = store_add(store, operation->hash, fresh);
        if (rc != 0) {
            return rc;
        }
    } else {
        if (garbage_reserve(batch) != 0) {
            return LKV_ENOMEM;
        }
        struct kv_version *old = *slot;
        if (!version_is_tombstone(old)) {
            fresh->create_rev = old->create_rev;
            fresh->version = old->version + 1;
            store->keys--;
            store->bytes -= entry_bytes(old);
        }
        store_supersede(store, slot, fresh);
        garbage_add(batch, old);
    }
    operation->fresh = NULL; /* the store's now */
    store->keys++;
    store->bytes += entry_bytes(fresh);
    return 0;
}

/* Puts a tombstone before the newest version of a key. */
static int bury_key(struct batch *batch, struct kv_version **slot, uint64_t revision) {
    struct kv_version *old = *slot;
    const struct version_new empty = {.key = version_key(old)};
    struct kv_version *tombstone = version_new(&empty);
    if (tombstone == NULL || garbage_reserve(batch) != 0) {
        if (tombstone != NULL) {
            version_unref(tombstone);
        }
        return LKV_ENOMEM;
    }
    tombstone->main = revision;
    batch->store->keys--;
    batch->store->bytes -= entry_bytes(old);
    store_supersede(batch->store, slot, tombstone);
    garbage_add(batch, old);
    return 0;
}

/* The key has a live newest version, or there is nothing to do. */
static int delete_one(struct batch *batch, struct slice key, uint64_t revision, uint64_t *count) {
    struct store *store = batch->store;
    struct kv_version **slot = table_find(&store->table, table_hash(&store->table, key), key);
    if (slot == NULL || version_is_tombstone(*slot)) {
        return 0;
    }
    int rc = bury_key(batch, slot, revision);
    *count += rc == 0;
    return rc;
}

/* A view that closes between two turns takes versions and leaves away: what was prefetched is not
 * looked at again, and the place in the order is found anew by the last key, kept by a reference. */
static struct index_cursor breathe(struct batch *batch, struct kv_version *last) {
    (void)version_ref(last);
    leave(batch);
    enter(batch);
    for (size_t i = 0; i < batch->prepared; i++) {
        batch->operations[i].guess = NULL;
        batch->operations[i].leaf = NULL;
    }
    struct index_cursor cursor = index_lower(&batch->store->index, version_key(last));
    version_unref(last);
    return cursor;
}

static bool to_the_last_key(struct slice end) {
    return end.size == 1 && end.data[0] == 0;
}

static int delete_range(struct batch *batch, const struct kv_command *command, uint64_t revision,
                        uint64_t *count) {
    bool open_end = to_the_last_key(command->end);
    struct index_cursor cursor = index_lower(&batch->store->index, command->key);
    unsigned looked_at = 0;
    struct kv_version *newest;
    while ((newest = index_at(&cursor)) != NULL) {
        struct slice key = version_key(newest);
        if (!open_end && slice_compare(key, command->end) >= 0) {
            return 0;
        }
        if (++looked_at % TURN_KEYS == 0) {
            cursor = breathe(batch, newest);
            continue; /* at the same key, unless it has vanished meanwhile */
        }
        /* A tombstone takes the place of a version, so the order of keys does not change. */
        int rc = delete_one(batch, key, revision, count);
        if (rc != 0) {
            return rc;
        }
        index_next(&cursor);
    }
    return 0;
}

static int carry_out_command(struct batch *batch, struct operation *operation, uint64_t revision,
                             struct kv_result *result) {
    const struct kv_command *command = &operation->command;
    int rc = 0;
    switch (command->op) {
    case KV_PUT:
        rc = carry_out_put(batch, operation, revision);
        result->revision = revision;
        return rc;
    case KV_DELETE:
        rc = command->end.size == 0 ? delete_one(batch, command->key, revision, &result->count)
                                    : delete_range(batch, command, revision, &result->count);
        /* The revision rises only if a key changed. */
        result->revision = result->count > 0 ? revision : batch->stamp.revision;
        return rc;
    }
    return LKV_EPROTOCOL; /* the decoder lets only known operations pass */
}

/* One entry as a whole, or an error and nothing that will ever be seen (rule 23): what is left of it
 * is above the revision that gets published, and what it superseded is not garbage. */
static int carry_out(struct batch *batch, const struct entry *entry, struct operation *operation,
                     struct kv_result *result) {
    struct store *store = batch->store;
    uint64_t keys = store->keys;
    uint64_t bytes = store->bytes;
    size_t superseded = batch->superseded;
    *result = (struct kv_result){.rc = operation->rc, .revision = batch->stamp.revision};
    if (operation->has_effect) {
        int rc = carry_out_command(batch, operation, batch->stamp.revision + 1, result);
        if (rc != 0) {
            garbage_forget(batch, batch->superseded - superseded);
            store->keys = keys;
            store->bytes = bytes;
            return rc;
        }
    }
    batch->stamp =
        (struct kv_stamp){.index = entry->index, .term = entry->term, .revision = result->revision};
    return 0;
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
        (*done)++;
    }
    return 0;
}

static int run(struct batch *batch, const struct entry *entries, size_t count,
               struct kv_result *results, size_t *done, struct reason *why) {
    int rc = 0;
    bool ended = false;
    while (!ended) {
        rc = prepare(batch, entries + *done, count - *done, why);
        enter(batch);
        int failed = run_turn(batch, entries, results, done);
        if (failed != 0) {
            rc = reason_set(why, failed, "entry %llu: %s", (unsigned long long)entries[*done].index,
                            error_text(failed));
        }
        ended = rc != 0 || *done == count;
        if (ended) {
            publish(batch);
        }
        leave(batch);
        drop_prepared(batch);
    }
    return rc;
}

int kv_apply(struct kv *kv, const struct entry *entries, size_t count, struct kv_result *results,
             size_t *applied, struct reason *why) {
    *applied = 0;
    if (kv->failed != 0) {
        return reason_set(why, kv->failed, "stopped by an earlier error");
    }
    if (count == 0) {
        return 0;
    }
    struct batch batch;
    batch.kv = kv;
    batch.store = kv->store;
    batch.stamp = kv->store->shown;
    batch.prepared = 0;
    batch.superseded = 0;
    batch.garbage = NULL;
    batch.dead = NULL;
    int rc = run(&batch, entries, count, results, applied, why);
    if (rc != 0 && rc != LKV_EINVAL) {
        kv->failed = rc;
        trace_line(kv->trace, TRACE_ERROR, "kv.stopped", "index %llu: %s",
                   (unsigned long long)(batch.stamp.index + 1), error_name(rc));
    }
    return rc;
}
