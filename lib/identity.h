/* Who a node is, for ever: made once, kept in DIR/identity, shown in every hello (rules 17-20).
 *
 * The file is text, one "name value" a line, for people and for repair; its last line is a checksum
 * of the rest. It is replaced whole (spare name, sync, rename, directory sync). */
#ifndef LIB_IDENTITY_H
#define LIB_IDENTITY_H

#include "base/disk.h"
#include "lib/options.h"

struct identity_member {
    char name[NAME_SIZE];
    char address[ADDRESS_SIZE];
    uint64_t id;
};

struct identity {
    char name[NAME_SIZE];
    uint64_t member_id;     /* the incarnation: 63 random bits, not 0 */
    uint64_t start_counter; /* rises by one at each open, durable before the first hello */
    uint64_t group_id;
    uint64_t cluster_id; /* 0: blank, not founded yet */
    bool log_made;       /* it had a log: an empty one is a lost one from then on (rule 11) */
    uint64_t log_life; /* of which start the log's own note is this one or a later one (rule 17) */
    enum model model;  /* never MODEL_ANY, for ever */
    struct identity_member members[OPTION_PEERS_MAX]; /* founding configuration, by name */
    size_t member_count;
    /* Of a cluster that grew from one node: the end of that node's log, which every leader must hold
     * (rule 19). 0: founded at once. */
    uint64_t grown_index, grown_term;
    /* The operator brought it back (moved=on): what it acknowledged later may be missing, so its log's end
     * is unknown until the others have confirmed it (rules 11 and 17). */
    bool restored;
    struct disk_file_id file; /* that held it when it was written, as loaded (rule 17) */
    bool is_copy;             /* it lies elsewhere, is only looked at, and says so for ever */
};

/* LKV_ENOENT when there is none; LKV_EDAMAGED, LKV_EVERSION with the reason. */
MUST_USE int identity_load(struct disk *disk, const char *dir, struct identity *out,
                           struct reason *why);
/* `file` is not the struct's, but of the file that is written, unless it is a copy. */
MUST_USE int identity_save(struct disk *disk, const char *dir, const struct identity *identity,
                           struct reason *why);

/* LKV_EIDENTITY, with both files and what to do, when the loaded identity lies in another file than the
 * one it was written to: its directory is a copy, was restored or moved (rule 17). */
MUST_USE int identity_check_place(struct disk *disk, const char *dir,
                                  const struct identity *identity, struct reason *why);

/* The member with this name or id, NULL when absent. */
const struct identity_member *identity_by_name(const struct identity *identity, const char *name);
const struct identity_member *identity_by_id(const struct identity *identity, uint64_t id);

/* A hash over the set of (name, id), the same for every order; never 0 (rule 18). */
uint64_t identity_cluster_id(const struct identity_member *members, size_t count);

#endif
