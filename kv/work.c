#include "kv/work.h"

#include "base/assert.h"
#include "base/entry.h"
#include "base/mem.h"
#include "kv/batch.h"
#include "kv/durable.h"

enum { COPIED_BYTES = 4096 /* that take as long as a key */ };

/* ---------------------------------------------------------------------------- life */

/* As deep as programs are nested. */
static void answer_fini(struct kv_answer *answer) {
    for (size_t i = 0; i < answer->count; i++) {
        kv_item_release(&answer->items[i]);
    }
    for (size_t i = 0; i < answer->answer_count; i++) {
        answer_fini(&answer->answers[i]);
    }
    mem_free(answer->items);
    mem_free(answer->answers);
}

static void answer_free(struct kv_answer *answer) {
    if (answer != NULL) {
        answer_fini(answer);
        mem_free(answer);
    }
}

void kv_result_fini(struct kv_result *result) {
    answer_free(result->answer);
    result->answer = NULL;
}

static void end_walk(struct work *work) {
    if (work->walking) {
        walk_fini(&work->walk);
        work->walking = false;
    }
}

void work_drop(struct work *work) {
    if (work->index != 0) {
        end_walk(work);
        kv_range_fini(&work->range);
        answer_free(work->answer);
        blob_unref(work->payload);
        *work = (struct work){0};
    }
}

int work_pause(struct batch *batch, size_t keys) {
    batch->in_turn += (unsigned)keys;
    batch->looked_at += (unsigned)keys;
    if (batch->looked_at >= CALL_KEYS) {
        return UNFINISHED;
    }
    if (batch->in_turn >= TURN_KEYS) {
        batch->in_turn = 0;
        batch_breathe(batch);
    }
    return 0;
}

/* ---------------------------------------------------------------------------- numbers */

