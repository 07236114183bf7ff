#include "base/mem.h"
#include "lib/request.h"

#include <criterion/criterion.h>

static struct lkv_msg *msg;

static void open_msg(void) {
    msg = msg_new(LKV_REPLY, &msg);
}

static void close_msg(void) {
    lkv_msg_free(msg);
}

TestSuite(lib_msg, .init = open_msg, .fini = close_msg);

Test(lib_msg, has_its_tag_and_kind) {
    cr_assert_eq(lkv_msg_tag(msg), (void *)&msg);
    cr_assert_eq(lkv_msg_kind(msg), LKV_REPLY);
    cr_assert_eq(lkv_msg_rc(msg), 0);
}

Test(lib_msg, text_is_the_tables_unless_another_was_set) {
    cr_assert_str_eq(lkv_msg_text(msg), "success");
    msg_set_rc(msg, LKV_EBUSY, NULL);
    cr_assert_str_eq(lkv_msg_text(msg), lkv_error_text(LKV_EBUSY));
    msg_set_rc(msg, LKV_EBUSY, "%d bytes", 7);
    cr_assert_str_eq(lkv_msg_text(msg), "7 bytes");
    cr_assert_eq(lkv_msg_rc(msg), LKV_EBUSY);
}

Test(lib_msg, keeps_the_last_value_of_a_name) {
    uint64_t value = 0;
    cr_assert(!lkv_msg_u64(msg, "rev", &value));
    msg_set_u64(msg, "rev", 41);
    msg_set_u64(msg, "term", 2);
    msg_set_u64(msg, "rev", 42);
    cr_assert(lkv_msg_u64(msg, "rev", &value) && value == 42);
    cr_assert(lkv_msg_u64(msg, "term", &value) && value == 2);
    cr_assert(!lkv_msg_u64(msg, "nonsense", &value));
    cr_assert_null(lkv_msg_str(msg, "leader"));
    msg_set_str(msg, "leader", "n1");
    msg_set_str(msg, "leader", "n22");
    cr_assert_str_eq(lkv_msg_str(msg, "leader"), "n22");
}

Test(lib_msg, takes_no_more_numbers_than_it_has_room_for) {
    static const char *const names[] = {"rev",
                                        "index",
                                        "term",
                                        "count",
                                        "total",
                                        "more",
                                        "commit",
                                        "first",
                                        "applied",
                                        "durable",
                                        "last",
                                        "keys",
                                        "bytes",
                                        "digest",
                                        "memory_bytes",
                                        "log_bytes",
                                        "peers_up",
                                        "image_index",
                                        "connections",
                                        "damaged_entries",
                                        "repaired_entries",
                                        "scrub_index",
                                        "scrubbed_ms",
                                        "leader",
                                        "id"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        msg_set_u64(msg, names[i], i);
    }
    uint64_t value;
    cr_assert(lkv_msg_u64(msg, "connections", &value) && value == 18);
    cr_assert(!lkv_msg_u64(msg, "id", &value));
}

Test(lib_msg, lists_members) {
    struct lkv_member member = {
        .id = "n1", .address = "h:1", .role = "leader", .state = "-", .match = 5, .lag_ms = 3};
    msg_add_member(msg, &member);
    member.id = "n2";
    msg_add_member(msg, &member);
    struct lkv_member found;
    cr_assert(lkv_msg_member(msg, 1, &found));
    cr_assert_str_eq(found.id, "n2");
    cr_assert_str_eq(found.address, "h:1");
    cr_assert_eq(found.match, 5);
    cr_assert_eq(found.lag_ms, 3);
    cr_assert(!lkv_msg_member(msg, 2, &found));
}

Test(lib_msg, shows_items_that_lie_in_its_backing) {
    struct lkv_kv kv;
    cr_assert(!lkv_msg_kv(msg, 0, &kv));
    msg->backing = blob_copy(slice_text("keyvalue"));
    msg->range.items = mem_calloc(1, sizeof(struct kv_item));
    msg->range.items[0] = (struct kv_item){.key = slice_of(msg->backing->data, 3),
                                           .value = slice_of(msg->backing->data + 3, 5),
                                           .create_rev = 2,
                                           .mod_rev = 3,
                                           .version = 4,
                                           .lease = 5};
    msg->range.count = 1;
    cr_assert(lkv_msg_kv(msg, 0, &kv));
    cr_assert_eq(kv.key.size, 3);
    cr_assert(memcmp(kv.value.data, "value", 5) == 0);
    cr_assert(kv.create_rev == 2 && kv.mod_rev == 3 && kv.version == 4 && kv.lease == 5);
    cr_assert(!lkv_msg_kv(msg, 1, &kv));
}

