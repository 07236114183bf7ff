/* Answers on stdout, in the format that was asked for. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cli.h"

#include <inttypes.h>

/* ,"NAME": in front of every member but the first. Bytes that are no text go under NAME_b64, under -x
 * all go under NAME_hex. */
void json_bytes(struct text *line, const char *name, struct lkv_bytes bytes, bool hex);
void json_string(struct text *line, const char *name, const char *string);
void json_u64(struct text *line, const char *name, uint64_t number); /* a decimal string */
void json_number(struct text *line, const char *name, uint64_t number);
void json_real(struct text *line, const char *name, double number);
void json_open(struct text *line);
void json_print(struct text *line); /* closes it, prints it, and empties it */

/* name: value, one a line (-o fields). */
void field_bytes(const char *name, struct lkv_bytes bytes, bool hex);
void field_string(const char *name, const char *string);
void field_u64(const char *name, uint64_t number);

/* One line, or hexadecimal under -x. */
void print_shown(struct lkv_bytes bytes, bool hex);

/* The answer to a write: OK rev=41. `count` of NULL is not told. */
void output_written(const struct cli *cli, uint64_t rev, const uint64_t *count);

/* A count of keys, under its name; `after` follows the number where it stands alone. */
void output_count(const struct cli *cli, const char *name, const char *after, uint64_t count,
                  uint64_t rev);

/* Everything is out; exit code 4 when stdout could not take it, otherwise `exit`. */
int output_finish(struct cli *cli, int exit);

bool output_has_color(void);

#endif