/* Decimal, as a person would write it: no sign but a minus, no zeros in front. False: it is not one. */
static bool number_read(struct slice text, int64_t *out) {
    size_t at = text.size > 0 && text.data[0] == '-';
    bool negative = at == 1;
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    uint64_t number = 0;
    bool padded = text.size > at + 1 && text.data[at] == '0';
    if (text.size == at || padded) {
        return false;
    }
    for (; at < text.size; at++) {
        unsigned digit = text.data[at] - (unsigned)'0';
        if (digit > 9 || number > (limit - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    if (negative && number == 0) {
        return false;
    }
    *out = (int64_t)(negative ? 0 - number : number);
    return true;
}

enum { NUMBER_SIZE_MAX = 20 };

static struct slice number_write(int64_t number, uint8_t into[NUMBER_SIZE_MAX]) {
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t at = NUMBER_SIZE_MAX;
    do {
        into[--at] = (uint8_t)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0) {
        into[--at] = '-';
    }
    return slice_of(into + at, NUMBER_SIZE_MAX - at);
}

/* ---------------------------------------------------------------------------- checking */

/* Valid until the next call. */
static struct kv_version *live_at(const struct batch *batch, struct slice key, uint64_t revision) {
    struct store *store = batch->store;
    if (store->durable != NULL) {
        return durable_at(store, key, revision);
    }
    return version_at(store_newest(store, key), revision, store->shown.kept_from);
}

static int check_put(const struct kv_step *step, const struct kv_version *old) {
    if (step->if_rev != 0 && (old == NULL || old->main != step->if_rev)) {
        return LKV_ECOMPARE;
    }
    if ((step->flags & KV_IF_ABSENT) && old != NULL) {
        return LKV_ECOMPARE;
    }
    bool needs_key = step->flags & (KV_KEEP_VALUE | KV_KEEP_LEASE);
    return needs_key && old == NULL ? LKV_ENOTFOUND : 0;
}

static int check_add(const struct kv_step *step, const struct kv_version *old, int64_t *sum) {
    int64_t number = 0;
    if (old != NULL && !number_read(version_value(old), &number)) {
        return LKV_ENUMBER;
    }
    return __builtin_add_overflow(number, step->delta, sum) ? LKV_EOVERFLOW : 0;
}

void work_check(struct batch *batch, struct work *work, const struct kv_step *step) {
    uint64_t before = batch->stamp.revision;
    if (step->op == KV_RANGE) {
        uint64_t revision = step->query.revision;
        work->rc = revision != 0 ? stamp_reaches(&batch->stamp, revision) : 0;
        return;
    }
    if (step->op == KV_DELETE && step->if_rev == 0) {
        return;
    }
    if (step->lease != 0 && leases_find(&batch->store->leases, step->lease) == NULL) {
        work->rc = LKV_ELEASE;
        return;
    }
    const struct kv_version *old = live_at(batch, step->key, before);
    int64_t sum;
    work->rc = step->op == KV_ADD ? check_add(step, old, &sum) : check_put(step, old);
}

/* ---------------------------------------------------------------------------- answers */

/* Adds what was there before. Takes no reference from the caller. */
static int answer_previous(struct work *work, struct kv_answer *answer,
                           struct kv_version *version) {
    size_t size = (size_t)version->key_size + version->value_size;
    size_t room = KV_ANSWER_BYTES_MAX - work->answer_bytes;
    if (size > room || answer->count == KV_ANSWER_ITEMS_MAX) {
        answer->more = true;
        return 0;
    }
    size_t needed = answer->count + 1;
    if ((needed & answer->count) == 0) { /* a power of two is full */
        struct kv_item *items = mem_realloc(answer->items, 2 * needed * sizeof(*items));
        if (items == NULL) {
            return LKV_ENOMEM;
        }
        answer->items = items;
    }
    item_fill(&answer->items[answer->count++], version_ref(version), false);
    work->answer_bytes += size;
    return 0;
}

static bool wants_previous(const struct kv_step *step, const struct kv_answer *answer) {
    return answer != NULL && (step->flags & KV_PREVIOUS);
}

/* ---------------------------------------------------------------------------- single keys */

static int write_version(struct batch *batch, struct work *work, const struct version_new *from) {
    struct store *store = batch->store;
    struct version_new numbered = *from;
    numbered.sub = change_sub(store, &work->changes);
    numbered.has_jump = change_has_jump(store, work->revision);
    numbered.pool = store->pool;
    struct kv_version *fresh = version_new(&numbered);
    if (fresh == NULL) {
        return LKV_ENOMEM;
    }
    int rc = change_put(store, table_hash(&store->table, from->key), fresh, work->revision,
                        &work->changes);
    if (rc != 0) {
        version_unref(fresh);
    }
    return rc;
}

static int do_put(struct batch *batch, struct work *work, const struct kv_step *step,
                  struct kv_version *old) {
    struct version_new from = {
        .key = step->key, .value = step->value, .lease = step->lease, .payload = work->payload};
    if (step->flags & KV_KEEP_VALUE) {
        from.value = version_value(old);
        from.payload = version_blob(old);
    }
    if (step->flags & KV_KEEP_LEASE) {
        from.lease = version_lease(old);
    }
    return write_version(batch, work, &from);
}

/* A counter keeps its lease: whoever counts need not know of it. */
static int do_add(struct batch *batch, struct work *work, const struct kv_step *step,
                  struct kv_version *old, struct kv_answer *answer) {
    int rc = check_add(step, old, &work->number);
    ASSERT(rc == 0);
    uint8_t digits[NUMBER_SIZE_MAX];
    const struct version_new from = {.key = step->key,
                                     .value = number_write(work->number, digits),
                                     .lease = old != NULL ? version_lease(old) : 0};
    if (answer != NULL) {
        answer->number = work->number;
    }
    return write_version(batch, work, &from);
}

static int do_key(struct batch *batch, struct work *work, const struct kv_step *step,
                  struct kv_answer *answer) {
    struct kv_version *old = live_at(batch, step->key, work->revision);
    int rc = 0;
    if (old != NULL && wants_previous(step, answer)) {
        rc = answer_previous(work, answer, old);
    }
    if (rc != 0) {
        return rc;
    }
    if (step->op == KV_DELETE) {
        if (answer != NULL) {
            answer->total = old != NULL;
        }
        return change_delete(batch->store, step->key, work->revision, &work->changes);
    }
    return step->op == KV_PUT ? do_put(batch, work, step, old)
                              : do_add(batch, work, step, old, answer);
}

/* ---------------------------------------------------------------------------- several keys */

void work_walk(struct batch *batch, struct work *work, const struct kv_step *range,
               uint64_t revision, struct kv_version **versions, size_t *count) {
    if (range->end.size == 0) {
        struct kv_version *version = live_at(batch, range->key, revision);
        *count = version != NULL;
        if (version != NULL) {
            versions[0] = version_ref(version);
        }
        return;
    }
    if (!work->walking) {
        struct slice to = end_is_open(range->end) ? (struct slice){0} : range->end;
        bool descending =
            range->op == KV_RANGE && range->query.descending && query_is_by_key(&range->query);
        walk_init_alone(&work->walk, batch->store, range->key, to, descending, revision);
        work->walking = true;
    }
    *count = walk_take(&work->walk, versions, *count < WALK_KEYS ? *count : WALK_KEYS);
    if (work->walk.ended) {
        end_walk(work);
    }
}

static int delete_each(struct batch *batch, struct work *work, const struct kv_step *step,
                       struct kv_answer *answer, struct kv_version **versions, size_t count) {
    int rc = 0;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && wants_previous(step, answer)) {
            rc = answer_previous(work, answer, versions[i]);
        }
        if (rc == 0) {
            rc = change_delete(batch->store, version_key(versions[i]), work->revision,
                               &work->changes);
        }
        if (rc == 0 && answer != NULL) {
            answer->total++;
        }
        version_unref(versions[i]);
    }
    return rc;
}

static int do_delete_range(struct batch *batch, struct work *work, const struct kv_step *step,
                           struct kv_answer *answer) {
    int rc = 0;
    do {
        struct kv_version *versions[TURN_KEYS];
        size_t count = TURN_KEYS;
        work_walk(batch, work, step, work->revision, versions, &count);
        rc = delete_each(batch, work, step, answer, versions, count);
        rc = rc == 0 && work->walking ? work_pause(batch, TURN_KEYS) : rc;
    } while (rc == 0 && work->walking);
    return rc;
}

/* ---------------------------------------------------------------------------- ranges */

static void begin_range(struct work *work, const struct kv_step *step) {
    struct kv_query *query = &work->query;
    *query = step->query;
    size_t room = KV_ANSWER_BYTES_MAX - work->answer_bytes;
    size_t limit = query_is_by_key(query) ? KV_ANSWER_ITEMS_MAX : KV_ANSWER_SORTED_MAX;
    query->limit = query->limit > 0 && query->limit < limit ? query->limit : limit;
    query->bytes_max = query->bytes_max > 0 && query->bytes_max < room ? query->bytes_max : room;
    work->range = (struct kv_range){0};
    page_init(&work->page, query, &work->range);
    if (room == 0 && !query->count_only) { /* 0 would be: no limit */
        work->page.full = work->range.more = true;
    }
}

static void end_range(struct work *work, struct kv_answer *answer) {
    struct kv_range *range = &work->range;
    page_end(&work->page);
    bool all = work->query.with_total || work->query.count_only;
    answer->items = range->items;
    answer->count = range->count;
    answer->more = range->more && range->total > 0;
    answer->total = all ? range->total : range->count;
    for (size_t i = 0; i < range->count; i++) {
        work->answer_bytes += range->items[i].key.size + range->items[i].value.size;
    }
    /* One item is always taken, whatever its size. */
    work->answer_bytes =
        work->answer_bytes < KV_ANSWER_BYTES_MAX ? work->answer_bytes : KV_ANSWER_BYTES_MAX;
    *range = (struct kv_range){0};
}

static int take_each(struct work *work, struct kv_version **versions, size_t count) {
    int rc = 0;
    work->range.total += count;
    for (size_t i = 0; i < count; i++) {
        if (rc == 0 && !work->query.count_only) {
            rc = page_add(&work->page, versions[i]);
        } else {
            version_unref(versions[i]);
        }
    }
    return rc;
}

static int do_range(struct batch *batch, struct work *work, const struct kv_step *step,
                    struct kv_answer *answer) {
    uint64_t revision = step->query.revision != 0 ? step->query.revision : work->revision;
    if (!work->walking) {
        begin_range(work, step);
    }
    bool all = work->query.with_total || work->query.count_only;
    int rc = 0;
    do {
        struct kv_version *versions[TURN_KEYS];
        size_t count = TURN_KEYS;
        work_walk(batch, work, step, revision, versions, &count);
        rc = take_each(work, versions, count);
        if (work->page.full && !all) {
            end_walk(work);
        }
        rc = rc == 0 && work->walking ? work_pause(batch, TURN_KEYS) : rc;
    } while (rc == 0 && work->walking);
    if (rc == 0) {
        end_range(work, answer);
    }
    return rc;
}

int work_do(struct batch *batch, struct work *work, const struct kv_step *step,
            struct kv_answer *answer) {
    if (step->op == KV_RANGE) {
        return do_range(batch, work, step, answer);
    }
    int rc = step->end.size > 0 ? do_delete_range(batch, work, step, answer)
                                : do_key(batch, work, step, answer);
    return rc == 0 ? work_pause(batch, 1 + step->value.size / COPIED_BYTES) : rc;
}

/* ---------------------------------------------------------------------------- a command */

static int begin(struct batch *batch, struct work *work, const struct entry *entry,
                 const struct kv_command *command) {
    if (batch->store->durable != NULL && !has_history(batch->store)) {
        int rc = batch_settle(batch, NULL); /* its changes may wait for long, the others' not */
        if (rc != 0) {
            return rc;
        }
    }
    work_drop(work);
    *work = (struct work){.index = entry->index,
                          .payload = blob_ref(entry->payload),
                          .revision = batch->stamp.revision + 1};
    if (command->op == KV_TXN || (command->flags & KV_PREVIOUS)) {
        work->answer = mem_calloc(1, sizeof(*work->answer));
        if (work->answer == NULL) {
            return LKV_ENOMEM;
        }
        work->answer->op = command->op;
    }
    if (command->op == KV_TXN) {
        work_begin_program(work, command->txn);
    }
    return 0;
}

/* A refusal answers what is there instead. */
static int check_one(struct batch *batch, struct work *work, const struct kv_step *step) {
    work_check(batch, work, step);
    work->checked = true;
    struct kv_version *old = live_at(batch, step->key, batch->stamp.revision);
    bool tells = work->rc != 0 && old != NULL && wants_previous(step, work->answer);
    return tells ? answer_previous(work, work->answer, old) : 0;
}

static int go_on(struct batch *batch, struct work *work, const struct kv_command *command) {
    if (command->op == KV_LEASE_REVOKE) {
        return work_revoke(batch, work, command);
    }
    if (command->op == KV_TXN) {
        int rc = work->checked ? 0 : work_find_way(batch, work);
        return rc == 0 && work->rc == 0 ? work_follow_way(batch, work) : rc;
    }
    const struct kv_step step = step_of(command);
    int rc = work->checked ? 0 : check_one(batch, work, &step);
    if (rc != 0 || work->rc != 0) {
        return rc;
    }
    rc = step.end.size > 0 ? do_delete_range(batch, work, &step, work->answer)
                           : do_key(batch, work, &step, work->answer);
    return rc;
}

static void finish(struct batch *batch, struct work *work, const struct kv_command *command,
                   struct kv_result *result) {
    uint64_t changed = work->changes.count;
    changes_commit(batch->store, &work->changes);
    result->rc = work->rc;
    if (work->rc == 0) {
        /* The revision rises only if a key changed. */
        result->revision = changed > 0 ? work->revision : batch->stamp.revision;
        bool deletes = command->op == KV_DELETE || command->op == KV_LEASE_REVOKE;
        result->count = deletes ? changed : 0;
        result->count = command->op == KV_ADD ? (uint64_t)work->number : result->count;
        result->count = command->op == KV_TXN ? work->answer->held : result->count;
    }
    if (work->rc == 0 && command->op == KV_LEASE_REVOKE) {
        leases_remove(&batch->store->leases, leases_find(&batch->store->leases, command->lease));
        if (batch->store->durable != NULL) {
            durable_note_lease(batch->store, command->lease);
        }
    }
    if (work->rc == 0 || command->op != KV_TXN) { /* nothing of a refused transaction is told */
        result->answer = work->answer;
        work->answer = NULL;
    }
    work_drop(work);
}

int work_on(struct batch *batch, const struct entry *entry, const struct kv_command *command,
            struct kv_result *result) {
    struct work *work = batch->store->work;
    int rc = work->index == entry->index ? 0 : begin(batch, work, entry, command);
    rc = rc == 0 ? go_on(batch, work, command) : rc;
    if (rc == 0) {
        finish(batch, work, command, result);
    }
    return rc;
}
