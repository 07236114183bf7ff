/* Rule 17: which lives a node has met, its file on the simulated disk, and what they make it refuse. */
#include "lib/seen.h"

#include "base/mem.h"
#include "lib/small_file.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const char golden[] = "ledgerkv-seen 1\n"
                             "peer n2 722cc39c12c21d4d 7 1f2e3d4c5b6a7988 4711 10.0.0.2:7001\n"
                             "peer n3 6b370b6655a401fb 2 0000000000000009 0 -\n"
                             "crc32c 4a39ad4c\n";

static struct sim_disk *sim;
static struct disk *disk;
static struct reason why;

static void setup(void) {
    sim = sim_disk_new(1);
    disk = sim_disk_seam(sim);
    why = (struct reason){{0}};
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    cr_assert_eq(disk_sync_dir(disk, ""), 0);
}

static void teardown(void) {
    cr_assert_eq(sim_disk_open_files(sim), 0);
    sim_disk_free(sim);
}

TestSuite(lib_seen, .init = setup, .fini = teardown);

static struct hello hello_of(const char *name, const char *address, uint64_t id, uint64_t counter,
                             uint64_t nonce) {
    struct hello hello = {.member_id = id, .start_counter = counter, .boot_nonce = nonce};
    (void)snprintf(hello.name, sizeof(hello.name), "%s", name);
    (void)snprintf(hello.address, sizeof(hello.address), "%s", address);
    return hello;
}

static void note(struct seen *seen, struct hello hello) {
    cr_assert_not_null(seen_note(seen, &hello));
}

static int judge(struct seen *seen, struct hello hello) {
    why = (struct reason){{0}};
    int rc = seen_judge(seen, &hello, &why);
    cr_assert_eq(rc != 0, why.text[0] != '\0');
    return rc;
}

static struct seen sample(void) {
    struct seen seen = {0};
    note(&seen, hello_of("n2", "10.0.0.2:7001", 0x722cc39c12c21d4d, 7, 0x1f2e3d4c5b6a7988));
    note(&seen, hello_of("n3", "", 0x6b370b6655a401fb, 2, 9));
    seen.peers[0].acknowledged = 4711;
    return seen;
}

static int load(struct seen *out) {
    why = (struct reason){{0}};
    int rc = seen_load(disk, "d", out, &why);
    cr_assert_eq(rc != 0, strstr(why.text, "d/seen") != NULL, "%s", why.text);
    return rc;
}

static int load_text(struct slice text) {
    struct seen out;
    struct reason ignored = {{0}};
    cr_assert_eq(small_file_save(disk, "d", "seen", text, &ignored), 0);
    return load(&out);
}

Test(lib_seen, writes_and_reads_the_golden_bytes) {
    struct seen seen = sample();
    cr_assert_eq(seen_save(disk, "d", &seen, &why), 0);
    struct slice bytes;
    cr_assert(sim_disk_peek(sim, "d/seen", &bytes));
    cr_assert(slice_equal(bytes, slice_text(golden)), "%.*s", (int)bytes.size,
              (const char *)bytes.data);
    struct seen out;
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(out.count, 2);
    cr_assert_str_eq(out.peers[0].address, "10.0.0.2:7001");
    cr_assert_str_eq(out.peers[1].address, "");
    cr_assert_eq(out.peers[1].start_counter, 2);
    cr_assert_eq(out.peers[0].acknowledged, 4711);
    cr_assert(out.peers[0].durable && out.peers[1].durable);
}

Test(lib_seen, is_empty_without_a_file) {
    struct seen out = sample();
    cr_assert_eq(load(&out), 0);
    cr_assert_eq(out.count, 0);
}

