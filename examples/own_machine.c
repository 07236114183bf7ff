/* A bank as a replicated state machine of its own: ten accounts, and moves of money that are refused when there
 * is not enough. Start three; each takes commands on its standard input, and each answers:
 *
 *     own_machine DIR ID ID=HOST:PORT,...
 *     move 3 7 25         "moved, 3 has 75, 7 has 125" or "refused, 3 has 20", the same wherever it is asked
 *     show                all accounts, as they are now: no answer given before is missing from them
 *     quit
 *
 * Kill any of them and start it again: it goes on from its last image and the log. The money stays 1000. */
#include <inttypes.h>
#include <ledgerkv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNTS = 10, BEGIN_WITH = 100, IMAGE_BYTES = 16 * 1024 };

/* The state: 88 bytes, in this machine's order of bytes. */
struct bank {
    int64_t moves, accounts[ACCOUNTS];
};

struct program {
    pthread_mutex_t mutex; /* apply and "show" meet in the bank */
    struct bank bank;
    size_t loaded; /* bytes of an image so far */
    struct lkv_machine *machine;
};

struct view {
    struct bank bank;
    size_t given;
};

/* ------------------------------------------------------------------ the state machine */

static int reset(void *arg) {
    struct program *program = arg;
    pthread_mutex_lock(&program->mutex);
    program->bank.moves = 0;
    for (int i = 0; i < ACCOUNTS; i++) {
        program->bank.accounts[i] = BEGIN_WITH;
    }
    program->loaded = 0;
    pthread_mutex_unlock(&program->mutex);
    return 0;
}

/* Depends on nothing but the bank and the entry, and so is the same everywhere. */
static int move(struct bank *bank, int from, int to, int64_t amount, char *said, size_t size) {
    if (from < 0 || from >= ACCOUNTS || to < 0 || to >= ACCOUNTS || amount < 0) {
        return snprintf(said, size, "refused, no such move");
    }
    if (bank->accounts[from] < amount) {
        return snprintf(said, size, "refused, %d has %" PRId64, from, bank->accounts[from]);
    }
    bank->accounts[from] -= amount;
    bank->accounts[to] += amount;
    bank->moves++;
    return snprintf(said, size, "moved, %d has %" PRId64 ", %d has %" PRId64, from,
                    bank->accounts[from], to, bank->accounts[to]);
}

static int apply(void *arg, const struct lkv_record *entry, struct lkv_said *answer) {
    struct program *program = arg;
    char text[64] = "", said[128];
    int from = -1, to = -1;
    int64_t amount = -1;
    if (entry->data.size < sizeof(text)) {
        memcpy(text, entry->data.data, entry->data.size);
        (void)sscanf(text, "%d %d %" SCNd64, &from, &to, &amount);
    }
    pthread_mutex_lock(&program->mutex);
    int size = move(&program->bank, from, to, amount, said, sizeof(said));
    pthread_mutex_unlock(&program->mutex);
    struct lkv_bytes bytes = {said, (size_t)size};
    return lkv_machine_say(answer, bytes);
}

static int load(void *arg, struct lkv_bytes bytes) {
    struct program *program = arg;
    if (bytes.size > sizeof(program->bank) - program->loaded) {
        return LKV_EDAMAGED; /* not an image of this program */
    }
    pthread_mutex_lock(&program->mutex);
    memcpy((char *)&program->bank + program->loaded, bytes.data, bytes.size);
    program->loaded += bytes.size;
    pthread_mutex_unlock(&program->mutex);
    return bytes.size > 0 || program->loaded == sizeof(program->bank) ? 0 : LKV_EDAMAGED;
}

/* A large state would be frozen by other means: copied as it is changed, or in a forked process. */
static int freeze(void *arg, void **view) {
    const struct program *program = arg;
    struct view *made = malloc(sizeof(*made));
    if (made == NULL) {
        return LKV_ENOMEM;
    }
    made->bank = program->bank;
    made->given = 0;
    *view = made;
    return 0;
}

