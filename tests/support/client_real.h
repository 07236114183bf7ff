/* A host of client_host.h on a real loop and real sockets, with its own thread. */
#ifndef TESTS_SUPPORT_CLIENT_REAL_H
#define TESTS_SUPPORT_CLIENT_REAL_H

#include "tests/support/client_host.h"

struct real_host {
    struct host_store store;
    struct host host;
    struct loop *loop;
    struct net *net;
    char address[128];
};

/* "127.0.0.1:0" lets the system choose: see `address`. */
void real_host_start(struct real_host *real, const char *address);
void real_host_stop(struct real_host *real); /* what clients wrote is lost */

/* A client of it. */
struct lkv *real_client(const char *endpoints, const char *connections);

size_t count_threads(void); /* of this process */
size_t count_descriptors(void);

/* For plain test programs: prints and exits on failure. */
#define CHECK(condition) check_that((condition), #condition, __FILE__, __LINE__)
void check_that(bool good, const char *condition, const char *file, int line);

#endif
