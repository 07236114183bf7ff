/* kvctl status: one screen with a verdict, why, and what to do. */
#include "output.h"
#include "progress.h"
#include "report.h"
#include "store.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

/* A member not heard for so long is behind, whatever its state says. */
enum { SILENT_MS = 3000 };

/* A store that was opened for this command has had no time to elect itself and to replay its log. */
enum { ELECTION_WAIT_MS = 1500, ELECTION_LOOK_MS = 20 };

/* For one member to say how it is; a hung one costs no more. */
enum { MEMBER_ASK_MS = 1000, MEMBERS_MAX = 16 };

/* For one that the leader does not hear: most often nothing runs there. */
enum { SILENT_ASK_MS = 300 };

struct verdict {
    int exit;
    const char *word, *color;
    struct text why, advice;
};

/* What members say of themselves, where it is not "ok"; in the order of the leader's rows. */
struct troubles {
    struct text texts[MEMBERS_MAX];
    size_t count;
};

/* ------------------------------------------------------------------ asking */

static uint64_t number(const struct lkv_msg *status, const char *name) {
    uint64_t value = 0;
    lkv_msg_u64(status, name, &value);
    return value;
}

static const char *word(const struct lkv_msg *status, const char *name) {
    const char *value = lkv_msg_str(status, name);
    return value != NULL ? value : "";
}

/* The directory of one member of several, opened without the others. */
static bool is_offline(const struct lkv_msg *status) {
    return strncmp(word(status, "state"), "offline", 7) == 0;
}

static bool is_silent(const struct lkv_member *member) {
    return strcmp(member->state, "down") == 0 || member->lag_ms > SILENT_MS;
}

static int ask(struct store *store, struct lkv_msg **status) {
    int64_t patience_ms = clock_ms() + (store->embedded ? ELECTION_WAIT_MS : 0);
    for (;;) {
        int rc = lkv_status(store->db, store_left(store), status);
        const char *leader = rc == 0 ? lkv_msg_str(*status, "leader") : "";
        bool leads = rc == 0 && leader != NULL && *leader != '\0';
        bool replayed = !store->embedded || number(*status, "applied") >= number(*status, "commit");
        bool settled = rc < 0 || is_offline(*status) || (leads && replayed);
        if (settled || clock_ms() >= patience_ms || deadline_passed(store->cli->deadline)) {
            return rc;
        }
        lkv_msg_free(*status);
        *status = NULL;
        clock_wait(ELECTION_LOOK_MS);
    }
}

/* A member's state is its own to tell: the leader knows no more than that it lags. */
static void ask_member(struct store *store, const struct lkv_member *member, struct text *trouble) {
    struct lkv *db;
    if (store_connect(store->cli, member->address, &db) != 0) {
        return;
    }
    struct lkv_msg *answer = NULL;
    int64_t left_ms = store_left(store) / 2;
    int64_t most_ms = is_silent(member) ? SILENT_ASK_MS : MEMBER_ASK_MS;
    if (lkv_status(db, left_ms < most_ms ? left_ms : most_ms, &answer) != 0) {
        text_add_string(trouble, is_silent(member) ? "" : "no answer");
    } else if (strcmp(word(answer, "id"), member->id) != 0) {
        text_printf(trouble, "%s answers at its address", word(answer, "id"));
    } else if (strcmp(word(answer, "state"), "ok") != 0) {
        text_add_string(trouble, word(answer, "state"));
    }
    lkv_msg_free(answer);
    lkv_close(db, 0);
}

static void ask_members(struct store *store, const struct lkv_msg *status,
                        struct troubles *troubles) {
    struct lkv_member member;
    for (size_t i = 0; i < MEMBERS_MAX && lkv_msg_member(status, i, &member); i++) {
        struct text *trouble = &troubles->texts[troubles->count++];
        bool own = strcmp(member.id, word(status, "id")) == 0;
        bool settled = strcmp(word(status, "state"), "ok") == 0 || is_offline(status);
        if (own && !settled) {
            text_add_string(trouble, word(status, "state"));
        } else if (!own && !store->embedded && *member.address != '\0') {
            ask_member(store, &member, trouble);
        }
    }
}

