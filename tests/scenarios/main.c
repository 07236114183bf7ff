/* scenarios FILE...: runs each and compares. Exit 1 when anything differs. */
#include "tests/scenarios/scenario.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void scenario_print(struct scenario *scenario, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = OUTPUT_MAX - scenario->size - 2;
    int length = vsnprintf(scenario->output + scenario->size, room, format, args);
    va_end(args);
    if (length > 0 && (size_t)length < room) {
        scenario->size += (size_t)length;
        scenario->output[scenario->size++] = '\n';
        scenario->output[scenario->size] = '\0';
    }
}

/* ------------------------------------------------------------------ text */

struct text {
    char *data;
    size_t size, capacity;
};

static void text_add(struct text *text, const char *data, size_t size) {
    if (text->size + size + 1 > text->capacity) {
        text->capacity = (text->size + size + 1) * 2;
        text->data = realloc(text->data, text->capacity);
        if (text->data == NULL) {
            abort();
        }
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

static bool read_file(const char *path, struct text *text) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    char block[4096];
    size_t size;
    while ((size = fread(block, 1, sizeof block, file)) > 0) {
        text_add(text, block, size);
    }
    text_add(text, "", 0);
    return fclose(file) == 0;
}

static bool write_file(const char *path, const struct text *text) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    size_t size = fwrite(text->data, 1, text->size, file);
    return fclose(file) == 0 && size == text->size;
}

/* ------------------------------------------------------------------ running */

static void run_command(struct scenario *scenario, const char *line, size_t size) {
    char copy[512];
    char *words[WORDS_MAX];
    size_t count = 0;
    (void)snprintf(copy, sizeof copy, "%.*s", (int)size, line);
    char *save = NULL;
    for (char *word = strtok_r(copy, " ", &save); word != NULL && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &save)) {
        words[count++] = word;
    }
    scenario->size = 0;
    scenario->output[0] = '\0';
    if (count > 0) {
        scenario_command(scenario, words, count);
    }
    if (scenario->world != NULL && world_violation(scenario->world) != NULL) {
        scenario_print(scenario, "VIOLATION: %s", world_violation(scenario->world));
    }
}

/* The file with everything that commands printed replaced by what they print now. */
static void play(struct scenario *scenario, const char *input, struct text *actual) {
    while (*input != '\0') {
        size_t size = strcspn(input, "\n");
        bool command = size > 1 && input[0] == '>';
        if (command || size == 0 || input[0] == '#') {
            text_add(actual, input, size);
            text_add(actual, "\n", 1);
        }
        if (command) {
            run_command(scenario, input + 1, size - 1);
            text_add(actual, scenario->output, scenario->size);
        }
        input += size + (input[size] == '\n' ? 1 : 0);
    }
}

static void print_difference(const char *path, const char *expected, const char *actual) {
    size_t line = 1;
    const char *start = expected;
    while (*expected != '\0' && *expected == *actual) {
        if (*expected == '\n') {
            line++;
            start = expected + 1;
        }
        expected++;
        actual++;
    }
    ptrdiff_t back = expected - start;
    printf("%s:%zu: expected\n    %.*s\ngot\n", path, line, (int)strcspn(start, "\n"), start);
    const char *at = actual - back;
    for (int i = 0; i < 12 && *at != '\0'; i++) {
        printf("    %.*s\n", (int)strcspn(at, "\n"), at);
        at += strcspn(at, "\n");
        at += *at == '\n' ? 1 : 0;
    }
}

static bool run_file(const char *path) {
    struct text expected = {0}, actual = {0};
    if (!read_file(path, &expected)) {
        printf("%s: cannot be read\n", path);
        free(expected.data);
        return false;
    }
    struct scenario *scenario = calloc(1, sizeof *scenario);
    if (scenario == NULL) {
        abort();
    }
    text_add(&actual, "", 0);
    play(scenario, expected.data, &actual);
    bool equal = strcmp(expected.data, actual.data) == 0;
    if (!equal && getenv("LKV_SCENARIO_WRITE") != NULL) {
        equal = write_file(path, &actual);
    } else if (!equal) {
        print_difference(path, expected.data, actual.data);
    }
    if (scenario->world != NULL) {
        world_free(scenario->world);
    }
    free(scenario);
    free(expected.data);
    free(actual.data);
    return equal;
}

int main(int argc, char **argv) {
    int passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (run_file(argv[i])) {
            passed++;
        } else {
            failed++;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
}
