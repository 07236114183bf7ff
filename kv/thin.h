/* Giving memory back after many keys have gone here and there.
 *
 *      before  [v....v..] [..v.....] [.v....v.]      after  [vvvvv...]
 *
 * A slab of versions returns to the system when it is empty. If nine of ten keys are deleted, hardly any is: so when
 * much less is in use than there was, and most of what is held is free, a pass through the table moves the versions
 * that lie in such slabs together, a few at a time. Only those that nothing but table and index know are moved: a
 * key's only version, older than anything that is kept or pinned. */
#ifndef KV_THIN_H
#define KV_THIN_H

#include "kv/store.h"

enum { THIN_KEYS = 5 /* in a bucket, about */ };

/* Alone, when no command is half carried out. If it is worth while, looks at the keys of so many buckets; what was moved
 * goes to `dead`. True: there is more to do. */
bool thin_some(struct store *store, unsigned buckets, struct kv_version **dead);

#endif
