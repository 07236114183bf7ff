/* The lists of an update: they grow as needed and keep their memory from step to step. */
#include "raft/core.h"

void raft_update_fini(struct raft_update *update) {
    mem_free(update->takes);
    mem_free(update->fills);
    mem_free(update->drops);
    mem_free(update->messages);
    mem_free(update->fetches);
    mem_free(update->installs);
    mem_free(update->reads);
    *update = (struct raft_update){0};
}

void update_begin(struct raft_update *update) {
    update->kept = false;
    update->take_count = update->drop_count = update->message_count = 0;
    update->fetch_count = update->install_count = update->read_count = 0;
    update->fill_count = 0;
    update->settle_end = false;
    update->discarded_from = 0;
    update->note.text[0] = '\0';
    update->write = (struct raft_write){0};
    update->submit_rc = 0;
    update->submit_first = 0;
    update->role_changed = false;
    update->stop_rc = 0;
    update->stop_why.text[0] = '\0';
}

/* The list with room for one more, or NULL with raft->no_memory set. */
static void *grown(struct raft *raft, void *items, size_t count, size_t *capacity, size_t size) {
    void *list = mem_array_grow(items, capacity, count + 1, size);
    raft->no_memory = raft->no_memory || list == NULL;
    return list;
}

/* A message that finds no memory is written to a dummy: callers fill it without asking. */
struct raft_message *update_message(struct raft *raft, enum raft_message_kind kind, uint64_t to) {
    struct raft_update *update = raft->update;
    struct raft_message *list = grown(raft, update->messages, update->message_count,
                                      &update->message_capacity, sizeof *list);
    struct raft_message *message = &raft->lost_message;
    if (list != NULL) {
        update->messages = list;
        message = &list[update->message_count++];
    }
    *message =
        (struct raft_message){.kind = kind, .from = raft->self, .to = to, .term = raft->term};
    return message;
}

void update_take(struct raft *raft, uint64_t token, uint64_t first, uint64_t last) {
    struct raft_update *update = raft->update;
    struct raft_take *list =
        grown(raft, update->takes, update->take_count, &update->take_capacity, sizeof *list);
    if (list != NULL) {
        update->takes = list;
        list[update->take_count++] =
            (struct raft_take){.token = token, .first = first, .last = last};
    }
}

void update_drop(struct raft *raft, uint64_t token) {
    struct raft_update *update = raft->update;
    uint64_t *list =
        grown(raft, update->drops, update->drop_count, &update->drop_capacity, sizeof *list);
    if (list != NULL) {
        update->drops = list;
        list[update->drop_count++] = token;
    }
}

void update_fetch(struct raft *raft, struct raft_fetch fetch) {
    struct raft_update *update = raft->update;
    struct raft_fetch *list =
        grown(raft, update->fetches, update->fetch_count, &update->fetch_capacity, sizeof *list);
    if (list != NULL) {
        update->fetches = list;
        list[update->fetch_count++] = fetch;
    }
}

void update_install(struct raft *raft, uint64_t peer) {
    struct raft_update *update = raft->update;
    uint64_t *list = grown(raft, update->installs, update->install_count, &update->install_capacity,
                           sizeof *list);
    if (list != NULL) {
        update->installs = list;
        list[update->install_count++] = peer;
    }
}

void update_fill(struct raft *raft, struct raft_fill fill) {
    struct raft_update *update = raft->update;
    struct raft_fill *list =
        grown(raft, update->fills, update->fill_count, &update->fill_capacity, sizeof *list);
    if (list != NULL) {
        update->fills = list;
        list[update->fill_count++] = fill;
    }
}

void update_read(struct raft *raft, struct raft_read_result result) {
    struct raft_update *update = raft->update;
    struct raft_read_result *list =
        grown(raft, update->reads, update->read_count, &update->read_capacity, sizeof *list);
    if (list != NULL) {
        update->reads = list;
        list[update->read_count++] = result;
    }
}
