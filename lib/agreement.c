#include "lib/agreement.h"

#include "base/cursor.h"

enum { BODY_SIZE = 16 };

static struct agreement_report *find(const struct agreement *agreement, uint64_t member) {
    for (size_t i = 0; i < agreement->count; i++) {
        if (agreement->reports[i].member == member) {
            return (struct agreement_report *)&agreement->reports[i];
        }
    }
    return NULL;
}

void agreement_hear(struct agreement *agreement, const struct agreement_report *report) {
    struct agreement_report *known = find(agreement, report->member);
    if (known == NULL && agreement->count < AGREEMENT_MEMBERS_MAX) {
        agreement->reports[agreement->count++] = *report;
    } else if (known != NULL && report->index >= known->index) {
        *known = *report;
    }
}

void agreement_forget(struct agreement *agreement, uint64_t member) {
    struct agreement_report *known = find(agreement, member);
    if (known != NULL) {
        *known = agreement->reports[--agreement->count];
    }
}

const struct agreement_report *agreement_of(const struct agreement *agreement, uint64_t member,
                                            uint64_t index) {
    const struct agreement_report *known = find(agreement, member);
    return known != NULL && known->index == index ? known : NULL;
}

enum agreement_verdict agreement_judge(const struct agreement *agreement, uint64_t index,
                                       const uint64_t *voters, size_t voter_count,
                                       uint64_t *majority) {
    size_t silent = 0;
    size_t most = 0;
    for (size_t i = 0; i < voter_count; i++) {
        const struct agreement_report *mine = agreement_of(agreement, voters[i], index);
        size_t same = 0;
        for (size_t j = 0; mine != NULL && j < voter_count; j++) {
            const struct agreement_report *other = agreement_of(agreement, voters[j], index);
            same += other != NULL && other->digest == mine->digest;
        }
        silent += mine == NULL;
        if (same > most) {
            most = same;
            *majority = mine->digest;
        }
    }
    if (most > voter_count / 2) {
        return AGREEMENT_MAJORITY;
    }
    return most + silent > voter_count / 2 ? AGREEMENT_OPEN : AGREEMENT_NONE;
}

void agreement_encode(const struct agreement_report *report, struct buffer *out) {
    uint8_t bytes[BODY_SIZE];
    struct writer writer = writer_of(bytes, sizeof(bytes));
    write_u64(&writer, report->index);
    write_u64(&writer, report->digest);
    buffer_append(out, bytes, sizeof(bytes));
}

int agreement_decode(struct slice body, struct agreement_report *out, struct reason *why) {
    struct reader reader = reader_of(body);
    *out = (struct agreement_report){.index = read_u64(&reader), .digest = read_u64(&reader)};
    if (reader.failed || out->index == 0) {
        return reason_set(why, LKV_EPROTOCOL, "digest of entry %llu in %zu bytes, expected %d",
                          (unsigned long long)out->index, body.size, BODY_SIZE);
    }
    return 0;
}
