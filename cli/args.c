/* Arguments: see args.h. */
#include "args.h"

#include "clock.h"
#include "suggest.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_BYTES_MAX = 1024 * 1024 };

extern char **environ;

void args_free(struct args *args) {
    for (size_t i = 0; i < args->setting_count; i++) {
        free(args->settings[i].name);
        free(args->settings[i].text);
    }
    free(args->settings);
    free(args->words);
    text_free(&args->error);
    *args = (struct args){0};
}

static bool refuse(struct args *args, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(struct args *args, const char *format, ...) {
    va_list list;
    va_start(list, format);
    text_clear(&args->error);
    text_vprintf(&args->error, format, list);
    va_end(list);
    return false;
}

/* ------------------------------------------------------------------ settings */

static struct setting *setting_find(const struct args *args, const char *name) {
    for (size_t i = 0; i < args->setting_count; i++) {
        if (strcmp(args->settings[i].name, name) == 0) {
            return &args->settings[i];
        }
    }
    return NULL;
}

static void setting_put(struct args *args, const char *name, const char *text, enum source source) {
    struct setting *setting = setting_find(args, name);
    if (setting == NULL) {
        size_t size = (args->setting_count + 1) * sizeof(*setting);
        args->settings = must_realloc(args->settings, size);
        setting = &args->settings[args->setting_count++];
        *setting = (struct setting){.name = must_strdup(name)};
    } else if (source < setting->source) {
        return;
    }
    free(setting->text);
    setting->text = must_strdup(text);
    setting->source = source;
}

static void word_push(struct args *args, const char *word) {
    size_t size = (args->word_count + 1) * sizeof(*args->words);
    args->words = must_realloc(args->words, size);
    args->words[args->word_count++] = word;
}

const char *args_text(const struct args *args, const char *name) {
    const struct setting *setting = setting_find(args, name);
    return setting != NULL ? setting->text : NULL;
}

enum source args_source(const struct args *args, const char *name) {
    const struct setting *setting = setting_find(args, name);
    return setting != NULL ? setting->source : SOURCE_NONE;
}

bool args_switch(const struct args *args, const char *name) {
    const char *text = args_text(args, name);
    return text != NULL && strcmp(text, "on") == 0;
}

bool args_number(struct args *args, const char *name, uint64_t low, uint64_t high, uint64_t *out) {
    const char *text = args_text(args, name);
    if (text == NULL) {
        return true;
    }
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    bool good = isdigit((unsigned char)text[0]) && *end == '\0' && errno == 0;
    if (!good || number < low || number > high) {
        return refuse(args, "--%s wants a number from %" PRIu64 " to %" PRIu64 ", not '%s'", name,
                      low, high, text);
    }
    *out = number;
    return true;
}

bool args_duration(struct args *args, const char *name, int64_t *out_ms) {
    const char *text = args_text(args, name);
    if (text == NULL) {
        return true;
    }
    if (!duration_parse(text, out_ms)) {
        return refuse(args, "--%s wants a duration like 5s, 250ms, 2m or 1h, not '%s'", name, text);
    }
    return true;
}

/* ------------------------------------------------------------------ names */

const struct flag *flag_find(const struct flag *flags, const char *name) {
    for (const struct flag *flag = flags; flag != NULL && flag->name != NULL; flag++) {
        if (strcmp(flag->name, name) == 0) {
            return flag;
        }
    }
    return NULL;
}

static const struct flag *flag_find_letter(const struct flag *flags, char letter) {
    for (const struct flag *flag = flags; flag != NULL && flag->name != NULL; flag++) {
        if (flag->letter == letter) {
            return flag;
        }
    }
    return NULL;
}

static const struct flag *flag_of(const struct args *args, const char *name) {
    const struct flag *flag = flag_find(args->own, name);
    return flag != NULL ? flag : flag_find(args->common, name);
}

static void replace_char(char *string, char from, char to) {
    for (char *p = strchr(string, from); p != NULL; p = strchr(p, from)) {
        *p = to;
    }
}

bool library_has_option(const char *name) {
    const char *known;
    const char *fallback;
    const char *sentence;
    for (size_t i = 0; lkv_options_help(i, &known, &fallback, &sentence); i++) {
        if (strcmp(known, name) == 0) {
            return true;
        }
    }
    return false;
}

static void suggest_flag(const struct args *args, const char *name, struct suggestion *suggestion) {
    const struct flag *lists[] = {args->own, args->common};
    for (size_t i = 0; i < 2; i++) {
        for (const struct flag *flag = lists[i]; flag != NULL && flag->name != NULL; flag++) {
            suggestion_try(suggestion, name, flag->name);
        }
    }
    const char *known;
    const char *fallback;
    const char *sentence;
    for (size_t i = 0; args->library_options && lkv_options_help(i, &known, &fallback, &sentence);
         i++) {
        suggestion_try(suggestion, name, known);
    }
}

static bool refuse_name(struct args *args, const char *what, const char *name) {
    struct suggestion suggestion = {0};
    suggest_flag(args, name, &suggestion);
    if (suggestion.word != NULL) {
        return refuse(args, "unknown %s '%s': did you mean '%s'?", what, name, suggestion.word);
    }
    return refuse(args, "unknown %s '%s'", what, name);
}

/* ------------------------------------------------------------------ the command line */

static const char *switch_text(const char *text) {
    static const char *const on[] = {"on", "1", "true", "yes"};
    static const char *const off[] = {"off", "0", "false", "no", ""};
    for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
        if (strcmp(text, on[i]) == 0) {
            return "on";
        }
    }
    for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        if (strcmp(text, off[i]) == 0) {
            return "off";
        }
    }
    return NULL;
}

