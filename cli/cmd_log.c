/* kvctl log dump, kvctl log verify: the log of a directory that no process holds. */
#include "output.h"
#include "report.h"
#include "store.h"

#include <stdio.h>
#include <string.h>

struct log_walk {
    struct cli *cli;
    struct text line;
    uint64_t from, limit, shown;                     /* dump */
    uint64_t records, files, first, last, bad, torn; /* verify */
    uint64_t warnings, images;
    struct text file, beside; /* beside: what else was read and is good */
};

/* Ends a walk early; any number that is no error code. */
enum { ENOUGH = 1 };

static const char *kind_name(enum lkv_log_kind kind) {
    switch (kind) {
    case LKV_LOG_RECORD: return "record";
    case LKV_LOG_MARK: return "mark";
    case LKV_LOG_TORN: return "torn";
    case LKV_LOG_DAMAGED: return "damaged";
    case LKV_LOG_DEAD: return "dead";
    case LKV_LOG_WARNING: return "warning";
    case LKV_LOG_FILE: return "file";
    }
    return "record";
}

/* 0, ENOUGH, or the exit code, having said why. */
static int walk_log(struct log_walk *walk,
                    int (*visit)(void *arg, const struct lkv_log_item *item)) {
    struct cli *cli = walk->cli;
    const char *dir = args_text(&cli->args, "dir");
    if (dir == NULL) {
        return report_usage(cli, "%s wants --dir DIR", cli->command->name);
    }
    struct lkv_msg *why = NULL;
    int rc = lkv_log_walk(dir, visit, walk, &why);
    int exit = rc < 0 ? report_rc(cli, rc, why, "%s", dir) : rc;
    lkv_msg_free(why);
    return exit;
}

/* ------------------------------------------------------------------ dump */

static void dump_json(struct log_walk *walk, const struct lkv_log_item *item) {
    struct text *line = &walk->line;
    bool hex = walk->cli->hex;
    json_open(line);
    json_string(line, "kind", kind_name(item->kind));
    json_string(line, "file", item->file);
    json_u64(line, "offset", item->offset);
    json_u64(line, "index", item->index);
    json_u64(line, "term", item->term);
    if (item->kind == LKV_LOG_RECORD) {
        bool decoded = item->key.size > 0 || strcmp(item->type, "delete") == 0;
        json_string(line, "type", item->type);
        if (decoded) {
            json_bytes(line, "key", item->key, hex);
            json_bytes(line, "value", item->value, hex);
        } else {
            json_bytes(line, "payload", item->payload, hex);
        }
    }
    if (item->text != NULL) {
        json_string(line, "text", item->text);
    }
    json_print(line);
}

static void dump_line(struct log_walk *walk, const struct lkv_log_item *item) {
    bool record = item->kind == LKV_LOG_RECORD;
    printf("%" PRIu64 "\t%" PRIu64 "\t%s\t", item->index, item->term,
           record ? item->type : kind_name(item->kind));
    print_shown(item->key, walk->cli->hex);
    printf("\t%zu\t%s:%" PRIu64, record ? item->payload.size : (size_t)0, item->file, item->offset);
    if (item->text != NULL) {
        printf("\t%s", item->text);
    }
    putchar('\n');
}

static int dump_item(void *arg, const struct lkv_log_item *item) {
    struct log_walk *walk = arg;
    bool before = item->kind == LKV_LOG_RECORD && item->index < walk->from;
    if (before || item->kind == LKV_LOG_FILE) {
        return 0;
    }
    if (walk->shown == walk->limit) {
        return ENOUGH;
    }
    walk->shown++;
    if (walk->cli->format == FORMAT_JSON) {
        dump_json(walk, item);
    } else {
        dump_line(walk, item);
    }
    return ferror(stdout) ? ENOUGH : 0;
}

static int run_dump(struct cli *cli) {
    struct log_walk walk = {.cli = cli, .limit = UINT64_MAX};
    if (!args_number(&cli->args, "from", 0, UINT64_MAX, &walk.from) ||
        !args_number(&cli->args, "limit", 0, UINT64_MAX, &walk.limit)) {
        return report_usage(cli, "%s", text_string(&cli->args.error));
    }
    int exit = walk_log(&walk, dump_item);
    text_free(&walk.line);
    return exit == ENOUGH ? KVCTL_DONE : exit;
}

static const struct flag dump_flags[] = {
    {"from", FLAG_VALUE, 0, false, "INDEX", "records from this index on"},
    {"limit", FLAG_VALUE, 0, false, "N", "at most N lines"},
    FLAG_END,
};

