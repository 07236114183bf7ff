#include "tests/sim/world_model.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/cursor.h"
#include "base/feature.h"
#include "kv/kv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void sim_model_init(struct sim_model *model) {
    *model = (struct sim_model){.revision = 1, .kept_from = 2};
}

void sim_model_fini(struct sim_model *model) {
    for (uint64_t i = 0; i <= model->last && i < model->capacity; i++) {
        struct sim_entry *next;
        for (struct sim_entry *entry = model->by_index[i]; entry != NULL; entry = next) {
            next = entry->next;
            free(entry->checkpoints);
            free((void *)(uintptr_t)entry->other.data);
            free(entry);
        }
    }
    free((void *)model->by_index);
    free((void *)model->committed);
    for (size_t i = 0; i < SIM_KEYS_MAX; i++) {
        free(model->keys[i].versions);
    }
    free(model->values);
    sim_sessions_fini(&model->sessions);
    sim_leases_fini(&model->leases);
}

/* ------------------------------------------------------------------ keys and values */

void sim_key_text(uint32_t key, char out[static SIM_KEY_SIZE]) {
    (void)snprintf(out, SIM_KEY_SIZE, "k%03u", key % 1000);
}

bool sim_key_number(struct slice text, uint32_t *key) {
    if (text.size != 4 || text.data[0] != 'k') {
        return false;
    }
    *key = 0;
    for (size_t i = 1; i < 4; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        *key = *key * 10 + (uint32_t)(text.data[i] - '0');
    }
    return *key <= SIM_KEYS_MAX;
}

void sim_value_fill(uint64_t number, uint8_t *out, size_t size) {
    ASSERT(size >= sizeof(number));
    memcpy(out, &number, sizeof(number));
    for (size_t i = sizeof(number); i < size; i++) {
        out[i] = (uint8_t)(number * 31 + i * 7);
    }
}

uint64_t sim_value_number(struct slice bytes) {
    uint64_t number = 0;
    if (bytes.size >= sizeof(number)) {
        memcpy(&number, bytes.data, sizeof(number));
    }
    return number;
}

struct sim_value *sim_model_value(struct sim_model *model, uint64_t number) {
    if (number >= model->value_capacity) {
        size_t capacity = (size_t)number * 2 + 256;
        model->values = realloc(model->values, capacity * sizeof(*model->values));
        ASSERT(model->values != NULL);
        memset(model->values + model->value_capacity, 0,
               (capacity - model->value_capacity) * sizeof(*model->values));
        model->value_capacity = capacity;
    }
    return &model->values[number];
}

/* ------------------------------------------------------------------ entries */

static void reserve(struct sim_model *model, uint64_t index) {
    if (index < model->capacity) {
        return;
    }
    size_t capacity = (size_t)index * 2 + 1024;
    size_t more = capacity - model->capacity;
    model->by_index = realloc((void *)model->by_index, capacity * sizeof(struct sim_entry *));
    model->committed = realloc((void *)model->committed, capacity * sizeof(struct sim_entry *));
    ASSERT(model->by_index != NULL && model->committed != NULL);
    memset((void *)(model->by_index + model->capacity), 0, more * sizeof(struct sim_entry *));
    memset((void *)(model->committed + model->capacity), 0, more * sizeof(struct sim_entry *));
    model->capacity = capacity;
}

struct sim_entry *sim_model_find(const struct sim_model *model, uint64_t index, uint64_t term) {
    struct sim_entry *entry = index < model->capacity ? model->by_index[index] : NULL;
    while (entry != NULL && entry->term != term) {
        entry = entry->next;
    }
    return entry;
}

static void keep_checkpoints(struct sim_entry *seen, struct slice records) {
    struct reader reader = reader_of(records);
    seen->checkpoints = calloc(records.size / KV_CHECKPOINT_SIZE + 1, sizeof(*seen->checkpoints));
    ASSERT(seen->checkpoints != NULL);
    while (reader.left > 0 &&
           kv_checkpoint_get(&reader, &seen->checkpoints[seen->checkpoint_count])) {
        seen->checkpoint_count++;
    }
}

