/* A program's own state machine: answers, images, restarts, a laggard that gets an image. The machine is the
 * text of all entries behind each other; the answer is how long it was before, and what was added. */
#include "tests/unit/lib/node_world.h"

#include <pthread.h>

enum { STATE_MAX = 64 * 1024 * 1024, LARGE = 16000 };

struct text {
    pthread_mutex_t mutex;
    char *bytes;
    size_t size, loads, resets, views, fail_at;
};

struct view {
    char *bytes;
    size_t size, at;
};

struct program {
    struct lkv *db;
    struct lkv_machine *machine;
    struct text text;
    pthread_t thread;
    int rc;
};

static struct world world;
static struct program programs[NODES];

static int apply(void *arg, const struct lkv_record *entry, struct lkv_said *answer) {
    struct text *text = arg;
    char said[64];
    if (entry->data.size == 4 && memcmp(entry->data.data, "fail", 4) == 0) {
        return LKV_EIO;
    }
    (void)pthread_mutex_lock(&text->mutex);
    int size = snprintf(said, sizeof(said), "%zu+", text->size);
    if (text->size + entry->data.size <= STATE_MAX) {
        memcpy(text->bytes + text->size, entry->data.data, entry->data.size);
        text->size += entry->data.size;
    }
    (void)pthread_mutex_unlock(&text->mutex);
    int rc = lkv_machine_say(answer, (struct lkv_bytes){said, (size_t)size});
    return rc == 0 ? lkv_machine_say(answer, entry->data) : rc;
}

static int reset(void *arg) {
    struct text *text = arg;
    text->size = 0;
    text->resets++;
    return 0;
}

static int load(void *arg, struct lkv_bytes bytes) {
    struct text *text = arg;
    memcpy(text->bytes + text->size, bytes.data, bytes.size);
    text->size += bytes.size;
    text->loads += bytes.size > 0;
    return 0;
}

static int freeze(void *arg, void **out) {
    struct text *text = arg;
    struct view *view = malloc(sizeof(*view));
    *view = (struct view){.bytes = malloc(text->size + 1), .size = text->size};
    memcpy(view->bytes, text->bytes, text->size);
    text->views++;
    *out = view;
    return 0;
}

static int save(void *arg, void *opaque, void *into, size_t size, size_t *got) {
    (void)arg;
    struct view *view = opaque;
    size = size < 1000 ? size : 1000; /* in many pieces */
    *got = view->size - view->at < size ? view->size - view->at : size;
    memcpy(into, view->bytes + view->at, *got);
    view->at += *got;
    return 0;
}

static void thaw(void *arg, void *opaque) {
    (void)arg;
    struct view *view = opaque;
    free(view->bytes);
    free(view);
}

static const struct lkv_machine_calls calls = {
    .apply = apply, .reset = reset, .load = load, .freeze = freeze, .save = save, .thaw = thaw};

static void *run(void *arg) {
    struct program *program = arg;
    program->rc = lkv_machine_run(program->machine);
    return NULL;
}

static void start(int i, uint64_t image_bytes, bool alone) {
    struct program *program = &programs[i];
    struct lkv_options *options =
        alone ? new_options(world.dirs[i], "n1") : member_options(&world, i);
    cr_assert_eq(lkv_options_set(options, "model", "own"), 0);
    cr_assert_eq(lkv_options_set(options, "keep_entries", "4"), 0);
    int rc = try_open(&program->db, options);
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), open_text);
    world.nodes[i] = program->db;
    program->text = (struct text){.bytes = malloc(STATE_MAX)};
    (void)pthread_mutex_init(&program->text.mutex, NULL);
    cr_assert_eq(
        lkv_machine_new(program->db, &calls, &program->text, image_bytes, &program->machine), 0,
        "%s", lkv_last_text());
    cr_assert_eq(pthread_create(&program->thread, NULL, run, program), 0);
}

static int end(int i) {
    struct program *program = &programs[i];
    if (program->db == NULL) {
        return 0;
    }
    lkv_machine_stop(program->machine);
    (void)pthread_join(program->thread, NULL);
    lkv_machine_free(program->machine);
    cr_expect_eq(lkv_close(program->db, 0), 0);
    (void)pthread_mutex_destroy(&program->text.mutex);
    free(program->text.bytes);
    int rc = program->rc;
    *program = (struct program){0};
    world.nodes[i] = NULL;
    return rc;
}

static void setup(void) {
    world_init(&world);
}

static void teardown(void) {
    for (int i = 0; i < NODES; i++) {
        (void)end(i);
    }
    world_fini(&world);
}

TestSuite(lib_machine, .init = setup, .fini = teardown, .timeout = 100);