static const char *trouble_of(const struct troubles *troubles, size_t i) {
    return i < troubles->count ? text_string(&troubles->texts[i]) : "";
}

static int ask_endpoint(struct store *store, const char *endpoint, struct lkv_msg **answer) {
    struct lkv *db;
    int rc = LKV_EUNREACHABLE;
    if (store_connect(store->cli, endpoint, &db) == 0) {
        int64_t left_ms = store_left(store) / 2;
        rc = lkv_status(db, left_ms < MEMBER_ASK_MS ? left_ms : MEMBER_ASK_MS, answer);
        lkv_close(db, 0);
    }
    return rc;
}

/* A node that knows no leader may be one that its cluster refuses, or that never was of it: the other
 * endpoints that were named are asked, and one that knows a leader speaks for the cluster. */
static void ask_others(struct store *store, struct lkv_msg **status) {
    const char *list = args_text(&store->cli->args, "endpoints");
    bool led = *word(*status, "leader") != '\0';
    struct text endpoint = {0};
    while (!store->embedded && !led && list != NULL && *list != '\0') {
        struct lkv_msg *answer = NULL;
        size_t size = strcspn(list, ",");
        text_clear(&endpoint);
        text_printf(&endpoint, "%.*s", (int)size, list);
        list += size + (list[size] == ',');
        led = ask_endpoint(store, text_string(&endpoint), &answer) == 0 &&
              *word(answer, "leader") != '\0';
        if (led) {
            report_warning(store->cli, "%s knows no leader and is passed over: %s",
                           word(*status, "id"), word(*status, "state"));
            lkv_msg_free(*status);
            *status = answer;
        } else {
            lkv_msg_free(answer);
        }
    }
    text_free(&endpoint);
}

/* Followers do not know how far the others are: the leader's answer is taken when it gives one. */
static void ask_leader(struct store *store, struct lkv_msg **status) {
    const char *id = lkv_msg_str(*status, "id");
    const char *leader = lkv_msg_str(*status, "leader");
    const char *address = lkv_msg_str(*status, "leader_address");
    bool other = id != NULL && leader != NULL && *leader != '\0' && strcmp(id, leader) != 0;
    if (!other || store->embedded || address == NULL || *address == '\0') {
        return;
    }
    struct lkv *leader_db;
    if (store_connect(store->cli, address, &leader_db) != 0) {
        return;
    }
    struct lkv_msg *answer = NULL;
    if (lkv_status(leader_db, store_left(store) / 2, &answer) == 0) {
        lkv_msg_free(*status);
        *status = answer;
    } else {
        lkv_msg_free(answer);
    }
    lkv_close(leader_db, 0);
}

/* ------------------------------------------------------------------ judging */

static void set_verdict(struct verdict *verdict, const char *word, const char *color, int exit) {
    verdict->word = word;
    verdict->color = color;
    verdict->exit = exit;
}

/* Its state is not that of a majority, or nobody knows whose is right. */
static bool is_diverged(const char *trouble) {
    return strncmp(trouble, "diverged", 8) == 0 || strncmp(trouble, "states differ", 13) == 0;
}

/* Of damage that the others make good. */
static bool is_repairing(const char *trouble) {
    return strncmp(trouble, "repairing", 9) == 0 || strncmp(trouble, "end unknown", 11) == 0;
}

static const char *advice_for(bool disk, bool repairing, bool diverged) {
    return diverged
               ? "do what the reason says; whoever changed a state behind the log, or a memory "
                 "that loses bits, does so again"
           : disk ? "make room on a full disk, replace one that hangs; the rest is automatic"
           : repairing
               ? "what a disk has lost comes back from the others by itself; replace a disk "
                 "that goes on losing"
               : "look at what the member prints";
}

