/* Sessions against a naive model, beside views, across images, and without memory. */
#include "kv/session.h"
#include "base/mem.h"
#include "base/prng.h"
#include "feed.h"
#include "tests/sim/sim_disk.h"

#include <criterion/criterion.h>

enum { TTL = 5000, LIMIT = 8 };

static uint64_t open_session(struct feed *feed) {
    const struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = TTL, .limit = LIMIT};
    cr_assert_eq(feed_command(feed, &open), 0);
    cr_assert_eq(feed->result.rc, 0);
    cr_assert_eq(feed->result.session, feed->index, "the id is the entry's index");
    return feed->index;
}

static int end_session(struct feed *feed, enum kv_op op, uint64_t session) {
    const struct kv_command end = {.op = op, .session = session};
    cr_assert_eq(feed_command(feed, &end), 0);
    cr_assert(feed->result.ended);
    return feed->result.rc;
}

/* The entry's own outcome. */
static int put_once(struct feed *feed, uint64_t session, uint64_t seq, uint64_t acked_below,
                    const char *key) {
    const struct kv_command put = {.op = KV_PUT,
                                   .session = session,
                                   .seq = seq,
                                   .acked_below = acked_below,
                                   .key = slice_text(key),
                                   .value = slice_text("v")};
    cr_assert_eq(feed_command(feed, &put), 0);
    cr_assert_eq(feed->result.session, session);
    return feed->result.rc;
}

static uint64_t version_of(struct kv *kv, const char *key) {
    struct kv_item item;
    if (kv_get(kv, slice_text(key), &item, NULL) != 0) {
        return 0;
    }
    uint64_t version = item.version;
    kv_item_release(&item);
    return version;
}

static uint64_t digest(struct kv *kv) {
    struct kv_view *view;
    uint64_t sum = 0;
    cr_assert_eq(kv_view_open(kv, &view), 0);
    cr_assert_eq(kv_view_digest(view, NULL, &sum), 0);
    kv_view_close(view);
    return sum;
}

Test(kv_session, c1_a_repeated_command_takes_effect_once_and_gets_the_first_answer) {
    struct feed feed = feed_open(1);
    uint64_t session = open_session(&feed);
    feed.term = 3;
    cr_assert_eq(put_once(&feed, session, 1, 1, "a"), 0);
    struct kv_result first = feed.result;
    cr_assert_not(first.repeated);
    must_put(&feed, "b", "moves the revision");
    feed.term = 4;
    cr_assert_eq(put_once(&feed, session, 1, 1, "a"), 0);
    cr_assert(feed.result.repeated);
    cr_assert_eq(feed.result.index, first.index);
    cr_assert_eq(feed.result.term, 3);
    cr_assert_eq(feed.result.revision, first.revision);
    cr_assert_eq(version_of(feed.kv, "a"), 1);
    struct kv_stamp stamp;
    kv_stamp(feed.kv, &stamp);
    cr_assert_eq(stamp.revision, first.revision + 1, "an old answer turns no clock back");
    cr_assert_eq(stamp.index, feed.index);
    feed_close(&feed);
}

Test(kv_session, c3_an_unknown_session_executes_nothing) {
    struct feed feed = feed_open(1);
    cr_assert_eq(put_once(&feed, 77, 1, 1, "a"), LKV_ESESSION);
    uint64_t session = open_session(&feed);
    cr_assert_eq(put_once(&feed, session, 1, 1, "a"), 0);
    cr_assert_eq(end_session(&feed, KV_SESSION_EXPIRE, session), 0);
    cr_assert_eq(put_once(&feed, session, 1, 1, "a"), LKV_ESESSION);
    cr_assert_eq(put_once(&feed, session, 2, 1, "a"), LKV_ESESSION);
    cr_assert_eq(version_of(feed.kv, "a"), 1);
    cr_assert_eq(end_session(&feed, KV_SESSION_CLOSE, session), LKV_ESESSION);
    feed_close(&feed);
}

