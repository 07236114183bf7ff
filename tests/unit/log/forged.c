/* What recovery makes of logs that no history of faults explains, or only one of several faults at once: what
 * it calls damage, what it keeps, and that it ends. */
#include "base/mem.h"
#include "tests/unit/log/forge.h"

static struct sim_disk *sim;
static struct disk *disk;
static struct forge forge;
static const struct segment_place none;

static void setup(void) {
    sim = sim_disk_new(1);
    disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
}

static void teardown(void) {
    cr_assert_eq(sim_disk_open_files(sim), 0);
    sim_disk_free(sim);
}

TestSuite(log_forged, .init = setup, .fini = teardown);

static struct recovery found;
static struct reason why;

struct options {
    bool mend;
    uint64_t image_index, image_term;
    const struct recovery_observer *observer;
};

static int try_run(struct options options) {
    const struct recovery_source source = {.disk = disk,
                                           .dir = "d",
                                           .open_flags = DISK_READ,
                                           .mend = options.mend,
                                           .identity = &forge_identity,
                                           .image_index = options.image_index,
                                           .image_term = options.image_term,
                                           .observer = options.observer};
    uint64_t before = sim_disk_fingerprint(sim);
    why = (struct reason){{0}};
    int rc = recovery_run(&found, &source, &why);
    cr_assert_eq(sim_disk_fingerprint(sim), before, "it only reads");
    return rc;
}

static void run(struct options options) {
    cr_assert_eq(try_run(options), 0, "%s", why.text);
}

#define RUN(...) run((struct options){__VA_ARGS__})

static void expect_first(const char *text) {
    cr_assert(found.damage.found);
    cr_assert_str_eq(found.damage.first.text, text);
}

static void expect_gap(size_t n, uint64_t first, uint64_t last, uint64_t last_term) {
    cr_assert_lt(n, found.damage.gap_count);
    const struct log_gap *gap = &found.damage.gaps[n];
    cr_assert(gap->first == first && gap->last == last && gap->last_term == last_term,
              "[%zu..%zu] to term %zu", (size_t)gap->first, (size_t)gap->last,
              (size_t)gap->last_term);
}

static void expect_log(uint64_t base, uint64_t last, uint64_t last_term) {
    cr_assert_eq(found.terms.base_index, base, "base %zu", (size_t)found.terms.base_index);
    cr_assert_eq(found.terms.last, last, "last %zu", (size_t)found.terms.last);
    cr_assert_eq(log_terms_at(&found.terms, last), last_term);
}

#define SEGMENT(n)         "d/0000000000000000000" #n ".seg"
#define ACKNOWLEDGED(mark) " (acknowledged: the mark is " #mark ")"

/* ------------------------------------------------------------------ segments that do not fit */

/* Two entries of term 5, and a segment that says that the second one has term 2. */
static void two_segments_that_contradict(void) {
    struct segment_place one = forge_place(1, 1, 0), two = forge_place(2, 4, 2);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 5, 0);
    forge_finish(&forge, disk);
    forge_begin(&forge, &two, one, none);
    forge_entries(&forge, 4, 4, 2, 2);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){2, 4, 2}, two, one);
}

Test(log_forged, a_header_that_contradicts_the_segment_before_it) {
    two_segments_that_contradict();
    RUN(.mend = false);
    expect_first(SEGMENT(2) ":0: expected what follows entry 3 of term 5, found what follows entry "
                            "3 of term 2" ACKNOWLEDGED(4));
    cr_assert(found.damage.contradiction);
    cr_assert_eq(found.damage.gap_count, 0);
    expect_log(3, 4, 2);
    recovery_fini(&found);
    /* Rule 11: what it cut off is not known, so nothing before it is trusted. */
    RUN(.mend = true);
    cr_assert_not(found.damage.contradiction);
    cr_assert_eq(found.damage.gap_count, 1);
    expect_gap(0, 1, 3, 2);
    expect_log(0, 4, 2);
    cr_assert(found.keeps_dead && found.dead_count == 1 && found.dead[0]->number == 1);
    recovery_fini(&found);
}

