/* Exit codes and errors: see report.h. */
#include "report.h"

#include <stdio.h>

enum exit_code exit_of(int rc) {
    if (rc >= 0) {
        return KVCTL_DONE;
    }
    switch ((enum lkv_error)rc) {
    case LKV_OK: return KVCTL_DONE;
    case LKV_ENOTFOUND:
    case LKV_ELEASE:
    case LKV_ECOMPARE: return KVCTL_NEGATIVE;
    case LKV_EUNREACHABLE: return KVCTL_UNREACHABLE;
    case LKV_EINVAL:
    case LKV_EOPTION:
    case LKV_ELOCKED:
    case LKV_EIDENTITY:
    case LKV_EADDRINUSE:
    case LKV_EPROTOCOL:
    case LKV_EVERSION:
    case LKV_EFUTURE:
    case LKV_EUNSUPPORTED:
    case LKV_ENOENT:
    case LKV_EEXIST: return KVCTL_USAGE;
    case LKV_ENOMEM:
    case LKV_ETOOLARGE:
    case LKV_EBUSY:
    case LKV_ENOSPACE:
    case LKV_ECOMPACTED:
    case LKV_EVIEW:
    case LKV_ETERM:
    case LKV_ETRUNCATED:
    case LKV_ESESSION:
    case LKV_ENUMBER:
    case LKV_EOVERFLOW:
    case LKV_EREADONLY:
    case LKV_ECANCELED: return KVCTL_REJECTED;
    case LKV_ENOTLEADER:
    case LKV_ENOLEADER:
    case LKV_ETIMEOUT:
    case LKV_ECLOSED:
    case LKV_ESTOPPED:
    case LKV_EIO:
    case LKV_ENOQUORUM: return KVCTL_UNHEALTHY;
    case LKV_EANSWERED:
    case LKV_EUNKNOWN: return KVCTL_UNKNOWN;
    case LKV_EDAMAGED: return KVCTL_INTEGRITY;
    case LKV_EPERM: return KVCTL_PERMISSION;
    }
    return KVCTL_UNHEALTHY; /* a code of a newer library */
}

const char *outcome_name(enum lkv_outcome outcome) {
    switch (outcome) {
    case LKV_DONE: return "done";
    case LKV_NOT_DONE: return "not_done";
    case LKV_NEGATIVE: return "negative";
    case LKV_UNKNOWN: return "unknown";
    }
    return "unknown";
}

static void tell(struct cli *cli, int rc, const struct text *message) {
    struct text line = {0};
    if (cli->format == FORMAT_JSON) {
        text_printf(&line, "{\"code\":\"%s\",\"message\":", lkv_error_name(rc));
        text_add_json_string(&line, text_string(message));
        text_printf(&line, ",\"outcome\":\"%s\",\"retryable\":%s}\n", outcome_name(lkv_outcome(rc)),
                    lkv_retryable(rc) ? "true" : "false");
    } else {
        text_add_string(&line, "kvctl: ");
        text_add_visible(&line, text_bytes(message));
        text_add_byte(&line, '\n');
    }
    fflush(stdout); /* what was said before stays before */
    fputs(text_string(&line), stderr);
    text_free(&line);
}

int report_usage(struct cli *cli, const char *format, ...) {
    struct text message = {0};
    va_list args;
    va_start(args, format);
    text_vprintf(&message, format, args);
    va_end(args);
    tell(cli, LKV_EINVAL, &message);
    text_free(&message);
    if (cli->format != FORMAT_JSON) {
        const char *name = cli->command != NULL ? cli->command->name : NULL;
        fprintf(stderr, "Try: kvctl %s%s--help\n", name != NULL ? name : "",
                name != NULL ? " " : "");
    }
    return KVCTL_USAGE;
}

/* Takes the message. */
static int report_sentence(struct cli *cli, int rc, const char *sentence, struct text *message) {
    text_printf(message, ": %s", sentence[0] != '\0' ? sentence : lkv_error_text(rc));
    if (lkv_outcome(rc) == LKV_UNKNOWN && sentence[0] != '\0') {
        text_add_string(message, " (outcome unknown: it may have been applied)");
    }
    tell(cli, rc, message);
    text_free(message);
    return (int)exit_of(rc);
}

int report_rc(struct cli *cli, int rc, const struct lkv_msg *why, const char *format, ...) {
    struct text message = {0};
    va_list args;
    va_start(args, format);
    text_vprintf(&message, format, args);
    va_end(args);
    return report_sentence(cli, rc, why != NULL ? lkv_msg_text(why) : "", &message);
}

int report_call(struct cli *cli, int rc, const struct lkv_msg *why, const char *format, ...) {
    struct text message = {0};
    va_list args;
    va_start(args, format);
    text_vprintf(&message, format, args);
    va_end(args);
    return report_sentence(cli, rc, why != NULL ? lkv_msg_text(why) : lkv_last_text(), &message);
}

int report_found(struct cli *cli, enum exit_code exit, int rc, const char *format, ...) {
    struct text message = {0};
    va_list args;
    va_start(args, format);
    text_vprintf(&message, format, args);
    va_end(args);
    tell(cli, rc, &message);
    text_free(&message);
    return (int)exit;
}

void report_warning(struct cli *cli, const char *format, ...) {
    struct text message = {0};
    va_list args;
    va_start(args, format);
    text_vprintf(&message, format, args);
    va_end(args);

    struct text line = {0};
    if (cli->format == FORMAT_JSON) {
        text_add_string(&line, "{\"warning\":");
        text_add_json_string(&line, text_string(&message));
        text_add_string(&line, "}\n");
    } else {
        text_add_string(&line, "kvctl: warning: ");
        text_add_visible(&line, text_bytes(&message));
        text_add_byte(&line, '\n');
    }
    fputs(text_string(&line), stderr);
    text_free(&line);
    text_free(&message);
}