/* `text` is what stood behind =, NULL when there was none. */
static bool take_flag(struct args *args, const struct flag *flag, const char *text, int argc,
                      char **argv, int *at) {
    switch (flag->kind) {
    case FLAG_MODE:
        setting_put(args, flag->name, "on", SOURCE_FLAG);
        if (text != NULL) {
            word_push(args, text);
        }
        return true;
    case FLAG_SWITCH: {
        const char *value = text != NULL ? switch_text(text) : "on";
        if (value == NULL) {
            return refuse(args, "--%s is on or off, not '%s'", flag->name, text);
        }
        setting_put(args, flag->name, value, SOURCE_FLAG);
        return true;
    }
    case FLAG_VALUE: break;
    }
    if (text == NULL) {
        if (*at >= argc) {
            return refuse(args, "--%s wants a value: %s", flag->name, flag->argument);
        }
        text = argv[(*at)++];
    }
    setting_put(args, flag->name, text, SOURCE_FLAG);
    return true;
}

/* An option of the library: every one takes a value. */
static bool take_library_option(struct args *args, char *name, const char *text, int argc,
                                char **argv, int *at) {
    replace_char(name, '-', '_');
    if (text == NULL && *at >= argc) {
        return refuse(args, "--%s wants a value", name);
    }
    setting_put(args, name, text != NULL ? text : argv[(*at)++], SOURCE_FLAG);
    return true;
}

static bool take_long(struct args *args, const char *word, int argc, char **argv, int *at) {
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    char *name = must_realloc(NULL, length + 1);
    memcpy(name, word, length);
    name[length] = '\0';
    const char *text = equals != NULL ? equals + 1 : NULL;

    bool good;
    char *library_name = must_strdup(name);
    replace_char(library_name, '-', '_');
    const struct flag *flag = flag_of(args, name);
    if (flag != NULL) {
        good = take_flag(args, flag, text, argc, argv, at);
    } else if (args->library_options && library_has_option(library_name)) {
        good = take_library_option(args, name, text, argc, argv, at);
    } else {
        good = refuse_name(args, "option", name);
    }
    free(library_name);
    free(name);
    return good;
}

/* -xojson: letters in one word, the last of which may take the rest, or the next word, as its value. */
static bool take_letters(struct args *args, const char *word, int argc, char **argv, int *at) {
    for (const char *p = word; *p != '\0'; p++) {
        const struct flag *flag = flag_find_letter(args->own, *p);
        flag = flag != NULL ? flag : flag_find_letter(args->common, *p);
        if (flag == NULL) {
            return refuse(args, "unknown option '-%c' (a value that begins with - goes after --)",
                          *p);
        }
        bool rest = flag->kind == FLAG_VALUE && p[1] != '\0';
        const char *text = rest ? p + 1 + (p[1] == '=') : NULL;
        if (!take_flag(args, flag, text, argc, argv, at)) {
            return false;
        }
        if (rest) {
            return true;
        }
    }
    return true;
}