/* Nothing but the header is acknowledged there. */
Test(log_forged, an_empty_segment_that_contradicts_the_one_before_it) {
    struct segment_place one = forge_place(1, 1, 0), two = forge_place(2, 4, 2);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 5, 0);
    forge_finish(&forge, disk);
    forge_begin(&forge, &two, one, none);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){2, 3, 2}, two, one);
    RUN(.mend = false);
    expect_first(SEGMENT(2) ":0: expected what follows entry 3 of term 5, found what follows entry "
                            "3 of term 2" ACKNOWLEDGED(3));
    cr_assert(found.damage.contradiction);
    expect_log(3, 3, 2);
    recovery_fini(&found);
}

/* What a segment's header says of those before it is only used where they are missing. */
Test(log_forged, a_predecessor_that_cannot_be_one_is_not_looked_for) {
    static const struct segment_place before[] = {
        {.number = 2, .first = 2}, {.number = 9, .first = 2}, {.number = 1, .first = 4}};
    for (size_t i = 0; i < 3; i++) {
        struct segment_place one = forge_place(i == 2 ? 0 : 1, 1, 0), two = forge_place(2, 4, 1);
        forge_begin(&forge, &one, none, none);
        forge_entries(&forge, 1, 3, 1, 0);
        forge_finish(&forge, disk);
        forge_begin(&forge, &two, before[i], none);
        forge_finish(&forge, disk);
        forge_vote(disk, (struct log_mark_value){2, 3, 1}, two, none);
        RUN(.mend = true);
        cr_assert_not(found.damage.found, "%s", found.damage.first.text);
        cr_assert_eq(found.segment_count, 2);
        expect_log(0, 3, 1);
        recovery_fini(&found);
    }
}

/* 4 and 5 are missing between two segments. Were they the end of the first, or cut off by a segment that
 * is lost? */
Test(log_forged, what_is_missing_between_segments_is_the_end_of_the_first_or_nobody_knows) {
    static const struct {
        uint64_t number; /* of the second */
        struct segment_place before;
        bool known;
    } cases[] = {{2, {.number = 1, .first = 1}, true},
                 {2, {.number = 0}, true},  /* numbers of one life have no holes */
                 {3, {.number = 0}, false}, /* there may have been a 2 */
                 {3, {.number = 7, .first = 2}, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct segment_place one = forge_place(1, 1, 0), two = forge_place(cases[i].number, 6, 1);
        forge_begin(&forge, &one, none, none);
        forge_entries(&forge, 1, 3, 1, 0);
        forge_finish(&forge, disk);
        forge_begin(&forge, &two, cases[i].before, none);
        forge_entries(&forge, 6, 7, 1, 1);
        forge_finish(&forge, disk);
        forge_vote(disk, (struct log_mark_value){two.number, 7, 1}, two, none);
        RUN(.mend = true);
        cr_assert_eq(found.damage.gap_count, 1, "case %zu", i);
        expect_gap(0, cases[i].known ? 4 : 1, 5, 1);
        cr_assert_eq(found.keeps_dead, !cases[i].known, "case %zu", i);
        cr_assert_eq(found.dead_count, cases[i].known ? 0 : 1);
        expect_log(0, 7, 1);
        recovery_fini(&found);
        char name[64];
        segment_name(name, two.number);
        char path[80];
        (void)snprintf(path, sizeof(path), "d/%s", name);
        cr_assert(sim_disk_unlink(sim, path));
    }
}

/* The files before it are gone, and nobody names them: no segment is left that the gap could be in. */
Test(log_forged, a_log_whose_beginning_is_gone) {
    struct segment_place five = forge_place(5, 11, 1);
    forge_begin(&forge, &five, none, none);
    forge_entries(&forge, 11, 12, 1, 1);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){5, 12, 1}, five, none);
    RUN(.mend = false);
    expect_first(SEGMENT(
        5) ":0: expected entry 1 after (0, term 0), found the next segment" ACKNOWLEDGED(12));
    cr_assert_eq(found.damage.gap_count, 1);
    expect_gap(0, 1, 10, 1);
    cr_assert_eq(found.segments[0]->first, 11);
    recovery_fini(&found);
    /* Rule 11: mended, the segment begins where the log does. */
    RUN(.mend = true);
    expect_gap(0, 1, 10, 1);
    cr_assert_eq(found.segments[0]->first, 1);
    expect_log(0, 12, 1);
    recovery_fini(&found);
}

