/* One entry of the replicated log: what the log stores, replication ships and the state machine
 * applies. The consensus core sees all of it but the payload. */
#ifndef BASE_ENTRY_H
#define BASE_ENTRY_H

#include "base/blob.h"

/* On disk and on the wire: numbers never change meaning. A node that meets a type it does not know
 * stops, it never skips (rule 22). Reserved: 5 auth, 6 alarm. */
enum entry_type {
    ENTRY_NOOP = 1,    /* a leader's first entry in its term; empty payload */
    ENTRY_CONFIG = 2,  /* a cluster configuration */
    ENTRY_COMMAND = 3, /* a command of the state machine, or a record in log mode */
    ENTRY_FEATURE = 4, /* raises the feature level: base/feature.h */
    ENTRY_DIGEST = 7,  /* all members digest their state behind it (rule 25); empty payload */
    ENTRY_SESSION = 8, /* log mode: a session is opened, renewed or ended; a command of kv/ */
    ENTRY_ONCE = 9     /* log mode: a record that was appended in a session, behind a header */
};

struct entry {
    uint64_t index; /* from 1 */
    uint64_t term;  /* from 1 */
    enum entry_type type;
    struct blob *payload; /* owned reference; NULL means empty */
};

#endif
