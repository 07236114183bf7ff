/* Leases as the model has them. Their keys are apart from all others: the black-box judge does not know that
 * keys vanish by themselves. */
#ifndef TESTS_SIM_WORLD_LEASE_H
#define TESTS_SIM_WORLD_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_LEASED_FROM = 200 }; /* the first key that a lease may have */

struct sim_entry;
struct sim_model;
struct sim_world;
struct sim_node;

struct sim_lease {
    int64_t id;
    uint64_t granted; /* index of the entry; 0: not yet */
    uint64_t ttl_ms, remaining_ms;
    bool open;
    uint64_t active_ns; /* when it began, or the call did that kept it alive */
    uint64_t gone_ns;   /* when somebody was told that it has been revoked; 0: nobody was */
};

struct sim_leases {
    struct sim_lease *items; /* owned; by number, which is the id */
    size_t capacity;
};

void sim_leases_fini(struct sim_leases *leases);
struct sim_lease *sim_lease_at(struct sim_leases *leases, int64_t id);

/* Carries out what the entry says of leases; entry->rc, entry->count. */
void sim_lease_commit(struct sim_model *model, struct sim_entry *entry, uint64_t now_ns);
/* It was committed just now, at index - 1 all was as `model` says: nothing ends early, and no checkpoint
 * says too little. */
void sim_lease_check(struct sim_world *world, const struct sim_entry *entry);
/* Exactly the leases of the model, now that all is applied. */
void sim_lease_check_end(struct sim_node *node);

#endif