/* Members that answer, but whose disks take nothing. Without a majority of good ones, and without the
 * leader's, no write can succeed. */
static void judge_troubled(const struct lkv_msg *status, const struct troubles *troubles,
                           size_t silent, struct verdict *verdict) {
    struct lkv_member member;
    size_t troubled = 0;
    size_t count = 0;
    bool leader = false;
    bool disk = false;
    bool repairing = true;
    bool diverged = false;
    for (; lkv_msg_member(status, count, &member); count++) {
        const char *trouble = trouble_of(troubles, count);
        if (*trouble != '\0' && !is_silent(&member)) { /* those are told already */
            bool leads = strcmp(member.id, word(status, "leader")) == 0;
            leader = leader || (leads && !is_repairing(trouble)); /* which goes on meanwhile */
            repairing = repairing && is_repairing(trouble);
            diverged = diverged || is_diverged(trouble);
            disk = disk || strncmp(trouble, "disk", 4) == 0;
            bool first = verdict->why.size == 0;
            text_printf(&verdict->why, "%s%s: %s", first ? "" : "; ", member.id, trouble);
            troubled++;
        }
    }
    if (troubled == 0) {
        return;
    }
    bool majority = count - troubled - silent >= count / 2 + 1;
    bool writes = majority && !leader;
    set_verdict(verdict, writes ? "degraded" : "unhealthy", writes ? "33" : "31",
                diverged ? KVCTL_INTEGRITY
                : writes ? KVCTL_DONE
                         : KVCTL_UNHEALTHY);
    text_clear(&verdict->advice);
    text_printf(&verdict->advice, "%s: %s",
                writes ? "writes go on without it" : "writes are refused or wait, reads go on",
                advice_for(disk, repairing, diverged));
}

/* Members that the leader does not hear: where nothing answers, and those that run and take no part,
 * which is no matter of starting them again. The number of both. */
static size_t judge_silent(const struct lkv_msg *status, const struct troubles *troubles,
                           struct verdict *verdict) {
    struct lkv_member member;
    struct text outside = {0};
    size_t silent = 0;
    size_t refused = 0;
    size_t count = 0;
    for (; lkv_msg_member(status, count, &member); count++) {
        const char *trouble = trouble_of(troubles, count);
        if (is_silent(&member) && *trouble != '\0') {
            text_printf(&outside, "%s%s runs and takes no part: %s", refused++ > 0 ? "; " : "",
                        member.id, trouble);
        } else if (is_silent(&member)) {
            text_printf(&verdict->why, "%s%s", silent++ > 0 ? ", " : "", member.id);
        }
    }
    if (silent + refused > 0) {
        set_verdict(verdict, "degraded", "33", KVCTL_DONE);
        const char *verb = silent == 0 ? "" : silent > 1 ? " are silent" : " is silent";
        text_printf(&verdict->why, "%s%s%s; %s leads %zu members", verb,
                    silent > 0 && refused > 0 ? "; " : "", text_string(&outside),
                    word(status, "leader"), count);
        text_printf(&verdict->advice, "%s; writes go on while %zu of %zu are up",
                    refused > 0 ? "do what the reason says for one that takes no part, start a "
                                  "silent one again with its old command line"
                                : "start it again with its old command line",
                    count / 2 + 1, count);
    }
    text_free(&outside);
    return silent + refused;
}

static size_t count_members(const struct lkv_msg *status) {
    struct lkv_member member;
    size_t count = 0;
    while (lkv_msg_member(status, count, &member)) {
        count++;
    }
    return count;
}

