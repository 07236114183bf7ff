/* Images whose checksums are all right and whose contents nobody can have meant (P3): what is said, and
 * where. */
#include "base/crc.h"
#include "base/feature.h"
#include "base/mem.h"
#include "kv/image.h"
#include "kv/session.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { INDEX = 100, TERM = 3, REVISION = 10, FIRST_CHUNK = IMAGE_PREFIX_SIZE + IMAGE_HEADER_SIZE };

static const char path[] = "d/image";
static struct sim_disk *sim;
static struct disk *disk;

static void setup(void) {
    sim = sim_disk_new(1);
    disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
}

static void teardown(void) {
    cr_assert_eq(sim_disk_open_files(sim), 0);
    sim_disk_free(sim);
}

TestSuite(kv_image_forged, .init = setup, .fini = teardown);

/* ------------------------------------------------------------------ a forger */

struct forge {
    struct buffer file;
    struct image_header header;
    struct image_end end; /* as the contents so far would have it */
};

static struct forge forge_begin(uint64_t keys, uint64_t bytes) {
    struct forge forge = {.header = {.feature_level = FEATURE_LEVEL_FIRST,
                                     .cluster_id = 1,
                                     .group_id = 2,
                                     .stamp = {.index = INDEX, .term = TERM, .revision = REVISION},
                                     .keys = keys,
                                     .bytes = bytes}};
    uint8_t head[FIRST_CHUNK];
    image_put_header(head, &forge.header);
    buffer_init(&forge.file);
    buffer_append(&forge.file, head, sizeof(head));
    return forge;
}

/* Returns where it begins. */
static size_t put_chunk(struct forge *forge, uint32_t section, uint32_t number,
                        struct slice payload) {
    uint8_t head[IMAGE_CHUNK_HEADER_SIZE];
    size_t at = forge->file.size;
    struct image_chunk chunk = {.section = section, .number = number};
    image_put_chunk(head, &chunk, &forge->header, payload);
    buffer_append(&forge->file, head, sizeof(head));
    buffer_append(&forge->file, payload.data, payload.size);
    cr_assert_not(forge->file.failed);
    return at;
}

static size_t add_chunk(struct forge *forge, uint32_t section, struct slice payload) {
    return put_chunk(forge, section, (uint32_t)forge->end.chunks++, payload);
}

static struct image_version record_of(const char *key, uint64_t mod_rev) {
    return (struct image_version){.item = {.key = slice_text(key),
                                           .value = slice_text("value"),
                                           .create_rev = 2,
                                           .mod_rev = mod_rev,
                                           .version = 2},
                                  .kind = IMAGE_VALUE};
}

static size_t add_keys(struct forge *forge, const struct image_version *records, size_t count) {
    struct buffer payload;
    buffer_init(&payload);
    for (size_t i = 0; i < count; i++) {
        const struct digest_item *item = &records[i].item;
        struct image_record_open record;
        image_put_record(&payload, &record, item->key);
        image_put_version(&payload, &record, &records[i]);
        forge->end.keys++;
        forge->end.versions++;
        forge->end.bytes += item->key.size + item->value.size;
        forge->end.digest += digest_of(item);
    }
    size_t at = add_chunk(forge, IMAGE_KEYS, buffer_slice(&payload));
    buffer_fini(&payload);
    return at;
}

/* One reply, or none with reply_index 0. */
static void put_session(struct buffer *into, struct forge *forge, uint64_t id, uint64_t reply_index,
                        uint64_t revision) {
    struct session *session = session_new(2);
    session->id = id;
    session->ttl_ms = 1000;
    session->acked_below = 1;
    if (reply_index != 0) {
        session->last_seq = 2;
        session->replies[2 & (session->capacity - 1)] = (struct session_reply){
            .seq = 2, .index = reply_index, .term = TERM, .revision = revision};
    }
    uint64_t digest;
    cr_assert_eq(session_digest(session, &digest), 0);
    forge->end.digest += digest;
    session_put(into, session);
    session_unref(session);
}

static size_t add_end(struct forge *forge, const struct image_end *end) {
    uint8_t bytes[IMAGE_END_SIZE];
    image_put_end(bytes, end);
    return put_chunk(forge, IMAGE_END, (uint32_t)forge->end.chunks, slice_of(bytes, sizeof(bytes)));
}

/* The end that fits. */
static struct image_end fitting_end(const struct forge *forge) {
    struct image_end end = forge->end;
    end.file_size = forge->file.size + IMAGE_CHUNK_HEADER_SIZE + IMAGE_END_SIZE;
    return end;
}

static size_t finish(struct forge *forge) {
    struct image_end end = fitting_end(forge);
    return add_end(forge, &end);
}

