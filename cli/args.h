/* Arguments: flags, positionals and where a setting came from.
 *
 * A setting has one text. A flag beats the environment (KVCTL_NAME), which beats the configuration
 * file (lines name=value); the last flag of a name wins. Only flags marked `anywhere` are taken from
 * the environment and the file: an exported KVCTL_ALL must not make a later `del` dangerous.
 */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "bytes.h"

enum flag_kind {
    FLAG_VALUE,  /* --name VALUE, --name=VALUE */
    FLAG_SWITCH, /* --name, --name=on|off */
    FLAG_MODE,   /* --name; --name=WORD also gives the next positional */
};

struct flag {
    const char *name;
    enum flag_kind kind;
    char letter;          /* 0: none */
    bool anywhere;        /* also from the environment and the file */
    const char *argument; /* in the help, for FLAG_VALUE */
    const char *help;
};

#define FLAG_END \
    { .name = NULL }

enum source { SOURCE_NONE, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG };

struct setting {
    char *name; /* owned */
    char *text; /* owned; "on" or "off" for switches */
    enum source source;
};

struct args {
    const struct flag *common;
    const struct flag *own; /* of the command; NULL before it is known */
    bool library_options;   /* names of lkv_options_help() are flags too, kept with _ for - */
    struct setting *settings;
    size_t setting_count;
    const char **words; /* positionals, borrowed from argv */
    size_t word_count;
    size_t words_before_end; /* of them, in front of --; all, if there was none */
    struct text error;       /* why the last call failed */
};

void args_free(struct args *args);

/* Takes argv from *at on; with `first_word`, stops in front of the first positional. False with
 * args->error set when something is no flag, or lacks its value. */
bool args_parse(struct args *args, int argc, char **argv, int *at, bool first_word);

/* What the environment, and the file of --config or KVCTL_CONFIG, have to say. */
bool args_parse_environment(struct args *args);
bool args_parse_file(struct args *args);

/* NULL when nobody said anything. Valid until args_free. */
const char *args_text(const struct args *args, const char *name);
bool args_switch(const struct args *args, const char *name);
enum source args_source(const struct args *args, const char *name);

/* *out keeps its value when nobody said anything; false, with args->error set, when the text is no
 * such number, or not within [low, high]. */
bool args_number(struct args *args, const char *name, uint64_t low, uint64_t high, uint64_t *out);

/* "5s", "250ms", "2m", "1h"; a number alone is seconds. */
bool args_duration(struct args *args, const char *name, int64_t *out_ms);

const struct flag *flag_find(const struct flag *flags, const char *name);
bool library_has_option(const char *name);

#endif
