#include "lib/hello_wire.h"

#include "base/mem.h"
#include "base/prng.h"
#include "tests/support/malloc_fail.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct hello small = {
    .protocol_min = 1,
    .protocol_max = 1,
    .feature_level = 1,
    .group_id = 0,
    .cluster_id = 0x476317a4971ec133,
    .member_id = 5,
    .start_counter = 300,
    .boot_nonce = 1,
    .conn_nonce = 2,
    .sequence = 3,
    .name = "n1",
    .address = "h:1",
    .last_index = 70000,
    .last_term = 4,
    .members = {{.name = "n1", .id = 5, .address = "h:1"}, {.name = "n2", .id = 6, .address = ""}},
    .member_count = 2};
static const uint8_t golden[] = {
    0x9f,                                                 /* 15 fields */
    0x01, 0x01, 0x01,                                     /* protocols 1 to 1, features 1 */
    0x00,                                                 /* group */
    0xcf, 0x47, 0x63, 0x17, 0xa4, 0x97, 0x1e, 0xc1, 0x33, /* cluster */
    0x05, 0xcd, 0x01, 0x2c,                               /* member, start counter */
    0x01, 0x02, 0x03,                                     /* boot, connection, sequence */
    0xa2, 'n',  '1',  0xa3, 'h',  ':',  '1',              /* name, address */
    0xce, 0x00, 0x01, 0x11, 0x70, 0x04,                   /* last index and its term */
    0x92,                                                 /* two members */
    0x93, 0xa2, 'n',  '1',  0x05, 0xa3, 'h',  ':',  '1',  /* */
    0x93, 0xa2, 'n',  '2',  0x06, 0xa0,                   /* */
};

static int decode(struct slice body, struct hello *out) {
    struct reason why = {{0}};
    int rc = hello_decode(body, out, &why);
    cr_assert_eq(rc != 0, why.text[0] != '\0', "rc %d, why '%s'", rc, why.text);
    return rc;
}

static void encode(const struct hello *hello, struct buffer *out) {
    buffer_init(out);
    hello_encode(hello, out);
    cr_assert_not(out->failed);
}

static void expect_equal(const struct hello *a, const struct hello *b) {
    cr_assert_eq(a->protocol_min, b->protocol_min);
    cr_assert_eq(a->protocol_max, b->protocol_max);
    cr_assert_eq(a->feature_level, b->feature_level);
    cr_assert_eq(a->group_id, b->group_id);
    cr_assert_eq(a->cluster_id, b->cluster_id);
    cr_assert_eq(a->member_id, b->member_id);
    cr_assert_eq(a->start_counter, b->start_counter);
    cr_assert_eq(a->boot_nonce, b->boot_nonce);
    cr_assert_eq(a->conn_nonce, b->conn_nonce);
    cr_assert_eq(a->sequence, b->sequence);
    cr_assert_str_eq(a->name, b->name);
    cr_assert_str_eq(a->address, b->address);
    cr_assert_eq(a->last_index, b->last_index);
    cr_assert_eq(a->last_term, b->last_term);
    cr_assert_eq(a->grown_index, b->grown_index);
    cr_assert_eq(a->grown_term, b->grown_term);
    cr_assert_eq(a->end_unknown, b->end_unknown);
    cr_assert_eq(a->member_count, b->member_count);
    for (size_t i = 0; i < a->member_count; i++) {
        cr_assert_str_eq(a->members[i].name, b->members[i].name);
        cr_assert_str_eq(a->members[i].address, b->members[i].address);
        cr_assert_eq(a->members[i].id, b->members[i].id);
    }
}

Test(lib_hello_wire, encodes_the_golden_bytes) {
    struct buffer out;
    encode(&small, &out);
    cr_assert_eq(out.size, sizeof(golden));
    cr_assert_arr_eq(out.data, golden, sizeof(golden));
    buffer_fini(&out);
}

Test(lib_hello_wire, decodes_the_golden_bytes) {
    struct hello out;
    cr_assert_eq(decode(slice_of(golden, sizeof(golden)), &out), 0);
    expect_equal(&out, &small);
}

/* Rule 19: what a cluster grew from; rule 20: of which group. */
static const uint8_t grown_golden[] = {
    0xdc, 0x00, 0x12,       /* 18 fields */
    0xa2, 'k',  'v',        /* the model, named since fields follow */
    0xcd, 0x12, 0x67, 0x06, /* entry 4711 of term 6 */
};

