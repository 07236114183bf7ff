/* The identity file on the simulated disk: its bytes, every damage, every failing call, and copies. */
#include "lib/identity.h"

#include "base/buffer.h"
#include "base/crc.h"
#include "base/mem.h"
#include "base/prng.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const char golden[] = "ledgerkv-identity 1\n"
                             "name n1\n"
                             "member_id 33fec17072ccfa42\n"
                             "start_counter 7\n"
                             "group_id 0\n"
                             "cluster_id 476317a4971ec133\n"
                             "log_made 1\n"
                             "member n1 33fec17072ccfa42 10.0.0.1:7001\n"
                             "member n2 722cc39c12c21d4d -\n"
                             "grown 4711 6\n"
                             "file 0000000000000001 2 2\n"
                             "crc32c ca4947f8\n";

static const struct identity sample = {
    .name = "n1",
    .member_id = 0x33fec17072ccfa42,
    .start_counter = 7,
    .cluster_id = 0x476317a4971ec133,
    .log_made = true,
    .members = {{.name = "n1", .id = 0x33fec17072ccfa42, .address = "10.0.0.1:7001"},
                {.name = "n2", .id = 0x722cc39c12c21d4d}},
    .member_count = 2,
    .grown_index = 4711,
    .grown_term = 6};

static struct sim_disk *sim;
static struct disk *disk;

static void setup(void) {
    sim = sim_disk_new(1);
    disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    cr_assert_eq(disk_sync_dir(disk, ""), 0);
}

static void teardown(void) {
    cr_assert_eq(sim_disk_open_files(sim), 0);
    sim_disk_free(sim);
}

TestSuite(lib_identity, .init = setup, .fini = teardown);

static int save(const struct identity *identity) {
    struct reason why = {{0}};
    int rc = identity_save(disk, "d", identity, &why);
    cr_assert_eq(rc != 0, why.text[0] != '\0');
    return rc;
}

static struct reason load_why;

static int load(struct identity *out) {
    load_why = (struct reason){{0}};
    int rc = identity_load(disk, "d", out, &load_why);
    cr_assert_eq(rc != 0, strstr(load_why.text, "d/identity") != NULL, "%s", load_why.text);
    return rc;
}

static int check_place(const struct identity *identity) {
    load_why = (struct reason){{0}};
    int rc = identity_check_place(disk, "d", identity, &load_why);
    cr_assert_eq(rc != 0, strstr(load_why.text, "d/identity") != NULL, "%s", load_why.text);
    return rc;
}

static void write_file(const char *path, struct slice bytes) {
    struct disk_file *file;
    cr_assert_eq(disk_open(disk, path, DISK_WRITE | DISK_CREATE | DISK_TRUNCATE, &file), 0);
    cr_assert_eq(disk_write(file, 0, &bytes, 1), 0);
    cr_assert_eq(disk_sync(file), 0);
    disk_close(file);
}

static int load_text(struct slice bytes) {
    write_file("d/identity", bytes);
    struct identity out;
    return load(&out);
}

/* The text with a right checksum line. */
static int load_lines(const char *lines) {
    struct buffer text;
    buffer_init(&text);
    buffer_append(&text, lines, strlen(lines));
    buffer_printf(&text, "crc32c %08x\n", crc32c(0, buffer_slice(&text)));
    int rc = load_text(buffer_slice(&text));
    buffer_fini(&text);
    return rc;
}

static void expect_equal(const struct identity *a, const struct identity *b) {
    cr_assert_str_eq(a->name, b->name);
    cr_assert_eq(a->member_id, b->member_id);
    cr_assert_eq(a->start_counter, b->start_counter);
    cr_assert_eq(a->group_id, b->group_id);
    cr_assert_eq(a->cluster_id, b->cluster_id);
    cr_assert_eq(a->log_made, b->log_made);
    cr_assert_eq(a->member_count, b->member_count);
    cr_assert_eq(a->grown_index, b->grown_index);
    cr_assert_eq(a->grown_term, b->grown_term);
    cr_assert_eq(a->restored, b->restored);
    for (size_t i = 0; i < a->member_count; i++) {
        cr_assert_str_eq(a->members[i].name, b->members[i].name);
        cr_assert_str_eq(a->members[i].address, b->members[i].address);
        cr_assert_eq(a->members[i].id, b->members[i].id);
    }
}

