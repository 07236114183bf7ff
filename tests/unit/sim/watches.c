/* Watches of whole clusters: what the swarm draws by chance, one by one. */
#include "lib/client.h"
#include "lib/watch.h"
#include "tests/unit/sim/play.h"

#include <inttypes.h>

enum { BATCH = 500 };

struct listener {
    struct lkv_queue *queue;
    uint64_t next; /* the revision that it is due; each of them is a put of a key that it watches */
    uint64_t first;
    int end; /* 0: not yet */
};

static struct listener reader_new(uint64_t next) {
    struct listener reader = {.next = next};
    cr_assert_eq(lkv_queue_new(&reader.queue), 0);
    return reader;
}

static void reader_open(struct listener *reader, struct lkv *db) {
    reader->end = 0;
    cr_assert_eq(lkv_watch(db, LKV_STR("k"), LKV_STR("l"), reader->next, 0, reader->queue, reader),
                 0);
}

/* One message; false: there is none. */
static bool reader_take(struct listener *reader) {
    struct lkv_msg *msg = lkv_queue_next(reader->queue, 0);
    struct lkv_event event;
    if (msg == NULL) {
        return false;
    }
    for (size_t i = 0; lkv_msg_event(msg, i, &event); i++) {
        cr_assert_eq(event.kv.mod_rev, reader->next, "%d where %d was due", (int)event.kv.mod_rev,
                     (int)reader->next);
        reader->next++;
    }
    if (lkv_msg_kind(msg) == LKV_END) {
        reader->end = lkv_msg_rc(msg);
        (void)lkv_msg_u64(msg, "first", &reader->first);
    }
    lkv_msg_free(msg);
    return true;
}

static void reader_free(struct listener *reader) {
    while (reader_take(reader)) {
    }
    lkv_queue_free(reader->queue);
}

static void on_end(struct request *request) {
    cr_assert_eq(request->reply->rc, 0);
    ++*(size_t *)request->owner;
}

/* Many puts side by side. */
static void put_many(struct play *play, struct sim_node *node, size_t count) {
    for (size_t done = 0, sent = 0; done < count; sim_world_run_ms(play->world, 5)) {
        for (size_t end = sent + BATCH < count ? sent + BATCH : count; sent < end; sent++) {
            char key[SIM_KEY_SIZE], value[8] = {0};
            sim_key_text((uint32_t)(sent % 50), key);
            const struct kv_command command = {
                .op = KV_PUT, .key = slice_text(key), .value = slice_of(value, sizeof(value))};
            struct request *request = request_new(REQUEST_WRITE);
            request->command = kv_command_encode(&command);
            request->on_finish = on_end;
            request->owner = &done;
            request->deadline_ns = node_now(node->node) + 5000 * MS_NS;
            cr_assert_eq(node_submit(&node->node->handle, request), 0);
        }
    }
}

static struct play begin(uint64_t seed, uint64_t revisions) {
    struct sim_plan plan = sim_plan_calm(seed);
    plan.history_revisions = revisions;
    plan.history_ms = plan.history_bytes = 0;
    struct play play = play_begin(&plan);
    (void)play_leader(&play, 3000);
    sim_world_run_ms(play.world, 500);
    return play;
}

/* X-I1: it sleeps over many events; what it has not asked for costs nobody anything. */
static void sleep_over(uint64_t events, uint64_t kept) {
    struct play play = begin(720, kept);
    struct sim_node *leader = play_leader(&play, 0), *follower = play_follower(&play, leader);
    struct listener readers[2] = {reader_new(2), reader_new(2)};
    reader_open(&readers[0], &leader->node->handle);
    reader_open(&readers[1], &follower->node->handle);
    put_many(&play, leader, events);
    sim_world_run_ms(play.world, 30000);
    for (int i = 0; i < 2; i++) {
        struct listener *reader = &readers[i];
        for (int calm = 0; calm < 20; calm++) {
            while (reader_take(reader)) {
                calm = 0;
            }
            sim_world_run_ms(play.world, 10);
        }
        if (kept == 0) {
            cr_expect_eq(reader->next, events + 2, "%d", (int)reader->next);
            cr_expect_eq(reader->end, 0);
        } else {
            cr_expect_eq(reader->end, LKV_ECOMPACTED, "C7: and with the oldest revision");
            cr_expect(reader->first > reader->next && reader->first <= events + 2 - kept);
            reader->next = reader->first;
            reader_open(reader, i == 0 ? &leader->node->handle : &follower->node->handle);
            sim_world_run_ms(play.world, 100);
            while (reader_take(reader)) {
                sim_world_run_ms(play.world, 10);
            }
            cr_expect_eq(reader->next, events + 2);
        }
    }
    play_end(&play);
    reader_free(&readers[0]);
    reader_free(&readers[1]);
}

Test(sim_watches, x_i1_a_sleeper_gets_each_event_once_and_in_order) {
    sleep_over(100000, 0);
}