Test(kv_session, c5_a_fenced_command_keeps_its_answer_when_the_term_has_passed) {
    struct feed feed = feed_open(1);
    uint64_t session = open_session(&feed);
    struct kv_command put = {.op = KV_PUT,
                             .session = session,
                             .seq = 1,
                             .acked_below = 1,
                             .in_term = 1,
                             .key = slice_text("k")};
    cr_assert_eq(feed_command(&feed, &put), 0);
    cr_assert_eq(feed.result.rc, 0);
    feed.term = 2;
    cr_assert_eq(feed_command(&feed, &put), 0);
    cr_assert(feed.result.rc == 0 && feed.result.repeated, "it was done, whatever the term is now");
    put.seq = 2;
    cr_assert_eq(feed_command(&feed, &put), 0);
    cr_assert_eq(feed.result.rc, LKV_ETERM);
    put.in_term = 0;
    cr_assert_eq(feed_command(&feed, &put), 0);
    cr_assert_eq(feed.result.rc, LKV_ETERM, "a refusal is an answer too, and the first one");
    cr_assert_eq(version_of(feed.kv, "k"), 1);
    feed_close(&feed);
}

Test(kv_session, the_window_forgets_what_was_acknowledged_and_refuses_what_is_beyond) {
    struct feed feed = feed_open(1);
    uint64_t session = open_session(&feed);
    cr_assert_eq(put_once(&feed, session, KV_SESSION_WINDOW + 1, 1, "beyond"), LKV_EBUSY);
    cr_assert_eq(version_of(feed.kv, "beyond"), 0);
    for (uint64_t seq = KV_SESSION_WINDOW; seq > 0; seq--) { /* in any order */
        cr_assert_eq(put_once(&feed, session, seq, 1, "k"), 0);
    }
    cr_assert_eq(put_once(&feed, session, KV_SESSION_WINDOW + 1, 1, "beyond"), LKV_EBUSY);
    cr_assert_eq(put_once(&feed, session, KV_SESSION_WINDOW + 1, 2, "beyond"), 0);
    cr_assert_eq(put_once(&feed, session, 1, 1, "k"), LKV_EANSWERED);
    cr_assert_eq(put_once(&feed, session, 2, 1, "k"), 0);
    cr_assert(feed.result.repeated);
    cr_assert_eq(put_once(&feed, session, 1000, 1000, "far"), 0);
    cr_assert_eq(put_once(&feed, session, 999, 1, "k"), LKV_EANSWERED);
    cr_assert_eq(put_once(&feed, session, UINT64_MAX, UINT64_MAX, "last"), 0);
    cr_assert_eq(put_once(&feed, session, UINT64_MAX, 1, "last"), 0);
    cr_assert(feed.result.repeated);
    cr_assert_eq(version_of(feed.kv, "k"), KV_SESSION_WINDOW);
    feed_close(&feed);
}

Test(kv_session, a_session_lives_on_with_another_ttl_and_tells_its_last_number) {
    struct feed feed = feed_open(1);
    uint64_t session = open_session(&feed);
    cr_assert_eq(put_once(&feed, session, 7, 5, "a"), 0);
    const struct kv_command renew = {
        .op = KV_SESSION_OPEN, .session = session, .ttl_ms = 9000, .limit = 0};
    cr_assert_eq(feed_command(&feed, &renew), 0);
    cr_assert_eq(feed.result.rc, 0, "the limit is for new ones");
    cr_assert_eq(feed.result.session, session);
    cr_assert_eq(feed.result.count, 7);
    struct kv_session info;
    cr_assert(kv_session_at(feed.kv, 0, &info));
    cr_assert(info.id == session && info.ttl_ms == 9000);
    cr_assert_not(kv_session_at(feed.kv, 1, &info));
    cr_assert_eq(end_session(&feed, KV_SESSION_CLOSE, session), 0);
    cr_assert_eq(feed_command(&feed, &renew), 0);
    cr_assert_eq(feed.result.rc, LKV_ESESSION);
    feed_close(&feed);
}

