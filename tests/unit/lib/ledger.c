/* The state of log mode: what its entries do to sessions, chain and sight, and what one that is ahead of
 * its log makes of entries that it knows. */
#include "lib/ledger.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct ledger ledger, other;

static void setup(void) {
    ledger = other = (struct ledger){0};
}

static void teardown(void) {
    ledger_fini(&ledger);
    ledger_fini(&other);
}

TestSuite(lib_ledger, .init = setup, .fini = teardown);

static uint64_t next; /* index of the next entry of `ledger` */
static struct entry kept[64];

static int apply_to(struct ledger *to, const struct entry *entry, struct kv_result *result) {
    struct reason why = {{0}};
    return ledger_apply(to, entry, 1, result, &why);
}

static void apply(uint64_t term, enum entry_type type, struct blob *payload,
                  struct kv_result *result) {
    struct entry entry = {.index = ++next, .term = term, .type = type, .payload = payload};
    int rc = apply_to(&ledger, &entry, result);
    cr_assert_eq(rc, 0, "entry %lu: %d", next, rc);
    cr_assert_lt(next, 64);
    kept[next] = entry;
}

static uint64_t open_session(void) {
    struct kv_result result;
    const struct kv_command command = {.op = KV_SESSION_OPEN, .ttl_ms = 1000, .limit = 8};
    apply(1, ENTRY_SESSION, kv_command_encode(&command), &result);
    cr_assert_eq(result.rc, 0);
    cr_assert_eq(result.session, next);
    return next;
}

static struct blob *once(uint64_t session, uint64_t seq, uint32_t position, uint32_t count) {
    struct blob *blob = blob_new(ONCE_HEADER_SIZE + 3);
    const struct once_header header = {.call = {.id = session, .seq = seq, .acked_below = 1},
                                       .position = position,
                                       .count = count,
                                       .crc = 5};
    once_encode(&header, blob->data);
    memcpy(blob->data + ONCE_HEADER_SIZE, "abc", 3);
    return blob;
}

static void free_kept(void) {
    for (; next > 0; next--) {
        blob_unref(kept[next].payload);
    }
}

/* sessions 1; A of three records at 2; a cut append of 3, of which two are there, at 5; a noop; a plain
 * record. */
static uint64_t fill(void) {
    struct kv_result result;
    next = 0;
    uint64_t session = open_session();
    for (uint32_t i = 0; i < 3; i++) {
        apply(1, ENTRY_ONCE, once(session, 1, i, 3), &result);
        cr_assert_eq(ledger.visible, i < 2 ? 1 : 4, "shown with its last record");
    }
    apply(1, ENTRY_ONCE, once(session, 2, 0, 3), &result);
    apply(1, ENTRY_ONCE, once(session, 2, 1, 3), &result);
    cr_assert_eq(ledger.visible, 4);
    apply(2, ENTRY_NOOP, NULL, &result);
    cr_assert_eq(ledger.visible, 7, "what is void holds up nothing");
    apply(2, ENTRY_COMMAND, blob_copy(slice_text("plain")), &result);
    return session;
}

static int judge(uint64_t session, uint64_t seq, struct session_reply *reply) {
    const struct session_call call = {.id = session, .seq = seq, .acked_below = 1};
    return sessions_judge(&ledger.sessions, &call, reply);
}

Test(lib_ledger, an_append_counts_when_all_of_its_records_are_there) {
    struct session_reply reply;
    uint64_t session = fill();
    cr_assert_eq(judge(session, 1, &reply), SESSION_REPEATED);
    cr_assert_eq(reply.index, 2);
    cr_assert_eq(reply.count, 3);
    cr_assert_eq(reply.revision, 5);
    cr_assert_eq(judge(session, 2, &reply), SESSION_EXECUTE, "its number is free again");
    cr_assert_eq(judge(session + 1, 1, &reply), LKV_ESESSION);
    free_kept();
}

/* Rule 22, and rule 26 once more: no leader appends what it has to refuse. */
Test(lib_ledger, stops_at_what_no_leader_would_have_appended) {
    struct kv_result result;
    uint64_t session = fill();
    struct blob *payloads[] = {once(session, 1, 0, 1), once(99, 1, 0, 1), blob_new(5), NULL};
    const struct kv_command put = {.op = KV_PUT, .key = slice_text("k")};
    for (size_t i = 0; i < 4; i++) {
        struct entry entry = {
            .index = next + 1, .term = 2, .type = ENTRY_ONCE, .payload = payloads[i]};
        cr_assert_eq(apply_to(&ledger, &entry, &result), LKV_EPROTOCOL, "%zu", i);
        blob_unref(payloads[i]);
    }
    struct entry entry = {
        .index = next + 1, .term = 2, .type = ENTRY_SESSION, .payload = kv_command_encode(&put)};
    cr_assert_eq(apply_to(&ledger, &entry, &result), LKV_EPROTOCOL);
    blob_unref(entry.payload);
    entry = (struct entry){.index = next + 1, .term = 2, .type = (enum entry_type)99};
    cr_assert_eq(apply_to(&ledger, &entry, &result), LKV_EVERSION);
    cr_assert_eq(ledger.included, next);
    free_kept();
}

/* Rule 24: an image may be ahead of the log that comes with it; entries do not count twice. */
Test(lib_ledger, what_it_knows_already_has_no_effect_again) {
    struct buffer bytes;
    struct kv_result result;
    uint64_t before, after;
    (void)fill();
    buffer_init(&bytes);
    ledger_put(&bytes, &ledger);
    cr_assert_eq(ledger_get(buffer_slice(&bytes), &other), 0);
    cr_assert_eq(ledger_digest(&ledger, &before), 0);
    for (uint64_t from = 1; from <= next; from++) { /* it goes on behind from - 1 */
        ledger_start_at(&other, from - 1);
        for (uint64_t index = from; index <= next; index++) {
            cr_assert_eq(apply_to(&other, &kept[index], &result), 0);
            cr_assert_eq(result.rc, index == 1 ? LKV_EUNKNOWN : 0);
        }
        cr_assert_eq(other.visible, ledger.visible);
        cr_assert_eq(ledger_digest(&other, &after), 0);
        cr_assert_eq(after, before);
    }
    ledger_catch_up(&other);
    cr_assert_eq(other.visible, ledger.visible);
    buffer_fini(&bytes);
    free_kept();
}

Test(lib_ledger, the_chain_depends_on_every_entry_and_on_their_order) {
    struct kv_result result;
    uint64_t digests[4];
    for (int way = 0; way < 4; way++) {
        ledger_fini(&ledger);
        next = 0;
        uint64_t term = way == 3 ? 2 : 1;
        apply(1, ENTRY_COMMAND, blob_copy(slice_text(way == 1 ? "b" : "a")), &result);
        apply(term, ENTRY_COMMAND, blob_copy(slice_text(way == 1 ? "a" : "b")), &result);
        if (way == 2) {
            apply(1, ENTRY_NOOP, NULL, &result);
        }
        cr_assert_eq(ledger_digest(&ledger, &digests[way]), 0);
        for (int i = 0; i < way; i++) {
            cr_assert_neq(digests[i], digests[way], "%d and %d", i, way);
        }
        free_kept();
    }
}