Test(lib_hello_wire, rule_19_tells_what_the_cluster_grew_from) {
    struct hello grown = small;
    grown.grown_index = 4711;
    grown.grown_term = 6;
    grown.model = MODEL_KV;
    struct buffer bytes;
    encode(&grown, &bytes);
    cr_assert_eq(bytes.size, sizeof(golden) + 2 + 7);
    cr_assert_arr_eq(bytes.data, grown_golden, 3);
    cr_assert_arr_eq(bytes.data + 3, golden + 1, sizeof(golden) - 1);
    cr_assert_arr_eq(bytes.data + sizeof(golden) + 2, grown_golden + 3, 7);
    struct hello out;
    cr_assert_eq(decode(buffer_slice(&bytes), &out), 0);
    expect_equal(&out, &grown);
    cr_assert_eq(out.model, MODEL_KV);
    buffer_fini(&bytes);
    grown.model = MODEL_LOG;
    encode(&grown, &bytes);
    cr_assert_eq(decode(buffer_slice(&bytes), &out), 0);
    expect_equal(&out, &grown);
    cr_assert_eq(out.model, MODEL_LOG);
    buffer_fini(&bytes);
}

Test(lib_hello_wire, rule_11_tells_that_the_end_is_not_known) {
    for (int grown = 0; grown < 2; grown++) {
        struct hello unsure = small;
        unsure.model = MODEL_KV;
        unsure.end_unknown = true;
        unsure.grown_index = grown != 0 ? 4711 : 0;
        unsure.grown_term = grown != 0 ? 6 : 0;
        struct buffer bytes;
        encode(&unsure, &bytes);
        cr_assert_eq(bytes.data[2], 0x13, "19 fields");
        cr_assert_eq(bytes.data[bytes.size - 1], 1);
        struct hello out;
        cr_assert_eq(decode(buffer_slice(&bytes), &out), 0);
        expect_equal(&out, &unsure);
        bytes.data[bytes.size - 1] = 0x7e; /* all flags but this one */
        cr_assert_eq(decode(buffer_slice(&bytes), &out), 0);
        cr_assert_not(out.end_unknown);
        buffer_fini(&bytes);
    }
}

static void fill_text(char *into, size_t size, char with) {
    memset(into, with, size - 1);
    into[size - 1] = '\0';
}

static void largest_hello(struct hello *out) {
    *out = (struct hello){.protocol_min = 1,
                          .protocol_max = UINT32_MAX,
                          .feature_level = UINT32_MAX,
                          .group_id = UINT64_MAX,
                          .cluster_id = UINT64_MAX,
                          .member_id = UINT64_MAX,
                          .start_counter = UINT64_MAX,
                          .boot_nonce = UINT64_MAX,
                          .conn_nonce = UINT64_MAX,
                          .sequence = UINT64_MAX,
                          .last_index = UINT64_MAX,
                          .last_term = UINT64_MAX,
                          .member_count = OPTION_PEERS_MAX};
    fill_text(out->name, NAME_SIZE, 'n');
    fill_text(out->address, ADDRESS_SIZE, 'a');
    for (size_t i = 0; i < OPTION_PEERS_MAX; i++) {
        fill_text(out->members[i].name, NAME_SIZE, (char)('a' + i));
        fill_text(out->members[i].address, ADDRESS_SIZE, 'a');
        out->members[i].id = UINT64_MAX - i;
    }
}

Test(lib_hello_wire, keeps_the_largest_of_everything) {
    struct hello large;
    largest_hello(&large);
    struct buffer bytes;
    encode(&large, &bytes);
    struct hello out;
    cr_assert_eq(decode(buffer_slice(&bytes), &out), 0);
    expect_equal(&out, &large);
    buffer_fini(&bytes);
}

Test(lib_hello_wire, refuses_every_truncation_and_what_follows) {
    struct hello out;
    for (size_t size = 0; size < sizeof(golden); size++) {
        cr_assert_eq(decode(slice_of(golden, size), &out), LKV_EPROTOCOL, "%zu bytes", size);
    }
    uint8_t longer[sizeof(golden) + 1] = {0};
    memcpy(longer, golden, sizeof(golden));
    cr_assert_eq(decode(slice_of(longer, sizeof(longer)), &out), LKV_EPROTOCOL);
}

/* A later version appends fields: this one must go on understanding it. */
Test(lib_hello_wire, ignores_fields_behind_those_it_knows) {
    uint8_t longer[sizeof(golden) + 5] = {0xdc, 0x00, 0x11}; /* array of 17 */
    memcpy(longer + 3, golden + 1, sizeof(golden) - 1);
    longer[sizeof(golden) + 2] = 0xc0;
    longer[sizeof(golden) + 3] = 0x90;
    struct hello out;
    cr_assert_eq(decode(slice_of(longer, sizeof(golden) + 4), &out), 0);
    expect_equal(&out, &small);
}