Test(sim_watches, x_i1_a_sleeper_that_a_compaction_overtakes_is_told_so) {
    sleep_over(100000, 1000);
}

static struct lkv *remote_handle(struct play *play) {
    return client_handle(play->world->remotes[0].client);
}

/* C8: leaders die, connections break, and the client goes from node to node. */
Test(sim_watches, c8_a_client_goes_on_at_any_node_where_it_was) {
    for (uint64_t seed = 730; seed < 736; seed++) {
        struct sim_plan plan = sim_plan_calm(seed);
        plan.remotes = 1;
        plan.history_revisions = plan.history_ms = plan.history_bytes = 0;
        struct play play = play_begin(&plan);
        (void)play_leader(&play, 3000);
        sim_world_run_ms(play.world, 500);
        sim_remotes_start(play.world);
        sim_world_run_ms(play.world, 2000);
        struct listener reader = reader_new(2);
        reader_open(&reader, remote_handle(&play));
        for (int round = 0; round < 6; round++) {
            struct sim_node *leader = play_leader(&play, 5000);
            put_many(&play, leader, 200);
            while (reader_take(&reader)) {
            }
            struct sim_node *victim = &play.world->nodes[(seed + (uint64_t)round) % 3];
            sim_node_crash(victim, round % 2 == 0);
            sim_node_restart_in(victim, 500);
            sim_world_run_ms(play.world, 1500);
        }
        for (int i = 0; i < 1500 && reader.next < play.world->model.revision + 1; i++) {
            while (reader_take(&reader)) {
            }
            sim_world_run_ms(play.world, 10);
        }
        cr_expect_eq(reader.next, play.world->model.revision + 1, "%d of %d", (int)reader.next,
                     (int)play.world->model.revision);
        cr_expect_eq(reader.end, 0);
        play_end(&play);
        reader_free(&reader);
    }
}

/* A follower that gets an image goes on from the history in it, or says what is compacted. */
static void through_an_image(uint64_t kept) {
    struct sim_plan plan = sim_plan_calm(740);
    plan.history_revisions = kept;
    plan.history_ms = plan.history_bytes = 0;
    plan.image_log_bytes = 65536;
    plan.keep_entries = 10;
    struct play play = play_begin(&plan);
    struct sim_node *leader = play_leader(&play, 3000), *follower = play_follower(&play, leader);
    sim_world_run_ms(play.world, 500);
    put_many(&play, leader, 10);
    sim_world_run_ms(play.world, 500);
    struct listener reader = reader_new(2);
    reader_open(&reader, &follower->node->handle);
    sim_world_run_ms(play.world, 100);
    while (reader_take(&reader)) {
    }
    cr_assert_eq(reader.next, 12);
    uint64_t image = follower->node->image_index;
    sim_isolate(play.world, follower->number, UINT64_MAX);
    put_many(&play, leader, 5000);
    sim_world_run_ms(play.world, 2000);
    sim_net_mend_all(&play.world->net);
    sim_world_run_ms(play.world, 10000);
    cr_assert_gt(follower->node->image_index, image + 1000, "no image came");
    for (int i = 0; i < 20; i++) {
        while (reader_take(&reader)) {
        }
        sim_world_run_ms(play.world, 10);
    }
    if (kept == 0) {
        cr_expect_eq(reader.next, 5012, "%d", (int)reader.next);
    } else {
        cr_expect(reader.end == LKV_ECOMPACTED && reader.next < 5012 - kept &&
                      reader.first > reader.next,
                  "%d at %d, first %d", reader.end, (int)reader.next, (int)reader.first);
    }
    play_agree(&play);
    play_end(&play);
    reader_free(&reader);
}

Test(sim_watches, an_image_brings_the_events_that_a_follower_has_missed) {
    through_an_image(0);
}

Test(sim_watches, an_image_without_them_ends_the_watch) {
    through_an_image(500);
}

/* Below the level that has history it waits, and then is told why. */
Test(sim_watches, rule_22_waits_for_the_level_that_has_history) {
    struct sim_plan plan = sim_plan_calm(750);
    struct play play = {.story = sim_story_new(STORY_LINES, stderr)};
    play.world = sim_world_new(&plan, sim_story_tell, play.story);
    for (size_t i = 0; i < 3; i++) {
        play.world->nodes[i].feature_level = 1;
        sim_node_start(&play.world->nodes[i]);
    }
    struct sim_node *leader = play_leader(&play, 3000);
    struct listener reader = reader_new(0);
    reader_open(&reader, &leader->node->handle);
    sim_world_run_ms(play.world, 8000);
    cr_expect_not(reader_take(&reader));
    sim_world_run_ms(play.world, 3000);
    cr_expect(reader_take(&reader));
    cr_expect_eq(reader.end, LKV_EUNSUPPORTED);
    play_end(&play);
    reader_free(&reader);
}
