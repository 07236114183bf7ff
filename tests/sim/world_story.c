#include "tests/sim/world_story.h"

#include "base/assert.h"

#include <stdlib.h>

struct sim_story {
    FILE *out;
    size_t capacity, told;
    char **lines; /* owned */
};

struct sim_story *sim_story_new(size_t lines, FILE *out) {
    struct sim_story *story = calloc(1, sizeof(*story));
    ASSERT(story != NULL);
    story->out = out;
    story->capacity = lines == SIZE_MAX ? 0 : lines;
    story->lines = calloc(story->capacity + 1, sizeof(char *));
    ASSERT(story->lines != NULL);
    return story;
}

void sim_story_free(struct sim_story *story) {
    for (size_t i = 0; i < story->capacity; i++) {
        free(story->lines[i]);
    }
    free((void *)story->lines);
    free(story);
}

void sim_story_tell(void *arg, uint64_t now_ns, const char *line) {
    struct sim_story *story = arg;
    char text[1500];
    (void)snprintf(text, sizeof(text), "%12.6f %s", (double)now_ns / 1e9, line);
    if (story->capacity == 0) {
        (void)fprintf(story->out, "%s\n", text);
        return;
    }
    char **slot = &story->lines[story->told++ % story->capacity];
    free(*slot);
    *slot = strdup(text);
}

void sim_story_print(const struct sim_story *story) {
    size_t first = story->told > story->capacity ? story->told - story->capacity : 0;
    for (size_t i = first; story->capacity > 0 && i < story->told; i++) {
        (void)fprintf(story->out, "%s\n", story->lines[i % story->capacity]);
    }
}

/* Structures of nothing but uint64_t. */
static void add_numbers(void *total, const void *one, size_t size) {
    uint64_t *to = total;
    const uint64_t *from = one;
    for (size_t i = 0; i < size / sizeof(uint64_t); i++) {
        to[i] += from[i];
    }
}

void sim_summary_add(struct sim_summary *total, const struct sim_summary *one) {
    total->virtual_ns += one->virtual_ns;
    total->events += one->events;
    add_numbers(&total->counts, &one->counts, sizeof(total->counts));
    add_numbers(&total->net, &one->net, sizeof(total->net));
    add_numbers(&total->disk, &one->disk, sizeof(total->disk));
}

void sim_play_plan(const struct sim_plan *plan, struct sim_story *story, struct sim_summary *out) {
    struct sim_world *world = sim_world_new(plan, story != NULL ? sim_story_tell : NULL, story);
    (void)sim_world_play(world);
    *out = (struct sim_summary){.seed = plan->seed,
                                .hash = world->time.hash,
                                .virtual_ns = world->time.now_ns,
                                .events = world->time.fired,
                                .counts = world->counts,
                                .net = world->net.counts};
    for (size_t i = 0; i < plan->nodes; i++) {
        add_numbers(&out->disk, sim_disk_counts(world->nodes[i].disk), sizeof(out->disk));
    }
    memcpy(out->failure, world->failure, sizeof(out->failure));
    sim_world_free(world);
}

void sim_play(uint64_t seed, struct sim_story *story, struct sim_summary *out) {
    struct sim_plan plan = sim_plan_swarm(seed);
    sim_play_plan(&plan, story, out);
}
