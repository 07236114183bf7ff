#include "lib/identity.h"

#include "base/buffer.h"
#include "base/crc.h"
#include "base/mem.h"
#include "lib/small_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FORMAT_VERSION = 1, PATH_SIZE = 1200, FILE_MAX = 64 * 1024, CHECKSUM_LINE = 20 };

static void checksum_line(struct slice lines, char out[static CHECKSUM_LINE]) {
    (void)snprintf(out, CHECKSUM_LINE, "crc32c %08" PRIx32 "\n", crc32c(0, lines));
}

static void encode(const struct identity *identity, struct buffer *out) {
    buffer_printf(out, "ledgerkv-identity %d\n", FORMAT_VERSION);
    buffer_printf(out, "name %s\n", identity->name);
    buffer_printf(out, "member_id %016" PRIx64 "\n", identity->member_id);
    buffer_printf(out, "start_counter %" PRIu64 "\n", identity->start_counter);
    buffer_printf(out, "group_id %" PRIu64 "\n", identity->group_id);
    buffer_printf(out, "cluster_id %016" PRIx64 "\n", identity->cluster_id);
    buffer_printf(out, "log_made %d\n", identity->log_made);
    if (identity->model == MODEL_LOG) {
        buffer_printf(out, "model %s\n", model_name(identity->model));
    }
    for (size_t i = 0; i < identity->member_count; i++) {
        const struct identity_member *member = &identity->members[i];
        buffer_printf(out, "member %s %016" PRIx64 " %s\n", member->name, member->id,
                      member->address[0] != '\0' ? member->address : "-");
    }
    char checksum[CHECKSUM_LINE];
    checksum_line(buffer_slice(out), checksum);
    buffer_printf(out, "%s", checksum);
}

int identity_save(struct disk *disk, const char *dir, const struct identity *identity,
                  struct reason *why) {
    struct buffer text;
    buffer_init(&text);
    encode(identity, &text);
    int rc = text.failed ? reason_set(why, LKV_ENOMEM, "no memory for the identity")
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
    if (strcmp(line, "model log") == 0) {
        out->model = MODEL_LOG;
        return true;
    }
    return strcmp(line, "model kv") == 0;
}

static bool decode_line(const char *line, struct identity *out) {
    int version;
    return sscanf(line, "name %63s", out->name) == 1 ||
           sscanf(line, "member_id %" SCNx64, &out->member_id) == 1 ||
           sscanf(line, "start_counter %" SCNu64, &out->start_counter) == 1 ||
           sscanf(line, "group_id %" SCNu64, &out->group_id) == 1 ||
           sscanf(line, "cluster_id %" SCNx64, &out->cluster_id) == 1 ||
           sscanf(line, "ledgerkv-identity %d", &version) == 1 || decode_log_made(line, out) ||
           decode_model(line, out) || decode_member(line, out);
}

static int decode(char *text, size_t size, const char *path, struct identity *out,
                  struct reason *why) {
    int version = 0;
    if (sscanf(text, "ledgerkv-identity %d", &version) != 1) {
        return reason_set(why, LKV_EDAMAGED, "%s: does not begin with \"ledgerkv-identity\"", path);
    }
    if (version != FORMAT_VERSION) {
        return reason_set(why, LKV_EVERSION, "%s: format version %d, this program knows %d", path,
                          version, FORMAT_VERSION);
    }
    char *last = strstr(text, "\ncrc32c ");
    if (last == NULL) {
        return reason_set(why, LKV_EDAMAGED, "%s: the checksum line is missing (%zu bytes)", path,
                          size);
    }
    char expected[CHECKSUM_LINE];
    checksum_line(slice_of(text, (size_t)(last + 1 - text)), expected);
    if (strcmp(last + 1, expected) != 0 || strlen(text) != size) {
        return reason_set(why, LKV_EDAMAGED, "%s: its last line is \"%.40s\", expected \"%.15s\"",
                          path, last + 1, expected);
    }
    last[1] = '\0';
    *out = (struct identity){.model = MODEL_KV};
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        if (line[0] != '\0' && !decode_line(line, out)) {
            return reason_set(why, LKV_EDAMAGED, "%s: cannot understand \"%.100s\"", path, line);
        }
    }
    if (out->member_id == 0 || out->name[0] == '\0') {
        return reason_set(why, LKV_EDAMAGED, "%s: name or member_id is missing", path);
    }
    return 0;
}

int identity_load(struct disk *disk, const char *dir, struct identity *out, struct reason *why) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof(path), "%s/identity", dir);
    char *text = NULL;
    size_t size = 0;
    int rc = small_file_load(disk, path, FILE_MAX, &text, &size, why);
    if (rc != 0) {
        return rc;
    }
    rc = decode(text, size, path, out, why);
    mem_free(text);
    return rc;
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