Test(kv_session, the_command_says_how_many_there_may_be) {
    struct feed feed = feed_open(1);
    for (unsigned i = 0; i < LIMIT; i++) {
        (void)open_session(&feed);
    }
    struct kv_command open = {.op = KV_SESSION_OPEN, .ttl_ms = TTL, .limit = LIMIT};
    cr_assert_eq(feed_command(&feed, &open), 0);
    cr_assert_eq(feed.result.rc, LKV_EBUSY);
    cr_assert_eq(feed.result.session, 0);
    open.limit = LIMIT + 1;
    cr_assert_eq(feed_command(&feed, &open), 0);
    cr_assert_eq(feed.result.rc, 0);
    struct kv_stats stats;
    kv_stats(feed.kv, &stats);
    cr_assert_eq(stats.sessions, LIMIT + 1);
    feed_close(&feed);
}

Test(kv_session, a_long_delete_is_recorded_when_it_is_complete) {
    struct feed feed = feed_open(1);
    uint64_t session = open_session(&feed);
    char key[16];
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(key, sizeof(key), "k%u", i);
        must_put(&feed, key, "v");
    }
    const struct kv_command delete = {.op = KV_DELETE,
                                      .session = session,
                                      .seq = 1,
                                      .acked_below = 1,
                                      .key = slice_text("k"),
                                      .end = slice_of("\0", 1)};
    cr_assert_eq(feed_command(&feed, &delete), 0);
    cr_assert(feed.result.rc == 0 && feed.result.count == 5000);
    uint64_t revision = feed.result.revision;
    must_put(&feed, "k1", "again");
    cr_assert_eq(feed_command(&feed, &delete), 0);
    cr_assert(feed.result.repeated);
    cr_assert(feed.result.count == 5000 && feed.result.revision == revision);
    cr_assert_eq(version_of(feed.kv, "k1"), 1);
    feed_close(&feed);
}

/* ------------------------------------------------------------------ against a naive model */

enum { NAIVE_SESSIONS = 4, NAIVE_SEQS = 2000 };

struct naive_session {
    uint64_t id, acked_below; /* id 0: closed */
    struct kv_result replies[NAIVE_SEQS];
    bool done[NAIVE_SEQS];
};

static struct naive_session naive[NAIVE_SESSIONS];

static int naive_put(struct naive_session *session, uint64_t seq, uint64_t acked_below,
                     struct kv_result *result) {
    uint64_t floor = session->acked_below > acked_below ? session->acked_below : acked_below;
    if (session->id == 0) {
        return LKV_ESESSION;
    }
    if (seq < floor) {
        return LKV_EANSWERED;
    }
    if (seq >= floor + KV_SESSION_WINDOW) {
        return LKV_EBUSY;
    }
    if (session->done[seq]) {
        *result = session->replies[seq];
        result->repeated = true;
    } else {
        session->done[seq] = true;
        session->replies[seq] = *result;
        session->acked_below = floor;
    }
    return 0;
}

struct run {
    struct feed feed;
    struct prng prng;
    uint64_t revision, at; /* at: about where the numbers are */
};

