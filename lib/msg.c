#include "lib/msg.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lib/events.h"

#include <stdarg.h>
#include <stdio.h>

/* Every name that a message may carry; those of each put and get come first. */
#define MSG_NAMES(X)      \
    X("rev")              \
    X("index")            \
    X("term")             \
    X("count")            \
    X("number")           \
    X("held")             \
    X("total")            \
    X("more")             \
    X("kept_from")        \
    X("view")             \
    X("views")            \
    X("leader")           \
    X("leader_address")   \
    X("id")               \
    X("address")          \
    X("listen")           \
    X("role")             \
    X("state")            \
    X("cluster_id")       \
    X("member_id")        \
    X("version")          \
    X("commit")           \
    X("applied")          \
    X("durable")          \
    X("first")            \
    X("last")             \
    X("keys")             \
    X("bytes")            \
    X("memory_bytes")     \
    X("log_bytes")        \
    X("image_index")      \
    X("peers_up")         \
    X("connections")      \
    X("session")          \
    X("sessions")         \
    X("digest")           \
    X("next")             \
    X("model")            \
    X("engine")           \
    X("refusals")         \
    X("damaged_entries")  \
    X("repaired_entries") \
    X("scrub_index")      \
    X("scrubbed_ms")      \
    X("compared_index")   \
    X("feature_level")    \
    X("lease")            \
    X("leases")           \
    X("ttl_ms")           \
    X("remaining_ms")     \
    X("next_sub")         \
    X("partial")          \
    X("read_lease_ms")

const char *msg_known_name(struct slice name) {
    /* The compiler knows each size, so that almost all of this compares one number. */
#define RETURN_IF_SAME(text)                                                               \
    if (name.size == sizeof(text) - 1 && memcmp(name.data, text, sizeof(text) - 1) == 0) { \
        return text;                                                                       \
    }
    MSG_NAMES(RETURN_IF_SAME)
#undef RETURN_IF_SAME
    return NULL;
}

struct lkv_msg *msg_new(enum lkv_kind kind, void *tag) {
    struct lkv_msg *msg = mem_calloc(1, sizeof(*msg));
    if (msg != NULL) {
        list_init(&msg->link);
        msg->kind = kind;
        msg->tag = tag;
    }
    return msg;
}

/* ------------------------------------------------------------------ filling */

void msg_set_rc_list(struct lkv_msg *msg, int rc, const char *format, va_list args) {
    msg->rc = rc;
    mem_free(msg->text);
    msg->text = NULL;
    if (format != NULL) {
        char text[REASON_SIZE];
        (void)vsnprintf(text, sizeof(text), format, args);
        msg->text = mem_strdup(text);
    }
}

void msg_set_rc(struct lkv_msg *msg, int rc, const char *format, ...) {
    va_list args;
    va_start(args, format);
    msg_set_rc_list(msg, rc, format, args);
    va_end(args);
}

/* A name that is missing in the table would be lost on its way to a client. */
static const char *table_name(const char *name) {
    const char *known = msg_known_name(slice_text(name));
    ASSERT(known != NULL);
    return known;
}

void msg_set_u64(struct lkv_msg *msg, const char *name, uint64_t value) {
    const char *known = table_name(name);
    for (size_t i = 0; i < msg->number_count; i++) {
        if (msg->numbers[i].name == known) {
            msg->numbers[i].value = value;
            return;
        }
    }
    if (msg->number_count < MSG_NUMBERS_MAX) {
        msg->numbers[msg->number_count++] = (struct msg_number){.name = known, .value = value};
    }
}

void msg_set_str(struct lkv_msg *msg, const char *name, const char *value) {
    const char *known = table_name(name);
    char *copy = mem_strdup(value);
    if (copy == NULL) {
        return;
    }
    for (size_t i = 0; i < msg->string_count; i++) {
        if (msg->strings[i].name == known) {
            mem_free(msg->strings[i].value);
            msg->strings[i].value = copy;
            return;
        }
    }
    if (msg->string_count == MSG_STRINGS_MAX) {
        mem_free(copy);
        return;
    }
    msg->strings[msg->string_count++] = (struct msg_string){.name = known, .value = copy};
}

static void member_fini(struct msg_member *member) {
    mem_free(member->id);
    mem_free(member->address);
    mem_free(member->role);
    mem_free(member->state);
}