static bool understand(struct sim_entry *seen, struct slice payload) {
    struct kv_command command;
    struct reason why = {{0}};
    if (kv_command_decode(payload, &command, &why) != 0) {
        return false;
    }
    seen->command = command;
    if (kv_command_is_lease(&command)) {
        keep_checkpoints(seen, command.checkpoints);
        return true;
    }
    if (!kv_command_has_keys(&command)) {
        return true;
    }
    bool plain = command.op == KV_PUT || command.op == KV_DELETE;
    if (!plain || command.flags != 0 || command.if_rev != 0) {
        return sim_model_see_write(seen, payload);
    }
    if (!sim_key_number(command.key, &seen->key)) {
        return false;
    }
    seen->is_put = command.op == KV_PUT;
    seen->is_delete = command.op == KV_DELETE;
    seen->end = seen->key + 1;
    if (seen->is_put) {
        seen->value = sim_value_number(command.value);
        seen->value_print = crc32c(0, command.value);
        return true;
    }
    if (command.end.size == 1 && command.end.data[0] == 0) { /* up to the last key */
        seen->end = SIM_KEYS_MAX;
        return true;
    }
    return command.end.size == 0 || sim_key_number(command.end, &seen->end);
}

bool sim_model_see(struct sim_model *model, const struct entry *entry) {
    struct slice payload = blob_slice(entry->payload);
    uint64_t print = crc32c((uint32_t)entry->type, payload);
    struct sim_entry *known = sim_model_find(model, entry->index, entry->term);
    if (known != NULL) {
        (void)snprintf(model->why, sizeof(model->why),
                       "entry %" PRIu64 " of term %" PRIu64 " exists with two contents",
                       entry->index, entry->term);
        return known->print == print;
    }
    struct sim_entry *seen = calloc(1, sizeof(*seen));
    ASSERT(seen != NULL);
    seen->index = entry->index;
    seen->term = entry->term;
    seen->type = entry->type;
    seen->print = print;
    reserve(model, entry->index);
    seen->next = model->by_index[entry->index];
    model->by_index[entry->index] = seen;
    model->last = entry->index > model->last ? entry->index : model->last;
    (void)snprintf(model->why, sizeof(model->why), "entry %" PRIu64 " is no command of ours",
                   entry->index);
    seen->size = (uint32_t)payload.size;
    seen->crc = crc32c(0, payload);
    if (model->log_mode) {
        return sim_model_see_log(seen, payload);
    }
    if (entry->type == ENTRY_FEATURE) {
        return feature_decode(payload, UINT32_MAX, &seen->level, NULL) == 0;
    }
    return entry->type != ENTRY_COMMAND || understand(seen, payload);
}

/* ------------------------------------------------------------------ effects */

static struct sim_version *newest(struct sim_key *key) {
    return key->count > 0 ? &key->versions[key->count - 1] : NULL;
}

static struct sim_version *add_version(struct sim_key *key, uint64_t index) {
    if (key->count == key->capacity) {
        key->capacity = key->capacity * 2 + 16;
        key->versions = realloc(key->versions, key->capacity * sizeof(*key->versions));
        ASSERT(key->versions != NULL);
    }
    struct sim_version *version = &key->versions[key->count++];
    *version = (struct sim_version){.index = index};
    return version;
}

static void put(struct sim_model *model, const struct sim_entry *entry) {
    struct sim_key *key = &model->keys[entry->key];
    struct sim_version old = newest(key) != NULL ? *newest(key) : (struct sim_version){0};
    struct sim_version *version = add_version(key, entry->index);
    model->revision++;
    version->live = true;
    version->lease = entry->command.lease;
    version->value = entry->value;
    version->print = entry->value_print;
    version->mod_rev = model->revision;
    version->create_rev = old.live ? old.create_rev : model->revision;
    version->version = old.live ? old.version + 1 : 1;
}

static uint64_t delete_range(struct sim_model *model, const struct sim_entry *entry) {
    uint64_t count = 0;
    for (uint32_t i = entry->key; i < entry->end && i < SIM_KEYS_MAX; i++) {
        struct sim_key *key = &model->keys[i];
        if (newest(key) != NULL && newest(key)->live) {
            (void)add_version(key, entry->index);
            count++;
        }
    }
    model->revision += count > 0;
    return count;
}

uint64_t sim_model_drop_lease(struct sim_model *model, int64_t lease, uint64_t index) {
    uint64_t count = 0;
    for (size_t i = 0; i < SIM_KEYS_MAX; i++) {
        struct sim_key *key = &model->keys[i];
        if (newest(key) != NULL && newest(key)->live && newest(key)->lease == lease) {
            (void)add_version(key, index);
            count++;
        }
    }
    model->revision += count > 0;
    return count;
}

