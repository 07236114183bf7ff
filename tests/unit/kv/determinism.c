/* Rule 22: the same log gives the same answers, digest and image, whatever the options, the batches, the
 * table's seed, the views that are open, the images taken and loaded in between, and the allocator do. */
#include "base/buffer.h"
#include "base/feature.h"
#include "base/mem.h"
#include "base/prng.h"
#include "feed.h"
#include "kv/txn.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

enum { ENTRIES = 3000, KEYS = 60, BATCH_MAX = 200, HISTORY_AT = 1000 };

static struct entry entries[ENTRIES];
/* In place of what was answered stands a sum over it. */
static struct kv_result first_results[ENTRIES];
static uint64_t first_answers[ENTRIES];

static uint64_t sum_of_bytes(uint64_t sum, struct slice bytes) {
    for (size_t i = 0; i < bytes.size; i++) {
        sum = sum * 31 + bytes.data[i];
    }
    return sum * 31 + bytes.size;
}

static uint64_t sum_of(uint64_t sum, const struct kv_answer *answer) {
    sum = sum * 31 + answer->op + answer->more * 2u + answer->held * 4u + answer->total * 8 +
          (uint64_t)answer->number * 16;
    for (size_t i = 0; i < answer->count; i++) {
        sum = sum_of_bytes(sum, answer->items[i].key);
        sum = sum_of_bytes(sum, answer->items[i].value);
        sum = sum * 31 + answer->items[i].mod_rev * 3 + answer->items[i].version;
    }
    for (size_t i = 0; i < answer->answer_count; i++) {
        sum = sum_of(sum, &answer->answers[i]);
    }
    return sum;
}

static void sum_answers(struct kv_result *results, size_t count, uint64_t *sums) {
    for (size_t i = 0; i < count; i++) {
        sums[i] = results[i].answer != NULL ? sum_of(1, results[i].answer) : 0;
        kv_result_fini(&results[i]);
    }
}

/* Compares a key, then puts, adds or deletes beside a range. */
static struct blob *random_txn(struct prng *prng, struct kv_command *command) {
    struct kv_txn txn;
    struct buffer program;
    kv_txn_init(&txn);
    buffer_init(&program);
    const struct kv_compare compare = {.field = (enum kv_field)prng_below(prng, 6),
                                       .relation = (enum kv_relation)prng_below(prng, 4),
                                       .key = command->key,
                                       .number = prng_below(prng, 50)};
    kv_txn_compare(&txn, &compare);
    for (int then = 0; then < 2; then++) {
        const struct kv_step range = {
            .op = KV_RANGE, .key = slice_text("k"), .end = slice_text("k3")};
        const struct kv_step change = {.op = prng_below(prng, 2) ? KV_ADD : KV_PUT,
                                       .key = prng_below(prng, 2) ? slice_text("n") : command->key,
                                       .flags = KV_PREVIOUS};
        const struct kv_step delete = {
            .op = KV_DELETE, .key = slice_text("m"), .end = slice_of("\0", 1)};
        kv_txn_step(&txn, then, &change);
        kv_txn_step(&txn, then, &range);
        if (!slice_equal(change.key, slice_text("n"))) {
            kv_txn_step(&txn, then, &delete);
        }
    }
    kv_txn_write(&txn, &program);
    kv_txn_fini(&txn);
    command->op = KV_TXN;
    command->txn = buffer_slice(&program);
    struct blob *blob = kv_command_encode(command);
    buffer_fini(&program);
    return blob;
}

/* What grants, revokes or checkpoints the lease of the command. */
static struct blob *random_lease(struct prng *prng, struct kv_command *command, uint64_t index) {
    static uint64_t granted[5]; /* the latest attempts */
    struct buffer records;
    buffer_init(&records);
    command->op = (enum kv_op)(KV_LEASE_GRANT + (int)prng_below(prng, 3));
    command->ttl_ms = 1 + prng_below(prng, 9000);
    command->limit = 3;
    command->granted = prng_below(prng, 2) == 0 ? granted[command->lease] : 0;
    for (int64_t id = 1; id < 5; id++) {
        const struct kv_checkpoint checkpoint = {.id = id,
                                                 .granted = granted[id] != 0 ? granted[id] : index,
                                                 .remaining_ms = prng_below(prng, 9000)};
        kv_checkpoint_put(&records, &checkpoint);
    }
    command->checkpoints = buffer_slice(&records);
    granted[command->lease] = command->op == KV_LEASE_GRANT ? index : granted[command->lease];
    struct blob *blob = kv_command_encode(command);
    buffer_fini(&records);
    return blob;
}

