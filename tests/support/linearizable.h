/* Is a history linearizable? A black box's judgement: nothing that the store says of indices or revisions is
 * believed, only what was asked, what was answered, and when.
 *
 * Each key is a register of its own (linearizability is local to an object), so keys are judged one by
 * one. The search is Wing & Gong's with Lowe's memo ("Testing for linearizability", 2017), breadth first
 * in the order of events:
 *
 *     frontier = every state in which the register can be now: its value, and which of the operations
 *                that are under way have taken their place already
 *     an operation begins     it may take its place from now on, in each state
 *     an operation ends       each state without it is carried on, by every order of operations under
 *                             way, until it has its place; a state that was seen is not searched twice
 *
 * An empty frontier means that no order explains the answers. Between events nothing is kept but the
 * frontier, so memory is bounded by the operations that overlap, not by the history's length; at a
 * moment at which nothing is under way (a quiescent one) it is only a few values.
 *
 * Reads need no search: one that would be answered right takes its place at once. Writes that nobody reads
 * need none either: they take their places just before the next put or delete, where they change nothing.
 *
 * What was never answered may take its place at any time after it began, or never. Such writes are counted
 * in classes of equals, since equals need no order, and forgotten when nobody reads their value any more.
 *
 * Deterministic. One thread; no globals. */
#ifndef TESTS_SUPPORT_LINEARIZABLE_H
#define TESTS_SUPPORT_LINEARIZABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    LIN_ABSENT = 0,          /* the value of a key that does not exist */
    LIN_OPEN_MAX = 64,       /* answered operations on one key under way at once */
    LIN_CLASSES_MAX = 48,    /* different unanswered writes of one key whose value is still read */
    LIN_STATES_MAX = 1 << 20 /* in the search for one operation's place: 64 MiB and its index */
};
#define LIN_NEVER UINT64_MAX

enum lin_kind { LIN_GET, LIN_PUT, LIN_DELETE, LIN_CAS };

enum lin_outcome {
    LIN_OK,
    LIN_FAIL, /* definitely not done: says nothing */
    LIN_INFO  /* unknown: open for ever */
};

/* Keys and values are the caller's numbers for them. The more values are unique the sharper is the
 * judgement. */
struct lin_op {
    uint64_t key;
    uint64_t begun_ns, ended_ns; /* at one moment: as if they overlapped; LIN_NEVER for LIN_INFO */
    enum lin_kind kind;
    enum lin_outcome outcome;
    uint64_t value;    /* put, cas: what it writes; get: what was answered; delete: LIN_ABSENT */
    uint64_t expected; /* cas: what it found */
};

enum lin_verdict {
    LIN_LINEARIZABLE,
    LIN_VIOLATED,
    LIN_UNDECIDED /* beyond a limit: `why` says which */
};

struct lin_result {
    enum lin_verdict verdict;
    size_t keys, operations; /* that were judged */
    size_t states_max;       /* the largest search for one operation's place */
    char why[256];           /* unless LIN_LINEARIZABLE */
    /* LIN_VIOLATED: the key, and positions in `ops` of operations that have no order, in the order in which
     * they began. They are minimal: with any one of them free to be anywhere, the rest has an order.
     * Values of unanswered writes that they read are among them. */
    uint64_t key;
    size_t *culprits; /* owned */
    size_t culprit_count;
    size_t last;                /* position of the first operation for which no place was left */
    uint64_t from_ns, until_ns; /* the smallest window that shows it */
};

/* Borrows `ops`; any order. `states_max` bounds the search for one operation's place, at most LIN_STATES_MAX. Keys are judged in ascending order, up to the first that is not in order. The
 * test program ends when memory does. To be followed by lin_result_fini. */
void lin_check(const struct lin_op *ops, size_t count, size_t states_max, struct lin_result *out);
void lin_result_fini(struct lin_result *result);

/* What a report calls things; each may be NULL, then numbers are printed. `out` is written to. */
struct lin_names {
    void (*key)(const void *arg, uint64_t key, FILE *out);
    void (*value)(const void *arg, uint64_t value, FILE *out);  /* never of LIN_ABSENT */
    void (*where)(const void *arg, size_t position, FILE *out); /* "line 7: process 3" */
    const void *arg;
};

/* Unless LIN_LINEARIZABLE: what was found, in lines. */
void lin_print(const struct lin_result *result, const struct lin_op *ops, size_t count,
               const struct lin_names *names, FILE *out);

#endif