/* Rule 14: terms never fall, so this log is of before the image that was put in its place. */
Test(log_forged, a_log_that_begins_behind_an_image_of_a_later_term) {
    struct segment_place two = forge_place(2, 11, 1);
    forge_begin(&forge, &two, none, none);
    forge_entries(&forge, 11, 12, 1, 1);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){2, 12, 1}, two, none);
    RUN(.mend = true, .image_index = 5, .image_term = 9);
    cr_assert(found.superseded && found.needs_segment);
    cr_assert_not(found.damage.found);
    expect_log(5, 5, 9);
    recovery_fini(&found);
    RUN(.mend = true, .image_index = 5, .image_term = 1);
    cr_assert_not(found.superseded);
    expect_gap(0, 6, 10, 1);
    expect_log(5, 12, 1);
    recovery_fini(&found);
}

/* ------------------------------------------------------------------ records that do not fit */

Test(log_forged, another_entry_under_an_index_that_was_acknowledged) {
    struct segment_place one = forge_place(1, 1, 0);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 2, 0);
    (void)forge_record(&forge, 2, 3, 2, ENTRY_COMMAND);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){1, 3, 2}, one, none);
    RUN(.mend = true);
    expect_first(SEGMENT(1) ":4432: expected what follows entry 3 of term 2, found what follows "
                            "entry 1 of term 2" ACKNOWLEDGED(3));
    cr_assert(found.damage.contradiction);
    /* The mark's entry 3 of term 2 cannot follow the one of term 3. */
    cr_assert_eq(found.damage.gap_count, 0);
    expect_log(1, 2, 3);
    cr_assert(found.needs_segment);
    recovery_fini(&found);
}

/* Above the mark it is a torn tail like any other (rule 8). */
Test(log_forged, another_entry_under_an_index_that_was_not_acknowledged) {
    struct segment_place one = forge_place(1, 1, 0);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 2, 0);
    uint64_t end = forge.at;
    (void)forge_record(&forge, 2, 3, 2, ENTRY_COMMAND);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){1, 1, 2}, one, none);
    RUN(.mend = true);
    cr_assert_not(found.damage.found);
    cr_assert_eq(found.torn_records, 1);
    cr_assert_eq(found.torn_offset, end);
    expect_log(0, 3, 2);
    recovery_fini(&found);
}

/* A gap was filled in front of where it was, and its old headers are whole: the same entries once more. */
Test(log_forged, the_same_entries_once_more) {
    struct segment_place one = forge_place(1, 1, 0);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 6, 1, 0);
    (void)forge_record(&forge, 5, 1, 1, ENTRY_COMMAND);
    forge_spoil(&forge, forge_record(&forge, 6, 1, 1, ENTRY_COMMAND));
    forge_entries(&forge, 7, 7, 1, 1);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){1, 7, 1}, one, none);
    RUN(.mend = true);
    cr_assert_not(found.damage.found);
    expect_log(0, 7, 1);
    recovery_fini(&found);
}

/* The image covers the filled gap, and what had filled it has rotted: the old headers are met below where
 * the chain begins. */
Test(log_forged, the_same_entries_once_more_below_an_image) {
    struct segment_place one = forge_place(1, 1, 0);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 5, 1, 0);
    forge_spoil(&forge, forge_record(&forge, 6, 1, 1, ENTRY_COMMAND));
    (void)forge_record(&forge, 5, 1, 1, ENTRY_COMMAND);
    forge_spoil(&forge, forge_record(&forge, 6, 1, 1, ENTRY_COMMAND));
    forge_entries(&forge, 7, 7, 1, 1);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){1, 7, 1}, one, none);
    RUN(.mend = true, .image_index = 6, .image_term = 1);
    cr_assert_not(found.damage.found, "%s", found.damage.first.text);
    cr_assert_not(found.superseded);
    expect_log(6, 7, 1);
    recovery_fini(&found);
}

