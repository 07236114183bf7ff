/* Damage on a node's disk: what is known of it, and the stations that see to it. Loop thread. */
#ifndef LIB_NODE_REPAIR_H
#define LIB_NODE_REPAIR_H

#include "lib/node.h"

/* What this error means is that bytes at rest cannot be read, and not that something else is short. */
bool node_is_damage(int rc);

/* Last index of the gaps that end at or below `index`; 0: there is none. */
uint64_t node_gap_below(struct node *node, uint64_t index);

/* What log_open has found; before the core exists. */
void node_repair_opened(struct node *node, const struct log_state *state);
/* A read met damage at `index`: the log takes note of it. False: it knew it before, or the entry can be
 * read after all, or is gone. On the thread that has read. */
bool node_note_damage(struct node *node, uint64_t index, struct log_gap *gap);
/* Tells the core of what the log knows and it does not. Not within a step. */
void node_repair_compare(struct node *node);
void node_log_damaged(struct node *node, const struct log_gap *gap, const struct reason *why);
void node_image_damaged(struct node *node, const struct reason *why); /* while it runs: rot */
/* At open: it is passed over, what it covers is a gap. */
void node_image_unreadable(struct node *node, const struct reason *why);

/* An image of the present state, if damage still asks for it by then. */
void node_image_want(struct node *node, uint64_t in_ms);
void node_image_mended(struct node *node); /* node->image_index is of a durable, intact one */
/* Whether an image of this index would cover what cannot be read in the log. */
bool node_image_helps(struct node *node, uint64_t index);
/* This image is durable, and the log goes on behind it as it is: what it cannot read at or below it is
 * given up. `installs`: it was received; the core hears of it behind that, by node_log_restarted, since
 * it then fills what lies behind. LKV_ENOMEM. */
MUST_USE int node_repair_cover(struct node *node, uint64_t index, uint64_t term, bool installs);

/* What was to close this gap did not hold: the core is told anew, and peers' entries are not taken for a
 * while. */
void node_not_filled(struct node *node, const struct log_gap *gap, const struct reason *why);
bool node_may_fill(const struct node *node); /* false: a reply with entries is to be dropped */
/* So many entries were filled, durably; of these, `own` could be read again here. */
void node_repaired(struct node *node, uint64_t entries, uint64_t own);
void node_settle_end(struct node *node); /* update.settle_end */
/* A peer knows of acknowledgements beyond this log's end: the end is unknown from now on, durably, until
 * the log holds all that the leader has. Not within a step; before the node runs nothing happens. */
void node_doubt_end(struct node *node, const struct reason *why);

/* The core names members by their ids; people by their names. */
void node_name_members(const struct node *node, struct reason *text);
/* Adds file and offset of the first gap in the log, when there is one. */
void node_name_place(struct node *node, struct reason *text);

/* Reads in model log that met a gap: asked again after each repair, LKV_EDAMAGED at their deadline. */
void node_repair_wait(struct node *node, struct request *request);
void node_repair_serve(struct node *node);
uint64_t node_repair_expire(struct node *node, uint64_t now_ns); /* earliest deadline left */
void node_repair_fail_all(struct node *node, int rc, const char *text);

uint64_t node_repair_timer(struct node *node, uint64_t now_ns); /* when next */

uint64_t node_damaged_entries(struct node *node);
/* False: nothing is to be repaired, and `out`, which was empty, still is. */
bool node_repair_state(struct node *node, char *out, size_t size);

#endif
