/* The commands: one function each, and the table that says what they are called. */
#include "tests/scenarios/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

uint64_t scenario_option(char **words, size_t count, const char *name, uint64_t usual) {
    size_t size = strlen(name);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(words[i], name, size) == 0 && words[i][size] == '=') {
            return strtoull(words[i] + size + 1, NULL, 10);
        }
    }
    return usual;
}

uint64_t scenario_node(const char *word) {
    return word[0] == 'n' ? strtoull(word + 1, NULL, 10) : 0;
}

static uint64_t number(char **words, size_t count, size_t at, uint64_t usual) {
    return at < count ? strtoull(words[at], NULL, 10) : usual;
}

static uint64_t node(char **words, size_t count, size_t at) {
    return at < count ? scenario_node(words[at]) : 0;
}

/* ------------------------------------------------------------------ the cluster */

static void trace(void *arg, const char *line) {
    struct scenario *scenario = arg;
    if (!scenario->quiet) {
        scenario_print(scenario, "%s", line);
    }
}

/* cluster N [learners= seed= window= hang= inflight= requests= append= promise= drift= spread= ...] */
static void cluster(struct scenario *scenario, char **words, size_t count) {
    struct world_options options =
        world_options_default(number(words, count, 1, 3), scenario_option(words, count, "seed", 1));
    struct raft_options *raft = &options.raft;
    options.learners = scenario_option(words, count, "learners", 0);
    options.window_entries = (uint32_t)scenario_option(words, count, "window", 0);
    options.forged = scenario_option(words, count, "forged", 0) != 0;
    options.ordered = scenario_option(words, count, "ordered", 1) != 0;
    raft->disk_hang_ms = (uint32_t)scenario_option(words, count, "hang", raft->disk_hang_ms);
    raft->inflight_bytes_max =
        (uint32_t)scenario_option(words, count, "inflight", raft->inflight_bytes_max);
    raft->inflight_requests_max =
        (uint32_t)scenario_option(words, count, "requests", raft->inflight_requests_max);
    raft->append_bytes_max =
        (uint32_t)scenario_option(words, count, "append", raft->append_bytes_max);
    raft->uncommitted_bytes_max =
        scenario_option(words, count, "uncommitted", raft->uncommitted_bytes_max);
    raft->promise_ms = (uint32_t)scenario_option(words, count, "promise", 0);
    raft->drift_ppm = (uint32_t)scenario_option(words, count, "drift", 0);
    uint64_t usual = raft->election_max_ms - raft->election_min_ms;
    raft->election_max_ms =
        raft->election_min_ms + (uint32_t)scenario_option(words, count, "spread", usual);
    options.plain = (uint32_t)scenario_option(words, count, "plain", 0);
    options.trace = trace;
    options.trace_arg = scenario;
    scenario->nodes = options.nodes;
    scenario->world = world_new(&options);
}

static void quiet(struct scenario *scenario, char **words, size_t count) {
    scenario->quiet = count > 1 && strcmp(words[1], "on") == 0;
}

static void messages(struct scenario *scenario, char **words, size_t count) {
    world_trace_messages(scenario->world, count > 1 && strcmp(words[1], "on") == 0);
}

/* ------------------------------------------------------------------ time */

static void run(struct scenario *scenario, char **words, size_t count) {
    world_run_us(scenario->world, (uint64_t)(strtod(count > 1 ? words[1] : "0", NULL) * 1000));
}

struct question {
    uint64_t node, index;
};

static bool leads(struct world *world, void *arg) {
    const struct question *question = arg;
    if (question->node == 0) {
        return world_leader(world) != 0;
    }
    return world_is_up(world, question->node) &&
           world_status(world, question->node).role == RAFT_LEADER;
}

static bool has_committed(struct world *world, void *arg) {
    const struct question *question = arg;
    return world_status(world, question->node).commit >= question->index;
}

/* until [nX] leads LIMIT_MS, or until nX commits INDEX LIMIT_MS */
static void until(struct scenario *scenario, char **words, size_t count) {
    struct question question = {.node = node(words, count, 1)};
    size_t at = question.node != 0 ? 2 : 1;
    bool commits = at < count && strcmp(words[at], "commits") == 0;
    uint64_t limit_ms = number(words, count, count - 1, 1000);
    question.index = commits ? number(words, count, at + 1, 0) : 0;
    if (!world_until(scenario->world, commits ? has_committed : leads, &question, limit_ms)) {
        scenario_print(scenario, "not within %llu ms", (ull)limit_ms);
    }
}

