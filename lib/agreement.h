/* What the members' digests of one entry say together (rule 25). Each computes its own from what it has in
 * memory and tells the others; then each judges for itself, and all that have heard the same come to the
 * same conclusion. */
#ifndef LIB_AGREEMENT_H
#define LIB_AGREEMENT_H

#include "base/buffer.h"
#include "base/error.h"

enum { AGREEMENT_MEMBERS_MAX = 15 };

/* The state of one member behind entry `index`. */
struct agreement_report {
    uint64_t member, index, digest;
};

struct agreement {
    struct agreement_report reports[AGREEMENT_MEMBERS_MAX]; /* of each member the newest */
    size_t count;
};

/* What a member said last counts, unless it is of an earlier entry than what it had said. */
void agreement_hear(struct agreement *agreement, const struct agreement_report *report);

/* A member that comes back computes anew: what it said in an earlier life is forgotten. */
void agreement_forget(struct agreement *agreement, uint64_t member);

/* NULL: it has not told one of this entry. */
const struct agreement_report *agreement_of(const struct agreement *agreement, uint64_t member,
                                            uint64_t index);

enum agreement_verdict {
    AGREEMENT_OPEN,     /* too few have answered */
    AGREEMENT_MAJORITY, /* more than half of the voters have one digest */
    AGREEMENT_NONE      /* whatever the rest says, no digest can be that of more than half */
};
enum agreement_verdict agreement_judge(const struct agreement *agreement, uint64_t index,
                                       const uint64_t *voters, size_t voter_count,
                                       uint64_t *majority);

/* The frame that tells one (docs/formats/peer-frames.md); who says it is the connection's. */
void agreement_encode(const struct agreement_report *report, struct buffer *out);
MUST_USE int agreement_decode(struct slice body, struct agreement_report *out, struct reason *why);

#endif