static void write_file(struct forge *forge) {
    struct disk_file *file;
    struct slice bytes = buffer_slice(&forge->file);
    cr_assert_eq(disk_open(disk, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &file), 0);
    cr_assert_eq(disk_write(file, 0, &bytes, 1), 0);
    disk_close(file);
    buffer_fini(&forge->file);
}

static const struct kv_options options = {.hash_seed = 99};

static int load(struct kv_image_info *info, struct reason *why) {
    struct kv *kv;
    struct blob *tail;
    *why = (struct reason){{0}};
    int rc = kv_image_load(&kv, &options, disk, path, NULL, info, &tail, why);
    cr_assert(rc == 0 || (kv == NULL && tail == NULL), "nothing is kept");
    if (rc == 0) {
        blob_unref(tail);
        kv_close(kv);
    }
    return rc;
}

/* Checking and loading say the same of the file, which is forgotten; text NULL: that it is good. */
static void expect_code(struct forge *forge, int code, size_t offset, const char *text) {
    char expected[200] = "";
    struct reason checked = {{0}}, loaded;
    write_file(forge);
    if (text != NULL) {
        (void)snprintf(expected, sizeof(expected), "%s:%zu: %s", path, offset, text);
    }
    cr_assert_eq(kv_image_check(disk, path, NULL, NULL, &checked), code, "%s", checked.text);
    cr_assert_str_eq(checked.text, expected);
    cr_assert_eq(load(NULL, &loaded), code, "%s", loaded.text);
    cr_assert_str_eq(loaded.text, expected);
}

static void expect(struct forge *forge, size_t offset, const char *damage) {
    expect_code(forge, damage != NULL ? LKV_EDAMAGED : 0, offset, damage);
}

/* ------------------------------------------------------------------ keys */

Test(kv_image_forged, what_the_forger_means_is_good) {
    struct image_version records[] = {record_of("a", 3), record_of("b", REVISION)};
    struct forge forge = forge_begin(2, 12);
    (void)add_chunk(&forge, IMAGE_NODE, slice_text("node"));
    (void)add_keys(&forge, records, 2);
    struct buffer sessions;
    buffer_init(&sessions);
    put_session(&sessions, &forge, 20, 30, 7);
    put_session(&sessions, &forge, INDEX, 0, 0);
    (void)add_chunk(&forge, IMAGE_SESSIONS, buffer_slice(&sessions));
    (void)add_chunk(&forge, IMAGE_OPTIONAL, slice_text("of a later version"));
    (void)finish(&forge);
    buffer_fini(&sessions);
    expect(&forge, 0, NULL);
    struct kv_image_info info;
    struct reason why;
    cr_assert_eq(load(&info, &why), 0);
    cr_assert(info.keys == 2 && info.stamp.index == INDEX && info.stamp.revision == REVISION);
}