void msg_add_member(struct lkv_msg *msg, const struct lkv_member *member) {
    struct msg_member copy = {.id = mem_strdup(member->id),
                              .address = mem_strdup(member->address),
                              .role = mem_strdup(member->role),
                              .state = mem_strdup(member->state),
                              .match = member->match,
                              .lag_entries = member->lag_entries,
                              .lag_ms = member->lag_ms};
    struct msg_member *grown = NULL;
    if (copy.id != NULL && copy.address != NULL && copy.role != NULL && copy.state != NULL) {
        grown = mem_realloc(msg->members, (msg->member_count + 1) * sizeof(*grown));
    }
    if (grown == NULL) {
        member_fini(&copy);
        return;
    }
    msg->members = grown;
    msg->members[msg->member_count++] = copy;
}

int msg_reserve_leases(struct lkv_msg *msg, size_t count) {
    ASSERT(msg->leases == NULL);
    msg->leases = mem_calloc(count > 0 ? count : 1, sizeof(msg->leases[0]));
    return msg->leases != NULL ? 0 : LKV_ENOMEM;
}

static void drop_items(struct lkv_msg *msg) {
    mem_free(msg->leases);
    msg->leases = NULL;
    msg->lease_count = 0;
    msg_drop_records(msg);
    msg_drop_answer(msg);
    msg_drop_events(msg);
    if (msg->backing != NULL) {
        mem_free(msg->range.items);
        blob_unref(msg->backing);
    } else if (msg->range.items != NULL) {
        kv_range_fini(&msg->range);
    }
    msg->backing = NULL;
    msg->range = (struct kv_range){0};
}

void msg_clear(struct lkv_msg *msg) {
    mem_free(msg->text);
    msg->text = NULL;
    msg->rc = 0;
    msg->number_count = 0;
    for (size_t i = 0; i < msg->string_count; i++) {
        mem_free(msg->strings[i].value);
    }
    msg->string_count = 0;
    drop_items(msg);
    for (size_t i = 0; i < msg->member_count; i++) {
        member_fini(&msg->members[i]);
    }
    mem_free(msg->members);
    msg->members = NULL;
    msg->member_count = 0;
}

/* ------------------------------------------------------------------ reading */

enum lkv_kind lkv_msg_kind(const struct lkv_msg *msg) {
    return msg->kind;
}

int lkv_msg_rc(const struct lkv_msg *msg) {
    return msg->rc;
}

void *lkv_msg_tag(const struct lkv_msg *msg) {
    return msg->tag;
}

const char *lkv_msg_text(const struct lkv_msg *msg) {
    return msg->text != NULL ? msg->text : error_text(msg->rc);
}

bool lkv_msg_u64(const struct lkv_msg *msg, const char *name, uint64_t *out) {
    for (size_t i = 0; i < msg->number_count; i++) {
        if (strcmp(msg->numbers[i].name, name) == 0) {
            *out = msg->numbers[i].value;
            return true;
        }
    }
    return false;
}

const char *lkv_msg_str(const struct lkv_msg *msg, const char *name) {
    for (size_t i = 0; i < msg->string_count; i++) {
        if (strcmp(msg->strings[i].name, name) == 0) {
            return msg->strings[i].value;
        }
    }
    return NULL;
}

size_t lkv_msg_count(const struct lkv_msg *msg) {
    size_t others = msg->event_count > 0 ? msg->event_count : msg->range.count;
    return msg->record_count > 0  ? msg->record_count
           : msg->lease_count > 0 ? msg->lease_count
                                  : others;
}

struct lkv_kv msg_kv_of(const struct kv_item *item) {
    return (struct lkv_kv){.key = {.data = item->key.data, .size = item->key.size},
                           .value = {.data = item->value.data, .size = item->value.size},
                           .create_rev = item->create_rev,
                           .mod_rev = item->mod_rev,
                           .version = item->version,
                           .lease = item->lease};
}

bool lkv_msg_kv(const struct lkv_msg *msg, size_t i, struct lkv_kv *out) {
    if (i >= msg->range.count) {
        return false;
    }
    *out = msg_kv_of(&msg->range.items[i]);
    return true;
}

bool lkv_msg_member(const struct lkv_msg *msg, size_t i, struct lkv_member *out) {
    if (i >= msg->member_count) {
        return false;
    }
    const struct msg_member *member = &msg->members[i];
    *out = (struct lkv_member){.id = member->id,
                               .address = member->address,
                               .role = member->role,
                               .state = member->state,
                               .match = member->match,
                               .lag_entries = member->lag_entries,
                               .lag_ms = member->lag_ms};
    return true;
}

bool lkv_msg_lease(const struct lkv_msg *msg, size_t i, struct lkv_lease *out) {
    if (i < msg->lease_count) {
        *out = msg->leases[i];
    }
    return i < msg->lease_count;
}

void lkv_msg_free(struct lkv_msg *msg) {
    if (msg == NULL) {
        return;
    }
    if (msg->on_free != NULL) {
        msg->on_free(msg->on_free_arg, msg);
    }
    msg_clear(msg);
    mem_free(msg);
}