Test(lib_identity, writes_the_golden_bytes) {
    cr_assert_eq(save(&sample), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, "d/identity", &bytes));
    cr_assert_eq(bytes.size, strlen(golden), "%.*s", (int)bytes.size, (const char *)bytes.data);
    cr_assert_arr_eq(bytes.data, golden, bytes.size, "%.*s", (int)bytes.size,
                     (const char *)bytes.data);
    cr_assert_not(sim_disk_peek(sim, "d/identity.new", &bytes));
}

Test(lib_identity, reads_the_golden_bytes) {
    cr_assert_eq(load_text(slice_text(golden)), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    expect_equal(&out, &sample);
}

/* Directories of before these lines were written are as good. */
Test(lib_identity, reads_a_file_without_the_later_lines) {
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\n"), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(out.grown_index, 0);
    cr_assert_eq(out.file.number, 0);
    cr_assert_eq(check_place(&out), 0, "what is not known cannot be compared");
}

/* ------------------------------------------------------------------ rule 17: the place */

static void copy_file(const char *from, const char *to) {
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, from, &bytes));
    uint8_t text[1024];
    cr_assert_leq(bytes.size, sizeof(text));
    memcpy(text, bytes.data, bytes.size);
    write_file(to, slice_of(text, bytes.size));
}

Test(lib_identity, rule_17_the_file_that_was_written_is_in_its_place) {
    struct identity out;
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(save(&sample), 0);
        cr_assert_eq(load(&out), 0);
        cr_assert_eq(check_place(&out), 0);
    }
    sim_disk_power_cut(sim);
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(check_place(&out), 0);
}

/* S17: a copy is another file, and so is one that was put back in the same place under the same number. */
Test(lib_identity, rule_17_a_copied_or_restored_file_is_not) {
    struct identity out;
    cr_assert_eq(save(&sample), 0);
    copy_file("d/identity", "d/backup");
    cr_assert_eq(disk_rename(disk, "d/backup", "d/identity"), 0);
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(check_place(&out), LKV_EIDENTITY);
    cr_assert_not_null(strstr(load_why.text, "file 2 of file system 0000000000000001"), "%s",
                       load_why.text);
    cr_assert_not_null(strstr(load_why.text, "is file 3 of 0000000000000001"), "%s", load_why.text);
    cr_assert_not_null(strstr(load_why.text, "--moved on"), "%s", load_why.text);

    cr_assert_eq(save(&sample), 0);
    copy_file("d/identity", "d/backup");
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(disk_remove(disk, "d/identity"), 0);
    cr_assert_eq(disk_sync_dir(disk, "d"), 0);
    copy_file("d/backup", "d/identity");
    uint64_t number = out.file.number;
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(check_place(&out), LKV_EIDENTITY);
    char again[64];
    (void)snprintf(again, sizeof(again), "it is file %lu of", number);
    cr_assert_not_null(strstr(load_why.text, again), "the number was used again: %s",
                       load_why.text);
}

static int place_of(const struct disk_file_id *stored) {
    struct identity identity = {.file = *stored};
    return check_place(&identity);
}