static int save(void *arg, void *opaque, void *into, size_t size, size_t *got) {
    struct view *view = opaque;
    size_t left = sizeof(view->bank) - view->given;
    (void)arg;
    *got = left < size ? left : size;
    memcpy(into, (const char *)&view->bank + view->given, *got);
    view->given += *got;
    return 0;
}

static void thaw(void *arg, void *view) {
    (void)arg;
    free(view);
}

static void *run(void *arg) {
    const struct program *program = arg;
    int rc = lkv_machine_run(program->machine);
    if (rc != 0) {
        fprintf(stderr, "the machine: %s (%s)\n", lkv_error_name(rc), lkv_last_text());
        exit(1);
    }
    return NULL;
}

/* ------------------------------------------------------------------ commands */

static void propose(const struct program *program, const char *entry) {
    struct lkv_bytes bytes = {entry, strlen(entry)};
    struct lkv_msg *answer = NULL;
    struct lkv_record record;
    int rc = lkv_machine_propose(program->machine, bytes, 0, LKV_DEFAULT, &answer);
    if (rc == 0 && lkv_msg_record(answer, 0, &record)) {
        printf("%.*s\n", (int)record.data.size, (const char *)record.data.data);
    } else {
        printf("%s, %s\n", lkv_outcome(rc) == LKV_UNKNOWN ? "unknown" : "not done",
               lkv_last_text());
    }
    lkv_msg_free(answer);
}

static void show(struct program *program) {
    int64_t sum = 0;
    int rc = lkv_machine_read(program->machine, LKV_DEFAULT, NULL);
    if (rc != 0) {
        printf("not shown, %s\n", lkv_last_text());
        return;
    }
    pthread_mutex_lock(&program->mutex);
    printf("%" PRId64 " moves:", program->bank.moves);
    for (int i = 0; i < ACCOUNTS; i++) {
        printf(" %" PRId64, program->bank.accounts[i]);
        sum += program->bank.accounts[i];
    }
    pthread_mutex_unlock(&program->mutex);
    printf(", %" PRId64 " in all\n", sum);
}

static int open_node(char **argv, struct lkv **db) {
    struct lkv_options *options = lkv_options_new();
    struct lkv_msg *why = NULL;
    int rc = lkv_options_set(options, "dir", argv[1]);
    rc = rc == 0 ? lkv_options_set(options, "id", argv[2]) : rc;
    rc = rc == 0 ? lkv_options_set(options, "peers", argv[3]) : rc;
    rc = rc == 0 ? lkv_options_set(options, "model", "own") : rc;
    rc = rc == 0 ? lkv_options_set(options, "segment_bytes", "1MiB") : rc;
    rc = rc == 0 ? lkv_options_set(options, "keep_entries", "100") : rc;
    rc = rc == 0 ? lkv_open(db, NULL, options, &why) : rc;
    if (rc != 0) {
        fprintf(stderr, "open: %s\n", why != NULL ? lkv_msg_text(why) : lkv_error_name(rc));
    }
    lkv_msg_free(why);
    lkv_options_free(options);
    return rc;
}

int main(int argc, char **argv) {
    static struct program program = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    const struct lkv_machine_calls calls = {
        .apply = apply, .reset = reset, .load = load, .freeze = freeze, .save = save, .thaw = thaw};
    struct lkv *db = NULL;
    pthread_t thread;
    char line[128];
    if (argc != 4) {
        fprintf(stderr, "usage: %s DIR ID ID=HOST:PORT,...\n", argv[0]);
        return 3;
    }
    if (open_node(argv, &db) != 0) {
        return 1;
    }
    if (lkv_machine_new(db, &calls, &program, IMAGE_BYTES, &program.machine) != 0 ||
        pthread_create(&thread, NULL, run, &program) != 0) {
        fprintf(stderr, "cannot start the machine: %s\n", lkv_last_text());
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s is up\n", argv[2]);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "move ", 5) == 0) {
            propose(&program, line + 5);
        } else if (strcmp(line, "show") == 0) {
            show(&program);
        } else if (strcmp(line, "quit") == 0) {
            break;
        }
    }
    lkv_machine_stop(program.machine);
    pthread_join(thread, NULL);
    lkv_machine_free(program.machine);
    return lkv_close(db, 0) == 0 ? 0 : 1;
}
