#include "lib/uv/address.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static struct address parsed(const char *text) {
    struct address address;
    struct reason why = {{0}};
    cr_assert_eq(address_parse(text, &address, &why), 0, "%s: %s", text, why.text);
    return address;
}

static void assert_formats_as_parsed(const char *text) {
    struct address address = parsed(text);
    char formatted[ADDRESS_TEXT_SIZE];
    cr_assert_eq(address.kind, ADDRESS_NUMERIC);
    address_format((const struct sockaddr *)&address.socket, formatted);
    cr_assert_str_eq(formatted, text);
}

Test(uv_address, numeric_addresses_are_read_and_written_alike) {
    assert_formats_as_parsed("127.0.0.1:7001");
    assert_formats_as_parsed("0.0.0.0:0");
    assert_formats_as_parsed("255.255.255.255:65535");
    assert_formats_as_parsed("[::]:7001");
    assert_formats_as_parsed("[::1]:1");
    assert_formats_as_parsed("[2001:db8::42]:7001");
    assert_formats_as_parsed("[fe80::1%lo]:7001");
}

Test(uv_address, anything_else_before_the_port_is_a_name) {
    static const char *const names[] = {"localhost", "n1.example.com", "a",
                                        "my_host-2", "1.2.3",          "1.2.3.4.5"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s:7001", names[i]);
        struct address address = parsed(text);
        cr_assert_eq(address.kind, ADDRESS_NAME);
        cr_assert_str_eq(address.host, names[i]);
        cr_assert_eq(address.port, 7001);
    }
}

Test(uv_address, unix_paths_are_taken_as_they_are) {
    struct address address = parsed("unix:/run/a:b/[c]");
    cr_assert_eq(address.kind, ADDRESS_UNIX);
    cr_assert_str_eq(address.path, "/run/a:b/[c]");
    cr_assert_str_eq(parsed("unix:ctl.sock").path, "ctl.sock");
}

Test(uv_address, bad_addresses_are_refused_and_named) {
    static const char *const bad[] = {"",
                                      "7001",
                                      ":7001",
                                      "host",
                                      "host:",
                                      "host:x",
                                      "host:-1",
                                      "host:+1",
                                      "host: 1",
                                      "host:65536",
                                      "host:0x10",
                                      "host:1 ",
                                      "::1:7001",
                                      "[::1]",
                                      "[::1]7001",
                                      "[::1:7001",
                                      "[]:7001",
                                      "[host]:7001",
                                      "[1.2.3.4]:1",
                                      "ho st:7001",
                                      "h/ost:1",
                                      "host:99999999999999999999",
                                      "unix:",
                                      "[::1]]:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct address address;
        struct reason why = {{0}};
        cr_assert_eq(address_parse(bad[i], &address, &why), LKV_EINVAL, "%s", bad[i]);
        cr_assert(strstr(why.text, bad[i]) != NULL, "%s", why.text);
        cr_assert_eq(address_parse(bad[i], &address, NULL), LKV_EINVAL);
    }
}

/* A name cut to the size of a field would be another name. */
Test(uv_address, too_long_is_refused_and_never_cut) {
    struct address address;
    char text[600];
    memset(text, 'a', sizeof(text));
    (void)snprintf(text + 255, sizeof(text) - 255, ":7001");
    cr_assert_eq(address_parse(text, &address, NULL), 0);
    cr_assert_eq(strlen(address.host), 255);
    memset(text, 'a', sizeof(text));
    (void)snprintf(text + 256, sizeof(text) - 256, ":7001");
    cr_assert_eq(address_parse(text, &address, NULL), LKV_EINVAL);

    memset(text, 'a', sizeof(text));
    memcpy(text, "unix:", 5);
    text[5 + 107] = '\0';
    cr_assert_eq(address_parse(text, &address, NULL), 0);
    cr_assert_eq(strlen(address.path), 107);
    text[5 + 107] = 'a';
    text[5 + 108] = '\0';
    cr_assert_eq(address_parse(text, &address, NULL), LKV_EINVAL);
}

Test(uv_address, sockets_of_other_kinds_have_a_text_too) {
    char text[ADDRESS_TEXT_SIZE];
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/a"};
    address_format((const struct sockaddr *)&local, text);
    cr_assert_str_eq(text, "unix:/a");
    memset(local.sun_path, 'x', sizeof(local.sun_path)); /* without a final NUL */
    address_format((const struct sockaddr *)&local, text);
    cr_assert_eq(strlen(text), 5 + sizeof(local.sun_path));
    struct sockaddr other = {.sa_family = AF_UNSPEC};
    address_format(&other, text);
    cr_assert_str_eq(text, "?");
}
