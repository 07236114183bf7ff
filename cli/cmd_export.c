/* kvctl export: keys and values as JSON lines, in the form that import takes.
 *
 * A file appears under its name only when it is complete.
 */
#include "input.h"
#include "interrupt.h"
#include "output.h"
#include "progress.h"
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

struct export {
    struct cli *cli;
    struct progress progress;
    struct interrupt interrupt;
    struct walk walk;
    FILE *out;
    struct text line;
};

static int print_pair(void *arg, const struct lkv_kv *item) {
    struct export *export = arg;
    struct text *line = &export->line;
    json_open(line);
    json_bytes(line, "key", item->key, export->cli->hex);
    json_bytes(line, "value", item->value, export->cli->hex);
    text_add_string(line, "}\n");
    fwrite(text_string(line), 1, line->size, export->out);
    text_clear(line);
    progress_update(&export->progress, export->walk.count, export->walk.count, export->walk.total);
    if (ferror(export->out)) {
        return KVCTL_REJECTED; /* told at the end */
    }
    bool look = export->walk.count % 1024 == 0;
    return look && interrupt_came(&export->interrupt) ? KVCTL_INTERRUPTED : 0;
}

static int walk_span(struct export *export, const struct span *span) {
    struct store store;
    interrupt_start(&export->interrupt);
    int exit = store_open(export->cli, TO_READ, &store);
    if (exit == 0) {
        progress_start(&export->progress, "export");
        export->walk = (struct walk){.store = &store, .visit = print_pair, .arg = export};
        export->walk.flags = export->progress.shown ? LKV_TOTAL : 0;
        export->walk.patience_ms = PATIENCE_MS;
        exit = span_walk(&export->walk, span);
        progress_end(&export->progress);
        store_close(&store);
    }
    interrupt_end(&export->interrupt);
    text_free(&export->walk.last);
    text_free(&export->line);
    return exit;
}

static int failed_file(struct cli *cli, const char *path) {
    int reason = errno;
    return report_found(cli, KVCTL_REJECTED, reason == ENOSPC ? LKV_ENOSPACE : LKV_EIO,
                        "cannot write %s: %s", path, strerror(reason));
}

/* Complete, on disk, and only then under its name; `temporary` is NULL when it was written through. */
static int keep_file(struct export *export, const char *temporary, const char *path, int exit) {
    bool good = fflush(export->out) == 0 && !ferror(export->out);
    if (good && exit == 0 && fsync(fileno(export->out)) != 0) {
        good = errno == EINVAL; /* a pipe or a device has nothing to sync */
    }
    if (!good) {
        exit = failed_file(export->cli, path);
    }
    fclose(export->out);
    if (temporary == NULL) {
        return exit;
    }
    if (exit == 0 && rename(temporary, path) != 0) {
        exit = failed_file(export->cli, path);
    }
    if (exit != 0) {
        unlink(temporary);
    }
    return exit;
}

/* A device, a pipe or a link must not be replaced by a file: those are written through. */
static bool is_written_through(const char *path) {
    struct stat info;
    return lstat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static int export_file(struct export *export, const char *path, const struct span *span) {
    struct text temporary = {0};
    text_printf(&temporary, "%s.partial", path);
    const char *name = is_written_through(path) ? NULL : text_string(&temporary);
    export->out = fopen(name != NULL ? name : path, "we");
    int exit;
    if (export->out == NULL) {
        exit = failed_file(export->cli, path);
    } else {
        exit = walk_span(export, span);
        exit = keep_file(export, name, path, exit);
    }
    text_free(&temporary);
    return exit;
}

static int take_span(struct cli *cli, struct span *span) {
    *span = (struct span){.everything = true};
    const char *prefix = args_text(&cli->args, "prefix");
    if (prefix == NULL) {
        return 0;
    }
    int exit = key_take(cli, prefix, &span->from);
    if (exit == 0) {
        span_to_prefix_end(span);
    }
    return exit;
}

static int run_export(struct cli *cli) {
    if (!cli->timeout_given) {
        cli->deadline = (struct deadline){0}; /* only each page has its limit */
    }
    const char *path = cli->args.word_count > 0 ? cli->args.words[0] : "-";
    struct export export = {.cli = cli, .interrupt = {.fd = -1}};
    struct span span;
    int exit = take_span(cli, &span);
    if (exit == 0 && strcmp(path, "-") == 0) {
        export.out = stdout;
        exit = walk_span(&export, &span);
    } else if (exit == 0) {
        exit = export_file(&export, path, &span);
    }
    if (exit == 0 && strcmp(path, "-") != 0) {
        printf("exported %" PRIu64 " keys to %s\n", export.walk.count, path);
    }
    span_free(&span);
    return exit;
}

static const struct flag export_flags[] = {
    {"prefix", FLAG_VALUE, 0, false, "PREFIX", "only the keys that begin with PREFIX"},
    {"local", FLAG_SWITCH, 0, false, NULL,
     "what the node asked has applied, at any time, maybe old"},
    FLAG_END,
};

const struct command command_export = {
    .name = "export",
    .words = "[FILE]",
    .summary = "Print keys and values as JSON lines, in key order.",
    .details =
        "Without FILE, or with -, on standard output. All of it is of one revision, while\n"
        "writes go on; should the cluster not have kept that long enough, a warning says so.\n"
        "A FILE appears under its name only when it is complete.",
    .examples = "  kvctl export all.jsonl\n"
                "  kvctl export --prefix /svc/ | jq -r .key\n"
                "  kvctl --dir ./data export - | kvctl --endpoints h1:7001 import -",
    .flags = export_flags,
    .words_max = 1,
    .run = run_export,
};
