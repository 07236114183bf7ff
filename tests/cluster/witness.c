/* witness HISTORY [VERSIONS]: checks a history that kvctl wrote (tests/support/witness.h), and that each key
 * was written as often as it says. A line of VERSIONS is a key, a tab, and its version. Exit code 1 when
 * something is wrong. */
#include "tests/support/witness.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool each_line(const char *path, bool (*take)(struct witness *witness, const char *line),
                      struct witness *witness) {
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    bool good = file != NULL;
    if (file == NULL) {
        perror(path);
        return false;
    }
    while (good && (size = getline(&line, &capacity, file)) > 0) {
        if (line[size - 1] != '\n') {
            break; /* its writer was killed inside */
        }
        line[size - 1] = '\0';
        good = take(witness, line);
    }
    if (!good) {
        fprintf(stderr, "%s: %s\n", path, witness_why(witness));
    }
    free(line);
    (void)fclose(file);
    return good;
}

static bool check_version(struct witness *witness, const char *line) {
    const char *tab = strchr(line, '\t');
    char key[256];
    uint64_t done, unknown;
    if (tab == NULL || (size_t)(tab - line) >= sizeof(key)) {
        fprintf(stderr, "no key and version: %s\n", line);
        return false;
    }
    memcpy(key, line, (size_t)(tab - line));
    key[tab - line] = '\0';
    uint64_t version = strtoull(tab + 1, NULL, 10);
    witness_writes(witness, key, &done, &unknown);
    if (version < done || version > done + unknown) {
        fprintf(stderr,
                "%s has version %" PRIu64 ", %" PRIu64 " writes were acknowledged, %" PRIu64
                " are unknown\n",
                key, version, done, unknown);
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: witness HISTORY [VERSIONS]\n");
        return 2;
    }
    struct witness *witness = witness_new();
    struct witness_counts counts = {0};
    bool good = each_line(argv[1], witness_line, witness);
    if (good && !witness_check(witness, &counts)) {
        fprintf(stderr, "%s: not linearizable: %s\n", argv[1], witness_why(witness));
        good = false;
    }
    good = good && (argc < 3 || each_line(argv[2], check_version, witness));
    if (good) {
        printf("linearizable: %" PRIu64 " operations, %" PRIu64 " answered, %" PRIu64
               " not done, %" PRIu64 " unknown of which %" PRIu64 " were seen\n",
               counts.operations, counts.ok, counts.failed, counts.unknown, counts.placed);
    }
    witness_free(witness);
    return good ? 0 : 1;
}
