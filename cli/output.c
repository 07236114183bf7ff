/* Answers on stdout: see output.h. */
#include "output.h"

#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------ JSON */

void json_open(struct text *line) {
    text_add_byte(line, '{');
}

static void json_name(struct text *line, const char *name, const char *suffix) {
    bool first = line->size > 0 && line->data[line->size - 1] == '{';
    text_printf(line, "%s\"%s%s\":", first ? "" : ",", name, suffix);
}

void json_bytes(struct text *line, const char *name, struct lkv_bytes bytes, bool hex) {
    if (hex) {
        json_name(line, name, "_hex");
        text_add_byte(line, '"');
        text_add_hex(line, bytes);
        text_add_byte(line, '"');
    } else if (bytes_are_text(bytes)) {
        json_name(line, name, "");
        text_add_json(line, bytes);
    } else {
        json_name(line, name, "_b64");
        text_add_byte(line, '"');
        text_add_base64(line, bytes);
        text_add_byte(line, '"');
    }
}

void json_string(struct text *line, const char *name, const char *string) {
    json_name(line, name, "");
    text_add_json_string(line, string != NULL ? string : "");
}

void json_u64(struct text *line, const char *name, uint64_t number) {
    json_name(line, name, "");
    text_printf(line, "\"%" PRIu64 "\"", number);
}

void json_number(struct text *line, const char *name, uint64_t number) {
    json_name(line, name, "");
    text_printf(line, "%" PRIu64, number);
}

void json_real(struct text *line, const char *name, double number) {
    json_name(line, name, "");
    text_printf(line, "%.3f", number);
}

void json_print(struct text *line) {
    text_add_string(line, "}\n");
    fwrite(text_string(line), 1, line->size, stdout);
    text_clear(line);
}

/* ------------------------------------------------------------------ fields and lines */

void print_shown(struct lkv_bytes bytes, bool hex) {
    struct text shown = {0};
    if (hex) {
        text_add_hex(&shown, bytes);
    } else {
        text_add_escaped(&shown, bytes);
    }
    fwrite(text_string(&shown), 1, shown.size, stdout);
    text_free(&shown);
}

void field_bytes(const char *name, struct lkv_bytes bytes, bool hex) {
    printf("%s: ", name);
    print_shown(bytes, hex);
    putchar('\n');
}

void field_string(const char *name, const char *string) {
    printf("%s: %s\n", name, string != NULL ? string : "");
}

void field_u64(const char *name, uint64_t number) {
    printf("%s: %" PRIu64 "\n", name, number);
}

void output_written(const struct cli *cli, uint64_t rev, const uint64_t *count) {
    if (cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_string(&line, "outcome", "done");
        json_u64(&line, "rev", rev);
        if (count != NULL) {
            json_u64(&line, "deleted", *count);
        }
        json_print(&line);
        text_free(&line);
    } else if (cli->format == FORMAT_FIELDS) {
        field_u64("rev", rev);
        if (count != NULL) {
            field_u64("deleted", *count);
        }
    } else if (cli->format == FORMAT_RAW) {
        printf("%" PRIu64, rev);
    } else if (count != NULL) {
        printf("OK rev=%" PRIu64 " deleted=%" PRIu64 "\n", rev, *count);
    } else {
        printf("OK rev=%" PRIu64 "\n", rev);
    }
}

void output_count(const struct cli *cli, const char *name, const char *after, uint64_t count,
                  uint64_t rev) {
    if (cli->format == FORMAT_JSON) {
        struct text line = {0};
        json_open(&line);
        json_u64(&line, name, count);
        json_u64(&line, "rev", rev);
        json_print(&line);
        text_free(&line);
    } else if (cli->format == FORMAT_FIELDS) {
        field_u64(name, count);
        field_u64("rev", rev);
    } else if (cli->format == FORMAT_RAW) {
        printf("%" PRIu64, count);
    } else {
        printf("%" PRIu64 "%s\n", count, after);
    }
}

int output_finish(struct cli *cli, int exit) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return exit;
    }
    int reason = errno != 0 ? errno : EIO;
    int code = reason == ENOSPC ? LKV_ENOSPACE : LKV_EIO;
    return report_found(cli, KVCTL_REJECTED, code, "cannot write the answer: %s", strerror(reason));
}

bool output_has_color(void) {
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    bool dumb = terminal == NULL || strcmp(terminal, "dumb") == 0;
    return isatty(STDOUT_FILENO) && !dumb && (no_color == NULL || *no_color == '\0');
}