/* A node of another model is none of this cluster, even of a model that is still to come. */
Test(lib_hello_wire, takes_no_model_that_it_does_not_know) {
    static const struct {
        const char *field;
        int rc;
        enum model model;
    } cases[] = {{"\xa2kv", 0, MODEL_KV},
                 {"\xa3log", 0, MODEL_LOG},
                 {"\xa2kw", LKV_EPROTOCOL, MODEL_KV},
                 {"\xa5graph", LKV_EPROTOCOL, MODEL_KV}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buffer bytes;
        buffer_init(&bytes);
        buffer_append(&bytes, "\xdc\x00\x10", 3); /* array of 16 */
        buffer_append(&bytes, golden + 1, sizeof(golden) - 1);
        buffer_append(&bytes, cases[i].field, strlen(cases[i].field));
        struct hello out;
        cr_assert_eq(decode(buffer_slice(&bytes), &out), cases[i].rc, "case %zu", i);
        cr_assert(cases[i].rc != 0 || out.model == cases[i].model);
        buffer_fini(&bytes);
    }
}

/* Where each top-level field begins in the golden bytes. */
static const size_t field_at[] = {1,  2,  3,  4,  5,  14, 15, 18,
                                  19, 20, 21, 24, 28, 33, 34, sizeof(golden)};

Test(lib_hello_wire, refuses_each_field_of_another_type) {
    const uint8_t others[] = {0xc0, 0xc3, 0xff /* -1 */, 0x90, 0x80, 0xa0};
    for (size_t field = 0; field < 15; field++) {
        for (size_t i = 0; i < sizeof(others); i++) {
            if ((field == 11 && others[i] == 0xa0) || (field == 14 && others[i] == 0x90)) {
                continue; /* an empty address, an empty list: valid */
            }
            uint8_t bytes[sizeof(golden)];
            size_t before = field_at[field];
            size_t after = field_at[field + 1];
            memcpy(bytes, golden, before);
            bytes[before] = others[i];
            memcpy(bytes + before + 1, golden + after, sizeof(golden) - after);
            struct hello out;
            int rc = decode(slice_of(bytes, before + 1 + sizeof(golden) - after), &out);
            cr_assert_eq(rc, LKV_EPROTOCOL, "field %zu as %02x: %d", field, others[i], rc);
        }
    }
}

Test(lib_hello_wire, refuses_fewer_fields) {
    for (size_t fields = 0; fields < 15; fields++) {
        uint8_t bytes[sizeof(golden)];
        memcpy(bytes, golden, sizeof(golden));
        bytes[0] = (uint8_t)(0x90 + fields);
        struct hello out;
        cr_assert_eq(decode(slice_of(bytes, field_at[fields]), &out), LKV_EPROTOCOL);
    }
}

static int decode_changed(const struct hello *changed) {
    struct buffer bytes;
    encode(changed, &bytes);
    struct hello out;
    int rc = decode(buffer_slice(&bytes), &out);
    buffer_fini(&bytes);
    return rc;
}

Test(lib_hello_wire, refuses_a_sender_without_name_or_id) {
    struct hello changed = small;
    changed.member_id = 0;
    cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL);
    changed = small;
    changed.name[0] = '\0';
    cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL);
}

Test(lib_hello_wire, refuses_names_that_no_node_can_have) {
    const char *names[] = {"a b", "a\nname x", "a\tb", "\xff", "\"", "a/b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct hello changed = small;
        (void)snprintf(changed.name, NAME_SIZE, "%s", names[i]);
        cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL, "name '%s'", names[i]);
        changed = small;
        (void)snprintf(changed.members[1].name, NAME_SIZE, "%s", names[i]);
        cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL, "member '%s'", names[i]);
    }
}

/* Whoever adopts a founding configuration keeps these texts in its identity file, a line each. */
Test(lib_hello_wire, refuses_addresses_that_would_break_the_identity_file) {
    struct hello changed = small;
    (void)snprintf(changed.members[0].address, ADDRESS_SIZE, "h:1\nmember evil 1 h:2");
    cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL);
    changed = small;
    (void)snprintf(changed.address, ADDRESS_SIZE, "h:1\r");
    cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL);
}

Test(lib_hello_wire, refuses_members_that_are_no_set) {
    struct hello changed = small;
    changed.members[1].id = 0;
    cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL);
    changed = small;
    changed.members[1].id = changed.members[0].id;
    cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL);
    changed = small;
    (void)snprintf(changed.members[1].name, NAME_SIZE, "n1");
    cr_assert_eq(decode_changed(&changed), LKV_EPROTOCOL);
}