Test(lib_msg, is_empty_after_clear) {
    uint64_t value;
    msg_set_rc(msg, LKV_ENOTLEADER, "text");
    msg_set_u64(msg, "rev", 1);
    msg_set_str(msg, "leader", "n1");
    msg_add_member(msg, &(struct lkv_member){.id = "a", .address = "b", .role = "c", .state = "d"});
    msg_clear(msg);
    cr_assert_eq(lkv_msg_rc(msg), 0);
    cr_assert_str_eq(lkv_msg_text(msg), "success");
    cr_assert(!lkv_msg_u64(msg, "rev", &value));
    cr_assert_null(lkv_msg_str(msg, "leader"));
    struct lkv_member member;
    cr_assert(!lkv_msg_member(msg, 0, &member));
    cr_assert_eq(lkv_msg_tag(msg), (void *)&msg);
}

static void count_free(void *arg, struct lkv_msg *freed) {
    (void)freed;
    ++*(int *)arg;
}

Test(lib_msg, tells_that_it_was_freed) {
    int freed = 0;
    struct lkv_msg *role = msg_new(LKV_ROLE, NULL);
    role->on_free = count_free;
    role->on_free_arg = &freed;
    lkv_msg_free(role);
    cr_assert_eq(freed, 1);
    lkv_msg_free(NULL);
}

Test(lib_msg, knows_names_exactly) {
    cr_assert_str_eq(msg_known_name(slice_text("leader_address")), "leader_address");
    cr_assert_null(msg_known_name(slice_text("leader_addres")));
    cr_assert_null(msg_known_name(slice_text("leader_addresss")));
    cr_assert_null(msg_known_name(slice_text("Leader_address")));
    cr_assert_null(msg_known_name(slice_text("")));
    cr_assert_null(msg_known_name((struct slice){0}));
}

Test(lib_msg, leaves_out_what_finds_no_memory) {
    mem_fail_after(0);
    msg_set_rc(msg, LKV_EBUSY, "%s", "text");
    msg_set_str(msg, "leader", "n1");
    msg_add_member(msg, &(struct lkv_member){.id = "a", .address = "b", .role = "c", .state = "d"});
    mem_fail_never();
    cr_assert_eq(lkv_msg_rc(msg), LKV_EBUSY);
    cr_assert_str_eq(lkv_msg_text(msg), lkv_error_text(LKV_EBUSY));
    cr_assert_null(lkv_msg_str(msg, "leader"));
    for (uint64_t n = 1; n < 6; n++) {
        mem_fail_after(n);
        msg_add_member(msg,
                       &(struct lkv_member){.id = "a", .address = "b", .role = "c", .state = "d"});
        mem_fail_never();
    }
    struct lkv_member member;
    cr_assert(lkv_msg_member(msg, 0, &member) && !lkv_msg_member(msg, 1, &member));
}

static int finished_rc;
static struct lkv_msg *finished;

static void take_reply(struct request *request) {
    finished_rc = request->reply->rc;
    finished = request->reply;
    request->reply = NULL;
}

Test(lib_request, is_freed_after_its_finish_was_heard) {
    struct request *request = request_new(REQUEST_GET);
    cr_assert_eq(request_set_keys(request, slice_text("from"), slice_text("to")), 0);
    cr_assert(slice_equal(request->key, slice_text("from")));
    cr_assert(slice_equal(request->end, slice_text("to")));
    atomic_size_t held = 100;
    request->cost = 40;
    request->held = &held;
    request->on_finish = take_reply;
    request_fail(request, LKV_EBUSY, "because of %d", 7);
    cr_assert_eq(finished_rc, LKV_EBUSY);
    cr_assert_eq(atomic_load(&held), 60);
    cr_assert_str_eq(lkv_msg_text(finished), "because of 7");
    lkv_msg_free(finished);
    request_free(NULL);
}

Test(lib_request, fails_cleanly_without_memory) {
    for (uint64_t n = 0; n < 3; n++) {
        mem_fail_after(n);
        struct request *request = request_new(REQUEST_WRITE);
        int rc = request == NULL ? LKV_ENOMEM
                                 : request_set_keys(request, slice_text("a"), slice_text("b"));
        mem_fail_never();
        cr_assert_eq(rc, LKV_ENOMEM);
        request_free(request);
    }
}
