/* Numbers in sessions for many writes at once: as many sessions as it takes for so many to be under way,
 * and no number further ahead than its session can tell apart. */
#ifndef CLI_ONCE_H
#define CLI_ONCE_H

#include "cli.h"

enum { ONCE_WINDOW = 256 };

struct once_session {
    struct lkv_session *session; /* owned */
    uint64_t generation;         /* counts the sessions in this place */
    uint64_t base, next;         /* numbers from base on are under way or done, next is unused */
    bool done[ONCE_WINDOW];
};

struct once {
    struct lkv *db;
    struct once_session *sessions; /* owned */
    size_t count, rotation;
    uint64_t reopened;
};

struct once_number {
    size_t session;
    uint64_t generation;
    uint64_t seq; /* 0: none */
};

/* 0, or what lkv_session_open says. once_close() in any case. */
int once_open(struct once *once, struct lkv *db, size_t in_flight);
void once_close(struct once *once, int64_t timeout_ms);

/* A new number; false when none is free before one that is under way is done. */
bool once_take(struct once *once, struct once_number *out);
void once_done(struct once *once, struct once_number number);
struct lkv_session *once_session(const struct once *once, struct once_number number);

/* False for none, and for one whose session was replaced. */
bool once_valid(const struct once *once, struct once_number number);

/* The number's session has ended. Opens another in its place if nobody did yet: its numbers are invalid
 * then. 0, or what lkv_session_open says. */
int once_reopen(struct once *once, struct once_number number);

#endif