/* elect nX: nobody else campaigns until it leads */
static void elect(struct scenario *scenario, char **words, size_t count) {
    struct question question = {.node = node(words, count, 1)};
    for (uint64_t i = 1; i <= scenario->nodes; i++) {
        world_gate(scenario->world, i, i == question.node);
    }
    if (!world_until(scenario->world, leads, &question, 10000)) {
        scenario_print(scenario, "not within 10 s");
    }
    for (uint64_t i = 1; i <= scenario->nodes; i++) {
        world_gate(scenario->world, i, true);
    }
}

/* ------------------------------------------------------------------ faults */

static void crash(struct scenario *scenario, char **words, size_t count) {
    world_crash(scenario->world, node(words, count, 1), false);
}

static void restart(struct scenario *scenario, char **words, size_t count) {
    world_restart(scenario->world, node(words, count, 1));
}

static void cut(struct scenario *scenario, char **words, size_t count) {
    world_cut(scenario->world, node(words, count, 1), node(words, count, 2),
              strcmp(words[0], "cut") == 0);
}

static void isolate(struct scenario *scenario, char **words, size_t count) {
    world_isolate(scenario->world, node(words, count, 1), strcmp(words[0], "isolate") == 0);
}

static void heal(struct scenario *scenario, char **words, size_t count) {
    (void)words;
    (void)count;
    world_heal(scenario->world);
}

static void loss(struct scenario *scenario, char **words, size_t count) {
    world_loss(scenario->world, (uint32_t)number(words, count, 1, 0),
               (uint32_t)number(words, count, 2, 0));
}

static void delay(struct scenario *scenario, char **words, size_t count) {
    world_delay(scenario->world, (uint32_t)number(words, count, 1, 100),
                (uint32_t)number(words, count, 2, 300));
}

/* disk nX hangs | goes on | fails | full | is short | has room | takes MIN MAX (us) */
static void disk(struct scenario *scenario, char **words, size_t count) {
    uint64_t id = node(words, count, 1);
    const char *what = count > 2 ? words[2] : "";
    if (strcmp(what, "hangs") == 0 || strcmp(what, "goes") == 0) {
        world_disk_hang(scenario->world, id, strcmp(what, "hangs") == 0);
    } else if (strcmp(what, "fails") == 0) {
        world_disk_fail(scenario->world, id);
    } else if (strcmp(what, "full") == 0) {
        world_disk_space(scenario->world, id, RAFT_ROOM_NONE);
    } else if (strcmp(what, "is") == 0 || strcmp(what, "has") == 0) {
        bool has = strcmp(what, "has") == 0;
        world_disk_space(scenario->world, id, has ? RAFT_ROOM_FREE : RAFT_ROOM_RESERVED);
    } else if (strcmp(what, "takes") == 0) {
        world_disk_delay(scenario->world, id, (uint32_t)number(words, count, 3, 200),
                         (uint32_t)number(words, count, 4, 600));
    } else {
        scenario_print(scenario, "what does the disk do?");
    }
}

static void compact(struct scenario *scenario, char **words, size_t count) {
    world_compact(scenario->world, node(words, count, 1), scenario_option(words, count, "keep", 0));
}

static void reconnect(struct scenario *scenario, char **words, size_t count) {
    world_reconnect(scenario->world, node(words, count, 1), node(words, count, 2));
}

/* ------------------------------------------------------------------ acts */

/* submit nX COUNT [size= term= times=]: `times` with 1 ms between */
static void submit(struct scenario *scenario, char **words, size_t count) {
    uint64_t id = node(words, count, 1), entries = number(words, count, 2, 1), first = 0;
    uint64_t times = scenario_option(words, count, "times", 1);
    for (uint64_t i = 0; i < times; i++) {
        int rc = world_submit(scenario->world, id, entries,
                              (uint32_t)scenario_option(words, count, "size", 10),
                              scenario_option(words, count, "term", 0), &first);
        if (times > 1) {
            world_run_us(scenario->world, 1000);
        } else if (rc != 0) {
            scenario_print(scenario, "refused: %s", error_name(rc));
        } else {
            scenario_print(scenario, "takes %llu..%llu", (ull)first, (ull)(first + entries - 1));
        }
    }
}

/* delete nX: one entry that may use the reserved room */
static void delete (struct scenario *scenario, char **words, size_t count) {
    uint64_t first = 0;
    int rc = world_delete(scenario->world, node(words, count, 1), &first);
    if (rc != 0) {
        scenario_print(scenario, "refused: %s", error_name(rc));
    } else {
        scenario_print(scenario, "takes %llu..%llu", (ull)first, (ull)first);
    }
}

