/* Columns aligned by their widest cell: see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

static struct text *next_cell(struct table *table) {
    /* Doubles by itself at powers of two. */
    if ((table->count & (table->count - 1)) == 0) {
        size_t capacity = table->count == 0 ? 1 : table->count * 2;
        table->cells = must_realloc(table->cells, capacity * sizeof(*table->cells));
    }
    struct text *cell = &table->cells[table->count++];
    *cell = (struct text){0};
    return cell;
}

void table_start(struct table *table, const char *header) {
    *table = (struct table){0};
    for (const char *p = header; *p != '\0';) {
        size_t length = strcspn(p, " ");
        text_add(next_cell(table), p, length);
        table->columns++;
        p += length + strspn(p + length, " ");
    }
}

void table_cell(struct table *table, const char *format, ...) {
    va_list args;
    va_start(args, format);
    text_vprintf(next_cell(table), format, args);
    va_end(args);
}

void table_cell_bytes(struct table *table, struct lkv_bytes bytes, bool hex) {
    struct text *cell = next_cell(table);
    if (hex) {
        text_add_hex(cell, bytes);
    } else {
        text_add_escaped(cell, bytes);
    }
}

/* Characters, not bytes: continuation bytes of UTF-8 take no room. */
static size_t cell_width(const struct text *cell) {
    size_t width = 0;
    for (size_t i = 0; i < cell->size; i++) {
        width += ((unsigned char)cell->data[i] & 0xc0) != 0x80;
    }
    return width;
}

void table_print(const struct table *table, FILE *out) {
    size_t *widths = must_realloc(NULL, table->columns * sizeof(*widths));
    memset(widths, 0, table->columns * sizeof(*widths));
    for (size_t i = 0; i < table->count; i++) {
        size_t width = cell_width(&table->cells[i]);
        size_t column = i % table->columns;
        widths[column] = width > widths[column] ? width : widths[column];
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct text *cell = &table->cells[i];
        size_t column = i % table->columns;
        fwrite(text_string(cell), 1, cell->size, out);
        if (column + 1 == table->columns) {
            fputc('\n', out);
        } else {
            fprintf(out, "%*s", (int)(widths[column] - cell_width(cell)) + 2, "");
        }
    }
    free(widths);
}

void table_free(struct table *table) {
    for (size_t i = 0; i < table->count; i++) {
        text_free(&table->cells[i]);
    }
    free(table->cells);
    *table = (struct table){0};
}