static struct blob *random_command(struct prng *prng, uint64_t index) {
    static char key[8], end[8], value[3000];
    static uint64_t opened[8]; /* the latest attempts; about half of them succeeded */
    static size_t opens;
    uint64_t session = opened[prng_below(prng, 8)];
    struct kv_command command = {.op = KV_PUT};
    int size = snprintf(key, sizeof(key), "k%02u", (unsigned)prng_below(prng, KEYS));
    command.key = slice_of(key, (size_t)size);
    command.value = slice_of(value, prng_below(prng, 4) == 0 ? sizeof(value) : 5);
    command.in_term = prng_below(prng, 9) == 0 ? 1 + prng_below(prng, 4) : 0;
    bool may_lease = index > HISTORY_AT + 1 && prng_below(prng, 4) == 0;
    command.lease = may_lease ? 1 + (int64_t)prng_below(prng, 4) : 0;
    switch (prng_below(prng, 24)) {
    case 0:
        command.op = KV_SESSION_OPEN;
        command.ttl_ms = 1000 + index;
        command.limit = 8;
        opened[opens++ % 8] = index;
        return kv_command_encode(&command);
    case 1:
        command.op = prng_below(prng, 2) ? KV_SESSION_CLOSE : KV_SESSION_EXPIRE;
        command.session = session != 0 ? session : index;
        return kv_command_encode(&command);
    case 2:
    case 3:
        command.op = KV_DELETE;
        size = snprintf(end, sizeof(end), "k%02u", (unsigned)prng_below(prng, KEYS));
        command.end = prng_below(prng, 3) ? (struct slice){0} : slice_of(end, (size_t)size);
        break;
    default: break;
    }
    if (prng_below(prng, 2) == 0 && session != 0) {
        command.session = session;
        command.seq = 1 + prng_below(prng, 20);
        command.acked_below = prng_below(prng, 5);
    }
    switch (index > HISTORY_AT + 1 ? prng_below(prng, 12) : 11) {
    case 0: return random_txn(prng, &command);
    case 1:
        command.op = KV_COMPACT;
        command.revision = 1 + prng_below(prng, index);
        break;
    case 2:
        command.op = KV_ADD;
        command.key = slice_text("n");
        command.delta = -3;
        break;
    case 3: command.flags = KV_PREVIOUS; break;
    default: break;
    }
    if (command.lease != 0 && prng_below(prng, 3) == 0) {
        return random_lease(prng, &command, index);
    }
    command.lease = command.op == KV_PUT ? command.lease : 0;
    return kv_command_encode(&command);
}

static void make_log(void) {
    struct prng prng = prng_of(7);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        entries[i] = (struct entry){.index = i + 1, .term = 1 + i / 800, .type = ENTRY_COMMAND};
        if (i == HISTORY_AT || i == 2000) {
            entries[i].type = ENTRY_FEATURE;
            entries[i].payload = feature_encode(i == HISTORY_AT ? 2 : 3);
        } else if (i % 800 == 0) {
            entries[i].type = ENTRY_NOOP;
        } else {
            entries[i].payload = random_command(&prng, i + 1);
        }
        cr_assert(entries[i].payload != NULL || entries[i].type == ENTRY_NOOP);
    }
}

/* One replica's life, drawn from its seed. */
struct replica {
    struct prng prng;
    struct kv *kv;
    struct kv_options options;
    struct sim_disk *sim;
    struct kv_view *views[4];
    void *ballast[16];
};

static void save(struct replica *replica) {
    struct kv_view *view;
    const struct kv_owner owner = {.cluster_id = 1, .group_id = 2};
    cr_assert_eq(kv_view_open(replica->kv, &view), 0);
    cr_assert_eq(kv_image_save(view, sim_disk_seam(replica->sim), "d", "d/i", owner,
                               (struct slice){0}, NULL, NULL, NULL),
                 0);
    kv_view_close(view);
}