const struct command command_log_dump = {
    .name = "log dump",
    .words = "--dir DIR",
    .summary = "Print the records of a log that no process holds.",
    .details =
        "One line a record: index, term, type, key, payload bytes, file:offset. Changes nothing.",
    .examples = "  kvctl log dump --dir ./n1 --from 1000 --limit 20\n"
                "  kvctl log dump --dir ./n1 -o json | jq -r .type | sort | uniq -c",
    .flags = dump_flags,
    .run = run_dump,
};

/* ------------------------------------------------------------------ verify */

static bool is_segment(const char *file) {
    size_t size = strlen(file);
    return size > 4 && strcmp(file + size - 4, ".seg") == 0;
}

static void tell_finding(struct log_walk *walk, const struct lkv_log_item *item) {
    const char *text = item->text != NULL ? item->text : kind_name(item->kind);
    if (walk->cli->format == FORMAT_JSON) {
        dump_json(walk, item);
    } else if (!is_segment(item->file)) {
        printf("%s%s:%" PRIu64 ": %s\n", item->kind == LKV_LOG_WARNING ? "warning: " : "",
               item->file, item->offset, text);
    } else {
        printf("%s: record at offset %" PRIu64 ": %s\n", item->file, item->offset, text);
    }
}

/* Segments; and of the other files each kind once, by name. */
static void count_file(struct log_walk *walk, const struct lkv_log_item *item) {
    const char *file = item->file;
    if (item->kind == LKV_LOG_FILE) {
        bool image = strcmp(item->type, "image") == 0;
        walk->images += image;
        if (!image || walk->images == 1) {
            text_printf(&walk->beside, ",%s", item->type);
        }
    } else if (is_segment(file) && strcmp(text_string(&walk->file), file) != 0) {
        walk->files++;
        text_clear(&walk->file);
        text_add_string(&walk->file, file);
    }
}

static int verify_item(void *arg, const struct lkv_log_item *item) {
    struct log_walk *walk = arg;
    count_file(walk, item);
    switch (item->kind) {
    case LKV_LOG_RECORD:
        walk->first = walk->records == 0 ? item->index : walk->first;
        walk->last = item->index;
        walk->records++;
        break;
    case LKV_LOG_MARK:
    case LKV_LOG_FILE:
    case LKV_LOG_DEAD: break;
    case LKV_LOG_WARNING:
        walk->warnings++;
        tell_finding(walk, item);
        break;
    case LKV_LOG_TORN: /* never acknowledged: what a crash leaves, and no damage */
        walk->torn++;
        tell_finding(walk, item);
        break;
    case LKV_LOG_DAMAGED:
        walk->bad++;
        tell_finding(walk, item);
        break;
    }
    return 0;
}

static void print_verdict(const struct log_walk *walk) {
    if (walk->cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        text_printf(&line, "\"ok\":%s", walk->bad == 0 ? "true" : "false");
        json_u64(&line, "records", walk->records);
        json_u64(&line, "files", walk->files);
        json_u64(&line, "first", walk->first);
        json_u64(&line, "last", walk->last);
        json_u64(&line, "damaged", walk->bad);
        json_u64(&line, "torn", walk->torn);
        json_u64(&line, "warnings", walk->warnings);
        json_u64(&line, "images", walk->images);
        text_printf(&line, ",\"checked\":\"log,vote%s\"", text_string(&walk->beside));
        json_print(&line);
        text_free(&line);
    } else if (walk->bad == 0) {
        printf("OK records=%" PRIu64 " files=%" PRIu64 " first=%" PRIu64 " last=%" PRIu64
               " torn=%" PRIu64 " warnings=%" PRIu64 " images=%" PRIu64 " checked=log,vote%s\n",
               walk->records, walk->files, walk->first, walk->last, walk->torn, walk->warnings,
               walk->images, text_string(&walk->beside));
    }
}

static int run_verify(struct cli *cli) {
    struct log_walk walk = {.cli = cli};
    int exit = walk_log(&walk, verify_item);
    if (exit == 0) {
        print_verdict(&walk);
        exit = walk.bad > 0 ? KVCTL_INTEGRITY : KVCTL_DONE;
    }
    text_free(&walk.line);
    text_free(&walk.file);
    text_free(&walk.beside);
    return exit;
}

const struct command command_log_verify = {
    .name = "log verify",
    .words = "--dir DIR",
    .summary = "Check every byte of what a directory that no process holds keeps.",
    .details =
        "Log, vote, images, and the files identity, seen and retention; the last line says what "
        "was\n"
        "there and read. Exit code 7 when something that was acknowledged cannot be read, or "
        "would\n"
        "stop a start. A torn tail, as a crash leaves it, and a warning (one of two copies is\n"
        "unreadable, nothing is lost) are told and are no damage. Changes nothing, and works on a\n"
        "read-only file system too.",
    .examples = "  kvctl log verify --dir ./n1",
    .run = run_verify,
};