/* False alarms: a device that was numbered anew, a file system that cannot tell. */
Test(lib_identity, rule_17_what_the_file_system_cannot_know_is_no_difference) {
    cr_assert_eq(save(&sample), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    struct disk_file_id id = out.file;
    id.file_system = 99;
    cr_assert_eq(place_of(&id), 0, "the same number, born at the same time");
    id.born_ns = 0;
    cr_assert_eq(place_of(&id), LKV_EIDENTITY);
    id.file_system = 0;
    cr_assert_eq(place_of(&id), 0);
    id = (struct disk_file_id){.file_system = 99};
    cr_assert_eq(place_of(&id), 0);
    id = out.file;
    id.born_ns = 0;
    cr_assert_eq(place_of(&id), 0, "the same number on the same file system");
    id.number++;
    cr_assert_eq(place_of(&id), LKV_EIDENTITY);
}

static int tell_nothing(struct disk_file *file, struct disk_file_id *id) {
    (void)file;
    *id = (struct disk_file_id){0};
    return 0;
}

static int tell_number_only(struct disk_file *file, struct disk_file_id *id) {
    (void)file;
    *id = (struct disk_file_id){.number = 2};
    return 0;
}

/* A file system that has no numbers, or no more than them: nothing is written that could not be compared,
 * and nothing is refused. */
Test(lib_identity, rule_17_a_file_system_that_cannot_tell_refuses_nobody) {
    struct disk_ops silent = *disk->ops;
    silent.identify = tell_nothing;
    const struct disk_ops *told = disk->ops;
    cr_assert_eq(save(&sample), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    struct disk_file_id stored = out.file;
    disk->ops = &silent;
    cr_assert_eq(place_of(&stored), 0, "it was told then, and is not now");
    cr_assert_eq(save(&sample), 0);
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(out.file.number, 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, "d/identity", &bytes));
    char text[1024];
    (void)snprintf(text, sizeof(text), "%.*s", (int)bytes.size, (const char *)bytes.data);
    cr_assert_null(strstr(text, "\nfile "), "%s", text);
    silent.identify = tell_number_only;
    cr_assert_eq(place_of(&stored), 0, "neither when it was born nor where");
    stored.number = 3;
    cr_assert_eq(place_of(&stored), LKV_EIDENTITY);
    disk->ops = told;
}

/* It lies elsewhere, and goes on saying of which file it is a copy. */
Test(lib_identity, a_copy_keeps_the_file_that_it_was_copied_from) {
    struct identity copy = sample;
    copy.is_copy = true;
    copy.file = (struct disk_file_id){.file_system = 8, .number = 77, .born_ns = 9};
    cr_assert_eq(save(&copy), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    expect_equal(&out, &sample);
    cr_assert(out.file.file_system == 8 && out.file.number == 77 && out.file.born_ns == 9);
    cr_assert_eq(check_place(&out), LKV_EIDENTITY);
}

/* Rule 11: what was brought back stays so until it is written again without. */
Test(lib_identity, keeps_that_it_was_brought_back) {
    struct identity restored = sample;
    restored.restored = true;
    cr_assert_eq(save(&restored), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    expect_equal(&out, &restored);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\nrestored 2\n"),
                 LKV_EDAMAGED);
    cr_assert_not_null(strstr(load_why.text, "restored 2"), "%s", load_why.text);
}

Test(lib_identity, says_when_there_is_none) {
    struct identity out;
    cr_assert_eq(load(&out), LKV_ENOENT);
    cr_assert_eq(check_place(&sample), LKV_ENOENT);
    cr_assert_str_eq(load_why.text, "d/identity: cannot read: no such file or directory");
}

Test(lib_identity, keeps_the_largest_of_everything) {
    struct identity large = {.member_id = UINT64_MAX,
                             .start_counter = UINT64_MAX,
                             .group_id = UINT64_MAX,
                             .cluster_id = UINT64_MAX,
                             .member_count = OPTION_PEERS_MAX};
    memset(large.name, 'n', NAME_SIZE - 1);
    for (size_t i = 0; i < OPTION_PEERS_MAX; i++) {
        memset(large.members[i].name, (int)('a' + i), NAME_SIZE - 1);
        memset(large.members[i].address, 'h', ADDRESS_SIZE - 1);
        large.members[i].id = UINT64_MAX - i;
    }
    cr_assert_eq(save(&large), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    expect_equal(&out, &large);
}

Test(lib_identity, keeps_an_address_with_spaces) {
    struct identity spaced = sample;
    (void)snprintf(spaced.members[1].address, ADDRESS_SIZE, "unix:/my dir/ two  spaces");
    cr_assert_eq(save(&spaced), 0);
    struct identity out;
    cr_assert_eq(load(&out), 0);
    expect_equal(&out, &spaced);
}

/* S2: whatever is cut off or flipped is noticed, and the text says where to look. */
Test(lib_identity, notices_every_truncation) {
    for (size_t size = 0; size < strlen(golden); size++) {
        int rc = load_text(slice_of(golden, size));
        cr_assert_eq(rc, LKV_EDAMAGED, "%zu bytes: %d", size, rc);
    }
}

Test(lib_identity, notices_every_flipped_bit) {
    char text[sizeof(golden)];
    for (size_t bit = 0; bit < 8 * strlen(golden); bit++) {
        memcpy(text, golden, sizeof(text));
        text[bit / 8] ^= (char)(1U << bit % 8);
        int rc = load_text(slice_of(text, strlen(golden)));
        cr_assert(rc == LKV_EDAMAGED || (rc == LKV_EVERSION && bit / 8 == 18), "bit %zu: %d", bit,
                  rc);
    }
}

/* S18: refused before anything is changed, with both versions in the text. */
Test(lib_identity, refuses_a_later_format_and_leaves_it) {
    const char later[] = "ledgerkv-identity 2\nwho knows\n";
    cr_assert_eq(load_text(slice_text(later)), LKV_EVERSION);
    cr_assert_not_null(strstr(load_why.text, "version 2, this program knows 1"));
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, "d/identity", &bytes));
    cr_assert(slice_equal(bytes, slice_text(later)));
}

Test(lib_identity, refuses_lines_that_it_does_not_know) {
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\ncolour red\n"),
                 LKV_EDAMAGED);
    cr_assert_not_null(strstr(load_why.text, "colour red"));
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\nmember n1 x y\n"),
                 LKV_EDAMAGED);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\nmember n1 1\n"),
                 LKV_EDAMAGED, "no address");
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id zz\n"), LKV_EDAMAGED);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\nlog_made 2\n"),
                 LKV_EDAMAGED);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\ngrown 7\n"), LKV_EDAMAGED);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\nfile 7 8\n"), LKV_EDAMAGED);
}

