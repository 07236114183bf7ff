#include "lib/identity.h"

#include "base/buffer.h"
#include "lib/small_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct small_text file_format = {
    .format = "ledgerkv-identity", .version = 1, .size_max = 64 * 1024};

static void encode(const struct identity *identity, const struct disk_file_id *file,
                   struct buffer *out) {
    buffer_printf(out, "%s %d\n", file_format.format, file_format.version);
    buffer_printf(out, "name %s\n", identity->name);
    buffer_printf(out, "member_id %016" PRIx64 "\n", identity->member_id);
    buffer_printf(out, "start_counter %" PRIu64 "\n", identity->start_counter);
    buffer_printf(out, "group_id %" PRIu64 "\n", identity->group_id);
    buffer_printf(out, "cluster_id %016" PRIx64 "\n", identity->cluster_id);
    buffer_printf(out, "log_made %d\n", identity->log_made);
    if (identity->log_life != 0) {
        buffer_printf(out, "log_life %" PRIu64 "\n", identity->log_life);
    }
    if (model_has_records(identity->model)) {
        buffer_printf(out, "model %s\n", model_name(identity->model));
    }
    for (size_t i = 0; i < identity->member_count; i++) {
        const struct identity_member *member = &identity->members[i];
        buffer_printf(out, "member %s %016" PRIx64 " %s\n", member->name, member->id,
                      member->address[0] != '\0' ? member->address : "-");
    }
    if (identity->grown_index != 0) {
        buffer_printf(out, "grown %" PRIu64 " %" PRIu64 "\n", identity->grown_index,
                      identity->grown_term);
    }
    if (identity->restored) {
        buffer_printf(out, "restored 1\n");
    }
    if (file->number != 0) {
        buffer_printf(out, "file %016" PRIx64 " %" PRIu64 " %" PRIu64 "\n", file->file_system,
                      file->number, file->born_ns);
    }
    small_text_seal(out);
}

static int identify(struct disk *disk, const char *path, int flags, struct disk_file_id *out) {
    struct disk_file *file;
    int rc = disk_open(disk, path, flags, &file);
    if (rc == 0) {
        rc = disk_identify(file, out);
        disk_close(file);
    }
    return rc;
}

/* The text names the file that will hold it, which is the spare one until it is renamed. */
int identity_save(struct disk *disk, const char *dir, const struct identity *identity,
                  struct reason *why) {
    char spare[DISK_PATH_SIZE];
    (void)snprintf(spare, sizeof(spare), "%s/identity.new", dir);
    struct disk_file_id file = identity->file;
    int rc = identity->is_copy ? 0 : identify(disk, spare, DISK_WRITE | DISK_CREATE, &file);
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot write: %s", spare, error_text(rc));
    }
    struct buffer text;
    buffer_init(&text);
    encode(identity, &file, &text);
    rc = text.failed ? reason_set(why, LKV_ENOMEM, "no memory for the identity")
                     : small_file_save(disk, dir, "identity", buffer_slice(&text), why);
    buffer_fini(&text);
    return rc;
}

static bool decode_member(const char *line, struct identity *out) {
    if (out->member_count == OPTION_PEERS_MAX) {
        return false;
    }
    struct identity_member *member = &out->members[out->member_count];
    int end = 0;
    if (sscanf(line, "member %63s %" SCNx64 "%n", member->name, &member->id, &end) != 2 ||
        line[end] != ' ' || strlen(line + end + 1) >= sizeof(member->address)) {
        return false;
    }
    /* The rest of the line: a socket's path may have spaces. */
    const char *address = line + end + 1;
    (void)snprintf(member->address, sizeof(member->address), "%s",
                   strcmp(address, "-") == 0 ? "" : address);
    out->member_count++;
    return true;
}

static bool decode_log_made(const char *line, struct identity *out) {
    out->log_made = out->log_made || strcmp(line, "log_made 1") == 0;
    return strcmp(line, "log_made 1") == 0 || strcmp(line, "log_made 0") == 0;
}

/* Without the line it is a directory of keys and values. */
static bool decode_model(const char *line, struct identity *out) {
    for (enum model model = MODEL_LOG; model <= MODEL_OWN; model++) {
        if (strncmp(line, "model ", 6) == 0 && strcmp(line + 6, model_name(model)) == 0) {
            out->model = model;
            return true;
        }
    }
    return strcmp(line, "model kv") == 0;
}

static bool decode_grown(const char *line, struct identity *out) {
    return sscanf(line, "grown %" SCNu64 " %" SCNu64, &out->grown_index, &out->grown_term) == 2;
}

