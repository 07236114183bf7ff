#include "tests/support/linearizable_search.h"

#include "tests/support/need.h"

#include <stdlib.h>
#include <string.h>

enum { NO_EVENT = -1, NO_SLOT = -1, FIRST_INDEX = 256 };
#define UNREAD UINT64_MAX /* any value that nobody reads from now on */

/* In which the register can be. 64 bytes, no padding: compared and hashed as bytes. */
struct state {
    uint64_t value;
    uint64_t done;                 /* bit: slot of an operation that has taken its place */
    uint8_t used[LIN_CLASSES_MAX]; /* of each class of unanswered writes: how many have */
};

/* A set in the order of insertion. */
struct states {
    struct state *items; /* owned */
    size_t count, capacity;
    uint32_t *index;   /* owned; position + 1, 0: free; open addressing */
    size_t index_size; /* a power of two */
};

struct event {
    uint64_t at_ns;
    bool ends;
    size_t op;
};

/* Unanswered writes that are equal. */
struct class {
    const struct lin_op *op; /* one of them; NULL: free */
    uint8_t available;       /* that have begun */
    long last_read;          /* event after which nobody reads their value any more */
};

struct search {
    const struct lin_op *ops; /* borrowed */
    struct event *events;     /* owned, in order */
    size_t event_count;
    long *last_reads; /* owned, [op]: the last event that ends a reader of the value it writes */
    long *last_alike; /* owned, [op]: ... of the value it reads */
    int *slots;       /* owned, [op]: while it is under way */
    const struct lin_op *open[LIN_OPEN_MAX]; /* [slot]; NULL: free */
    uint64_t unread; /* bit: slot of a put or delete under way whose value nobody reads */
    struct class classes[LIN_CLASSES_MAX];
    struct states frontier, scratch;
    size_t states_max;
    struct lin_search_result *result;
};

/* ------------------------------------------------------------------ sets of states */

