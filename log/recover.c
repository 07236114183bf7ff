/* Third part of recovery: the chain of records, and what is damaged, torn or dead. */
#include "log/recover.h"

#include "base/mem.h"
#include "log/recover_parts.h"

/* The walk over all segments in order. `terms` in the recovery is the chain built so far. */
struct chain {
    struct recovery *recovery;
    const struct recovery_source *source;
    bool started;
    bool conflict;            /* the newest evidence at the image's index contradicts the image */
    bool stopped;             /* torn here: nothing behind it counts */
    bool again;               /* a segment was given another first index: from the start */
    struct segment *previous; /* the live segment before this one */
    /* where we are, for reports */
    struct segment *segment;
    struct log_scan *scan;
    uint64_t hole_end; /* where the present record starts */
    uint64_t missed;   /* where the last finding is, in `segment` */
    bool is_newest;
};

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t greatest(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static const char *file_of(const struct chain *chain, char name[LOG_NAME_SIZE]) {
    segment_name(name, chain->segment->number);
    return name;
}

static int observe(struct chain *chain, enum log_finding kind, const struct log_scan_item *item,
                   const char *text) {
    const struct recovery_observer *observer = chain->source->observer;
    return observer != NULL
               ? observer->on_item(observer->arg, kind, chain->segment, item, chain->scan, text)
               : 0;
}

/* Rule 14: the image tells what the log must say at the image's index; the last word counts, since
 * a dropped segment with cut records may have come back in front of it. */
static void compare_with_image(struct chain *chain, uint64_t index, uint64_t term) {
    if (index == chain->source->image_index && index > 0 && chain->source->image_term != 0) {
        chain->conflict = term != chain->source->image_term;
    }
}

static void start_at(struct chain *chain, uint64_t index, uint64_t term) {
    log_terms_restart(&chain->recovery->terms, index, term);
    chain->started = true;
    compare_with_image(chain, index, term);
}

static int add_gap(struct chain *chain, uint64_t first, uint64_t last, uint64_t term) {
    struct recovery_damage *damage = &chain->recovery->damage;
    struct log_gap *grown =
        mem_array_grow(damage->gaps, &damage->gap_capacity, damage->gap_count + 1, sizeof(*grown));
    if (grown == NULL) {
        return LKV_ENOMEM;
    }
    damage->gaps = grown;
    grown[damage->gap_count++] = (struct log_gap){.first = first,
                                                  .last = last,
                                                  .last_term = term,
                                                  .segment = chain->segment->number,
                                                  .offset = chain->missed};
    return 0;
}

static int report(struct chain *chain, uint64_t first, uint64_t known_term, uint64_t offset,
                  const char *found) {
    const struct log_terms *terms = &chain->recovery->terms;
    char name[LOG_NAME_SIZE];
    struct recovery_finding finding = {.file = file_of(chain, name),
                                       .offset = offset,
                                       .index = first,
                                       .term = known_term,
                                       .text = known_term != 0 ? "crc mismatch (acknowledged)"
                                                               : "no valid record (acknowledged)"};
    chain->missed = offset;
    return recovery_damaged(chain->recovery, chain->source, &finding,
                            "expected entry %llu after (%llu, term %llu), found %s "
                            "(acknowledged: the mark is %llu)",
                            (unsigned long long)first, (unsigned long long)terms->last,
                            (unsigned long long)log_terms_at(terms, terms->last), found,
                            (unsigned long long)chain->recovery->mark.index);
}

/* Both are valid, and no log has both: the chain goes on with the later one. */
static int contradict(struct chain *chain, uint64_t index, uint64_t prev_term, uint64_t offset) {
    const struct log_terms *terms = &chain->recovery->terms;
    char name[LOG_NAME_SIZE];
    struct recovery_finding finding = {.file = file_of(chain, name),
                                       .offset = offset,
                                       .index = index,
                                       .text = "does not follow what is before it"};
    chain->recovery->damage.contradiction = true;
    int rc = recovery_damaged(chain->recovery, chain->source, &finding,
                              "expected what follows entry %llu of term %llu, found what follows "
                              "entry %llu of term %llu (acknowledged: the mark is %llu)",
                              (unsigned long long)terms->last,
                              (unsigned long long)log_terms_at(terms, terms->last),
                              (unsigned long long)index - 1, (unsigned long long)prev_term,
                              (unsigned long long)chain->recovery->mark.index);
    start_at(chain, index - 1, prev_term);
    return rc;
}

/* Entries from the chain's end to `last` were acknowledged and are not readable; what follows says
 * that the last one has `last_term`. The chain goes on behind them. */
static int lose(struct chain *chain, uint64_t last, uint64_t last_term) {
    struct log_terms *terms = &chain->recovery->terms;
    uint64_t first = terms->last + 1;
    if (log_terms_reserve(terms, 2) != 0) {
        return LKV_ENOMEM;
    }
    log_terms_skip(terms, last, last_term);
    return add_gap(chain, first, last, last_term);
}

/* Is what is missing before this segment's first entry the end of the one before it? Else what the
 * chain holds may have been cut off by something that is lost. */
static bool follows_directly(const struct chain *chain) {
    const struct segment *segment = chain->segment, *previous = chain->previous;
    uint64_t before = segment->before[0].number;
    return previous != NULL && (before == previous->number ||
                                /* Numbers of one life have no holes: it was begun right after. */
                                (before == 0 && previous->number + 1 == segment->number));
}

/* Rule 11: nothing says what this segment cut off. So everything behind the image up to its first
 * record is missing, as if it began there; what older segments hold of it is kept and not used. */
static int distrust_older(struct chain *chain) {
    struct recovery *recovery = chain->recovery;
    chain->segment->first = chain->source->image_index + 1;
    chain->segment->prev_term = chain->source->image_term;
    memset(chain->segment->before, 0, sizeof(chain->segment->before));
    recovery->keeps_dead = true;
    chain->again = true;
    return 0;
}

/* What something valid says about the entry before `index` does not continue the chain, and that was
 * acknowledged. */
static int damaged(struct chain *chain, uint64_t index, uint64_t prev_term, bool is_header,
                   uint64_t offset, const char *found) {
    struct log_terms *terms = &chain->recovery->terms;
    uint64_t image = chain->source->image_index;
    if (terms->last < image) {
        start_at(chain, image, chain->source->image_term); /* rule 14 */
    }
    if (chain->source->mend && terms->last == image && prev_term < chain->source->image_term) {
        /* Terms never fall: this log is of before the image, which was put in its place. */
        start_at(chain, index - 1, prev_term);
        chain->conflict = true;
        return 0;
    }
    bool fits = terms->last + 1 < index && prev_term >= log_terms_at(terms, terms->last);
    /* One that begins right behind the image has nothing before it that could be missing (expect). */
    if (is_header && chain->source->mend && (!fits || !follows_directly(chain))) {
        return distrust_older(chain);
    }
    if (!fits) {
        return contradict(chain, index, prev_term, offset);
    }
    int rc = report(chain, terms->last + 1, 0, offset, found);
    return rc != 0 ? rc : lose(chain, index - 1, prev_term);
}

/* Something valid says that the entry before `index` has `prev_term`: does the chain agree? What a
 * segment's header says about it was durable before the header was (`is_header`). */
static int expect(struct chain *chain, uint64_t index, uint64_t prev_term, bool is_header,
                  uint64_t offset, const char *found) {
    struct log_terms *terms = &chain->recovery->terms;
    uint64_t image = chain->source->image_index;
    if (!chain->started) {
        start_at(chain, image, chain->source->image_term);
        chain->conflict = false;
        if (index <= image + 1) {
            start_at(chain, index - 1, prev_term);
            return 0;
        }
    }
    if (index == terms->last + 1 && prev_term == log_terms_at(terms, terms->last)) {
        compare_with_image(chain, index - 1, prev_term);
        return 0; /* rule 6: index and prev_term continue */
    }
    if (index <= image + 1) {
        start_at(chain, index - 1, prev_term); /* rule 14: a hole below the image is none */
        return 0;
    }
    uint64_t missing = greatest(least(index, terms->last + 1), image + 1);
    if (missing > chain->recovery->mark.index && !is_header) {
        chain->stopped = true; /* rule 8: above the mark = torn */
        return 0;
    }
    if (chain->is_newest && !is_header) {
        /* Rule 9 is about what can be read; nothing of a hole is written again. */
        chain->recovery->rewrite_from = greatest(chain->recovery->rewrite_from, chain->hole_end);
    }
    return damaged(chain, index, prev_term, is_header, offset, found);
}

static int accept(struct chain *chain, const struct log_scan_item *item) {
    struct recovery *recovery = chain->recovery;
    const struct record_header *header = &item->header;
    if (log_terms_reserve(&recovery->terms, 1) != 0) {
        return LKV_ENOMEM;
    }
    log_terms_push(&recovery->terms, header->index, header->term);
    compare_with_image(chain, header->index, header->term);
    segment_note(chain->segment, header->index, item->offset);
    chain->segment->last = header->index;
    chain->segment->tail = item->end;
    if (chain->is_newest && header->index <= recovery->mark.index) {
        recovery->rewrite_from = item->end;
    }
    return observe(chain, LOG_RECORD, item, NULL);
}

/* The header is whole, the payload is not. */
static int bad_payload(struct chain *chain, const struct log_scan_item *item) {
    const struct record_header *header = &item->header;
    if (header->index > greatest(chain->recovery->mark.index, chain->source->image_index)) {
        chain->stopped = true;
        return 0;
    }
    chain->segment->last = header->index;
    chain->segment->tail = item->end;
    if (header->index <= chain->source->image_index) {
        start_at(chain, header->index, header->term);
        return 0;
    }
    if (chain->is_newest) {
        chain->recovery->rewrite_from = item->end;
    }
    int rc = report(chain, header->index, header->term, item->offset,
                    chain->scan->unreadable ? "sectors that cannot be read"
                                            : "crc mismatch in its payload");
    return rc != 0 ? rc : lose(chain, header->index, header->term);
}

static int torn_item(struct chain *chain, const struct log_scan_item *item) {
    struct recovery *recovery = chain->recovery;
    if (!chain->is_newest) {
        /* Older segments are below the newest header's mark: only possible when that header, or
         * its file, is lost and the vote's mark speaks for it. */
        char name[LOG_NAME_SIZE];
        struct recovery_finding finding = {.file = file_of(chain, name),
                                           .offset = item->offset,
                                           .index = item->header.index,
                                           .term = item->header.term,
                                           .text = "above the mark of a lost segment"};
        recovery->damage.contradiction = true;
        return recovery_damaged(recovery, chain->source, &finding,
                                "expected nothing above the mark %llu, found entry %llu",
                                (unsigned long long)recovery->mark.index,
                                (unsigned long long)item->header.index);
    }
    if (!recovery->needs_segment) {
        recovery->torn_offset = chain->segment->tail;
    }
    recovery->needs_segment = true; /* rule 7: the torn tail is not written over */
    recovery->torn_records += item->header.type != LOG_TYPE_MARK;
    return observe(chain, LOG_TORN, item, "torn (never acknowledged)");
}

static int one_record(struct chain *chain, const struct log_scan_item *item) {
    chain->hole_end = item->offset;
    int rc = expect(chain, item->header.index, item->header.prev_term, false,
                    item->after_hole ? item->hole_at : item->offset,
                    item->after_hole ? "bytes without a valid checksum" : "another record");
    if (rc != 0 || chain->stopped) {
        return rc;
    }
    bool intact;
    rc = log_scan_payload(chain->scan, item, NULL, &intact);
    if (rc != 0) {
        return rc;
    }
    return intact ? accept(chain, item) : bad_payload(chain, item);
}

/* What a gap held may have been written in front of where it was (fill.c), and its old header still
 * be whole: the same entry once more. */
static bool is_repeated(const struct chain *chain, const struct log_scan_item *item) {
    const struct log_terms *terms = &chain->recovery->terms;
    uint64_t index = item->header.index;
    return chain->segment->last >= index && index <= terms->last && index > terms->base_index &&
           log_terms_at(terms, index) == item->header.term;
}

static int one_item(struct chain *chain, const struct log_scan_item *item) {
    int rc = 0;
    if (!chain->stopped) {
        if (item->header.type == LOG_TYPE_MARK) {
            chain->segment->tail = item->end;
            return observe(chain, LOG_MARK, item, NULL);
        }
        if (is_repeated(chain, item)) {
            return 0;
        }
        rc = one_record(chain, item);
    }
    return rc == 0 && chain->stopped ? torn_item(chain, item) : rc;
}

/* Dead records are of interest to the offline walk only. */
static int walk_dead(struct chain *chain, struct log_scan_item *item) {
    int more = 1;
    while (chain->source->observer != NULL && more == 1) {
        int rc = observe(chain, LOG_DEAD, item, "dead (cut by a later segment)");
        if (rc != 0) {
            return rc;
        }
        more = log_scan_next(chain->scan, item);
    }
    return more < 0 ? more : 0;
}

static int walk_records(struct chain *chain, uint64_t bound) {
    struct log_scan_item item;
    int more;
    while ((more = log_scan_next(chain->scan, &item)) == 1) {
        if (item.header.type != LOG_TYPE_MARK && item.header.index > bound) {
            return walk_dead(chain, &item); /* rule 7: a later cut, or the next segment */
        }
        int rc = one_item(chain, &item);
        if (rc != 0) {
            return rc;
        }
    }
    return more;
}

/* May the newest segment be continued? Not if anything could lie behind its end (rule 7). Story: of
 * a torn batch only the first 64 bytes of record 42's header reached the disk, so it is no record.
 * Continued in place, another 42 is written there, and this time only its later sectors reach the
 * disk: its type byte completes the old header, and the torn 42 is back. In a recycled file old
 * bytes and torn ones cannot be told apart: it is never continued. */
static int look_behind_end(struct chain *chain) {
    struct recovery *recovery = chain->recovery;
    bool clean = chain->segment->zeroed;
    int rc = clean ? log_scan_all_zero(chain->scan, chain->segment->tail, &clean) : 0;
    if (rc == 0 && !clean && !recovery->needs_segment) {
        recovery->needs_segment = true;
        recovery->torn_offset = chain->segment->zeroed ? chain->segment->tail : 0;
    }
    return rc;
}

/* What a lost header said of the segment before, told by a chain without a gap: that the terms agree
 * proves all of it (log matching). With the header it is written down again. */
static void learn_before(struct chain *chain) {
    struct segment *segment = chain->segment;
    const struct segment *previous = chain->previous;
    const struct log_terms *terms = &chain->recovery->terms;
    if (previous != NULL && segment->before[0].number == 0 && terms->last + 1 == segment->first &&
        log_terms_at(terms, terms->last) == segment->prev_term) {
        segment->before[0] = segment_place(previous);
        segment->before[1] = previous->before[0];
    }
}

static int walk_file(struct chain *chain, uint64_t bound) {
    struct segment *segment = chain->segment;
    struct log_scan *scan = chain->scan;
    if (chain->is_newest) {
        scan->limit = chain->recovery->headers_end; /* find_mark has seen what is behind */
    }
    int rc = walk_records(chain, bound);
    segment->rotten |= scan->unreadable;
    scan->limit = segment->capacity;
    return rc == 0 && chain->is_newest ? look_behind_end(chain) : rc;
}

static int walk_segment(struct chain *chain, struct segment *segment, uint64_t bound,
                        struct reason *why) {
    chain->segment = segment;
    int rc = 0;
    if (segment->first <= bound) {
        learn_before(chain);
        rc = expect(chain, segment->first, segment->prev_term, true, 0, "the next segment");
        chain->previous = segment;
    }
    if (rc != 0 || chain->again) {
        return rc;
    }
    if (segment->file == NULL) {
        chain->recovery->needs_segment |= chain->is_newest;
        return 0;
    }
    struct log_scan scan;
    rc = recovery_scan_init(chain->recovery, chain->source, segment, &scan);
    chain->scan = &scan;
    if (rc == 0) {
        rc = walk_file(chain, bound);
    }
    if (rc < 0) {
        char name[LOG_NAME_SIZE];
        (void)reason_set(why, rc, "%s/%s:%llu: cannot read: %s", chain->source->dir,
                         file_of(chain, name), (unsigned long long)scan.at, error_text(rc));
    }
    log_scan_fini(&scan);
    return rc;
}

/* Rule 8: the scan for marks passes holes to the newest segment's end. Older segments need none:
 * the newest header's mark beats them. */
static int find_mark(struct recovery *recovery, const struct recovery_source *source,
                     struct reason *why) {
    const struct segment *newest = recovery->segments[recovery->segment_count - 1];
    if (newest->file == NULL) {
        return 0;
    }
    struct log_scan scan;
    struct log_scan_item item;
    int rc = recovery_scan_init(recovery, source, newest, &scan);
    while (rc == 0 && (rc = log_scan_next(&scan, &item)) == 1) {
        struct log_mark_value mark = {.segment = newest->number,
                                      .index = item.header.mark_index,
                                      .term = item.header.mark_term};
        recovery->mark = log_mark_newer(recovery->mark, mark);
        recovery->headers_end = item.end;
        rc = 0;
    }
    if (rc < 0) {
        (void)reason_set(why, rc, "segment %llu:%llu: cannot read: %s",
                         (unsigned long long)newest->number, (unsigned long long)scan.at,
                         error_text(rc));
    }
    log_scan_fini(&scan);
    return rc;
}

static int walk_all(struct chain *chain, struct reason *why) {
    struct recovery *recovery = chain->recovery;
    recovery_bounds(recovery);
    for (size_t i = 0; i < recovery->segment_count; i++) {
        struct segment *segment = recovery->segments[i];
        uint64_t bound = segment->bound;
        chain->is_newest = i + 1 == recovery->segment_count;
        bool dead = segment->first > bound; /* rule 7: skipped before gaps are judged */
        if (dead && chain->source->observer == NULL) {
            continue;
        }
        int rc = walk_segment(chain, segment, bound, why);
        if (rc != 0 || chain->again) {
            return rc;
        }
    }
    return 0;
}

/* As before the walk. */
static void forget_walk(struct chain *chain) {
    struct recovery *recovery = chain->recovery;
    recovery->rewrite_from = LOG_BLOCK;
    recovery->needs_segment = false;
    recovery->torn_records = recovery->torn_offset = 0;
    recovery->damage.gap_count = 0;
    log_terms_restart(&recovery->terms, chain->source->image_index, chain->source->image_term);
    for (size_t i = 0; i < recovery->segment_count; i++) {
        struct segment *segment = recovery->segments[i];
        segment->last = segment->first - 1;
        segment->tail = LOG_BLOCK;
        segment->point_count = 0;
    }
    *chain = (struct chain){.recovery = recovery, .source = chain->source};
}

/* Each round gives one segment its final first index. */
static int walk_until_settled(struct chain *chain, struct reason *why) {
    int rc;
    do {
        forget_walk(chain);
        rc = walk_all(chain, why);
    } while (rc == 0 && chain->again);
    return rc;
}

/* Rule 8: the mark says that there is more than can be read. */
static int missing_end(struct chain *chain, uint64_t first) {
    const struct log_mark_value *mark = &chain->recovery->mark;
    char name[LOG_NAME_SIZE];
    struct recovery_finding finding = {.file = file_of(chain, name),
                                       .offset = chain->segment->tail,
                                       .index = first,
                                       .text = "no valid record (acknowledged)"};
    chain->missed = finding.offset;
    int rc = recovery_damaged(chain->recovery, chain->source, &finding,
                              "expected entries %llu to %llu, found no valid record "
                              "(acknowledged)",
                              (unsigned long long)first, (unsigned long long)mark->index);
    struct recovery *recovery = chain->recovery;
    recovery->needs_segment = true; /* what is appended now comes behind them */
    if (recovery->terms.last + 1 < first) {
        start_at(chain, first - 1, chain->source->image_term); /* rule 14 */
    }
    if (mark->term < log_terms_at(&recovery->terms, recovery->terms.last)) {
        /* Of what the lost one had cut off: the image is newer. */
        recovery->damage.contradiction |= !recovery->lost_newest;
        return rc;
    }
    return rc != 0 ? rc : lose(chain, mark->index, mark->term);
}

/* Of such an entry the terms state only what it lies between. */
static bool is_term_unknown(const struct recovery *recovery, uint64_t index) {
    for (size_t i = 0; i < recovery->damage.gap_count; i++) {
        const struct log_gap *gap = &recovery->damage.gaps[i];
        if (gap->first <= index && index < gap->last) {
            return true;
        }
    }
    return false;
}

/* The log's end against the mark and the image. */
static int judge_end(struct chain *chain) {
    struct recovery *recovery = chain->recovery;
    struct log_terms *terms = &recovery->terms;
    const struct log_mark_value *mark = &recovery->mark;
    uint64_t image = chain->source->image_index;
    if (chain->conflict) {
        /* The image was installed over this log and the process died before it restarted it. */
        recovery->superseded = recovery->needs_segment = true;
        /* Of entries that count no more. */
        recovery->damage.found = recovery->damage.files;
        recovery->damage.contradiction = false;
        recovery->damage.gap_count = 0;
        log_terms_restart(terms, image, chain->source->image_term);
        return 0;
    }
    if (mark->index > greatest(terms->last, image)) {
        return missing_end(chain, greatest(terms->last, image) + 1);
    }
    if (mark->index > image && mark->index > terms->base_index &&
        !is_term_unknown(recovery, mark->index) && log_terms_at(terms, mark->index) != mark->term) {
        char name[LOG_NAME_SIZE];
        struct recovery_finding finding = {.file = file_of(chain, name),
                                           .offset = LOG_BLOCK,
                                           .index = mark->index,
                                           .term = mark->term,
                                           .text = "term differs from the mark's"};
        recovery->damage.contradiction = true;
        return recovery_damaged(recovery, chain->source, &finding,
                                "expected entry %llu of term %llu, found term %llu",
                                (unsigned long long)mark->index, (unsigned long long)mark->term,
                                (unsigned long long)log_terms_at(terms, mark->index));
    }
    if (terms->last < image) {
        recovery->needs_segment = true; /* it continues behind the image */
        log_terms_restart(terms, image, chain->source->image_term);
    }
    return 0;
}

/* What a gap at a segment's end took is still the segment's: the newest one's that begins at or before it,
 * since a gap lies within one. None has those before the log's first segment. */
static void reach_over_gaps(struct recovery *recovery) {
    for (size_t n = 0; n < recovery->damage.gap_count; n++) {
        const struct log_gap *gap = &recovery->damage.gaps[n];
        for (size_t i = recovery->segment_count; i-- > 0;) {
            struct segment *segment = recovery->segments[i];
            if (segment->first <= gap->first) {
                segment->last = greatest(segment->last, gap->last);
                break;
            }
        }
    }
}

/* Parts the dead segments from the live ones, once it is known where the log begins. */
static void separate_dead(struct recovery *recovery) {
    size_t live = 0;
    recovery_bounds(recovery);
    for (size_t i = 0; i < recovery->segment_count; i++) {
        struct segment *segment = recovery->segments[i];
        uint64_t bound = segment->bound;
        bool newest = i + 1 == recovery->segment_count;
        bool below = least(segment->last, bound) <= recovery->terms.base_index;
        segment->last = least(segment->last, bound);
        if (!newest && (segment->first > bound || below)) {
            recovery->dead[recovery->dead_count++] = segment;
        } else {
            recovery->segments[live++] = segment;
        }
    }
    recovery->segment_count = live;
}

int recovery_run(struct recovery *recovery, const struct recovery_source *source,
                 struct reason *why) {
    *recovery = (struct recovery){.rewrite_from = LOG_BLOCK, .headers_end = LOG_BLOCK};
    struct chain chain = {.recovery = recovery, .source = source};
    int rc = recovery_open_files(recovery, source, why);
    if (rc != 0) {
        return rc;
    }
    recovery->mark = log_mark_newer(recovery->mark, recovery->vote.record.mark);
    log_terms_restart(&recovery->terms, source->image_index, source->image_term);
    rc = recovery_place_segments(recovery, source, why);
    recovery->damage.files = recovery->damage.found;
    if (rc != 0 || recovery->segment_count == 0) {
        recovery->needs_segment = true;
        return rc;
    }
    rc = find_mark(recovery, source, why);
    if (rc == 0) {
        rc = walk_until_settled(&chain, why);
    }
    if (rc == 0) {
        rc = judge_end(&chain);
    }
    if (rc == 0) {
        reach_over_gaps(recovery);
        separate_dead(recovery);
    }
    return rc;
}