bool args_parse(struct args *args, int argc, char **argv, int *at, bool first_word) {
    bool options_ended = false;
    while (*at < argc) {
        char *word = argv[*at];
        bool is_option = !options_ended && word[0] == '-' && word[1] != '\0';
        if (!is_option && first_word) {
            return true;
        }
        ++*at;
        bool good = true;
        if (!is_option) {
            word_push(args, word);
        } else if (strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (word[1] == '-') {
            good = take_long(args, word + 2, argc, argv, at);
        } else {
            good = take_letters(args, word + 1, argc, argv, at);
        }
        args->words_before_end = options_ended ? args->words_before_end : args->word_count;
        if (!good) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ environment and file */

/* The same place for both: `name` with _ for -. Unknown names are the caller's matter. */
static bool take_outside(struct args *args, const char *name, const char *text, enum source source,
                         bool *known) {
    char *dashed = must_strdup(name);
    replace_char(dashed, '_', '-');
    const struct flag *flag = flag_of(args, dashed);
    free(dashed);

    *known = (flag != NULL && flag->anywhere) || library_has_option(name);
    if (flag == NULL || !flag->anywhere) {
        if (*known && args->library_options) {
            setting_put(args, name, text, source);
        }
        return true;
    }
    if (flag->kind != FLAG_VALUE) {
        const char *value = switch_text(text);
        if (value == NULL) {
            return refuse(args, "%s is on or off, not '%s'", name, text);
        }
        text = value;
    }
    setting_put(args, flag->name, text, source);
    return true;
}

bool args_parse_environment(struct args *args) {
    static const char prefix[] = "KVCTL_";
    for (char **variable = environ; *variable != NULL; variable++) {
        const char *equals = strchr(*variable, '=');
        if (equals == NULL || strncmp(*variable, prefix, sizeof(prefix) - 1) != 0) {
            continue;
        }
        struct text name = {0};
        for (const char *p = *variable + sizeof(prefix) - 1; p < equals; p++) {
            text_add_byte(&name, (char)tolower((unsigned char)*p));
        }
        /* An unknown name may be meant for a later version or for a child of `watch`. */
        bool known;
        bool good = take_outside(args, text_string(&name), equals + 1, SOURCE_ENVIRONMENT, &known);
        text_free(&name);
        if (!good) {
            return false;
        }
    }
    return true;
}

static char *trim(char *string) {
    while (isspace((unsigned char)*string)) {
        string++;
    }
    size_t length = strlen(string);
    while (length > 0 && isspace((unsigned char)string[length - 1])) {
        string[--length] = '\0';
    }
    return string;
}

static bool take_line(struct args *args, const char *path, size_t number, char *line) {
    char *name = trim(line);
    if (*name == '\0' || *name == '#') {
        return true;
    }
    char *equals = strchr(name, '=');
    if (equals == NULL) {
        return refuse(args, "%s:%zu: expected name=value, found '%s'", path, number, name);
    }
    *equals = '\0';
    char *text = trim(equals + 1);
    name = trim(name);
    replace_char(name, '-', '_');
    bool known = false;
    if (!take_outside(args, name, text, SOURCE_FILE, &known)) {
        struct text reason = args->error;
        args->error = (struct text){0};
        refuse(args, "%s:%zu: %s", path, number, text_string(&reason));
        text_free(&reason);
        return false;
    }
    /* A file serves all commands, so what another command knows is no mistake here. */
    return known || refuse(args, "%s:%zu: unknown name '%s'", path, number, name);
}

/* A file or a pipe (as <(command) makes one); a device may have no end. */
static bool read_config(struct args *args, const char *path, FILE *file, struct text *out) {
    struct stat info;
    if (fstat(fileno(file), &info) != 0 || !(S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode))) {
        return refuse(args, "the configuration file %s is neither a file nor a pipe", path);
    }
    char block[4096];
    size_t size;
    while (out->size <= CONFIG_BYTES_MAX && (size = fread(block, 1, sizeof(block), file)) > 0) {
        text_add(out, block, size);
    }
    if (ferror(file)) {
        return refuse(args, "cannot read the configuration file %s: %s", path, strerror(errno));
    }
    return out->size <= CONFIG_BYTES_MAX ||
           refuse(args, "the configuration file %s is larger than %d bytes", path,
                  CONFIG_BYTES_MAX);
}

bool args_parse_file(struct args *args) {
    const char *path = args_text(args, "config");
    if (path == NULL || *path == '\0') {
        return true;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return refuse(args, "cannot read the configuration file %s: %s", path, strerror(errno));
    }
    struct text text = {0};
    bool good = read_config(args, path, file, &text);
    fclose(file);
    char *rest = text.data;
    char *line;
    for (size_t number = 1; good && (line = strsep(&rest, "\n")) != NULL; number++) {
        good = take_line(args, path, number, line);
    }
    text_free(&text);
    return good;
}
