#include "lib/option_value.h"

#include "lib/uv/address.h"

#include <inttypes.h>
#include <string.h>

struct unit_row {
    enum option_unit unit;
    const char *suffix;
    uint64_t factor;
};

static const struct unit_row unit_rows[] = {
    {UNIT_NONE, "", 1},
    {UNIT_BYTES, "", 1},
    {UNIT_BYTES, "KiB", UINT64_C(1) << 10},
    {UNIT_BYTES, "MiB", UINT64_C(1) << 20},
    {UNIT_BYTES, "GiB", UINT64_C(1) << 30},
    {UNIT_MS, "", 1},
    {UNIT_MS, "ms", 1},
    {UNIT_MS, "s", 1000},
};

static const struct unit_row *find_unit(enum option_unit unit, const char *suffix) {
    for (size_t i = 0; i < sizeof(unit_rows) / sizeof(unit_rows[0]); i++) {
        if (unit_rows[i].unit == unit && strcmp(unit_rows[i].suffix, suffix) == 0) {
            return &unit_rows[i];
        }
    }
    return NULL;
}

/* Past the digits, or NULL without one or when the number does not fit: strtoull would also take
 * spaces, a sign and other bases. */
static const char *parse_digits(const char *text, uint64_t *out) {
    *out = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*at - '0'), out)) {
            return NULL;
        }
    }
    return at != text ? at : NULL;
}

static int refuse_number(enum option_unit unit, uint64_t min, uint64_t max, struct reason *why) {
    static const char *const forms[] = {[UNIT_NONE] = "a number from",
                                        [UNIT_BYTES] = "a size (as 4096, 64KiB, 8MiB, 1GiB) from",
                                        [UNIT_MS] = "a time (as 250, 250ms, 5s) in ms from"};
    return reason_set(why, LKV_EOPTION, "expected %s %" PRIu64 " to %" PRIu64, forms[unit], min,
                      max);
}

int option_number(const char *text, enum option_unit unit, uint64_t min, uint64_t max,
                  uint64_t *out, struct reason *why) {
    uint64_t number;
    const char *suffix = parse_digits(text, &number);
    const struct unit_row *row = suffix != NULL ? find_unit(unit, suffix) : NULL;
    if (row == NULL || __builtin_mul_overflow(number, row->factor, &number) || number < min ||
        number > max) {
        return refuse_number(unit, min, max, why);
    }
    *out = number;
    return 0;
}

int option_switch(const char *text, bool *out, struct reason *why) {
    bool on = strcmp(text, "on") == 0;
    if (!on && strcmp(text, "off") != 0) {
        return reason_set(why, LKV_EOPTION, "expected on or off");
    }
    *out = on;
    return 0;
}

static bool is_name_byte(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-';
}

int option_name(struct slice text, char out[static NAME_SIZE], struct reason *why) {
    bool good = text.size >= 1 && text.size < NAME_SIZE;
    for (size_t i = 0; good && i < text.size; i++) {
        good = is_name_byte(text.data[i]);
    }
    if (!good) {
        return reason_set(why, LKV_EOPTION, "expected a name of 1 to %d of [A-Za-z0-9._-]",
                          NAME_SIZE - 1);
    }
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return 0;
}

int option_address(struct slice text, bool any_port, char out[static ADDRESS_SIZE],
                   struct reason *why) {
    static const char expected[] = "expected HOST:PORT, [V6]:PORT or unix:PATH";
    if (text.size == 0 || text.size >= ADDRESS_SIZE) {
        return reason_set(why, LKV_EOPTION, "%s of at most %d bytes", expected, ADDRESS_SIZE - 1);
    }
    char copy[ADDRESS_SIZE];
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    struct address address;
    struct reason inner = {{0}};
    if (address_parse(copy, &address, &inner) != 0) {
        return reason_set(why, LKV_EOPTION, "%s (%.400s)", expected, inner.text);
    }
    if (address.kind != ADDRESS_UNIX && address.port == 0 && !any_port) {
        return reason_set(why, LKV_EOPTION, "expected a port from 1 to 65535");
    }
    memcpy(out, copy, text.size + 1);
    return 0;
}

/* The next part of a comma-separated list; false at its end. An empty part is a part. */
static bool next_part(const char **rest, struct slice *part) {
    if (*rest == NULL) {
        return false;
    }
    size_t size = strcspn(*rest, ",");
    *part = slice_of(*rest, size);
    *rest = (*rest)[size] == ',' ? *rest + size + 1 : NULL;
    return true;
}

static int parse_peer(struct slice part, struct option_peer *out, struct reason *why) {
    const uint8_t *sign = part.size > 0 ? memchr(part.data, '=', part.size) : NULL;
    if (sign == NULL) {
        return reason_set(why, LKV_EOPTION, "expected ID=HOST:PORT,...");
    }
    size_t size = (size_t)(sign - part.data);
    int rc = option_name(slice_of(part.data, size), out->name, why);
    return rc != 0
               ? rc
               : option_address(slice_of(sign + 1, part.size - size - 1), false, out->address, why);
}

static int check_distinct(const struct option_peer *peers, size_t count, struct reason *why) {
    const struct option_peer *last = &peers[count - 1];
    for (size_t i = 0; i + 1 < count; i++) {
        if (strcmp(peers[i].name, last->name) == 0) {
            return reason_set(why, LKV_EOPTION, "expected each ID once, %s comes twice",
                              last->name);
        }
        if (strcmp(peers[i].address, last->address) == 0) {
            return reason_set(why, LKV_EOPTION, "expected distinct addresses, %s comes twice",
                              last->address);
        }
    }
    return 0;
}

int option_peers(const char *text, struct option_peer out[static OPTION_PEERS_MAX], size_t *count,
                 struct reason *why) {
    struct option_peer peers[OPTION_PEERS_MAX] = {{{0}, {0}}};
    size_t found = 0;
    struct slice part;
    for (const char *rest = *text != '\0' ? text : NULL; next_part(&rest, &part);) {
        if (found == OPTION_PEERS_MAX) {
            return reason_set(why, LKV_EOPTION, "expected at most %d peers", OPTION_PEERS_MAX);
        }
        int rc = parse_peer(part, &peers[found], why);
        if (rc == 0) {
            rc = check_distinct(peers, ++found, why);
        }
        if (rc != 0) {
            return rc;
        }
    }
    memcpy(out, peers, sizeof(peers));
    *count = found;
    return 0;
}

int option_endpoints(const char *text, char out[static OPTION_ENDPOINTS_MAX][ADDRESS_SIZE],
                     size_t *count, struct reason *why) {
    char endpoints[OPTION_ENDPOINTS_MAX][ADDRESS_SIZE] = {{0}};
    size_t found = 0;
    struct slice part;
    for (const char *rest = *text != '\0' ? text : NULL; next_part(&rest, &part);) {
        if (found == OPTION_ENDPOINTS_MAX) {
            return reason_set(why, LKV_EOPTION, "expected at most %d endpoints",
                              OPTION_ENDPOINTS_MAX);
        }
        int rc = option_address(part, false, endpoints[found++], why);
        if (rc != 0) {
            return rc;
        }
    }
    memcpy(out, endpoints, sizeof(endpoints));
    *count = found;
    return 0;
}