static uint64_t propose(int i, const char *entry, const char *expected) {
    struct lkv_msg *answer = NULL;
    struct lkv_record record = {0};
    int rc = lkv_machine_propose(programs[i].machine, bytes(entry), 0, WAIT_MS, &answer);
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), lkv_last_text());
    cr_assert(lkv_msg_record(answer, 0, &record));
    cr_assert(expected == NULL || (record.data.size == strlen(expected) &&
                                   memcmp(record.data.data, expected, record.data.size) == 0),
              "answer %.*s, expected %s", (int)record.data.size, (const char *)record.data.data,
              expected);
    lkv_msg_free(answer);
    return record.index;
}

static void expect_text(int i, const char *expected) {
    uint64_t index = 0;
    int rc = lkv_machine_read(programs[i].machine, WAIT_MS, &index);
    cr_assert_eq(rc, 0, "%s: %s", lkv_error_name(rc), lkv_last_text());
    cr_assert_gt(index, 0);
    struct text *text = &programs[i].text;
    (void)pthread_mutex_lock(&text->mutex);
    cr_expect(text->size == strlen(expected) && memcmp(text->bytes, expected, text->size) == 0,
              "%zu bytes: %.*s", text->size, (int)text->size, text->bytes);
    (void)pthread_mutex_unlock(&text->mutex);
}

static uint64_t number(int i, const char *name) {
    struct lkv_msg *status = NULL;
    uint64_t value = 0;
    cr_assert_eq(lkv_status(programs[i].db, WAIT_MS, &status), 0);
    cr_assert(lkv_msg_u64(status, name, &value));
    lkv_msg_free(status);
    return value;
}

Test(lib_machine, answers_and_is_there_again_after_a_restart) {
    start(0, 0, true);
    uint64_t first = propose(0, "one", "0+one");
    cr_expect_eq(propose(0, "two", "3+two"), first + 1);
    struct lkv_bytes plain = bytes("!");
    cr_assert_eq(lkv_append(programs[0].db, &plain, 1, 0, WAIT_MS, NULL), 0);
    expect_text(0, "onetwo!");
    cr_expect_eq(end(0), 0);
    start(0, 0, true);
    expect_text(0, "onetwo!");
    cr_expect(programs[0].text.loads == 0 && programs[0].text.resets == 1);
    (void)propose(0, "3", "7+3");
}

static void propose_many(int i, int count) {
    static char entry[LARGE + 1];
    memset(entry, 'x', LARGE);
    for (int k = 0; k < count; k++) {
        (void)propose(i, entry, NULL);
    }
}

/* The log goes, the state stays. */
Test(lib_machine, goes_on_from_its_image) {
    start(0, 200000, true);
    propose_many(0, 100);
    for (int k = 0; k < 400 && number(0, "first") == 1; k++) {
        propose_many(0, 5);
        sleep_ms(5);
    }
    cr_expect_gt(number(0, "first"), 1, "nothing of the log has gone");
    cr_expect_gt(programs[0].text.views, 1);
    cr_assert_eq(lkv_machine_read(programs[0].machine, WAIT_MS, NULL), 0);
    size_t size = programs[0].text.size;
    uint64_t image = number(0, "image_index");
    cr_expect_eq(end(0), 0);
    start(0, 200000, true);
    cr_assert_eq(lkv_machine_read(programs[0].machine, WAIT_MS, NULL), 0);
    cr_expect_eq(programs[0].text.size, size);
    cr_expect_gt(programs[0].text.loads, 0);
    cr_expect_geq(number(0, "image_index"), image);
}

/* P2, L16: one that was away gets somebody's image, and then what came behind it. */
Test(lib_machine, a_laggard_loads_the_leaders_image) {
    for (int i = 0; i < NODES; i++) {
        start(i, 200000, false);
    }
    int leader = find_leader(&world), away = (leader + 1) % NODES;
    (void)propose(leader, "begin", "0+begin");
    (void)propose(away, "!", "5+!"); /* forwarded, and answered by its own machine */
    cr_expect_eq(end(away), 0);
    uint64_t reached = number(leader, "applied");
    for (int k = 0; k < 100 && number(leader, "first") <= reached; k++) {
        propose_many(leader, 20);
    }
    cr_assert_gt(number(leader, "first"), reached, "its log has not gone");
    start(away, 200000, false);
    cr_assert_eq(lkv_machine_read(programs[away].machine, WAIT_MS, NULL), 0, "%s", lkv_last_text());
    cr_expect_gt(programs[away].text.loads, 0, "it has got all of it from the log");
    cr_assert_eq(lkv_machine_read(programs[leader].machine, WAIT_MS, NULL), 0);
    cr_expect_eq(programs[away].text.size, programs[leader].text.size);
    cr_expect(memcmp(programs[away].text.bytes, programs[leader].text.bytes,
                     programs[leader].text.size) == 0);
    (void)propose(away, "end", NULL);
}

