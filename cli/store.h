/* The store that a data command works on: nodes at --endpoints, or a directory.
 *
 * A directory is opened in this process. When a live process holds it, that process is asked instead,
 * through the socket in the directory: `kvctl --dir D` means the same whether D is served or not. A
 * directory of a cluster's member that nobody serves is read as it is, with a warning, and not written.
 */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "cli.h"

enum purpose { TO_READ, TO_WRITE, TO_DELETE }; /* only TO_WRITE makes a store that is not there */

struct store {
    struct cli *cli;
    struct lkv *db;          /* owned */
    struct lkv_queue *queue; /* owned */
    enum lkv_read how;
    bool embedded;
};

/* 0, or the exit code, having said why. store_close() only after 0. */
int store_open(struct cli *cli, enum purpose purpose, struct store *store);
void store_close(struct store *store);

/* A client of `endpoints`; 0, or the exit code, having said why. */
int store_connect(struct cli *cli, const char *endpoints, struct lkv **out);

/* Milliseconds left for the next call. */
int64_t store_left(const struct store *store);

/* The final message of what was submitted, owned by the caller. */
struct lkv_msg *store_answer(struct store *store);

/* Sets name to text; 0, or the exit code, having said why. */
int option_set(struct cli *cli, struct lkv_options *options, const char *name, const char *text);

/* Diagnostics of the level that --trace names as lines on stderr; 0, or the exit code. */
int option_trace(struct cli *cli, struct lkv_options *options, const char *fallback);

extern const char default_endpoint[];

#endif