/* ------------------------------------------------------------------ marks that do not fit */

/* The vote's mark is of a segment that cannot be read, and below what older ones hold. */
static void a_mark_of_a_lost_segment(void) {
    static const uint8_t zeros[FORGE_CAPACITY];
    struct segment_place seven = forge_place(7, 1, 0), eight = forge_place(8, 9, 1);
    forge_begin(&forge, &seven, none, none);
    forge_entries(&forge, 1, 4, 1, 0);
    forge_hole(&forge, forge_record(&forge, 5, 1, 1, ENTRY_COMMAND));
    forge_entries(&forge, 6, 8, 1, 1);
    forge_finish(&forge, disk);
    forge_begin(&forge, &eight, seven, none);
    forge_entries(&forge, 9, 10, 1, 1);
    forge_finish(&forge, disk);
    forge_write(disk, "00000000000000000009.seg", slice_of(zeros, sizeof(zeros)));
    forge_vote(disk, (struct log_mark_value){9, 2, 1}, seven, none);
}

Test(log_forged, a_mark_of_a_lost_segment_that_is_below_older_ones) {
    a_mark_of_a_lost_segment();
    RUN(.mend = true);
    expect_first(SEGMENT(9) ":0: bad header: expected \"lkv-seg\", found other bytes");
    cr_assert(found.damage.end_unknown && found.damage.contradiction);
    /* Acknowledged is what the next header says; what comes behind the hole is above the mark. */
    cr_assert_eq(found.damage.gap_count, 1);
    expect_gap(0, 5, 8, 1);
    expect_log(0, 8, 1);
    cr_assert_eq(found.torn_records, 2);
    cr_assert(found.needs_segment);
    recovery_fini(&found);
}

static void a_mark_of_a_segment_that_is_gone(void) {
    struct segment_place one = forge_place(1, 1, 0);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 1, 0);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){9, 3, 1}, none, none);
}

/* Rule 8: the mark names a segment of which nothing else is known. */
Test(log_forged, a_mark_of_a_segment_that_is_gone_and_stands_nowhere) {
    a_mark_of_a_segment_that_is_gone();
    RUN(.mend = true);
    expect_first("d/vote:0: its mark names segment 9, found none above 1");
    cr_assert(found.damage.end_unknown);
    /* It may have cut off anything: none of what older ones hold counts. */
    expect_gap(0, 1, 3, 1);
    expect_log(0, 3, 1);
    cr_assert_eq(found.segment_count, 1);
    cr_assert_eq(found.segments[0]->number, 9);
    cr_assert_eq(found.dead_count, 1);
    recovery_fini(&found);
}

/* The newest is unreadable, the one before it is gone, and the one before that has lost its header: the
 * vote, which is older than the newest, knows the last two. */
static void three_lost_segments(void) {
    static const uint8_t zeros[FORGE_CAPACITY];
    struct segment_place one = forge_place(1, 1, 0), two = forge_place(2, 4, 1);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 1, 0);
    forge_finish(&forge, disk);
    forge_begin(&forge, &two, one, none);
    memset(forge.bytes, 0, LOG_BLOCK);
    (void)forge_record(&forge, 3, 1, 0, LOG_TYPE_MARK);
    forge_entries(&forge, 4, 6, 1, 1);
    forge_finish(&forge, disk);
    forge_write(disk, "00000000000000000004.seg", slice_of(zeros, sizeof(zeros)));
    forge_vote(disk, (struct log_mark_value){3, 8, 1}, forge_place(3, 7, 1), two);
}

Test(log_forged, three_segments_that_are_lost_in_three_ways) {
    three_lost_segments();
    RUN(.mend = true);
    expect_first(SEGMENT(2) ":0: bad header: expected \"lkv-seg\", found other bytes");
    cr_assert(found.damage.end_unknown && found.lost_newest);
    cr_assert_eq(found.damage.gap_count, 1);
    expect_gap(0, 7, 8, 1);
    expect_log(0, 8, 1);
    cr_assert_eq(found.segment_count, 3);
    cr_assert(found.segments[1]->first == 4 && found.segments[2]->number == 3);
    cr_assert(found.segments[2]->file == NULL);
    recovery_fini(&found);
}