static uint64_t hash(const struct state *state) {
    uint64_t words[sizeof(*state) / sizeof(uint64_t)], sum = 0;
    memcpy(words, state, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    return sum;
}

/* Where it is in the index, or where it would be. */
static size_t place_of(const struct states *states, const struct state *state) {
    size_t mask = states->index_size - 1;
    size_t at = (size_t)hash(state) & mask;
    while (states->index[at] != 0 &&
           memcmp(&states->items[states->index[at] - 1], state, sizeof(*state)) != 0) {
        at = (at + 1) & mask;
    }
    return at;
}

static void grow(struct states *states) {
    states->capacity = states->capacity > 0 ? states->capacity * 2 : FIRST_INDEX / 2;
    states->items = need(realloc(states->items, states->capacity * sizeof(*states->items)));
    states->index_size = states->capacity * 2;
    free(states->index);
    states->index = need(calloc(states->index_size, sizeof(*states->index)));
    for (size_t i = 0; i < states->count; i++) {
        states->index[place_of(states, &states->items[i])] = (uint32_t)i + 1;
    }
}

static void insert(struct states *states, const struct state *state) {
    if (states->count == states->capacity) {
        grow(states);
    }
    size_t at = place_of(states, state);
    if (states->index[at] == 0) {
        states->items[states->count++] = *state;
        states->index[at] = (uint32_t)states->count;
    }
}

static void clear(struct states *states) {
    if (states->index_size >
        FIRST_INDEX) { /* one large search must not slow down all that follow */
        free(states->items);
        free(states->index);
        *states = (struct states){0};
    } else if (states->index_size > 0) {
        memset(states->index, 0, states->index_size * sizeof(*states->index));
    }
    states->count = 0;
}

static void swap(struct search *search) {
    struct states states = search->frontier;
    search->frontier = search->scratch;
    search->scratch = states;
    clear(&search->scratch);
}

/* ------------------------------------------------------------------ taking a place */

/* A read that would be answered right takes its place at once: it changes nothing, so sooner is never
 * worse. */
static void settle_reads(const struct search *search, struct state *state) {
    for (unsigned i = 0; i < LIN_OPEN_MAX; i++) {
        const struct lin_op *op = search->open[i];
        if (op != NULL && op->kind == LIN_GET && op->value == state->value) {
            state->done |= (uint64_t)1 << i;
        }
    }
}

static bool possible(const struct lin_op *op, uint64_t value) {
    switch (op->kind) {
    case LIN_GET: return op->value == value;
    case LIN_CAS: return op->expected == value;
    case LIN_PUT:
    case LIN_DELETE: return true;
    }
    return false;
}

/* Writes that nobody reads take their places just before a put or delete, where they change nothing. */
static void carry_on(struct search *search, struct state state, const struct lin_op *op,
                     bool is_unread) {
    state.value = is_unread ? UNREAD : op->value;
    state.done |= op->kind != LIN_CAS ? search->unread : 0;
    settle_reads(search, &state);
    insert(&search->frontier, &state);
}

/* Every state that is one operation further. */
static void expand(struct search *search, const struct state *from) {
    bool unread_tried = false; /* one of them stands for all */
    for (unsigned i = 0; i < LIN_OPEN_MAX; i++) {
        const struct lin_op *op = search->open[i];
        bool done = (from->done >> i & 1) != 0, is_unread = (search->unread >> i & 1) != 0;
        if (op != NULL && !done && op->kind != LIN_GET && possible(op, from->value) &&
            !(is_unread && unread_tried)) {
            struct state next = *from;
            next.done |= (uint64_t)1 << i;
            unread_tried = unread_tried || is_unread;
            carry_on(search, next, op, is_unread);
        }
    }
    for (size_t i = 0; i < LIN_CLASSES_MAX; i++) {
        const struct class *class = &search->classes[i];
        if (class->op != NULL && from->used[i] < class->available &&
            possible(class->op, from->value)) {
            struct state next = *from;
            next.used[i]++;
            carry_on(search, next, class->op, false);
        }
    }
}

/* ------------------------------------------------------------------ less is more */

static int by_rank(const void *a, const void *b) {
    const struct state *one = a, *other = b;
    if (one->value != other->value) {
        return one->value < other->value ? -1 : 1;
    }
    if (one->done != other->done) {
        return one->done < other->done ? -1 : 1;
    }
    return memcmp(one->used, other->used, sizeof(one->used));
}

static bool has_at_least(const struct state *one, const struct state *other) {
    for (size_t i = 0; i < LIN_CLASSES_MAX; i++) {
        if (one->used[i] < other->used[i]) {
            return false;
        }
    }
    return true;
}

/* Of two states that differ only in how many unanswered writes were used up, the one with fewer can do
 * all that the other can. One with fewer of everything sorts before it. */
static void drop_wasteful(struct search *search) {
    struct states *all = &search->frontier;
    size_t group = 0;
    qsort(all->items, all->count, sizeof(*all->items), by_rank);
    for (size_t i = 0; i < all->count; i++) {
        const struct state *state = &all->items[i];
        const struct states *kept = &search->scratch;
        bool wasteful = false;
        if (i > 0 && (state[-1].value != state->value || state[-1].done != state->done)) {
            group = kept->count;
        }
        for (size_t j = group; j < kept->count && !wasteful; j++) {
            wasteful = has_at_least(state, &kept->items[j]);
        }
        if (!wasteful) {
            insert(&search->scratch, state);
        }
    }
    swap(search);
}

/* ------------------------------------------------------------------ events */

static bool limit(struct search *search, const char *which) {
    search->result->verdict = LIN_UNDECIDED;
    search->result->limit = which;
    return false;
}

static bool same_write(const struct lin_op *a, const struct lin_op *b) {
    return a->kind == b->kind && a->value == b->value && a->expected == b->expected;
}

static bool begin_unanswered(struct search *search, size_t op) {
    struct class *unused = NULL;
    for (size_t i = 0; i < LIN_CLASSES_MAX; i++) {
        struct class *class = &search->classes[i];
        if (class->op == NULL) {
            unused = unused != NULL ? unused : class;
        } else if (same_write(class->op, &search->ops[op])) {
            class->available++;
            return class->available < UINT8_MAX || limit(search, "255 equal unanswered writes");
        }
    }
    if (unused == NULL) {
        return limit(search, "LIN_CLASSES_MAX different unanswered writes that are still read");
    }
    *unused =
        (struct class){.op = &search->ops[op], .available = 1, .last_read = search->last_reads[op]};
    return true;
}

static bool begin_answered(struct search *search, size_t op, long event) {
    int slot = 0;
    while (slot < LIN_OPEN_MAX && search->open[slot] != NULL) {
        slot++;
    }
    if (slot == LIN_OPEN_MAX) {
        return limit(search, "LIN_OPEN_MAX operations under way at once");
    }
    search->open[slot] = &search->ops[op];
    search->slots[op] = slot;
    enum lin_kind kind = search->ops[op].kind;
    if ((kind == LIN_PUT || kind == LIN_DELETE) && search->last_reads[op] < event) {
        search->unread |= (uint64_t)1 << slot;
    }
    if (kind == LIN_GET) {
        for (size_t i = 0; i < search->frontier.count; i++) {
            struct state state = search->frontier.items[i];
            settle_reads(search, &state);
            insert(&search->scratch, &state);
        }
        swap(search);
    }
    return true;
}

/* Keeps the states in which it has its place, and finds those that lead there. */
static bool end(struct search *search, size_t op) {
    uint64_t bit = (uint64_t)1 << search->slots[op];
    for (size_t i = 0; i < search->frontier.count; i++) {
        struct state state = search->frontier.items[i];
        if ((state.done & bit) != 0) {
            state.done &= ~bit;
            insert(&search->scratch, &state);
        } else {
            expand(search, &state);
        }
        if (search->frontier.count > search->states_max) {
            return limit(search, "so many states");
        }
    }
    struct lin_search_result *result = search->result;
    result->states_max =
        search->frontier.count > result->states_max ? search->frontier.count : result->states_max;
    search->open[search->slots[op]] = NULL;
    search->unread &= ~bit;
    search->slots[op] = NO_SLOT;
    swap(search);
    if (search->frontier.count == 0) {
        result->verdict = LIN_VIOLATED;
        result->last = op;
        return false;
    }
    return true;
}

/* Values that nobody reads after this event are alike, and unanswered writes of them of no use. */
static void retire(struct search *search, long event) {
    size_t op = search->events[event].op;
    bool any = search->last_alike[op] == event;
    uint64_t value =
        search->ops[op].kind == LIN_CAS ? search->ops[op].expected : search->ops[op].value;
    for (size_t j = 0; j < search->frontier.count && any; j++) {
        struct state *state = &search->frontier.items[j];
        state->value = state->value == value ? UNREAD : state->value;
    }
    for (size_t i = 0; i < LIN_CLASSES_MAX; i++) {
        struct class *class = &search->classes[i];
        if (class->op == NULL || class->last_read != event) {
            continue;
        }
        *class = (struct class){0};
        any = true;
        for (size_t j = 0; j < search->frontier.count; j++) {
            search->frontier.items[j].used[i] = 0;
        }
    }
    if (any) { /* what became equal is dropped with what is wasteful */
        drop_wasteful(search);
    }
}

static bool one_event(struct search *search, long number) {
    const struct event *event = &search->events[number];
    const struct lin_op *op = &search->ops[event->op];
    if (!event->ends) {
        return op->outcome == LIN_OK ? begin_answered(search, event->op, number)
                                     : begin_unanswered(search, event->op);
    }
    if (!end(search, event->op)) {
        return false;
    }
    bool unanswered = false;
    for (size_t i = 0; i < LIN_CLASSES_MAX && !unanswered; i++) {
        unanswered = search->classes[i].op != NULL;
    }
    if (unanswered) {
        drop_wasteful(search);
    }
    retire(search, number);
    return true;
}

/* ------------------------------------------------------------------ preparing */

static int by_time(const void *a, const void *b) {
    const struct event *one = a, *other = b;
    if (one->at_ns != other->at_ns) {
        return one->at_ns < other->at_ns ? -1 : 1;
    }
    if (one->ends != other->ends) {
        return (int)one->ends - (int)other->ends; /* at one moment: as if they overlapped */
    }
    return one->op < other->op ? -1 : 1;
}

static bool reads(const struct lin_op *op, uint64_t *value) {
    *value = op->kind == LIN_CAS ? op->expected : op->value;
    return op->kind == LIN_GET || op->kind == LIN_CAS;
}

struct reader {
    uint64_t value;
    long ends; /* event */
};

static int by_value(const void *a, const void *b) {
    const struct reader *one = a, *other = b;
    if (one->value != other->value) {
        return one->value < other->value ? -1 : 1;
    }
    return one->ends < other->ends ? -1 : one->ends > other->ends;
}

/* The last event that ends a reader of the value, NO_EVENT: it has none. An unanswered cas may read it at any
 * time. */
static long last_read_of(const struct reader *readers, size_t count, uint64_t value) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (readers[middle].value <= value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && readers[low - 1].value == value ? readers[low - 1].ends : NO_EVENT;
}

static bool is_write(const struct lin_op *op) {
    return op->kind != LIN_GET;
}

/* Events of what matters: answered operations, and unanswered writes. */
static void list_events(struct search *search, const struct lin_op *ops, size_t count) {
    for (size_t i = 0; i < count; i++) {
        search->slots[i] = NO_SLOT;
        if (ops[i].outcome == LIN_OK) {
            search->events[search->event_count++] = (struct event){ops[i].begun_ns, false, i};
            search->events[search->event_count++] = (struct event){ops[i].ended_ns, true, i};
        } else if (ops[i].outcome == LIN_INFO && is_write(&ops[i])) {
            search->events[search->event_count++] = (struct event){ops[i].begun_ns, false, i};
        }
    }
    qsort(search->events, search->event_count, sizeof(*search->events), by_time);
}

static void find_last_reads(struct search *search, const struct lin_op *ops, size_t count) {
    struct reader *readers = need(calloc(count + 1, sizeof(*readers)));
    size_t reader_count = 0;
    for (size_t i = 0; i < search->event_count; i++) {
        const struct event *event = &search->events[i];
        const struct lin_op *op = &ops[event->op];
        uint64_t value;
        bool answered = op->outcome == LIN_OK;
        if (event->ends == answered && reads(op, &value)) {
            long ends = answered ? (long)i : (long)search->event_count;
            readers[reader_count++] = (struct reader){value, ends};
        }
    }
    qsort(readers, reader_count, sizeof(*readers), by_value);
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        search->last_reads[i] = last_read_of(readers, reader_count, ops[i].value);
        search->last_alike[i] =
            reads(&ops[i], &value) ? last_read_of(readers, reader_count, value) : (long)NO_EVENT;
    }
    free(readers);
}