Test(lib_seen, notices_every_truncation_and_every_flipped_bit) {
    char text[sizeof(golden)];
    for (size_t size = 0; size < strlen(golden); size++) {
        cr_assert_eq(load_text(slice_of(golden, size)), LKV_EDAMAGED, "%zu bytes", size);
    }
    for (size_t bit = 0; bit < 8 * strlen(golden); bit++) {
        memcpy(text, golden, sizeof(text));
        text[bit / 8] ^= (char)(1U << bit % 8);
        int rc = load_text(slice_of(text, strlen(golden)));
        cr_assert(rc == LKV_EDAMAGED || (rc == LKV_EVERSION && bit / 8 == 14), "bit %zu: %d", bit,
                  rc);
    }
}

/* S18 */
Test(lib_seen, refuses_a_later_format) {
    cr_assert_eq(load_text(slice_text("ledgerkv-seen 2\nwho knows\n")), LKV_EVERSION);
    cr_assert_not_null(strstr(why.text, "version 2, this program knows 1"));
}

static int load_lines(const char *lines) {
    struct buffer text;
    buffer_init(&text);
    buffer_printf(&text, "ledgerkv-seen 1\n%s", lines);
    small_text_seal(&text);
    int rc = load_text(buffer_slice(&text));
    buffer_fini(&text);
    return rc;
}

Test(lib_seen, refuses_lines_that_it_does_not_know) {
    cr_assert_eq(load_lines(""), 0);
    cr_assert_eq(load_lines("peer n2 1 2 3 4 -\n"), 0);
    cr_assert_eq(load_lines("peer n2 1 2 3 4\n"), LKV_EDAMAGED);
    cr_assert_eq(load_lines("peer n2 1 x 3 4 -\n"), LKV_EDAMAGED);
    cr_assert_eq(load_lines("colour red\n"), LKV_EDAMAGED);
    char many[1024] = "";
    for (int i = 0; i <= OPTION_PEERS_MAX; i++) {
        cr_assert_eq(load_lines(many), 0);
        size_t size = strlen(many);
        (void)snprintf(many + size, sizeof(many) - size, "peer p%d 1 2 3 4 h:1\n", i);
    }
    cr_assert_eq(load_lines(many), LKV_EDAMAGED);
}

/* S28 */
Test(lib_seen, says_when_memory_ran_out) {
    struct seen seen = sample();
    cr_assert_eq(seen_save(disk, "d", &seen, &why), 0);
    mem_fail_after(0);
    int rc = seen_save(disk, "d", &seen, &why);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
    struct seen out;
    mem_fail_after(0);
    rc = seen_load(disk, "d", &out, &why);
    mem_fail_never();
    cr_assert_eq(rc, LKV_ENOMEM);
}

/* ------------------------------------------------------------------ lives */

Test(lib_seen, rule_17_a_lower_counter_is_refused_with_both_values_and_what_helps) {
    struct seen seen = {0};
    note(&seen, hello_of("n2", "b:1", 22, 7, 100));
    cr_assert_eq(judge(&seen, hello_of("n2", "c:9", 22, 6, 99)), LKV_EIDENTITY);
    const char *parts[] = {"n2", "c:9", "b:1", "counter 6", " 7 was seen", "stop", "--moved on"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        cr_assert_not_null(strstr(why.text, parts[i]), "no '%s' in: %s", parts[i], why.text);
    }
}

Test(lib_seen, rule_17_an_equal_counter_with_another_boot_nonce_is_refused) {
    struct seen seen = {0};
    note(&seen, hello_of("n2", "b:1", 22, 7, 100));
    cr_assert_eq(judge(&seen, hello_of("n2", "c:9", 22, 7, 101)), LKV_EIDENTITY);
    const char *parts[] = {"twice", "counter 7", "0000000000000064", "0000000000000065",
                           "--moved on"};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        cr_assert_not_null(strstr(why.text, parts[i]), "no '%s' in: %s", parts[i], why.text);
    }
    cr_assert_eq(judge(&seen, hello_of("n2", "c:9", 22, 7, 100)), 0, "the same life");
    cr_assert_eq(judge(&seen, hello_of("n2", "c:9", 22, 8, 101)), 0, "a later one");
    cr_assert_eq(judge(&seen, hello_of("n2", "c:9", 23, 1, 101)), 0, "another incarnation");
    cr_assert_eq(judge(&seen, hello_of("n3", "c:9", 22, 1, 101)), 0, "another member");
}

