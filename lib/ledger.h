/* The state of log mode: what the log's entries mean beside being records. Pure.
 *
 *   log        ... | A1 A2 A3 | B1 B2 | noop | C1 C2 ...        A, B, C: appends of several records
 *                             ^ visible      ^ applied            B lost its rest: void, never shown
 *
 * It holds the sessions (rule 26), a chain of hashes over all entries so far, and how far readers may
 * see: an append in a session is shown when all of its records are there.
 *
 * Sessions and chain may be ahead of the entries that this node has: an image says where the log goes
 * on, but brings them as they were when it was made. Rule 24 holds all the same: the effects of the
 * entries between are the records themselves, which come with the log, and until then nothing is judged
 * by the sessions, since a leader has everything that was ever committed. */
#ifndef LIB_LEDGER_H
#define LIB_LEDGER_H

#include "kv/session.h"
#include "lib/once.h"

struct ledger {
    struct sessions sessions;
    uint64_t chain;            /* after `included`; 0 before the first entry */
    uint64_t included;         /* the last entry that sessions and chain know of; 0: none */
    uint64_t included_term;    /* its term */
    uint64_t included_visible; /* `visible` after it */
    uint32_t feature_level;    /* after `included`; 0: none was agreed on */
    uint64_t visible;          /* after the last entry that was applied here */
};

/* Zero-initialised is that of an empty log. */
void ledger_fini(struct ledger *ledger);

/* Entries come in order; `known` is the highest feature level that this program knows. What the
 * sessions include already has no effect: its result is then unknown (LKV_EUNKNOWN, for a command of a
 * session). LKV_EVERSION, LKV_EPROTOCOL: an entry that no leader of this version makes; LKV_ENOMEM:
 * nothing has changed. The node must stop then (rule 22). */
MUST_USE int ledger_apply(struct ledger *ledger, const struct entry *entry, uint32_t known,
                          struct kv_result *result, struct reason *why);

uint32_t ledger_feature_level(const struct ledger *ledger);

/* The entries up to what it includes are here. */
void ledger_catch_up(struct ledger *ledger);

/* The log goes on behind an image, up to which readers might see so far. */
void ledger_start_at(struct ledger *ledger, uint64_t visible);

/* An unchanging copy for ledger_fini, on any thread. LKV_ENOMEM. */
MUST_USE int ledger_freeze(const struct ledger *ledger, struct ledger *out);

/* Over chain and sessions; comparable at equal `included`. LKV_ENOMEM. */
MUST_USE int ledger_digest(const struct ledger *ledger, uint64_t *digest);

/* The contents of an image's section, behind each other; get: LKV_EDAMAGED, LKV_ENOMEM. */
void ledger_put(struct buffer *into, const struct ledger *ledger);
MUST_USE int ledger_get(struct slice bytes, struct ledger *out);

#endif
