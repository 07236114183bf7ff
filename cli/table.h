/* Columns aligned by their widest cell. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "bytes.h"

#include <stdio.h>

struct table {
    size_t columns;
    struct text *cells; /* row by row, the header first; owned */
    size_t count;
};

/* `header` is columns separated by blanks. */
void table_start(struct table *table, const char *header);
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_cell_bytes(struct table *table, struct lkv_bytes bytes, bool hex);
void table_print(const struct table *table, FILE *out);
void table_free(struct table *table);

#endif