static void random_step(struct run *run) {
    size_t which = prng_below(&run->prng, NAIVE_SESSIONS);
    struct naive_session *session = &naive[which];
    uint64_t id = session->id;
    if (id == 0 && prng_below(&run->prng, 2) == 0) {
        *session = (struct naive_session){.id = open_session(&run->feed), .acked_below = 1};
        return;
    }
    if (prng_below(&run->prng, 400) == 0 && id != 0) {
        cr_assert_eq(end_session(&run->feed, KV_SESSION_EXPIRE, id), 0);
        session->id = 0;
        return;
    }
    uint64_t base = session->acked_below;
    uint64_t seq = base + prng_below(&run->prng, prng_below(&run->prng, 8) == 0 ? 300 : 20);
    seq = seq > 3 ? seq - prng_below(&run->prng, 4) : seq;
    seq = seq < NAIVE_SEQS ? seq : NAIVE_SEQS - 1;
    uint64_t acked = prng_below(&run->prng, 3) == 0 ? seq - prng_below(&run->prng, seq) : 1;
    struct kv_result expected = {
        .index = run->feed.index + 1, .term = run->feed.term, .revision = run->revision + 1};
    int rc = naive_put(session, seq, acked, &expected);
    char key[16];
    (void)snprintf(key, sizeof(key), "s%zu", which);
    cr_assert_eq(put_once(&run->feed, id != 0 ? id : UINT64_MAX, seq, acked, key), rc);
    if (rc == 0) {
        cr_assert_eq(run->feed.result.repeated, expected.repeated);
        cr_assert_eq(run->feed.result.index, expected.index);
        cr_assert_eq(run->feed.result.revision, expected.revision);
        run->revision += expected.repeated ? 0 : 1;
    }
}

static struct kv *through_image(struct kv *kv, uint64_t seed) {
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    const struct kv_options options = {.hash_seed = seed};
    struct kv_view *view;
    struct kv *loaded;
    struct reason why = {{0}};
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    cr_assert_eq(kv_view_open(kv, &view), 0);
    cr_assert_eq(kv_image_save(view, disk, "d", "d/i", (struct kv_owner){1, 0}, (struct slice){0},
                               NULL, NULL, &why),
                 0, "%s", why.text);
    kv_view_close(view);
    cr_assert_eq(kv_image_load(&loaded, &options, disk, "d/i", NULL, NULL, NULL, &why), 0, "%s",
                 why.text);
    sim_disk_free(sim);
    return loaded;
}

Test(kv_session, x_a10_agrees_with_the_naive_model_also_across_images) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct run run = {.feed = feed_open(seed), .prng = prng_of(seed), .revision = 1};
        memset(naive, 0, sizeof(naive));
        for (unsigned step = 0; step < 6000; step++) {
            random_step(&run);
            if (step % 500 == 499) {
                struct kv *loaded = through_image(run.feed.kv, seed + step);
                cr_assert_eq(digest(loaded), digest(run.feed.kv));
                kv_restore(run.feed.kv, loaded);
            }
        }
        feed_close(&run.feed);
    }
}

/* ------------------------------------------------------------------ views and images */

static uint64_t view_digest(struct kv_view *view) {
    uint64_t sum = 0;
    cr_assert_eq(kv_view_digest(view, NULL, &sum), 0);
    return sum;
}

Test(kv_session, a_view_shows_the_sessions_of_its_own_moment) {
    struct feed feed = feed_open(1);
    uint64_t session = open_session(&feed);
    cr_assert_eq(put_once(&feed, session, 1, 1, "a"), 0);
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    uint64_t before = view_digest(view);
    cr_assert_eq(put_once(&feed, session, 2, 2, "b"), 0);
    (void)open_session(&feed);
    cr_assert_eq(view_digest(view), before, "frozen when it was opened");
    cr_assert_neq(digest(feed.kv), before);
    cr_assert_eq(end_session(&feed, KV_SESSION_CLOSE, session), 0);
    cr_assert_eq(view_digest(view), before);
    kv_view_close(view);
    feed_close(&feed);
}