Test(lib_seen, rule_17_a_new_life_is_not_durable_until_it_is_saved) {
    struct seen seen = sample();
    struct hello same = hello_of("n3", "", 0x6b370b6655a401fb, 2, 9);
    cr_assert_not(seen_note(&seen, &same)->durable);
    struct seen copy = seen;
    struct hello later = hello_of("n3", "", 0x6b370b6655a401fb, 3, 10);
    cr_assert_not(seen_note(&seen, &later)->durable);
    seen_saved(&seen, &copy);
    cr_assert(seen.peers[0].durable);
    cr_assert_not(seen.peers[1].durable, "what was saved is the life before");
    copy = seen;
    seen_saved(&seen, &copy);
    cr_assert(seen_note(&seen, &later)->durable);
    cr_assert_eq(judge(&seen, same), LKV_EIDENTITY);
}

static int judge_end(struct seen *seen, uint64_t counter, uint64_t last_index, bool end_unknown) {
    struct hello hello = hello_of("n2", "10.0.0.2:7001", 0x722cc39c12c21d4d, counter, 1);
    hello.cluster_id = 77;
    hello.last_index = last_index;
    hello.end_unknown = end_unknown;
    why = (struct reason){{0}};
    return seen_judge_end(seen, &hello, &why);
}

Test(lib_seen, rule_17_a_later_life_with_less_than_was_acknowledged_is_doubted) {
    struct seen seen = sample();
    cr_assert_eq(judge_end(&seen, 8, 4710, false), LKV_EDAMAGED);
    cr_assert_not_null(strstr(why.text, "ends with entry 4710"), "%s", why.text);
    cr_assert_not_null(strstr(why.text, "acknowledged entry 4711"), "%s", why.text);
    cr_assert_eq(judge_end(&seen, 8, 4711, false), 0);
    cr_assert_eq(judge_end(&seen, 8, 4710, true), 0, "it knows");
    cr_assert_eq(judge_end(&seen, 7, 4710, false), 0, "a hello may be older than what came later");
    struct hello blank = hello_of("n2", "", 0x722cc39c12c21d4d, 8, 1);
    cr_assert_eq(seen_judge_end(&seen, &blank, &why), 0, "it has no log yet");
}

Test(lib_seen, rule_17_what_was_acknowledged_belongs_to_the_incarnation) {
    struct seen seen = sample();
    note(&seen, hello_of("n2", "", 0x722cc39c12c21d4d, 8, 1));
    cr_assert_eq(seen.peers[0].acknowledged, 4711);
    note(&seen, hello_of("n2", "", 5, 1, 1));
    cr_assert_eq(seen.peers[0].acknowledged, 0);
}

Test(lib_seen, forgets_those_that_are_no_peers_any_more) {
    struct seen seen = sample();
    const struct option_peer peers[] = {{.name = "n1"}, {.name = "n3"}};
    seen_keep(&seen, peers, 2);
    cr_assert_eq(seen.count, 1);
    cr_assert_null(seen_find(&seen, "n2"));
    cr_assert_eq(seen_find(&seen, "n3")->boot_nonce, 9);
}

Test(lib_seen, has_room_for_as_many_as_there_are_peers) {
    struct seen seen = {0};
    for (int i = 0; i < OPTION_PEERS_MAX; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "p%d", i);
        note(&seen, hello_of(name, "", 1, 1, 1));
    }
    struct hello more = hello_of("more", "", 1, 1, 1);
    cr_assert_null(seen_note(&seen, &more));
}
