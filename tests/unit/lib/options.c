#include "lib/options.h"
#include "base/mem.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct lkv_options *options;

static void open_options(void) {
    options = lkv_options_new();
    cr_assert_not_null(options);
}

static void close_options(void) {
    lkv_options_free(options);
}

TestSuite(lib_options, .init = open_options, .fini = close_options);

static void accept(const char *name, const char *text) {
    cr_assert_eq(lkv_options_set(options, name, text), 0, "%s=%s: %s", name, text,
                 lkv_options_error(options));
    cr_assert_str_eq(lkv_options_error(options), "");
}

static void refuse(const char *name, const char *text) {
    cr_assert_eq(lkv_options_set(options, name, text), LKV_EOPTION, "%s=%s", name, text);
    cr_assert_neq(lkv_options_error(options)[0], '\0');
}

Test(lib_options, begin_with_the_documented_defaults) {
    cr_assert_str_eq(options->id, "", "the directory says it");
    cr_assert_str_eq(options->dir, "");
    cr_assert_str_eq(options->listen, "");
    cr_assert_eq(options->peer_count, 0);
    cr_assert_eq(options->endpoint_count, 1);
    cr_assert_str_eq(options->endpoints[0], "127.0.0.1:7001");
    cr_assert(options->forward);
    cr_assert_eq(options->timeout_ms, 5000);
    cr_assert_eq(options->heartbeat_ms, 50);
    cr_assert_eq(options->election_ms, 300);
    cr_assert_eq(options->disk_hang_ms, 2000);
    cr_assert_eq(options->key_bytes_max, 8 * 1024);
    cr_assert_eq(options->value_bytes_max, 4 * 1024 * 1024);
    cr_assert_eq(options->segment_bytes, 64 * 1024 * 1024);
    cr_assert_eq(options->inflight_bytes_max, 64 * 1024 * 1024);
    cr_assert_eq(options->peer_inflight_bytes, 8 * 1024 * 1024);
    cr_assert_eq(options->peer_inflight_requests, 512);
    cr_assert_eq(options->connections_max, 1024);
    cr_assert_eq(options->connections, 1);
    cr_assert_null(options->trace.sink);
}

Test(lib_options, accept_their_own_help) {
    const char *name, *fallback, *sentence;
    size_t count = 0;
    for (; lkv_options_help(count, &name, &fallback, &sentence); count++) {
        accept(name, fallback);
        cr_assert_gt(strlen(sentence), 10);
    }
    cr_assert_gt(count, 20);
}

Test(lib_options, read_sizes_with_units) {
    accept("value_bytes_max", "1");
    cr_assert_eq(options->value_bytes_max, 1);
    accept("value_bytes_max", "15MiB");
    cr_assert_eq(options->value_bytes_max, 15 * 1024 * 1024);
    accept("segment_bytes", "1024KiB");
    cr_assert_eq(options->segment_bytes, 1024 * 1024);
    accept("segment_bytes", "2GiB");
    cr_assert_eq(options->segment_bytes, UINT64_C(2) << 30);
}

Test(lib_options, read_times_with_units) {
    accept("timeout_ms", "250");
    cr_assert_eq(options->timeout_ms, 250);
    accept("timeout_ms", "250ms");
    cr_assert_eq(options->timeout_ms, 250);
    accept("timeout_ms", "3s");
    cr_assert_eq(options->timeout_ms, 3000);
}

Test(lib_options, refuse_what_is_no_number) {
    static const char *const texts[] = {"",
                                        " 1",
                                        "1 ",
                                        "+1",
                                        "-1",
                                        "0x10",
                                        "1e3",
                                        "1.5s",
                                        "1MB",
                                        "1mib",
                                        "MiB",
                                        "1 MiB",
                                        "99999999999999999999",
                                        "18446744073709551616",
                                        "18446744073709551615GiB"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        refuse("segment_bytes", texts[i]);
    }
    refuse("timeout_ms", "1MiB");
    refuse("timeout_ms", "0");
    refuse("timeout_ms", "86400001");
    refuse("connections", "1s");
    refuse("connections", "65");
    refuse("key_bytes_max", "8193");
    cr_assert_eq(options->key_bytes_max, 8192, "a refused value changes nothing");
}

