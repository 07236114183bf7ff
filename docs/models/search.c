#include "search.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct step {
    uint32_t parent; /* number of the state that it was reached from */
    uint32_t action; /* which of that one's successors it was */
};

struct level {
    char *states; /* owned, each of state_size */
    uint32_t *numbers;
    size_t count, capacity;
};

enum mode { SEARCH, REPLAY };

static struct {
    const struct search_model *model;
    uint64_t *seen; /* open addressing; 0: free */
    size_t seen_size, states_max;
    struct step *steps; /* [number] */
    size_t count, step_capacity;
    struct level now, next;
    enum mode mode;
    uint32_t current, action; /* SEARCH: whose successors are listed, how many were */
    uint32_t wanted;          /* REPLAY: the action that is taken */
    void *taken;
    char label[300], violation[300];
    bool full;
} search;

static void *need(void *memory) {
    if (memory == NULL) {
        (void)fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return memory;
}

static uint64_t mix(uint64_t sum, uint64_t word) {
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    return sum ^ sum >> 29;
}

static uint64_t hash(const void *state) {
    const unsigned char *bytes = state;
    size_t size = search.model->state_size, at = 0;
    uint64_t sum = 0, word;
    for (; at + sizeof(word) <= size; at += sizeof(word)) {
        memcpy(&word, bytes + at, sizeof(word));
        sum = mix(sum, word);
    }
    word = 0;
    memcpy(&word, bytes + at, size - at);
    sum = mix(sum, word) * 0xd6e8feb86659fd93u;
    sum ^= sum >> 32;
    return sum != 0 ? sum : 1;
}

static void grow_seen(void) {
    size_t size = search.seen_size > 0 ? search.seen_size * 2 : 1 << 16;
    uint64_t *seen = need(calloc(size, sizeof(*seen)));
    for (size_t i = 0; i < search.seen_size; i++) {
        if (search.seen[i] != 0) {
            size_t at = search.seen[i] & (size - 1);
            while (seen[at] != 0) {
                at = (at + 1) & (size - 1);
            }
            seen[at] = search.seen[i];
        }
    }
    free(search.seen);
    search.seen = seen;
    search.seen_size = size;
}

static bool is_new(const void *state) {
    if ((search.count + 1) * 2 > search.seen_size) {
        grow_seen();
    }
    uint64_t sum = hash(state);
    size_t at = sum & (search.seen_size - 1);
    while (search.seen[at] != 0 && search.seen[at] != sum) {
        at = (at + 1) & (search.seen_size - 1);
    }
    bool found = search.seen[at] == sum;
    search.seen[at] = sum;
    return !found;
}

static void push(struct level *level, const void *state, uint32_t number) {
    size_t size = search.model->state_size;
    if (level->count == level->capacity) {
        level->capacity = level->capacity * 2 + 1024;
        level->states = need(realloc(level->states, level->capacity * size));
        level->numbers = need(realloc(level->numbers, level->capacity * sizeof(uint32_t)));
    }
    memcpy(level->states + level->count * size, state, size);
    level->numbers[level->count++] = number;
}

static void add(const void *state) {
    if (search.count == search.step_capacity) {
        search.step_capacity = search.step_capacity * 2 + 1024;
        search.steps = need(realloc(search.steps, search.step_capacity * sizeof(*search.steps)));
    }
    search.steps[search.count] = (struct step){search.current, search.action};
    push(&search.next, state, (uint32_t)search.count);
    search.count++;
    search.full = search.count >= search.states_max;
}

void search_next(const void *state, const char *format, ...) {
    if (search.mode == SEARCH) {
        if (search.violation[0] == '\0' && !search.full && is_new(state)) {
            add(state);
        }
    } else if (search.action == search.wanted) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(search.label, sizeof(search.label), format, args);
        va_end(args);
        memcpy(search.taken, state, search.model->state_size);
    }
    search.action++;
}

void search_violated(const char *format, ...) {
    if (search.violation[0] == '\0' && search.mode == SEARCH) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(search.violation, sizeof(search.violation), format, args);
        va_end(args);
    }
}

/* Walks the way to a state, printing its actions. */
static void tell_way(uint32_t number) {
    uint32_t *way = need(malloc((search.count + 1) * sizeof(*way)));
    size_t length = 0, size = search.model->state_size;
    char *state = need(malloc(size)), *taken = need(malloc(size));
    for (uint32_t at = number; at != 0; at = search.steps[at].parent) {
        way[length++] = search.steps[at].action;
    }
    memcpy(state, search.model->initial, size);
    search.mode = REPLAY;
    search.taken = taken;
    while (length > 0) {
        search.wanted = way[--length];
        search.action = 0;
        search.model->list_next(state);
        printf("  %s\n", search.label);
        memcpy(state, taken, size);
    }
    if (search.model->print != NULL) {
        search.model->print(state);
    }
    free(taken);
    free(state);
    free(way);
}

static void forget(void) {
    free(search.seen);
    free(search.steps);
    free(search.now.states);
    free(search.now.numbers);
    free(search.next.states);
    free(search.next.numbers);
}

static void next_level(void) {
    struct level done = search.now;
    search.now = search.next;
    search.next = done;
    search.next.count = 0;
}

int search_run(const struct search_model *model, size_t states_max) {
    size_t depth = 0;
    search.model = model;
    search.states_max = states_max;
    search.mode = SEARCH;
    (void)is_new(model->initial);
    add(model->initial);
    while (search.next.count > 0 && search.violation[0] == '\0' && !search.full) {
        next_level();
        for (size_t i = 0; i < search.now.count && search.violation[0] == '\0'; i++) {
            search.current = search.now.numbers[i];
            search.action = 0;
            model->list_next(search.now.states + i * model->state_size);
        }
        depth++;
    }
    int code = 0;
    if (search.violation[0] != '\0') {
        printf("%s: VIOLATED after %zu states: %s\n", model->name, search.count, search.violation);
        tell_way(search.current);
        code = 1;
    } else if (search.full) {
        printf("%s: NOT EXHAUSTED: %zu states, %zu deep\n", model->name, search.count, depth);
        code = 2;
    } else {
        printf("%s: %zu states, %zu deep, all of them: no violation\n", model->name, search.count,
               depth);
    }
    forget();
    return code;
}