static void prepare(struct search *search, const struct lin_op *ops, size_t count) {
    search->events = need(calloc(2 * count + 1, sizeof(*search->events)));
    search->last_reads = need(calloc(count + 1, sizeof(*search->last_reads)));
    search->last_alike = need(calloc(count + 1, sizeof(*search->last_alike)));
    search->slots = need(calloc(count + 1, sizeof(*search->slots)));
    list_events(search, ops, count);
    find_last_reads(search, ops, count);
}

/* An unanswered write that nobody reads from now on: as if it had not been done. */
static bool matters(const struct search *search, long number) {
    const struct event *event = &search->events[number];
    return search->ops[event->op].outcome == LIN_OK || search->last_reads[event->op] > number;
}

void lin_search(const struct lin_op *ops, size_t count, const uint64_t *starts, size_t start_count,
                size_t states_max, struct lin_search_result *out) {
    struct search search = {.ops = ops, .states_max = states_max, .result = out};
    *out = (struct lin_search_result){.verdict = LIN_LINEARIZABLE};
    prepare(&search, ops, count);
    for (size_t i = 0; i < start_count; i++) {
        struct state state;
        memset(&state, 0, sizeof(state));
        state.value = starts[i];
        insert(&search.frontier, &state);
    }
    bool going = true;
    for (long i = 0; i < (long)search.event_count && going; i++) {
        going = !matters(&search, i) || one_event(&search, i);
    }
    free(search.events);
    free(search.last_reads);
    free(search.last_alike);
    free(search.slots);
    free(search.frontier.items);
    free(search.frontier.index);
    free(search.scratch.items);
    free(search.scratch.index);
}