/* ------------------------------------------------------------------ headers that are lost */

/* The newest has lost its header, and begins with a mark. */
static void a_headless_segment_with_a_mark_in_front(void) {
    struct segment_place one = forge_place(1, 1, 0), two = forge_place(2, 4, 1);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 1, 0);
    forge_finish(&forge, disk);
    forge_begin(&forge, &two, one, none);
    memset(forge.bytes, 0, LOG_BLOCK);
    (void)forge_record(&forge, 3, 1, 0, LOG_TYPE_MARK);
    forge_entries(&forge, 4, 5, 1, 1);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){2, 5, 1}, none, none);
}

/* A mark says what is before it, but not that the segment began there. */
Test(log_forged, a_mark_does_not_say_where_a_segment_without_a_header_began) {
    a_headless_segment_with_a_mark_in_front();
    RUN(.mend = true);
    expect_first(SEGMENT(2) ":0: bad header: expected \"lkv-seg\", found other bytes");
    cr_assert_not(found.damage.end_unknown);
    cr_assert_eq(found.damage.gap_count, 1);
    expect_gap(0, 1, 3, 1);
    expect_log(0, 5, 1);
    cr_assert_eq(found.dead_count, 1);
    recovery_fini(&found);
    /* Below an image it does not matter (rule 14). */
    RUN(.mend = true, .image_index = 5, .image_term = 1);
    cr_assert_eq(found.damage.gap_count, 0);
    cr_assert_eq(found.segments[found.segment_count - 1]->first, 4);
    cr_assert_eq(found.segments[found.segment_count - 1]->prev_term, 1);
    recovery_fini(&found);
}

/* One file is gone, and an entry of the next has a payload that does not hold. */
static void a_segment_that_is_gone_and_a_payload(void) {
    struct segment_place one = forge_place(1, 1, 0), two = forge_place(2, 4, 1);
    struct segment_place three = forge_place(3, 6, 1);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 1, 0);
    forge_finish(&forge, disk);
    forge_begin(&forge, &three, two, one);
    forge_entries(&forge, 6, 6, 1, 1);
    forge_spoil(&forge, forge_record(&forge, 7, 1, 1, ENTRY_COMMAND));
    forge_entries(&forge, 8, 8, 1, 1);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){3, 8, 1}, three, two);
}

Test(log_forged, a_segment_that_its_successor_names) {
    a_segment_that_is_gone_and_a_payload();
    RUN(.mend = true);
    expect_first(SEGMENT(2) ":0: expected entries 4 to 5, found no such file");
    cr_assert_eq(found.damage.gap_count, 2);
    expect_gap(0, 4, 5, 1);
    expect_gap(1, 7, 7, 1);
    cr_assert_eq(found.segment_count, 3);
    cr_assert(found.segments[1]->number == 2 && found.segments[1]->file == NULL);
    cr_assert_eq(found.segments[1]->last, 5);
    expect_log(0, 8, 1);
    recovery_fini(&found);
}

/* ------------------------------------------------------------------ whatever is found, it may end early */

static void (*const damages[])(void) = {two_segments_that_contradict,
                                        a_mark_of_a_lost_segment,
                                        three_lost_segments,
                                        a_headless_segment_with_a_mark_in_front,
                                        a_mark_of_a_segment_that_is_gone,
                                        a_segment_that_is_gone_and_a_payload};
enum { DAMAGES = sizeof(damages) / sizeof(damages[0]), STOP = 7 };

static void make(void (*damage)(void)) {
    teardown();
    setup();
    damage();
}

struct hearer {
    unsigned left; /* calls until it says STOP */
};

static int hear(void *arg) {
    struct hearer *hearer = arg;
    return hearer->left-- == 0 ? STOP : 0;
}

static int hear_item(void *arg, enum log_finding kind, const struct segment *segment,
                     const struct log_scan_item *item, struct log_scan *scan, const char *text) {
    (void)kind, (void)segment, (void)item, (void)scan, (void)text;
    return hear(arg);
}

