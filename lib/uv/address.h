/* Addresses as people write them: "HOST:PORT", "[V6]:PORT", "unix:PATH". Any thread; no lookups. */
#ifndef LIB_UV_ADDRESS_H
#define LIB_UV_ADDRESS_H

#include "base/error.h"

#include <stdint.h>
#include <sys/socket.h>

enum {
    ADDRESS_HOST_SIZE = 256, /* a name has at most 253 bytes */
    ADDRESS_PATH_SIZE = 108, /* the kernel's, with the final NUL */
    ADDRESS_TEXT_SIZE = 128  /* any address of a socket as text */
};

enum address_kind {
    ADDRESS_NUMERIC, /* socket: an IPv4 or IPv6 address and a port */
    ADDRESS_NAME,    /* host and port: to be looked up */
    ADDRESS_UNIX     /* path */
};

struct address {
    enum address_kind kind;
    uint16_t port;
    struct sockaddr_storage socket;
    char host[ADDRESS_HOST_SIZE];
    char path[ADDRESS_PATH_SIZE];
};

/* LKV_EINVAL, with the reason. `why` may be NULL. */
int address_parse(const char *text, struct address *out, struct reason *why) MUST_USE;

/* "127.0.0.1:7001", "[::1]:7001", "unix:PATH", "unix:" for a nameless one. */
void address_format(const struct sockaddr *socket, char text[static ADDRESS_TEXT_SIZE]);

#endif
