#include "base/scan.h"

#include <criterion/criterion.h>

static const struct scan_limits limits = {.bytes_max = 1000, .objects_max = 100};

static int scan_all(const uint8_t *bytes, size_t size, size_t *used) {
    struct scan scan = {0};
    struct reason why = {{0}};
    int rc = scan_object(&scan, slice_of(bytes, size), &limits, &why);
    cr_expect(rc >= 0 || why.text[0] != '\0');
    *used = scan.offset;
    return rc;
}

#define SCAN(used, ...) \
    scan_all((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), &(used))

Test(base_scan, accepts_each_type) {
    size_t used;
    cr_expect(SCAN(used, 0x00) == 1 && used == 1);
    cr_expect(SCAN(used, 0xff) == 1 && used == 1);
    cr_expect(SCAN(used, 0xc0) == 1 && used == 1);
    cr_expect(SCAN(used, 0xc2) == 1 && used == 1);
    cr_expect(SCAN(used, 0xc3) == 1 && used == 1);
    cr_expect(SCAN(used, 0xcc, 1) == 1 && used == 2);
    cr_expect(SCAN(used, 0xcd, 1, 2) == 1 && used == 3);
    cr_expect(SCAN(used, 0xce, 1, 2, 3, 4) == 1 && used == 5);
    cr_expect(SCAN(used, 0xcf, 1, 2, 3, 4, 5, 6, 7, 8) == 1 && used == 9);
    cr_expect(SCAN(used, 0xd0, 1) == 1 && used == 2);
    cr_expect(SCAN(used, 0xd3, 1, 2, 3, 4, 5, 6, 7, 8) == 1 && used == 9);
    cr_expect(SCAN(used, 0xca, 1, 2, 3, 4) == 1 && used == 5);
    cr_expect(SCAN(used, 0xcb, 1, 2, 3, 4, 5, 6, 7, 8) == 1 && used == 9);
    cr_expect(SCAN(used, 0xa2, 'a', 'b') == 1 && used == 3);
    cr_expect(SCAN(used, 0xd9, 1, 'a') == 1 && used == 3);
    cr_expect(SCAN(used, 0xda, 0, 1, 'a') == 1 && used == 4);
    cr_expect(SCAN(used, 0xdb, 0, 0, 0, 1, 'a') == 1 && used == 6);
    cr_expect(SCAN(used, 0xc4, 1, 'a') == 1 && used == 3);
    cr_expect(SCAN(used, 0xc5, 0, 0) == 1 && used == 3);
    cr_expect(SCAN(used, 0xc6, 0, 0, 0, 1, 'a') == 1 && used == 6);
    cr_expect(SCAN(used, 0x90) == 1 && used == 1);
    cr_expect(SCAN(used, 0x92, 1, 0x91, 2) == 1 && used == 4);
    cr_expect(SCAN(used, 0x81, 1, 2) == 1 && used == 3);
    cr_expect(SCAN(used, 0xdc, 0, 2, 1, 2) == 1 && used == 5);
    cr_expect(SCAN(used, 0xde, 0, 1, 1, 2) == 1 && used == 5);
}

Test(base_scan, stops_at_the_object_s_end) {
    size_t used;
    cr_expect(SCAN(used, 0x91, 1, 0x91, 2) == 1 && used == 2);
}

Test(base_scan, refuses_extensions_and_the_unused_byte) {
    size_t used;
    cr_expect(SCAN(used, 0xc1) == LKV_EPROTOCOL);
    cr_expect(SCAN(used, 0xc7, 1, 1, 1) == LKV_EPROTOCOL);
    cr_expect(SCAN(used, 0xd4, 1, 1) == LKV_EPROTOCOL);
    cr_expect(SCAN(used, 0xd8) == LKV_EPROTOCOL);
}

/* N2, N4: refused while the announced bytes are not there, and before anybody waits for them. */
Test(base_scan, refuses_what_is_announced_beyond_the_limits) {
    size_t used;
    cr_expect(SCAN(used, 0xdd, 0x00, 0xff, 0xff, 0xff) == LKV_ETOOLARGE);
    cr_expect(SCAN(used, 0xdd, 0xff, 0x00, 0x00, 0x00) == LKV_ETOOLARGE);
    cr_expect(SCAN(used, 0xdf, 0xff, 0xff, 0xff, 0xff) == LKV_ETOOLARGE);
    cr_expect(SCAN(used, 0xc6, 0xff, 0xff, 0xff, 0xff) == LKV_ETOOLARGE);
    cr_expect(SCAN(used, 0xdb, 0x00, 0x00, 0x04, 0x00) == LKV_ETOOLARGE);
    cr_expect(SCAN(used, 0xdc, 0, 100) == LKV_ETOOLARGE, "with itself it is the 101st object");
    cr_expect(SCAN(used, 0xdc, 0, 99) == 0);
    cr_expect(SCAN(used, 0x92, 0xdc, 0, 90, 1) == 0);
    cr_expect(SCAN(used, 0x93, 0x91, 1, 0xdc, 0, 99) == LKV_ETOOLARGE, "summed over nesting");
}

Test(base_scan, refuses_the_byte_beyond_the_limit) {
    uint8_t bytes[1001] = {0xc5, 0x03, 0xe5}; /* 3 + 997 */
    size_t used;
    cr_expect(scan_all(bytes, sizeof bytes, &used) == 1 && used == 1000);
    bytes[2] = 0xe6;
    cr_expect(scan_all(bytes, sizeof bytes, &used) == LKV_ETOOLARGE);
}

/* N5 */
Test(base_scan, refuses_the_ninth_level_whatever_follows) {
    static uint8_t bytes[100000];
    memset(bytes, 0x91, sizeof bytes);
    size_t used;
    cr_expect(scan_all(bytes, sizeof bytes, &used) == LKV_EPROTOCOL);
    bytes[SCAN_DEPTH_MAX] = 7;
    cr_expect(scan_all(bytes, sizeof bytes, &used) == 1 && used == SCAN_DEPTH_MAX + 1);
}

Test(base_scan, goes_on_where_it_stopped) {
    static const uint8_t bytes[] = {0x93, 0xc4, 3, 1,    2, 3, 0x82, 0xa1, 'k', 1,
                                    0xa1, 'l',  2, 0xdc, 0, 1, 0xcd, 1,    2};
    struct scan scan = {0};
    for (size_t size = 0; size < sizeof bytes; size++) {
        cr_assert(scan_object(&scan, slice_of(bytes, size), &limits, NULL) == 0);
    }
    cr_expect(scan_object(&scan, slice_of(bytes, sizeof bytes), &limits, NULL) == 1);
    cr_expect(scan.offset == sizeof bytes);
}