static void judge(const struct lkv_msg *status, const struct troubles *troubles,
                  struct verdict *verdict) {
    *verdict = (struct verdict){.exit = KVCTL_DONE, .word = "healthy", .color = "32"};
    size_t count = count_members(status);
    size_t silent = 0;
    bool offline = is_offline(status);
    if (offline || *word(status, "leader") == '\0') {
        verdict->exit = KVCTL_UNHEALTHY;
        verdict->word = offline ? "offline" : "unhealthy";
        verdict->color = "31";
    }
    if (offline) {
        text_printf(&verdict->why, "%s is not running; this is what its disk holds",
                    word(status, "id"));
        text_add_string(&verdict->advice, "start it with `kvctl serve` and its old command line");
    } else if (*word(status, "leader") == '\0') {
        text_printf(&verdict->why, "%s knows no leader (%s)", word(status, "id"),
                    word(status, "state"));
        text_printf(&verdict->advice,
                    "writes wait until %zu of %zu members can reach each other: "
                    "start the missing ones, or look at what they print",
                    count / 2 + 1, count);
    } else {
        silent = judge_silent(status, troubles, verdict);
    }
    if (!offline && *word(status, "leader") != '\0') {
        judge_troubled(status, troubles, silent, verdict);
    }
    if (verdict->why.size == 0) {
        text_printf(&verdict->why, "%s leads %zu member%s in term %" PRIu64, word(status, "leader"),
                    count > 0 ? count : 1, count > 1 ? "s" : "", number(status, "term"));
    }
}

/* ------------------------------------------------------------------ printing */

static const char *const texts[] = {"id",     "role",       "leader",    "leader_address", "state",
                                    "listen", "cluster_id", "member_id", "engine"};
static const char *const numbers[] = {"term",
                                      "commit",
                                      "applied",
                                      "durable",
                                      "first",
                                      "last",
                                      "rev",
                                      "keys",
                                      "log_bytes",
                                      "image_index",
                                      "feature_level",
                                      "peers_up",
                                      "damaged_entries",
                                      "repaired_entries",
                                      "scrub_index",
                                      "scrubbed_ms",
                                      "compared_index",
                                      "read_lease_ms"};

/* In the leader's rows: a member's own trouble says more than how its log is sent to it. */
static const char *member_state(const struct lkv_member *member, const struct troubles *troubles,
                                size_t i) {
    const char *trouble = trouble_of(troubles, i);
    return *trouble != '\0' ? trouble : member->state;
}

static void add_members_json(struct text *line, const struct lkv_msg *status,
                             const struct troubles *troubles) {
    text_add_string(line, ",\"members\":[");
    struct lkv_member member;
    for (size_t i = 0; lkv_msg_member(status, i, &member); i++) {
        text_add_string(line, i > 0 ? ",{" : "{");
        json_string(line, "id", member.id);
        json_string(line, "address", member.address);
        json_string(line, "role", member.role);
        json_string(line, "state", member_state(&member, troubles, i));
        json_u64(line, "match", member.match);
        json_u64(line, "lag_entries", member.lag_entries);
        json_u64(line, "lag_ms", member.lag_ms);
        text_add_byte(line, '}');
    }
    text_add_byte(line, ']');
}

static void print_json(const struct lkv_msg *status, const struct troubles *troubles,
                       const struct verdict *verdict) {
    struct text line = {0};
    json_open(&line);
    json_string(&line, "verdict", verdict->word);
    json_string(&line, "why", text_string(&verdict->why));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (lkv_msg_str(status, texts[i]) != NULL) {
            json_string(&line, texts[i], lkv_msg_str(status, texts[i]));
        }
    }
    uint64_t value;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (lkv_msg_u64(status, numbers[i], &value)) {
            json_u64(&line, numbers[i], value);
        }
    }
    add_members_json(&line, status, troubles);
    json_print(&line);
    text_free(&line);
}

static void print_fields(const struct lkv_msg *status, const struct verdict *verdict) {
    field_string("verdict", verdict->word);
    field_string("why", text_string(&verdict->why));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (lkv_msg_str(status, texts[i]) != NULL) {
            field_string(texts[i], lkv_msg_str(status, texts[i]));
        }
    }
    uint64_t value;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (lkv_msg_u64(status, numbers[i], &value)) {
            field_u64(numbers[i], value);
        }
    }
}