/* Something that must change nothing. */
static void disturb(struct replica *replica) {
    size_t i = (size_t)prng_below(&replica->prng, 4);
    struct kv *loaded;
    switch (prng_below(&replica->prng, 12)) {
    case 0:
        kv_view_close(replica->views[i]);
        cr_assert_eq(kv_view_open(replica->kv, &replica->views[i]), 0);
        break;
    case 1:
        kv_view_close(replica->views[i]);
        replica->views[i] = NULL;
        break;
    case 2: (void)kv_tidy(replica->kv); break;
    case 3:
        save(replica);
        cr_assert_eq(kv_image_load(&loaded, &replica->options, sim_disk_seam(replica->sim), "d/i",
                                   NULL, NULL, NULL, NULL),
                     0);
        kv_restore(replica->kv, loaded);
        break;
    default: /* the allocator's state */
        i = (size_t)prng_below(&replica->prng, 16);
        mem_free(replica->ballast[i]);
        replica->ballast[i] = mem_alloc(1 + (size_t)prng_below(&replica->prng, 5000));
        break;
    }
}

static void live(struct replica *replica, uint64_t seed, struct kv_result *results,
                 uint64_t *answers) {
    *replica = (struct replica){.prng = prng_of(seed), .sim = sim_disk_new(1)};
    cr_assert_eq(disk_make_dir(sim_disk_seam(replica->sim), "d"), 0);
    replica->options = (struct kv_options){.hash_seed = prng_next(&replica->prng),
                                           .feature_level = 3 + (uint32_t)(seed % 3)};
    cr_assert_eq(kv_open(&replica->kv, &replica->options), 0);
    size_t done = 0;
    while (done < ENTRIES) {
        size_t count = 1 + (size_t)prng_below(&replica->prng, seed % 4 == 0 ? 1 : BATCH_MAX);
        count = count < ENTRIES - done ? count : ENTRIES - done;
        size_t applied;
        struct reason why = {{0}};
        cr_assert_eq(kv_apply(replica->kv, entries + done, count, results + done, &applied, &why),
                     0, "%s", why.text);
        sum_answers(results + done, applied, answers + done);
        done += applied;
        disturb(replica);
    }
    save(replica);
}

static void end(struct replica *replica) {
    for (size_t i = 0; i < 4; i++) {
        kv_view_close(replica->views[i]);
    }
    for (size_t i = 0; i < 16; i++) {
        mem_free(replica->ballast[i]);
    }
    kv_close(replica->kv);
    sim_disk_free(replica->sim);
}

static uint64_t digest_of_replica(struct replica *replica) {
    struct kv_view *view;
    uint64_t digest;
    cr_assert_eq(kv_view_open(replica->kv, &view), 0);
    cr_assert_eq(kv_view_digest(view, NULL, &digest), 0);
    kv_view_close(view);
    return digest;
}

Test(kv_determinism, rule_22_the_same_log_gives_the_same_state_whatever_is_around_it) {
    static struct kv_result results[ENTRIES];
    static uint64_t answers[ENTRIES];
    make_log();
    struct replica first;
    live(&first, 1, first_results, first_answers);
    struct slice image;
    cr_assert(sim_disk_peek(first.sim, "d/i", &image));
    size_t once = 0, refused = 0, answered = 0;
    for (size_t i = 0; i < ENTRIES; i++) {
        answered += first_answers[i] != 0;
        once += first_results[i].repeated;
        refused += first_results[i].rc != 0;
    }
    cr_assert(once > 20 && refused > 100 && refused < ENTRIES * 2 / 3 && answered > 50,
              "%zu %zu %zu: not much was tried", once, refused, answered);
    for (uint64_t seed = 2; seed < 40; seed++) {
        struct replica other;
        live(&other, seed, results, answers);
        cr_assert_eq(memcmp(results, first_results, sizeof(results)), 0, "seed %zu", (size_t)seed);
        cr_assert_eq(memcmp(answers, first_answers, sizeof(answers)), 0, "seed %zu", (size_t)seed);
        cr_assert_eq(digest_of_replica(&other), digest_of_replica(&first));
        cr_assert_eq(kv_feature_level(other.kv), 3);
        struct slice bytes;
        cr_assert(sim_disk_peek(other.sim, "d/i", &bytes));
        cr_assert(slice_equal(bytes, image), "the images differ");
        end(&other);
    }
    end(&first);
    for (size_t i = 0; i < ENTRIES; i++) {
        blob_unref(entries[i].payload);
    }
}