Test(kv_image_forged, keys_ascend_and_are_no_newer_than_the_image) {
    static const struct {
        const char *first, *second;
        uint64_t mod_rev;
        const char *damage;
    } cases[] = {{"a", "b", REVISION, NULL},
                 {"b", "a", 3, "keys are not in order"},
                 {"a", "a", 3, "keys are not in order"},
                 {"a", "b", REVISION + 1, "a key is newer than the image"},
                 {"a", "", 3, "malformed record"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct image_version records[] = {record_of(cases[i].first, 3),
                                          record_of(cases[i].second, cases[i].mod_rev)};
        struct forge forge = forge_begin(2, 12);
        size_t at = add_keys(&forge, records, 2);
        (void)finish(&forge);
        expect(&forge, at, cases[i].damage);
    }
}

/* ------------------------------------------------------------------ sessions */

Test(kv_image_forged, sessions_ascend_and_know_no_more_than_the_image) {
    static const struct {
        uint64_t id, reply_index, revision;
        bool good;
    } cases[] = {{21, INDEX, REVISION, true},
                 {20, 30, 7, false},
                 {19, 30, 7, false},
                 {INDEX + 1, 0, 0, false},
                 {21, INDEX + 1, REVISION, false},
                 {21, INDEX, REVISION + 1, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct forge forge = forge_begin(0, 0);
        struct buffer payload;
        buffer_init(&payload);
        put_session(&payload, &forge, 20, 30, 7);
        put_session(&payload, &forge, cases[i].id, cases[i].reply_index, cases[i].revision);
        size_t at = add_chunk(&forge, IMAGE_SESSIONS, buffer_slice(&payload));
        (void)finish(&forge);
        buffer_fini(&payload);
        expect(&forge, at, cases[i].good ? NULL : "malformed session");
    }
}

Test(kv_image_forged, half_a_session_is_none) {
    struct forge forge = forge_begin(0, 0);
    struct buffer payload;
    buffer_init(&payload);
    put_session(&payload, &forge, 20, 30, 7);
    size_t at = add_chunk(&forge, IMAGE_SESSIONS, slice_of(payload.data, payload.size - 1));
    (void)finish(&forge);
    buffer_fini(&payload);
    expect(&forge, at, "malformed session");
}

/* ------------------------------------------------------------------ chunks */

Test(kv_image_forged, chunks_are_in_their_place) {
    static const struct {
        uint32_t section, number;
        int rc;
        const char *text;
    } cases[] = {{IMAGE_KEYS, 1, 0, NULL},
                 {IMAGE_KEYS, 0, LKV_EDAMAGED, "a chunk is out of place"},
                 {IMAGE_KEYS, 2, LKV_EDAMAGED, "a chunk is out of place"},
                 {IMAGE_NODE, 1, LKV_EDAMAGED, "a chunk is out of place"},
                 {9, 1, LKV_EVERSION, "section 9, which this program does not know"},
                 {IMAGE_OPTIONAL - 1, 1, LKV_EVERSION,
                  "section 1073741823, which this program does not know"},
                 {IMAGE_OPTIONAL, 1, 0, NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct forge forge = forge_begin(0, 0);
        (void)add_chunk(&forge, IMAGE_KEYS, (struct slice){0});
        size_t at = put_chunk(&forge, cases[i].section, cases[i].number, (struct slice){0});
        forge.end.chunks++;
        (void)finish(&forge);
        expect_code(&forge, cases[i].rc, at, cases[i].text);
    }
}

/* N4: what a header announces beyond the limit is not read, though the file has it. */
Test(kv_image_forged, chunks_and_the_node_s_section_have_a_largest_size) {
    struct blob *large = blob_new((size_t)IMAGE_CHUNK_MAX + 1);
    memset(large->data, 0, large->size);
    struct forge forge = forge_begin(0, 0);
    size_t at = add_chunk(&forge, IMAGE_OPTIONAL, slice_of(large->data, IMAGE_CHUNK_MAX));
    (void)finish(&forge);
    expect(&forge, at, NULL);
    forge = forge_begin(0, 0);
    at = add_chunk(&forge, IMAGE_OPTIONAL, slice_of(large->data, (size_t)IMAGE_CHUNK_MAX + 1));
    (void)finish(&forge);
    expect(&forge, at, "impossible size of a chunk");
    for (size_t more = 0; more < 2; more++) {
        forge = forge_begin(0, 0);
        (void)add_chunk(&forge, IMAGE_NODE, slice_of(large->data, IMAGE_TAIL_MAX - 1));
        at = add_chunk(&forge, IMAGE_NODE, slice_of(large->data, 1 + more));
        (void)finish(&forge);
        expect(&forge, at, more == 0 ? NULL : "the node's section is too large");
    }
    blob_unref(large);
}

Test(kv_image_forged, a_chunk_that_is_longer_than_the_file_is_not_waited_for) {
    struct forge forge = forge_begin(0, 0);
    size_t at = add_chunk(&forge, IMAGE_NODE, slice_text("node"));
    forge.file.size--;
    expect(&forge, at, "impossible size of a chunk");
}

/* ------------------------------------------------------------------ the end */

static const char totals[] = "totals do not match the contents";

/* The end tells `change` of the field at `offset` more than there is. */
static void expect_end(size_t offset, uint64_t change, const char *damage) {
    struct image_version record = record_of("a", 3);
    struct forge forge = forge_begin(1, 6);
    (void)add_keys(&forge, &record, 1);
    struct image_end end = fitting_end(&forge);
    uint64_t value;
    memcpy(&value, (char *)&end + offset, sizeof(value));
    value += change;
    memcpy((char *)&end + offset, &value, sizeof(value));
    size_t at = add_end(&forge, &end);
    expect(&forge, at, damage);
}

Test(kv_image_forged, the_end_counts_what_is_there) {
    expect_end(offsetof(struct image_end, keys), 0, NULL);
    expect_end(offsetof(struct image_end, chunks), 1, totals);
    expect_end(offsetof(struct image_end, keys), 1, totals);
    expect_end(offsetof(struct image_end, versions), 1, totals);
    expect_end(offsetof(struct image_end, bytes), 1, totals);
    expect_end(offsetof(struct image_end, digest), 1, "the digest does not match the contents");
    expect_end(offsetof(struct image_end, file_size), 1, "bytes follow the end");
}

Test(kv_image_forged, the_header_counts_what_is_there) {
    static const struct { uint64_t keys, bytes; } told[] = {{2, 6}, {1, 7}};
    for (size_t i = 0; i < 2; i++) {
        struct image_version record = record_of("a", 3);
        struct forge forge = forge_begin(told[i].keys, told[i].bytes);
        (void)add_keys(&forge, &record, 1);
        size_t at = finish(&forge);
        expect(&forge, at, totals);
    }
}

Test(kv_image_forged, the_end_has_its_size_and_is_the_end) {
    uint8_t bytes[IMAGE_END_SIZE + 1] = {0};
    for (size_t size = IMAGE_END_SIZE - 1; size <= IMAGE_END_SIZE + 1; size += 2) {
        struct forge forge = forge_begin(0, 0);
        size_t at = put_chunk(&forge, IMAGE_END, 0, slice_of(bytes, size));
        expect(&forge, at, "the end has another size");
    }
    /* It knows of the byte behind it, and still it is the end. */
    struct forge forge = forge_begin(0, 0);
    struct image_end end = fitting_end(&forge);
    end.file_size++;
    size_t at = add_end(&forge, &end);
    buffer_append(&forge.file, "x", 1);
    expect(&forge, at, "bytes follow the end");
}

/* ------------------------------------------------------------------ the disk, the memory, a cancel */

Test(kv_image_forged, a_prefix_ends_where_something_later_begins) {
    struct forge forge = forge_begin(0, 0);
    size_t at = add_chunk(&forge, IMAGE_NODE, slice_text("node"));
    size_t end = finish(&forge);
    write_file(&forge);
    uint64_t size;
    atomic_bool cancel = false;
    struct reason why = {{0}};
    cr_assert_eq(kv_image_prefix(disk, path, &cancel, &size, &why), 0);
    cr_assert_eq(size, end);
    cr_assert_gt(end, at);
    cr_assert_str_eq(why.text, "");
    /* A version that this program does not know: nothing of it is good here. */
    uint8_t prefix[IMAGE_PREFIX_SIZE] = {'L', 'K', 'V', 'I', 'M', 'A', 'G', 'E', 2};
    uint32_t crc = crc32c(0, slice_of(prefix, 12));
    memcpy(prefix + 12, &crc, sizeof(crc));
    cr_assert(sim_disk_poke(sim, path, 0, slice_of(prefix, sizeof(prefix))));
    cr_assert_eq(kv_image_prefix(disk, path, &cancel, &size, &why), 0);
    cr_assert_eq(size, 0);
}

/* S9 */
Test(kv_image_forged, a_prefix_is_not_guessed_when_the_disk_fails) {
    struct forge forge = forge_begin(0, 0);
    size_t at = add_chunk(&forge, IMAGE_NODE, slice_text("node"));
    (void)finish(&forge);
    write_file(&forge);
    static const struct {
        int kind;
        uint64_t countdown;
    } faults[] = {{SIM_OPEN, 0}, {SIM_SIZE, 0}, {SIM_READ, 0}, {SIM_READ, 1}, {SIM_READ, 2}};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct reason why = {{0}};
        uint64_t size = 1;
        sim_disk_fail(sim, faults[i].kind, faults[i].countdown, LKV_EIO, false);
        cr_assert_eq(kv_image_prefix(disk, path, NULL, &size, &why), LKV_EIO, "fault %zu", i);
        cr_assert_str_eq(why.text, "d/image:0: input/output error");
        cr_assert_eq(size, faults[i].countdown == 0 ? 0 : at);
        sim_disk_heal(sim);
    }
}

/* S28: with enough keys that the index and the table grow, and a session. */
Test(kv_image_forged, loading_without_memory_keeps_nothing) {
    enum { KEYS = 400 };
    static char names[KEYS][8];
    static struct image_version records[KEYS];
    uint64_t bytes = 0;
    for (size_t i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "k%03zu", i);
        records[i] = record_of(names[i], 3);
        bytes += records[i].item.key.size + records[i].item.value.size;
    }
    struct forge forge = forge_begin(KEYS, bytes);
    (void)add_chunk(&forge, IMAGE_NODE, slice_text("node"));
    (void)add_keys(&forge, records, KEYS);
    struct buffer sessions;
    buffer_init(&sessions);
    put_session(&sessions, &forge, 20, 30, 7);
    (void)add_chunk(&forge, IMAGE_SESSIONS, buffer_slice(&sessions));
    (void)finish(&forge);
    buffer_fini(&sessions);
    write_file(&forge);
    struct kv_image_info info;
    struct reason why;
    int rc = LKV_ENOMEM;
    uint64_t n = 0;
    for (; rc != 0; n++) {
        mem_fail_after(n);
        rc = load(&info, &why);
        mem_fail_never();
        cr_assert(rc == 0 || rc == LKV_ENOMEM, "%d after %zu", rc, (size_t)n);
        cr_assert(rc == 0 || strstr(why.text, "d/image:") == why.text, "%s", why.text);
        cr_assert(rc == 0 || strstr(why.text, "out of memory") != NULL, "%s", why.text);
    }
    cr_assert_gt(n, KEYS, "each key has a version of its own");
    cr_assert_eq(info.keys, KEYS);
}