static int hear_damage(void *arg, const struct recovery_finding *finding) {
    (void)finding;
    return hear(arg);
}

Test(log_forged, the_observer_ends_it_at_any_finding) {
    for (size_t i = 0; i < DAMAGES; i++) {
        for (unsigned mend = 0; mend < 2; mend++) {
            make(damages[i]);
            int rc = STOP;
            unsigned calls = 0;
            for (; rc != 0; calls++) {
                struct hearer hearer = {.left = calls};
                struct recovery_observer observer = {
                    .on_item = hear_item, .on_damage = hear_damage, .arg = &hearer};
                rc = try_run((struct options){.mend = mend != 0, .observer = &observer});
                cr_assert(rc == STOP || rc == 0, "%d", rc);
                recovery_fini(&found);
            }
            cr_assert_gt(calls, 5, "damage %zu: %u calls", i, calls);
        }
    }
}

/* Dead ones are walked for the observer only, and this one holds what its header denies. */
Test(log_forged, a_dead_segment_that_holds_an_entry_from_before_it) {
    struct segment_place one = forge_place(1, 1, 0), two = forge_place(2, 10, 1);
    struct segment_place three = forge_place(3, 6, 1);
    forge_begin(&forge, &one, none, none);
    forge_entries(&forge, 1, 3, 1, 0);
    forge_finish(&forge, disk);
    forge_begin(&forge, &two, one, none);
    forge_entries(&forge, 5, 5, 1, 1);
    forge_entries(&forge, 10, 10, 1, 1);
    forge_finish(&forge, disk);
    forge_begin(&forge, &three, one, none);
    forge_entries(&forge, 6, 6, 1, 1);
    forge_finish(&forge, disk);
    forge_vote(disk, (struct log_mark_value){3, 6, 1}, three, one);
    RUN(.mend = true);
    expect_gap(0, 4, 5, 1);
    expect_log(0, 6, 1);
    recovery_fini(&found);
    struct hearer hearer = {.left = 1000};
    struct recovery_observer observer = {
        .on_item = hear_item, .on_damage = hear_damage, .arg = &hearer};
    RUN(.mend = true, .observer = &observer);
    cr_assert_eq(1000 - hearer.left, 3 + 1 + 1 + 1 + 1, "three, a gap, 5, the dead 10, 6");
    expect_gap(0, 4, 4, 1);
    expect_log(0, 6, 1);
    recovery_fini(&found);
}

/* S28 */
Test(log_forged, without_memory_it_ends_with_that) {
    for (size_t i = 0; i < DAMAGES; i++) {
        make(damages[i]);
        int rc = LKV_ENOMEM;
        for (uint64_t n = 0; rc != 0; n++) {
            mem_fail_after(n);
            rc = try_run((struct options){.mend = true});
            mem_fail_never();
            cr_assert(rc == LKV_ENOMEM || rc == 0, "%s", error_name(rc));
            recovery_fini(&found);
        }
    }
}

/* S11: without `mend` a read that fails is an error; with it, it is damage at most. */
Test(log_forged, when_the_disk_fails_it_says_so) {
    for (size_t i = 0; i < DAMAGES; i++) {
        for (unsigned mend = 0; mend < 2; mend++) {
            make(damages[i]);
            int rc = LKV_EIO;
            size_t failed = 0;
            for (uint64_t n = 0; n < 40; n++) {
                sim_disk_fail(sim, SIM_READ, n, LKV_EIO, true);
                rc = try_run((struct options){.mend = mend != 0});
                sim_disk_heal(sim);
                cr_assert(rc == LKV_EIO || rc == 0, "%s", error_name(rc));
                cr_assert(rc == 0 || strstr(why.text, "d") == why.text ||
                              strstr(why.text, "segment") == why.text,
                          "%s", why.text);
                failed += rc != 0;
                recovery_fini(&found);
            }
            cr_assert_geq(failed, mend != 0 ? 1 : 3); /* with it, only without a vote */
        }
    }
}