static bool decode_restored(const char *line, struct identity *out) {
    out->restored = strcmp(line, "restored 1") == 0;
    return out->restored;
}

static bool decode_file(const char *line, struct identity *out) {
    return sscanf(line, "file %" SCNx64 " %" SCNu64 " %" SCNu64, &out->file.file_system,
                  &out->file.number, &out->file.born_ns) == 3;
}

static bool decode_line(void *arg, const char *line) {
    struct identity *out = arg;
    return sscanf(line, "name %63s", out->name) == 1 ||
           sscanf(line, "member_id %" SCNx64, &out->member_id) == 1 ||
           sscanf(line, "start_counter %" SCNu64, &out->start_counter) == 1 ||
           sscanf(line, "group_id %" SCNu64, &out->group_id) == 1 ||
           sscanf(line, "cluster_id %" SCNx64, &out->cluster_id) == 1 ||
           sscanf(line, "log_life %" SCNu64, &out->log_life) == 1 || decode_log_made(line, out) ||
           decode_model(line, out) || decode_member(line, out) || decode_grown(line, out) ||
           decode_file(line, out) || decode_restored(line, out);
}

int identity_load(struct disk *disk, const char *dir, struct identity *out, struct reason *why) {
    *out = (struct identity){.model = MODEL_KV};
    int rc = small_text_load(disk, dir, "identity", &file_format, decode_line, out, why);
    if (rc == 0 && (out->member_id == 0 || out->name[0] == '\0')) {
        rc = reason_set(why, LKV_EDAMAGED, "%s/identity: name or member_id is missing", dir);
    }
    return rc;
}

/* A number that was used again is told by its time of birth; a file system that was numbered anew by
 * the same: the id of some is made from the device's number. */
static bool same_file(const struct disk_file_id *stored, const struct disk_file_id *found) {
    if (stored->number == 0 || found->number == 0) {
        return true; /* the file system, now or then, cannot tell */
    }
    if (stored->number != found->number) {
        return false;
    }
    if (stored->born_ns != 0 && found->born_ns != 0) {
        return stored->born_ns == found->born_ns;
    }
    return stored->file_system == 0 || found->file_system == 0 ||
           stored->file_system == found->file_system;
}

int identity_check_place(struct disk *disk, const char *dir, const struct identity *identity,
                         struct reason *why) {
    char path[DISK_PATH_SIZE];
    struct disk_file_id found = {0};
    (void)snprintf(path, sizeof(path), "%s/identity", dir);
    int rc = identify(disk, path, DISK_READ, &found);
    if (rc != 0) {
        return reason_set(why, rc, "%s: cannot read: %s", path, error_text(rc));
    }
    const struct disk_file_id *stored = &identity->file;
    if (same_file(stored, &found)) {
        return 0;
    }
    return reason_set(
        why, LKV_EIDENTITY,
        "%s was copied, restored or moved: it says that it is file %" PRIu64
        " of file system %016" PRIx64 ", it is file %" PRIu64 " of %016" PRIx64
        ". Two running directories of one node lose acknowledged writes. To keep this one start "
        "it once with moved=on (kvctl serve --moved on): other members give it what it lacks; "
        "moved=newest only if nothing was written since the copy, as when a whole cluster moves",
        path, stored->number, stored->file_system, found.number, found.file_system);
}

const struct identity_member *identity_by_name(const struct identity *identity, const char *name) {
    for (size_t i = 0; i < identity->member_count; i++) {
        if (strcmp(identity->members[i].name, name) == 0) {
            return &identity->members[i];
        }
    }
    return NULL;
}

const struct identity_member *identity_by_id(const struct identity *identity, uint64_t id) {
    for (size_t i = 0; i < identity->member_count; i++) {
        if (identity->members[i].id == id) {
            return &identity->members[i];
        }
    }
    return NULL;
}

uint64_t identity_cluster_id(const struct identity_member *members, size_t count) {
    /* A sum of well-mixed parts does not depend on the order in which the peers were written. */
    uint64_t sum = 0x6c6564676572u;
    for (size_t i = 0; i < count; i++) {
        uint64_t part = members[i].id;
        for (const char *c = members[i].name; *c != '\0'; c++) {
            part = (part ^ (uint8_t)*c) * 0x100000001b3u;
        }
        part ^= part >> 31;
        part *= 0x94d049bb133111ebu;
        sum += part ^ (part >> 29);
    }
    sum &= INT64_MAX;
    return sum != 0 ? sum : 1;
}