Test(kv_session, s19_an_image_has_exactly_the_replies_of_the_effects_in_it) {
    struct feed feed = feed_open(1);
    uint64_t session = open_session(&feed);
    cr_assert_eq(put_once(&feed, session, 1, 1, "a"), 0);
    struct kv_view *view;
    cr_assert_eq(kv_view_open(feed.kv, &view), 0);
    cr_assert_eq(put_once(&feed, session, 2, 1, "a"), 0); /* after the image's index */

    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    const struct kv_options options = {.hash_seed = 2};
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    cr_assert_eq(kv_image_save(view, disk, "d", "d/i", (struct kv_owner){1, 0}, (struct slice){0},
                               NULL, NULL, NULL),
                 0);
    kv_view_close(view);
    struct feed other = {.term = 1};
    struct kv_image_info info;
    cr_assert_eq(kv_image_load(&other.kv, &options, disk, "d/i", NULL, &info, NULL, NULL), 0);
    other.index = info.stamp.index;

    /* Replaying the log behind the image: the second takes effect, the first does not again. */
    cr_assert_eq(put_once(&other, session, 2, 1, "a"), 0);
    cr_assert_not(other.result.repeated);
    cr_assert_eq(put_once(&other, session, 1, 1, "a"), 0);
    cr_assert(other.result.repeated);
    cr_assert_eq(version_of(other.kv, "a"), 2);
    cr_assert_eq(put_once(&feed, session, 1, 1, "a"), 0);
    cr_assert_eq(digest(feed.kv), digest(other.kv));
    feed_close(&other);
    feed_close(&feed);
    sim_disk_free(sim);
}

Test(kv_session, has_the_golden_bytes) {
    static const uint8_t golden[] = {
        7,    0,    0, 0, 0, 0, 0, 0,                          /* id */
        0x88, 0x13, 0, 0, 0, 0, 0, 0,                          /* ttl: 5000 ms */
        5,    0,    0, 0, 0, 0, 0, 0,                          /* acked below */
        9,    0,    0, 0, 0, 0, 0, 0,                          /* greatest number */
        2,    0,    0, 0,                                      /* replies */
        6,    0,    0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, /* seq 6, entry 11 */
        2,    0,    0, 0, 0, 0, 0, 0, 4,  0, 0, 0, 0, 0, 0, 0, /* term 2, revision 4 */
        3,    0,    0, 0, 0, 0, 0, 0, 0,  0, 0, 0,             /* 3 deleted, done */
        9,    0,    0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, /* seq 9, entry 12 */
        3,    0,    0, 0, 0, 0, 0, 0, 4,  0, 0, 0, 0, 0, 0, 0, /* term 3, revision 4 */
        0,    0,    0, 0, 0, 0, 0, 0, 26, 0, 0, 0,             /* fenced by another term */
    };
    struct sessions sessions = {0};
    cr_assert_eq(sessions_open(&sessions, 7, 5000, 1), 0);
    const struct session_call calls[] = {{7, 6, 5}, {7, 9, 1}};
    const struct session_reply replies[] = {
        {.seq = 6, .index = 11, .term = 2, .revision = 4, .count = 3},
        {.seq = 9, .index = 12, .term = 3, .revision = 4, .rc = LKV_ETERM}};
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(sessions_reserve(&sessions, &calls[i]), 0);
        sessions_record(&sessions, &calls[i], &replies[i]);
    }
    struct buffer bytes;
    buffer_init(&bytes);
    session_put(&bytes, sessions.slots[0].session);
    cr_assert_eq(bytes.size, sizeof(golden));
    cr_assert_arr_eq(bytes.data, golden, sizeof(golden));
    uint64_t sum;
    cr_assert_eq(session_digest(sessions.slots[0].session, &sum), 0);
    cr_assert_eq(sum, UINT64_C(0xf7722365aa1fbfc5));

    struct reader reader = reader_of(buffer_slice(&bytes));
    struct session *back;
    cr_assert_eq(session_get(&reader, &back), 0);
    cr_assert_eq(reader.left, 0);
    struct buffer again;
    buffer_init(&again);
    session_put(&again, back);
    cr_assert(slice_equal(buffer_slice(&again), buffer_slice(&bytes)));
    session_unref(back);
    buffer_fini(&again);
    buffer_fini(&bytes);
    sessions_fini(&sessions);
}