Test(lib_identity, refuses_a_file_without_name_or_id) {
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 1\n"), 0);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nmember_id 1\n"), LKV_EDAMAGED);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\n"), LKV_EDAMAGED);
    cr_assert_eq(load_lines("ledgerkv-identity 1\nname n1\nmember_id 0\n"), LKV_EDAMAGED);
}

Test(lib_identity, refuses_an_address_for_which_there_is_no_room) {
    for (size_t size = ADDRESS_SIZE - 1; size <= ADDRESS_SIZE; size++) {
        char address[ADDRESS_SIZE + 1] = "", lines[512];
        memset(address, 'h', size);
        (void)snprintf(lines, sizeof(lines),
                       "ledgerkv-identity 1\nname n1\nmember_id 1\nmember n1 1 %s\n", address);
        cr_assert_eq(load_lines(lines), size < ADDRESS_SIZE ? 0 : LKV_EDAMAGED, "%zu", size);
    }
}

Test(lib_identity, refuses_more_members_than_there_is_room_for) {
    char lines[2048] = "ledgerkv-identity 1\nname n1\nmember_id 1\n";
    for (int i = 0; i <= OPTION_PEERS_MAX; i++) {
        cr_assert_eq(load_lines(lines), 0);
        size_t size = strlen(lines);
        (void)snprintf(lines + size, sizeof(lines) - size, "member m%d %x h:1\n", i, i + 1);
    }
    cr_assert_eq(load_lines(lines), LKV_EDAMAGED);
}

Test(lib_identity, survives_random_files) {
    struct prng prng = prng_of(4);
    char text[sizeof(golden)];
    for (int round = 0; round < 20000; round++) {
        size_t size = prng_below(&prng, sizeof(text));
        memcpy(text, golden, sizeof(text));
        size_t from = prng_below(&prng, sizeof(text));
        for (size_t i = from; i < sizeof(text); i++) {
            text[i] = (char)prng_next(&prng);
        }
        int rc = load_text(slice_of(text, size));
        cr_assert(rc == LKV_EDAMAGED || rc == LKV_EVERSION || rc == 0);
        cr_assert(rc != 0 || size == strlen(golden));
    }
}

/* X-F1, S9: each call of a replacement fails once; the old file or the new one is there, whole. */
Test(lib_identity, replaces_the_file_whole_or_not_at_all) {
    const int kinds[] = {SIM_OPEN, SIM_WRITE, SIM_SYNC, SIM_RENAME, SIM_SYNC_DIR};
    const int codes[] = {LKV_ENOSPACE, LKV_EIO, LKV_EPERM};
    cr_assert_eq(save(&sample), 0);
    struct identity next = sample;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (size_t j = 0; j < sizeof(codes) / sizeof(codes[0]); j++) {
            next.start_counter++;
            sim_disk_fail(sim, kinds[i], 0, codes[j], false);
            cr_assert_eq(save(&next), codes[j]);
            struct identity out;
            cr_assert_eq(load(&out), 0);
            cr_assert(out.start_counter == next.start_counter || kinds[i] != SIM_SYNC_DIR);
            cr_assert_leq(out.start_counter, next.start_counter);
        }
    }
    cr_assert_eq(save(&next), 0);
}