Test(lib_options, say_what_was_expected_and_what_came) {
    refuse("timeout_ms", "soon");
    cr_assert_str_eq(lkv_options_error(options),
                     "timeout_ms: expected a time (as 250, 250ms, 5s) in ms from 1 to 86400000; "
                     "got \"soon\"");
    refuse("no_such", "1");
    cr_assert_str_eq(lkv_options_error(options), "there is no option \"no_such\"");
    refuse("forward", "yes");
    cr_assert_str_eq(lkv_options_error(options), "forward: expected on or off; got \"yes\"");
    refuse("engine", "disk");
    cr_assert_str_eq(lkv_options_error(options),
                     "engine: expected memory or rocksdb; got \"disk\"");
    accept("timeout_ms", "1");
}

Test(lib_options, take_no_null) {
    refuse(NULL, "1");
    cr_assert_str_eq(lkv_options_error(options), "the name of an option is NULL");
    refuse("dir", NULL);
    cr_assert_str_eq(lkv_options_error(options), "dir is NULL");
}

Test(lib_options, check_names) {
    accept("id", "a");
    accept("id", "A-z_0.9");
    cr_assert_str_eq(options->id, "A-z_0.9");
    accept("id", "123456789012345678901234567890123456789012345678901234567890123");
    refuse("id", "1234567890123456789012345678901234567890123456789012345678901234");
    refuse("id", "a b");
    refuse("id", "a/b");
    refuse("id", "\xc3\xa4");
}

Test(lib_options, check_addresses) {
    accept("listen", "");
    accept("listen", "127.0.0.1:0");
    accept("listen", "[::1]:7001");
    accept("listen", "db-1.example.com:7001");
    accept("listen", "unix:/run/ledgerkv.sock");
    cr_assert_str_eq(options->listen, "unix:/run/ledgerkv.sock");
    static const char *const bad[] = {"127.0.0.1", ":7001",    "h:",    "h:65536",
                                      "h:-1",      "::1:7001", "[::1]", "[::1:7001",
                                      "[x]:1",     "unix:",    "a b:1", "h:7001x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        refuse("listen", bad[i]);
        refuse("endpoints", bad[i]);
    }
    refuse("endpoints", "h:0");
    char longest[400];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest + 390, ":7001", 6);
    refuse("listen", longest);
}

Test(lib_options, read_lists) {
    accept("peers", "n1=10.0.0.1:7001,n2=[::1]:7002,n3=h:3");
    cr_assert_eq(options->peer_count, 3);
    cr_assert_str_eq(options->peers[1].name, "n2");
    cr_assert_str_eq(options->peers[1].address, "[::1]:7002");
    static const char *const bad[] = {"n1",
                                      "n1=",
                                      "=h:1",
                                      "n1=h:1,",
                                      ",n1=h:1",
                                      "n1=h:1,,n2=h:2",
                                      "n1=h:1,n1=h:2",
                                      "n1=h:1,n2=h:1",
                                      "n1=h:0",
                                      "n 1=h:1",
                                      "a=h:1,b=h:2,c=h:3,d=h:4,e=h:5,f=h:6,g=h:7,h=h:8"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        refuse("peers", bad[i]);
        cr_assert_eq(options->peer_count, 3, "a refused list changes nothing");
    }
    accept("peers", "a=h:1,b=h:2,c=h:3,d=h:4,e=h:5,f=h:6,g=h:7");
    cr_assert_eq(options->peer_count, 7);
    accept("peers", "");
    cr_assert_eq(options->peer_count, 0);
    accept("endpoints", "a:1,b:2");
    cr_assert_eq(options->endpoint_count, 2);
    cr_assert_str_eq(options->endpoints[1], "b:2");
    refuse("endpoints", "a:1,");
    char many[17 * 6 + 1] = "";
    for (int i = 0; i < 17; i++) {
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "%sh:%d",
                       i == 0 ? "" : ",", i + 10);
        if (i == 15) {
            accept("endpoints", many);
        }
    }
    refuse("endpoints", many);
    cr_assert_eq(options->endpoint_count, 16);
}

Test(lib_options, keep_the_trace) {
    int here;
    void (*sink)(void *, int, const char *) = (void (*)(void *, int, const char *))(void *)&here;
    lkv_options_trace(options, sink, &here, TRACE_DEBUG);
    cr_assert_eq((void *)options->trace.sink, (void *)&here);
    cr_assert_eq(options->trace.arg, (void *)&here);
    cr_assert_eq(options->trace.level, TRACE_DEBUG);
    lkv_options_trace(options, NULL, NULL, 99);
    cr_assert_eq(options->trace.level, TRACE_INFO);
}

Test(lib_options, need_memory) {
    mem_fail_after(0);
    struct lkv_options *none = lkv_options_new();
    mem_fail_never();
    cr_assert_null(none);
    lkv_options_free(NULL);
}