Test(kv_session, reads_no_session_that_could_not_have_been_written) {
    struct sessions sessions = {0};
    cr_assert_eq(sessions_open(&sessions, 7, 5000, 1), 0);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        const struct session_call call = {7, seq, 1};
        const struct session_reply reply = {
            .seq = seq, .index = 10 + seq, .term = 1, .revision = 2};
        cr_assert_eq(sessions_reserve(&sessions, &call), 0);
        sessions_record(&sessions, &call, &reply);
    }
    struct buffer bytes;
    buffer_init(&bytes);
    session_put(&bytes, sessions.slots[0].session);
    for (size_t size = 0; size < bytes.size; size++) {
        struct reader reader = reader_of(slice_of(bytes.data, size));
        struct session *session;
        cr_assert_eq(session_get(&reader, &session), LKV_EDAMAGED);
        cr_assert_null(session);
    }
    for (size_t at = 0; at < bytes.size * 8; at++) { /* whatever comes, it is whole or refused */
        bytes.data[at / 8] ^= (uint8_t)(1u << at % 8);
        struct reader reader = reader_of(buffer_slice(&bytes));
        struct session *session;
        int rc = session_get(&reader, &session);
        cr_assert(rc == 0 || rc == LKV_EDAMAGED);
        if (rc == 0) {
            struct buffer again;
            buffer_init(&again);
            session_put(&again, session);
            cr_assert(slice_equal(buffer_slice(&again), buffer_slice(&bytes)), "bit %zu", at);
            buffer_fini(&again);
        }
        session_unref(session);
        bytes.data[at / 8] ^= (uint8_t)(1u << at % 8);
    }
    buffer_fini(&bytes);
    sessions_fini(&sessions);
}

/* ------------------------------------------------------------------ memory */

enum { SCRIPT = 120 };

static struct kv_command script_at(unsigned step, uint64_t session) {
    struct kv_command command = {.op = KV_PUT,
                                 .session = session,
                                 .seq = step,
                                 .acked_below = step > 40 ? step - 40 : 1,
                                 .key = slice_text("k"),
                                 .value = slice_text("v")};
    if (step == 0) {
        command = (struct kv_command){.op = KV_SESSION_OPEN, .ttl_ms = TTL, .limit = LIMIT};
    }
    return command;
}

/* Applies the script until the n-th allocation fails. Every entry before it has both its effect and its
 * reply, that one has neither. (What only gives memory back may fail unnoticed.) False: there are not so
 * many allocations. */
static bool run_out_at(uint64_t n) {
    struct feed feed = feed_open(1);
    struct kv_view *view = NULL;
    uint64_t calls = 0, applied = 0;
    int rc = 0;
    for (unsigned step = 0; rc == 0 && step < SCRIPT; step++) {
        const struct kv_command command = script_at(step, 1);
        struct blob *payload = kv_command_encode(&command);
        if (step % 10 == 5) { /* so that sessions are copied before they change */
            kv_view_close(view);
            cr_assert_eq(kv_view_open(feed.kv, &view), 0);
        }
        mem_fail_after(calls <= n ? n - calls : UINT64_MAX);
        rc = feed_entry(&feed, ENTRY_COMMAND, payload);
        calls += mem_fail_count();
        mem_fail_never();
        blob_unref(payload);
        cr_assert(rc == 0 || rc == LKV_ENOMEM);
        applied += rc == 0;
    }
    kv_view_close(view);
    cr_assert_eq(version_of(feed.kv, "k"), applied > 0 ? applied - 1 : 0);
    struct kv *loaded = through_image(feed.kv, 9);
    struct feed after = {.kv = loaded, .index = feed.index, .term = 1};
    if (applied > 1) {
        cr_assert_eq(put_once(&after, 1, applied - 1, 1, "k"), 0);
        cr_assert(after.result.repeated);
    }
    if (applied > 0) {
        cr_assert_eq(put_once(&after, 1, applied, 1, "k"), 0);
        cr_assert_not(after.result.repeated);
    }
    feed_close(&after);
    feed_close(&feed);
    return calls > n;
}

Test(kv_session, s28_without_memory_an_entry_has_effect_and_reply_or_neither) {
    uint64_t n = 0;
    while (run_out_at(n)) {
        n++;
    }
    cr_assert_gt(n, SCRIPT);
}
