#include "base/scan.h"

/* What one byte and the length field behind it announce. */
struct token {
    size_t head;    /* first byte and length field */
    uint64_t body;  /* bytes that follow, no objects of their own */
    uint64_t items; /* objects that follow */
    bool nested;    /* opens a level */
    bool refused;   /* no such byte, or an extension: our formats have none */
};

static uint64_t big_endian(const uint8_t *at, size_t size) {
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value = value << 8 | at[i];
    }
    return value;
}

/* The width of the length field or number behind 0xc4 .. 0xdf. */
static size_t width(uint8_t first) {
    switch (first) {
    case 0xc4: /* bin 8 */
    case 0xcc: /* uint 8 */
    case 0xd0: /* int 8 */
    case 0xd9: /* str 8 */ return 1;
    case 0xc5: /* bin 16 */
    case 0xcd: /* uint 16 */
    case 0xd1: /* int 16 */
    case 0xda: /* str 16 */
    case 0xdc: /* array 16 */
    case 0xde: /* map 16 */ return 2;
    case 0xc6: /* bin 32 */
    case 0xca: /* float 32 */
    case 0xce: /* uint 32 */
    case 0xd2: /* int 32 */
    case 0xdb: /* str 32 */
    case 0xdd: /* array 32 */
    case 0xdf: /* map 32 */ return 4;
    case 0xcb: /* float 64 */
    case 0xcf: /* uint 64 */
    case 0xd3: /* int 64 */ return 8;
    default: return 0;
    }
}

static bool is_number(uint8_t first) {
    return (first >= 0xca && first <= 0xcf) || (first >= 0xd0 && first <= 0xd3);
}

/* Bytes of one byte only, or whose count is in that byte. */
static struct token fixed_token(uint8_t first) {
    if (first >= 0x80 && first <= 0x8f) {
        return (struct token){.head = 1, .items = 2 * (uint64_t)(first & 0x0f), .nested = true};
    }
    if (first >= 0x90 && first <= 0x9f) {
        return (struct token){.head = 1, .items = first & 0x0f, .nested = true};
    }
    if (first >= 0xa0 && first <= 0xbf) {
        return (struct token){.head = 1, .body = first & 0x1f};
    }
    bool plain = first <= 0x7f || first >= 0xe0 || first == 0xc0 || first == 0xc2 || first == 0xc3;
    return (struct token){.head = 1, .refused = !plain};
}

/* head == 0: the length field has not arrived. */
static struct token read_token(struct slice rest) {
    uint8_t first = rest.data[0];
    size_t size = width(first);
    if (size == 0) {
        return fixed_token(first);
    }
    if (is_number(first)) {
        return (struct token){.head = 1, .body = size};
    }
    if (rest.size < 1 + size) {
        return (struct token){0};
    }
    uint64_t length = big_endian(rest.data + 1, size);
    if (first == 0xdc || first == 0xdd) {
        return (struct token){.head = 1 + size, .items = length, .nested = true};
    }
    if (first == 0xde || first == 0xdf) {
        return (struct token){.head = 1 + size, .items = 2 * length, .nested = true};
    }
    return (struct token){.head = 1 + size, .body = length};
}

/* Every announced byte and object is checked against what is left of the limits, before anything
 * waits for it or makes room for it. Each announced object has at least one byte. */
static int check(const struct scan *scan, const struct token *token,
                 const struct scan_limits *limits, struct reason *why) {
    if (token->refused) {
        return reason_set(why, LKV_EPROTOCOL, "no msgpack type we use starts at byte %zu",
                          scan->offset);
    }
    uint64_t least = token->head + token->body + token->items;
    if (least > limits->bytes_max - scan->offset) {
        return reason_set(why, LKV_ETOOLARGE,
                          "byte %zu announces %llu bytes more; at most %zu in all are accepted",
                          scan->offset, (unsigned long long)least, limits->bytes_max);
    }
    if (scan->objects + token->items + (scan->objects == 0 ? 1 : 0) > limits->objects_max) {
        return reason_set(why, LKV_ETOOLARGE,
                          "byte %zu announces %llu objects; at most %u in all are accepted",
                          scan->offset, (unsigned long long)token->items, limits->objects_max);
    }
    if (token->nested && scan->depth == SCAN_DEPTH_MAX) {
        return reason_set(why, LKV_EPROTOCOL, "more than %d levels of nesting at byte %zu",
                          SCAN_DEPTH_MAX, scan->offset);
    }
    return 0;
}

/* One object is complete; levels that it completes are closed. True: so is the outermost one. */
static bool close_levels(struct scan *scan) {
    while (scan->depth > 0) {
        if (--scan->left[scan->depth - 1] > 0) {
            return false;
        }
        scan->depth--;
    }
    return true;
}

int scan_object(struct scan *scan, struct slice bytes, const struct scan_limits *limits,
                struct reason *why) {
    while (scan->offset < bytes.size) {
        if (scan->offset >= limits->bytes_max) {
            return reason_set(why, LKV_ETOOLARGE, "longer than %zu bytes", limits->bytes_max);
        }
        struct slice rest = slice_of(bytes.data + scan->offset, bytes.size - scan->offset);
        struct token token = read_token(rest);
        if (token.head == 0) {
            return 0;
        }
        int rc = check(scan, &token, limits, why);
        if (rc != 0) {
            return rc;
        }
        if (rest.size < token.head + token.body) {
            return 0; /* its body is arriving; its length was accepted */
        }
        scan->offset += token.head + (size_t)token.body;
        scan->objects += (uint32_t)token.items + (scan->objects == 0 ? 1 : 0);
        if (token.nested && token.items > 0) {
            scan->left[scan->depth++] = (uint32_t)token.items;
        } else if (close_levels(scan)) {
            return 1;
        }
    }
    return 0;
}
