/* witness HISTORY [VERSIONS]: checks a history that kvctl wrote (tests/support/witness.h), and that each key
 * was written as often as it says. A line of VERSIONS is a key, a tab, and its version.
 *
 * witness HISTORY --log LOG: a history of appends against the log, as `kvctl read` prints it
 * (tests/support/witness_log.h). Exit code 1 when something is wrong. */
#include "tests/support/witness.h"
#include "tests/support/witness_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool each_line(const char *path, bool (*take)(void *witness, const char *line),
                      const char *(*why)(const void *witness), void *witness) {
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
        fprintf(stderr, "%s: %s\n", path, why(witness));
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

static bool take_line(void *witness, const char *line) {
    return witness_line(witness, line);
}

static bool take_version(void *witness, const char *line) {
    return check_version(witness, line);
}

static const char *why_of(const void *witness) {
    return witness_why(witness);
}

static bool take_log_line(void *log, const char *line) {
    return witness_log_line(log, line);
}

static bool take_record(void *log, const char *line) {
    return witness_log_record(log, line);
}

static const char *why_of_log(const void *log) {
    return witness_log_why(log);
}

static int check_log(const char *history, const char *path) {
    struct witness_log *log = witness_log_new();
    struct witness_log_counts counts = {0};
    bool good = each_line(history, take_log_line, why_of_log, log) &&
                each_line(path, take_record, why_of_log, log);
    if (good && !witness_log_check(log, &counts)) {
        fprintf(stderr, "%s: %s\n", history, witness_log_why(log));
        good = false;
    }
    if (good) {
        printf("as the log says: %" PRIu64 " appends, %" PRIu64 " answered, %" PRIu64
               " not done, %" PRIu64 " unknown of which %" PRIu64 " are there, %" PRIu64
               " records\n",
               counts.appends, counts.ok, counts.failed, counts.unknown, counts.placed,
               counts.records);
    }
    witness_log_free(log);
    return good ? 0 : 1;
}

static int check_keys(const char *history, const char *versions) {
    struct witness *witness = witness_new();
    struct witness_counts counts = {0};
    bool good = each_line(history, take_line, why_of, witness);
    if (good && !witness_check(witness, &counts)) {
        fprintf(stderr, "%s: not linearizable: %s\n", history, witness_why(witness));
        good = false;
    }
    good = good && (versions == NULL || each_line(versions, take_version, why_of, witness));
    if (good) {
        printf("linearizable: %" PRIu64 " operations, %" PRIu64 " answered, %" PRIu64
               " not done, %" PRIu64 " unknown of which %" PRIu64 " were seen\n",
               counts.operations, counts.ok, counts.failed, counts.unknown, counts.placed);
    }
    witness_free(witness);
    return good ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[2], "--log") == 0) {
        return check_log(argv[1], argv[3]);
    }
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: witness HISTORY [VERSIONS | --log LOG]\n");
        return 2;
    }
    return check_keys(argv[1], argc == 3 ? argv[2] : NULL);
}
