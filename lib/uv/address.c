#include "lib/uv/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <uv.h>

static const char unix_prefix[] = "unix:";

/* Decimal digits only: strtol would take a sign, spaces and a hexadecimal prefix. */
static bool parse_port(const char *text, uint16_t *out) {
    uint32_t port = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(*at - '0');
        if (port > UINT16_MAX) {
            return false;
        }
    }
    *out = (uint16_t)port;
    return *text != '\0';
}

static int parse_unix(const char *path, struct address *out, struct reason *why) {
    size_t size = strlen(path);
    if (size == 0) {
        return reason_set(why, LKV_EINVAL, "unix: is followed by no path");
    }
    if (size >= sizeof(out->path)) {
        return reason_set(why, LKV_EINVAL,
                          "unix:%s: the path has %zu bytes, a socket's has at most %d", path, size,
                          ADDRESS_PATH_SIZE - 1);
    }
    out->kind = ADDRESS_UNIX;
    memcpy(out->path, path, size + 1);
    return 0;
}

/* Where the host begins and how long it is, and where the port begins. */
static bool split(const char *text, const char **host, size_t *size, const char **port) {
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return false;
    }
    *host = text;
    *size = (size_t)(colon - text);
    *port = colon + 1;
    if (text[0] == '[') {
        if (*size < 2 || text[*size - 1] != ']') {
            return false;
        }
        *host += 1;
        *size -= 2;
        return true;
    }
    /* Which colon of 1::2:7001 begins the port? Brackets say so. */
    return memchr(text, ':', *size) == NULL;
}

static bool parse_numeric(struct address *address, bool bracketed) {
    if (bracketed) {
        return uv_ip6_addr(address->host, address->port,
                           (struct sockaddr_in6 *)(void *)&address->socket) == 0;
    }
    return uv_ip4_addr(address->host, address->port,
                       (struct sockaddr_in *)(void *)&address->socket) == 0;
}

static bool is_name(const char *host) {
    for (const char *at = host; *at != '\0'; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        bool digit = *at >= '0' && *at <= '9';
        if (!letter && !digit && strchr("-._", *at) == NULL) {
            return false;
        }
    }
    return *host != '\0';
}

int address_parse(const char *text, struct address *out, struct reason *why) {
    *out = (struct address){0};
    if (strncmp(text, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        return parse_unix(text + sizeof(unix_prefix) - 1, out, why);
    }
    const char *host, *port;
    size_t size;
    if (!split(text, &host, &size, &port) || size == 0) {
        return reason_set(why, LKV_EINVAL, "%s: expected HOST:PORT, [V6]:PORT or unix:PATH", text);
    }
    if (!parse_port(port, &out->port)) {
        return reason_set(why, LKV_EINVAL, "%s: the port is not a number from 0 to 65535", text);
    }
    if (size >= sizeof(out->host)) {
        return reason_set(why, LKV_EINVAL, "%s: the host is longer than %d bytes", text,
                          ADDRESS_HOST_SIZE - 1);
    }
    memcpy(out->host, host, size);
    out->host[size] = '\0';

    bool bracketed = text[0] == '[';
    if (parse_numeric(out, bracketed)) {
        out->kind = ADDRESS_NUMERIC;
        return 0;
    }
    if (bracketed || !is_name(out->host)) {
        return reason_set(why, LKV_EINVAL, "%s: %s is not a valid %s", text, out->host,
                          bracketed ? "IPv6 address" : "host name");
    }
    out->kind = ADDRESS_NAME;
    return 0;
}

static void format_ip4(const struct sockaddr_in *socket, char *text) {
    char host[INET_ADDRSTRLEN] = "?";
    (void)uv_ip4_name(socket, host, sizeof(host));
    (void)snprintf(text, ADDRESS_TEXT_SIZE, "%s:%u", host, (unsigned)ntohs(socket->sin_port));
}

static void format_ip6(const struct sockaddr_in6 *socket, char *text) {
    char host[INET6_ADDRSTRLEN] = "?";
    char zone[IF_NAMESIZE + 1] = "";
    (void)uv_ip6_name(socket, host, sizeof(host));
    if (socket->sin6_scope_id != 0 && if_indextoname(socket->sin6_scope_id, zone + 1) != NULL) {
        zone[0] = '%';
    }
    (void)snprintf(text, ADDRESS_TEXT_SIZE, "[%s%s]:%u", host, zone,
                   (unsigned)ntohs(socket->sin6_port));
}

void address_format(const struct sockaddr *socket, char text[static ADDRESS_TEXT_SIZE]) {
    const void *any = socket;
    if (socket->sa_family == AF_INET) {
        format_ip4(any, text);
    } else if (socket->sa_family == AF_INET6) {
        format_ip6(any, text);
    } else if (socket->sa_family == AF_UNIX) {
        const struct sockaddr_un *local = any;
        (void)snprintf(text, ADDRESS_TEXT_SIZE, "%s%.*s", unix_prefix,
                       (int)strnlen(local->sun_path, sizeof(local->sun_path)), local->sun_path);
    } else {
        (void)snprintf(text, ADDRESS_TEXT_SIZE, "?");
    }
}