/* False: it has no effect, since there is no such lease. */
static bool has_its_lease(struct sim_model *model, struct sim_entry *entry) {
    bool none = entry->is_put && entry->command.lease != 0 &&
                !sim_lease_at(&model->leases, entry->command.lease)->open;
    entry->rc = none ? LKV_ELEASE : entry->rc;
    return !none;
}

struct sim_version *sim_model_newest(struct sim_model *model, uint32_t key) {
    return newest(&model->keys[key]);
}

struct sim_version *sim_model_add(struct sim_model *model, uint32_t key, uint64_t index) {
    return add_version(&model->keys[key], index);
}

/* True when the entry is carried out. */
static bool judge_session(struct sim_model *model, struct sim_entry *entry) {
    bool in_session = entry->command.session != 0 || entry->command.op == KV_SESSION_OPEN;
    bool fenced = entry->command.in_term != 0 && entry->command.in_term != entry->term;
    entry->first = entry->index;
    if (entry->type != ENTRY_COMMAND || !in_session) {
        return true;
    }
    entry->rc = fenced ? LKV_ETERM
                       : sim_sessions_commit(&model->sessions, &entry->command, entry->index,
                                             &entry->first);
    return entry->rc == 0 && entry->first == entry->index;
}

/* History begins with the first change after the level of history; in a store without any, at once. */
static void keep_history(struct sim_model *model, const struct sim_entry *entry) {
    if (model->level < KV_LEVEL_HISTORY) {
        model->kept_from = model->revision + 1;
    }
    model->level = entry->level > model->level ? entry->level : model->level;
    if (model->level >= KV_LEVEL_HISTORY && model->revision == 1) {
        model->kept_from = 1;
    }
}

bool sim_model_commit(struct sim_model *model, uint64_t index, uint64_t term, uint64_t seen_term) {
    ASSERT(index == model->commit + 1);
    struct sim_entry *entry = sim_model_find(model, index, term);
    if (entry == NULL) {
        (void)snprintf(model->why, sizeof(model->why),
                       "entry %" PRIu64 " of term %" PRIu64 " is committed, nobody appended it",
                       index, term);
        return false;
    }
    entry->committed = true;
    entry->seen_term = seen_term;
    model->committed[index] = entry;
    model->commit = index;
    if (model->log_mode) {
        return sim_model_commit_log(model, entry);
    }
    bool executed = judge_session(model, entry) && has_its_lease(model, entry);
    if (executed && entry->is_put) {
        put(model, entry);
    } else if (executed && entry->is_delete) {
        entry->count = delete_range(model, entry);
    } else if (executed && entry->type == ENTRY_COMMAND && kv_command_is_lease(&entry->command)) {
        sim_lease_commit(model, entry, model->now_ns);
    } else if (executed && entry->other.size > 0) {
        sim_model_commit_write(model, entry);
    }
    keep_history(model, entry);
    entry->revision = model->revision;
    entry->kept_from = model->kept_from;
    if (entry->value == 0 || !executed) {
        return true;
    }
    struct sim_value *value = sim_model_value(model, entry->value);
    (void)snprintf(model->why, sizeof(model->why),
                   "value %" PRIu64 " is committed at %" PRIu64 ", %s %" PRIu64, entry->value,
                   index, value->not_done ? "reported as not done, before" : "and was at",
                   value->committed);
    bool fine = value->committed == 0 && !value->not_done;
    value->committed = index;
    return fine;
}

const struct sim_version *sim_model_at(const struct sim_model *model, uint32_t key,
                                       uint64_t index) {
    const struct sim_key *found = &model->keys[key];
    size_t low = 0, high = found->count; /* the first version beyond index lies in [low, high] */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (found->versions[middle].index <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && found->versions[low - 1].live ? &found->versions[low - 1] : NULL;
}

uint64_t sim_model_made(const struct sim_model *model, uint64_t revision) {
    uint64_t low = 0,
             high = model->commit; /* the first entry of this revision lies in (low, high] */
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (sim_model_revision(model, middle) < revision) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return sim_model_revision(model, low + 1) == revision && low < model->commit ? low + 1 : 0;
}

uint64_t sim_model_revision(const struct sim_model *model, uint64_t index) {
    return index == 0 || index > model->commit ? 1 : model->committed[index]->revision;
}