static void print_members(const struct lkv_msg *status, const struct troubles *troubles) {
    struct table table;
    struct lkv_member member;
    table_start(&table, "MEMBER ADDRESS ROLE STATE MATCH LAG HEARD");
    for (size_t i = 0; lkv_msg_member(status, i, &member); i++) {
        table_cell(&table, "%s", member.id);
        table_cell(&table, "%s", *member.address != '\0' ? member.address : "-");
        table_cell(&table, "%s", member.role);
        table_cell(&table, "%s", member_state(&member, troubles, i));
        table_cell(&table, "%" PRIu64, member.match);
        table_cell(&table, "%" PRIu64, member.lag_entries);
        if (strcmp(member.id, word(status, "id")) == 0) {
            table_cell(&table, "-");
        } else {
            table_cell(&table, "%" PRIu64 "ms ago", member.lag_ms);
        }
    }
    if (table.count > table.columns) {
        putchar('\n');
        table_print(&table, stdout);
    }
    table_free(&table);
}

static void print_screen(const struct lkv_msg *status, const struct troubles *troubles,
                         const struct verdict *verdict) {
    bool color = output_has_color();
    printf("%s%s%s%s%s: %s\n", color ? "\033[1;" : "", color ? verdict->color : "",
           color ? "m" : "", verdict->word, color ? "\033[0m" : "", text_string(&verdict->why));
    if (verdict->advice.size > 0) {
        printf("  %s\n", text_string(&verdict->advice));
    }
    char size[24];
    printf("\nasked    %s (%s), %s\n", word(status, "id"), word(status, "role"),
           word(status, "state"));
    printf("data     %" PRIu64 " keys, revision %" PRIu64 "\n", number(status, "keys"),
           number(status, "rev"));
    printf("log      commit %" PRIu64 ", applied %" PRIu64 ", first %" PRIu64 ", %s\n",
           number(status, "commit"), number(status, "applied"), number(status, "first"),
           size_name(number(status, "log_bytes"), size));
    print_members(status, troubles);
}

static void print_status(const struct cli *cli, const struct lkv_msg *status,
                         const struct troubles *troubles, const struct verdict *verdict) {
    switch (cli->format) {
    case FORMAT_JSON: print_json(status, troubles, verdict); break;
    case FORMAT_FIELDS: print_fields(status, verdict); break;
    case FORMAT_TABLE: print_members(status, troubles); break;
    case FORMAT_RAW: fputs(verdict->word, stdout); break;
    case FORMAT_SIMPLE: print_screen(status, troubles, verdict); break;
    }
}

static int run_status(struct cli *cli) {
    struct store store;
    int exit = store_open(cli, TO_READ, &store);
    if (exit != 0) {
        return exit;
    }
    struct lkv_msg *status = NULL;
    int rc = ask(&store, &status);
    if (rc < 0) {
        exit = report_call(cli, rc, status, "status");
    } else {
        struct verdict verdict;
        struct troubles troubles = {.count = 0};
        ask_others(&store, &status);
        ask_leader(&store, &status);
        ask_members(&store, status, &troubles);
        judge(status, &troubles, &verdict);
        print_status(cli, status, &troubles, &verdict);
        exit = verdict.exit;
        while (troubles.count > 0) {
            text_free(&troubles.texts[--troubles.count]);
        }
        text_free(&verdict.why);
        text_free(&verdict.advice);
    }
    lkv_msg_free(status);
    store_close(&store);
    return exit;
}

const struct command command_status = {
    .name = "status",
    .words = "",
    .summary = "One screen: is it well, why not, what to do.",
    .details =
        "degraded: a member is silent or refused, or its disk is full or hangs; writes go on,\n"
        "exit code 0.\n"
        "Of several --endpoints the first that knows a leader speaks for the cluster.\n"
        "Exit code 5 when no leader is known, or no write can succeed; 7 when a member's state\n"
        "differs from that of the others.",
    .examples = "  kvctl status\n  kvctl status -o json | jq .leader",
    .run = run_status,
};