static void read_index(struct scenario *scenario, char **words, size_t count) {
    world_read(scenario->world, node(words, count, 1),
               count > 2 && strcmp(words[2], "leased") == 0);
}

/* pause nX MS | clock nX PPM: from now on so much faster, or slower */
static void pause_node(struct scenario *scenario, char **words, size_t count) {
    world_pause(scenario->world, node(words, count, 1), 1000 * number(words, count, 2, 0));
}

static void clock_of(struct scenario *scenario, char **words, size_t count) {
    world_clock(scenario->world, node(words, count, 1),
                count > 2 ? strtoll(words[2], NULL, 10) : 0);
}

static void transfer(struct scenario *scenario, char **words, size_t count) {
    int rc = world_transfer(scenario->world, node(words, count, 1), node(words, count, 2));
    scenario_print(scenario, "%s", rc == 0 ? "begun" : error_name(rc));
}

static void gate(struct scenario *scenario, char **words, size_t count) {
    bool open = count > 2 && strcmp(words[2], "open") == 0;
    for (uint64_t i = 1; i <= scenario->nodes; i++) {
        if (strcmp(words[1], "all") == 0 || scenario_node(words[1]) == i) {
            world_gate(scenario->world, i, open);
        }
    }
}

/* rot nX FIRST LAST | lose nX end COUNT | lose nX image | scrub nX | doubt nX */
static void damage(struct scenario *scenario, char **words, size_t count) {
    uint64_t id = node(words, count, 1);
    const char *what = count > 2 ? words[2] : "";
    if (strcmp(words[0], "rot") == 0) {
        world_rot_whole(scenario->world, id, number(words, count, 2, 1),
                        number(words, count, 3, 1));
    } else if (strcmp(words[0], "scrub") == 0) {
        world_scrub(scenario->world, id);
    } else if (strcmp(words[0], "doubt") == 0) {
        world_doubt_end(scenario->world, id);
    } else if (strcmp(what, "image") == 0) {
        world_lose_image(scenario->world, id, false);
    } else if (strcmp(what, "end") == 0) {
        world_lose_end(scenario->world, id, number(words, count, 3, 1), false);
    } else {
        scenario_print(scenario, "what is lost?");
    }
}

static void mark(struct scenario *scenario, char **words, size_t count) {
    (void)words;
    (void)count;
    scenario->mark_ms = world_now_ms(scenario->world);
    scenario->marked = *world_counts(scenario->world);
}

static void show(struct scenario *scenario, char **words, size_t count) {
    (void)words;
    (void)count;
    scenario_show(scenario);
}

/* log nX: the term of each entry */
static void print_log(struct scenario *scenario, char **words, size_t count) {
    uint64_t id = node(words, count, 1);
    struct raft_status status = world_status(scenario->world, id);
    char text[1000];
    int at = snprintf(text, sizeof text, "from %llu:", (ull)status.first);
    for (uint64_t i = status.first; i <= status.last && at < (int)sizeof text - 8; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at, " %llu",
                       (ull)world_term_at(scenario->world, id, i));
    }
    scenario_print(scenario, "%s", text);
}

static const struct {
    const char *name;
    void (*function)(struct scenario *scenario, char **words, size_t count);
} commands[] = {{"cluster", cluster},
                {"quiet", quiet},
                {"messages", messages},
                {"run", run},
                {"until", until},
                {"elect", elect},
                {"crash", crash},
                {"restart", restart},
                {"cut", cut},
                {"join", cut},
                {"isolate", isolate},
                {"rejoin", isolate},
                {"heal", heal},
                {"loss", loss},
                {"delay", delay},
                {"disk", disk},
                {"compact", compact},
                {"reconnect", reconnect},
                {"submit", submit},
                {"delete", delete},
                {"read", read_index},
                {"pause", pause_node},
                {"clock", clock_of},
                {"transfer", transfer},
                {"gate", gate},
                {"rot", damage},
                {"scrub", damage},
                {"lose", damage},
                {"doubt", damage},
                {"mark", mark},
                {"show", show},
                {"log", print_log},
                {"inject", scenario_inject},
                {"check", scenario_check}};

void scenario_command(struct scenario *scenario, char **words, size_t count) {
    bool first = strcmp(words[0], "cluster") == 0;
    if (first != (scenario->world == NULL)) {
        scenario_print(scenario, "a scenario begins with one cluster");
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(words[0], commands[i].name) == 0) {
            commands[i].function(scenario, words, count);
            return;
        }
    }
    scenario_print(scenario, "no such command");
}