static void *propose_often(void *arg) {
    int i = *(int *)arg;
    for (int k = 0; k < 200; k++) {
        char entry[32];
        struct lkv_msg *answer = NULL;
        struct lkv_record record;
        (void)snprintf(entry, sizeof(entry), "(%p/%d)", arg, k);
        cr_assert_eq(lkv_machine_propose(programs[i].machine, bytes(entry), 0, WAIT_MS, &answer),
                     0);
        cr_assert(lkv_msg_record(answer, 0, &record));
        size_t at = record.data.size - strlen(entry);
        cr_assert(memcmp((const char *)record.data.data + at, entry, strlen(entry)) == 0,
                  "somebody else's answer");
        lkv_msg_free(answer);
    }
    return NULL;
}

/* Each gets the answer to its own entry, whoever leads. */
Test(lib_machine, many_threads_on_all_nodes_get_their_own_answers) {
    pthread_t threads[2 * NODES];
    int numbers[2 * NODES];
    for (int i = 0; i < NODES; i++) {
        start(i, 5000, false);
    }
    (void)find_leader(&world);
    for (int k = 0; k < 2 * NODES; k++) {
        numbers[k] = k % NODES;
        cr_assert_eq(pthread_create(&threads[k], NULL, propose_often, &numbers[k]), 0);
    }
    for (int k = 0; k < 2 * NODES; k++) {
        (void)pthread_join(threads[k], NULL);
    }
    for (int i = 0; i < NODES; i++) {
        cr_assert_eq(lkv_machine_read(programs[i].machine, WAIT_MS, NULL), 0);
        cr_expect_eq(programs[i].text.size, programs[0].text.size);
        cr_expect(memcmp(programs[i].text.bytes, programs[0].text.bytes, programs[0].text.size) ==
                  0);
    }
}

/* Rule 22 */
Test(lib_machine, an_apply_that_fails_ends_it_and_says_so) {
    start(0, 0, true);
    (void)propose(0, "a", "0+a");
    struct lkv_msg *answer = NULL;
    cr_expect_eq(lkv_machine_propose(programs[0].machine, bytes("fail"), 0, WAIT_MS, &answer),
                 LKV_EUNKNOWN);
    cr_expect(answer == NULL && strstr(lkv_last_text(), "ended") != NULL, "%s", lkv_last_text());
    cr_expect_eq(lkv_machine_read(programs[0].machine, WAIT_MS, NULL), LKV_EIO);
    cr_expect_eq(lkv_machine_run(programs[0].machine), LKV_EBUSY);
    cr_expect_eq(end(0), LKV_EIO);
}

Test(lib_machine, refuses_what_makes_no_sense) {
    start(0, 0, true);
    struct lkv *db = programs[0].db;
    struct lkv_image *image = NULL, *second = NULL;
    uint64_t index = propose(0, "a", NULL);
    cr_expect_eq(lkv_image_open(db, &image, NULL), LKV_ENOENT);
    cr_assert_eq(lkv_image_begin(db, index + 1, &image), 0);
    cr_expect_eq(lkv_image_begin(db, index, &second), LKV_EBUSY);
    char one;
    size_t got;
    cr_expect_eq(lkv_image_read(image, &one, 1, &got), LKV_EINVAL, "it is written");
    cr_expect_eq(lkv_image_commit(image, WAIT_MS), LKV_EINVAL, "no such entry was shown");
    cr_assert_eq(lkv_image_begin(db, index, &image), 0, "%s", lkv_last_text());
    cr_expect_eq(lkv_image_write(image, bytes("state")), 0);
    lkv_image_close(image); /* given up */
    cr_expect_eq(lkv_image_open(db, &image, NULL), LKV_ENOENT);
    cr_assert_eq(lkv_image_begin(db, index, &image), 0);
    cr_expect_eq(lkv_image_write(image, bytes("s")), 0);
    cr_expect_eq(lkv_image_commit(image, WAIT_MS), 0, "%s", lkv_last_text());
    uint64_t of = 0;
    cr_assert_eq(lkv_image_open(db, &image, &of), 0);
    cr_expect_eq(of, index);
    cr_expect(lkv_image_read(image, &one, 1, &got) == 0 && got == 1 && one == 's');
    cr_expect_eq(lkv_image_write(image, bytes("s")), LKV_EINVAL, "it is read");
    cr_expect(lkv_image_read(image, &one, 1, &got) == 0 && got == 0);
    lkv_image_close(image);
    struct lkv_machine *machine = NULL;
    cr_expect_eq(lkv_machine_new(db, &(struct lkv_machine_calls){0}, NULL, 0, &machine),
                 LKV_EINVAL);
    cr_expect_eq(lkv_put(db, bytes("k"), bytes("v"), WAIT_MS, NULL), LKV_EUNSUPPORTED);
    cr_expect_eq(lkv_machine_run(NULL), LKV_EINVAL);
    cr_expect_eq(lkv_machine_say(NULL, bytes("a")), LKV_EINVAL);
    lkv_machine_stop(NULL);
    lkv_machine_free(NULL);
    lkv_image_close(NULL);
}
