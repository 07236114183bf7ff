/* Commands, programs of transactions and the records of images with history, from anywhere.
 *
 * What a proposer's check takes, the state machine carries out, and after it the state is whole: its image
 * loads, and everything goes when it is deleted and compacted. What is refused says why. */
#include "base/assert.h"
#include "base/feature.h"
#include "kv/image_keys.h"
#include "kv/txn.h"
#include "tests/sim/sim_disk.h"

enum { INPUT_MAX = 64 * 1024 };

static const struct kv_options options = {.feature_level = KV_LEVEL_HISTORY};

static struct blob *encode(const struct kv_command *command) {
    struct blob *payload = kv_command_encode(command);
    ASSERT(payload != NULL);
    return payload;
}

/* Takes the payload. */
static void apply(struct kv *kv, enum entry_type type, struct blob *payload) {
    struct kv_stamp stamp;
    kv_stamp(kv, &stamp);
    const struct entry entry = {
        .index = stamp.index + 1, .term = 1, .type = type, .payload = payload};
    struct kv_result result;
    struct reason why = {{0}};
    for (size_t applied = 0; applied == 0;) {
        int rc = kv_apply(kv, &entry, 1, &result, &applied, &why);
        ASSERT(rc == 0);
    }
    kv_result_fini(&result);
    blob_unref(payload);
}

static void put(struct kv *kv, const char *key, const char *value) {
    const struct kv_command command = {
        .op = KV_PUT, .key = slice_text(key), .value = slice_text(value)};
    apply(kv, ENTRY_COMMAND, encode(&command));
}

/* Its image loads, and has the same image; without keys and compacted, hardly anything is left. */
static void expect_whole(struct kv *kv) {
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    ASSERT(disk_make_dir(disk, "d") == 0);
    struct kv_view *view;
    struct kv_image_info saved, loaded;
    struct reason why = {{0}};
    int rc = kv_view_open(kv, &view);
    ASSERT(rc == 0);
    rc = kv_image_save(view, disk, "d", "d/i", (struct kv_owner){1, 1}, (struct slice){0}, NULL,
                       &saved, &why);
    ASSERT(rc == 0);
    kv_view_close(view);
    struct kv *other;
    rc = kv_image_load(&other, &options, disk, "d/i", NULL, &loaded, NULL, &why);
    ASSERT(rc == 0 && saved.digest == loaded.digest && saved.keys == loaded.keys);
    kv_close(other);
    sim_disk_kill(sim);
    sim_disk_free(sim);
    const struct kv_command all = {
        .op = KV_DELETE, .key = slice_of("\0", 1), .end = slice_of("\0", 1)};
    apply(kv, ENTRY_COMMAND, encode(&all));
    put(kv, "last", "");
    struct kv_stats stats;
    kv_stats(kv, &stats);
    const struct kv_command compact = {.op = KV_COMPACT, .revision = stats.revision};
    apply(kv, ENTRY_COMMAND, encode(&compact));
    while (kv_tidy(kv)) {
    }
    kv_stats(kv, &stats);
    ASSERT(stats.keys == 1 && stats.versions == 1);
}

static struct kv *some_state(void) {
    struct kv *kv;
    int rc = kv_open(&kv, &options);
    ASSERT(rc == 0);
    apply(kv, ENTRY_FEATURE, feature_encode(KV_LEVEL_HISTORY));
    put(kv, "a", "1");
    put(kv, "b", "2");
    put(kv, "a", "9223372036854775807");
    put(kv, "n", "7");
    const struct kv_command grant = {.op = KV_LEASE_GRANT, .lease = 1, .ttl_ms = 1000, .limit = 2};
    apply(kv, ENTRY_COMMAND, encode(&grant));
    const struct kv_command leased = {.op = KV_PUT, .key = slice_text("l"), .lease = 1};
    apply(kv, ENTRY_COMMAND, encode(&leased));
    return kv;
}

static void carry_out(const struct kv_command *command) {
    struct kv *kv = some_state();
    apply(kv, ENTRY_COMMAND, encode(command));
    expect_whole(kv);
    kv_close(kv);
}

static void run_program(struct slice input) {
    const struct kv_command command = {.op = KV_TXN, .txn = input};
    struct reason why = {{0}};
    int rc = kv_command_check(&command, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    if (rc == 0) {
        carry_out(&command);
    }
}

static void run_command(struct slice input) {
    struct kv_command command;
    struct reason why = {{0}};
    int rc = kv_command_decode(input, &command, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    if (rc == 0) {
        rc = kv_command_check(&command, &why);
        ASSERT(rc == 0);
        carry_out(&command);
    }
}

/* The records of an image whose checksums are right. */
static void take_records(struct slice input) {
    const struct image_header header = {
        .feature_level = KV_LEVEL_HISTORY,
        .stamp = {.index = 30, .term = 1, .revision = 20, .kept_from = 10}};
    struct kv *kv;
    int rc = kv_open(&kv, &options);
    ASSERT(rc == 0);
    struct image_keys keys = {.header = &header, .store = kv->store, .leases = &kv->store->leases};
    const char *what = NULL;
    rc = image_keys_take(&keys, input, &what);
    rc = rc == 0 ? image_keys_end(&keys, &what) : rc;
    image_keys_fini(&keys);
    ASSERT(rc == 0 || what != NULL);
    if (rc == 0 && leases_loaded(&kv->store->leases)) {
        kv->store->feature_level = KV_LEVEL_HISTORY;
        store_publish(kv->store, &header.stamp);
        expect_whole(kv);
    }
    kv_close(kv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const readers[])(struct slice) = {run_program, run_command, take_records};
    if (size >= 1 && size < INPUT_MAX) {
        readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](slice_of(data + 1, size - 1));
    }
    return 0;
}
