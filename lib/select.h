/* What a read asks for beyond its keys: on the wire, in a request, of the state machine. */
#ifndef LIB_SELECT_H
#define LIB_SELECT_H

#include "lib/ledgerkv.h"

/* Zeroed: the newest revision, in the order of keys, all of them. */
struct read_select {
    uint64_t rev; /* of the state that is read; 0: the newest */
    enum lkv_order order;
    uint64_t mod_rev_min, mod_rev_max; /* 0: no bound */
    uint64_t create_rev_min, create_rev_max;
};

/* Whether something is asked for that a page in the order of keys does not have. */
static inline bool select_picks(const struct read_select *select) {
    return select->order != LKV_BY_KEY || select->mod_rev_min != 0 || select->mod_rev_max != 0 ||
           select->create_rev_min != 0 || select->create_rev_max != 0;
}

#endif
