/* Which life of every other member this node has met last, in DIR/seen: so that a copied or restored
 * directory is refused although this node was restarted since (rule 17).
 *
 * A life is durable here before its hello is accepted: what was taken from it, or told to it, is then
 * never forgotten together with it. Pure but for load and save. */
#ifndef LIB_SEEN_H
#define LIB_SEEN_H

#include "lib/hello_wire.h"

struct seen_peer {
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE]; /* as its hello had it */
    uint64_t id;                /* incarnation */
    uint64_t start_counter, boot_nonce;
    bool durable; /* this life is in the file; not stored itself */
    uint64_t
        acknowledged; /* committed entries that this node, leading, was told to be durable there */
};

struct seen {
    struct seen_peer peers[OPTION_PEERS_MAX];
    size_t count;
};

/* Without the file it is empty. LKV_EDAMAGED, LKV_EVERSION with the path. */
MUST_USE int seen_load(struct disk *disk, const char *dir, struct seen *out, struct reason *why);
MUST_USE int seen_save(struct disk *disk, const char *dir, const struct seen *seen,
                       struct reason *why);

/* Forgets those that are no peers any more. */
void seen_keep(struct seen *seen, const struct option_peer *peers, size_t count);

/* The last life of the member with this name; NULL: none was met. */
struct seen_peer *seen_find(struct seen *seen, const char *name);

/* LKV_EIDENTITY, with both values and what to do, for a hello of an earlier life than the last one, or of
 * another with its number. */
MUST_USE int seen_judge(struct seen *seen, const struct hello *hello, struct reason *why);

/* LKV_EDAMAGED for a later life whose log ends before what an earlier one acknowledged, unless it says so
 * itself: its end is to be treated as unknown (rules 11 and 17). */
MUST_USE int seen_judge_end(struct seen *seen, const struct hello *hello, struct reason *why);

/* Takes the life over; what it gives belongs to `seen`. Not `durable` when it is another life than
 * before. NULL: there is no room, so it is no peer's. */
struct seen_peer *seen_note(struct seen *seen, const struct hello *hello);

/* What was saved as `copy` is in the file: marks the lives that are still the last ones. */
void seen_saved(struct seen *seen, const struct seen *copy);

#endif