Test(lib_identity, survives_a_power_cut_at_every_operation) {
    for (uint64_t op = 0; op < 18; op++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct sim_disk *fresh = sim_disk_new(seed);
            disk = sim_disk_seam(fresh);
            cr_assert_eq(disk_make_dir(disk, "d"), 0);
            cr_assert_eq(disk_sync_dir(disk, ""), 0);
            cr_assert_eq(save(&sample), 0);
            struct identity next = sample;
            next.start_counter++;
            struct reason why = {{0}};
            sim_disk_crash_at(fresh, sim_disk_op_count(fresh) + op);
            bool saved = identity_save(disk, "d", &next, &why) == 0;
            sim_disk_power_cut(fresh);
            struct identity out;
            cr_assert_eq(load(&out), 0, "op %lu: %s", op, load_why.text);
            cr_assert_eq(out.start_counter, saved ? 8 : out.start_counter);
            cr_assert(out.start_counter == 7 || out.start_counter == 8);
            sim_disk_free(fresh);
        }
    }
    disk = sim_disk_seam(sim);
}

Test(lib_identity, reports_what_reading_meets) {
    cr_assert_eq(save(&sample), 0);
    struct identity out;
    sim_disk_fail(sim, SIM_OPEN, 0, LKV_EPERM, false);
    cr_assert_eq(load(&out), LKV_EPERM);
    sim_disk_fail(sim, SIM_READ, 0, LKV_EIO, false);
    cr_assert_eq(load(&out), LKV_EIO);
    cr_assert_eq(load(&out), 0);
}

/* S28 */
Test(lib_identity, says_when_memory_ran_out) {
    cr_assert_eq(save(&sample), 0);
    struct reason why = {{0}};
    mem_fail_after(0);
    int rc = identity_save(disk, "d", &sample, &why);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
    struct identity out;
    mem_fail_after(0);
    rc = identity_load(disk, "d", &out, &why);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
    cr_assert_eq(load(&out), 0);
}

Test(lib_identity, finds_members) {
    cr_assert_eq(identity_by_name(&sample, "n2"), &sample.members[1]);
    cr_assert_null(identity_by_name(&sample, "n3"));
    cr_assert_null(identity_by_name(&sample, "n"));
    cr_assert_eq(identity_by_id(&sample, 0x33fec17072ccfa42), &sample.members[0]);
    cr_assert_null(identity_by_id(&sample, 0));
}

/* Rule 18: the id is the set's, whatever the order; another incarnation or name is another set. */
Test(lib_identity, makes_the_cluster_id_of_the_set) {
    struct identity_member abc[] = {
        {.name = "a", .id = 1}, {.name = "b", .id = 2}, {.name = "c", .id = 3}};
    struct identity_member cab[] = {
        {.name = "c", .id = 3}, {.name = "a", .id = 1}, {.name = "b", .id = 2}};
    uint64_t id = identity_cluster_id(abc, 3);
    cr_assert_neq(id, 0);
    cr_assert_leq(id, INT64_MAX);
    cr_assert_eq(identity_cluster_id(cab, 3), id);
    (void)snprintf(cab[0].address, ADDRESS_SIZE, "elsewhere:1");
    cr_assert_eq(identity_cluster_id(cab, 3), id, "an address is no identity");
    cr_assert_neq(identity_cluster_id(abc, 2), id);
    cab[0].id = 4;
    cr_assert_neq(identity_cluster_id(cab, 3), id);
    cab[0].id = 3;
    cab[0].name[0] = 'd';
    cr_assert_neq(identity_cluster_id(cab, 3), id);
    struct identity_member swapped[] = {
        {.name = "a", .id = 2}, {.name = "b", .id = 1}, {.name = "c", .id = 3}};
    cr_assert_neq(identity_cluster_id(swapped, 3), id, "names and ids belong together");
}

/* 0 says that nothing was founded; this set's hash would be 0. */
Test(lib_identity, makes_no_cluster_id_of_zero) {
    const struct identity_member member = {.name = "n1", .id = 0x11d8f042e71024fb};
    cr_assert_eq(identity_cluster_id(&member, 1), 1);
}

Test(lib_identity, makes_different_cluster_ids) {
    enum { ROUNDS = 20000 };
    static uint64_t seen[ROUNDS];
    struct prng prng = prng_of(5);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct identity_member members[] = {{.name = "n1", .id = i + 1},
                                            {.name = "n2", .id = prng_next(&prng) & INT64_MAX}};
        seen[i] = identity_cluster_id(members, 2);
        cr_assert(seen[i] != 0 && seen[i] <= INT64_MAX);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t j = 0; j < ROUNDS; j++) {
            cr_assert(i == j || seen[i] != seen[j]);
        }
    }
}