static int decode_text(size_t name_size, size_t member_count) {
    struct buffer bytes;
    buffer_init(&bytes);
    buffer_append(&bytes, golden, 21);
    uint8_t head[] = {0xd9, (uint8_t)name_size};
    buffer_append(&bytes, head, sizeof(head));
    for (size_t i = 0; i < name_size; i++) {
        buffer_append(&bytes, "x", 1);
    }
    buffer_append(&bytes, golden + 24, 34 - 24);
    uint8_t count = (uint8_t)(0x90 + member_count);
    buffer_append(&bytes, &count, 1);
    for (size_t i = 0; i < member_count; i++) {
        uint8_t row[] = {0x93, 0xa1, (uint8_t)('a' + i), (uint8_t)(1 + i), 0xa0};
        buffer_append(&bytes, row, sizeof(row));
    }
    struct hello out;
    int rc = decode(buffer_slice(&bytes), &out);
    buffer_fini(&bytes);
    return rc;
}

Test(lib_hello_wire, keeps_names_and_lists_within_their_room) {
    cr_assert_eq(decode_text(NAME_SIZE - 1, OPTION_PEERS_MAX), 0);
    cr_assert_eq(decode_text(NAME_SIZE, 1), LKV_EPROTOCOL);
    cr_assert_eq(decode_text(255, 1), LKV_EPROTOCOL);
    cr_assert_eq(decode_text(2, OPTION_PEERS_MAX + 1), LKV_EPROTOCOL);
}

Test(lib_hello_wire, refuses_a_name_with_a_zero_byte) {
    uint8_t bytes[sizeof(golden)];
    memcpy(bytes, golden, sizeof(bytes));
    bytes[23] = 0;
    struct hello out;
    cr_assert_eq(decode(slice_of(bytes, sizeof(bytes)), &out), LKV_EPROTOCOL);
}

Test(lib_hello_wire, wants_a_protocol_in_common) {
    struct hello changed = small;
    changed.protocol_max = 9;
    cr_assert_eq(decode_changed(&changed), 0);
    changed.protocol_min = 2;
    cr_assert_eq(decode_changed(&changed), LKV_EVERSION);
    changed.protocol_min = 0;
    changed.protocol_max = 0;
    cr_assert_eq(decode_changed(&changed), LKV_EVERSION);
}

/* N4: what a header announces is not allocated. */
Test(lib_hello_wire, refuses_what_announces_more_than_it_has) {
    const uint8_t arrays[][6] = {{0xdd, 0x00, 0xff, 0xff, 0xff},
                                 {0xdd, 0xff, 0x00, 0x00, 0x00},
                                 {0xdb, 0xff, 0xff, 0xff, 0xff},
                                 {0xdf, 0x7f, 0xff, 0xff, 0xff}};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        struct hello out;
        cr_assert_lt(decode(slice_of(arrays[i], 5), &out), 0);
    }
    uint8_t nested[64];
    memset(nested, 0x91, sizeof(nested));
    struct hello out;
    cr_assert_lt(decode(slice_of(nested, sizeof(nested)), &out), 0);
}

Test(lib_hello_wire, survives_changed_and_random_bytes) {
    struct prng prng = prng_of(3);
    for (int round = 0; round < 100000; round++) {
        uint8_t bytes[sizeof(golden)];
        memcpy(bytes, golden, sizeof(bytes));
        size_t changes = 1 + prng_below(&prng, 4);
        for (size_t i = 0; i < changes; i++) {
            bytes[prng_below(&prng, sizeof(bytes))] = (uint8_t)prng_next(&prng);
        }
        struct hello out;
        struct reason why = {{0}};
        if (hello_decode(slice_of(bytes, sizeof(bytes)), &out, &why) == 0) {
            cr_assert_leq(out.member_count, OPTION_PEERS_MAX);
            cr_assert_neq(out.member_id, 0);
        }
    }
}

Test(lib_hello_wire, says_when_memory_ran_out) {
    struct buffer out;
    buffer_init(&out);
    mem_fail_after(0);
    hello_encode(&small, &out);
    mem_fail_never();
    cr_assert(out.failed);
    buffer_fini(&out);
    if (malloc_fail_after(0)) {
        struct hello hello;
        struct reason why = {{0}};
        int rc = hello_decode(slice_of(golden, sizeof(golden)), &hello, &why);
        malloc_fail_never();
        cr_assert_eq(rc, LKV_ENOMEM);
        cr_assert_str_eq(why.text, "no memory to unpack a hello");
    }
}
