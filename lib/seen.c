#include "lib/seen.h"

#include "base/mem.h"
#include "lib/small_file.h"

#include <inttypes.h>
#include <stdio.h>

static const struct small_text file_format = {
    .format = "ledgerkv-seen", .version = 1, .size_max = 16 * 1024};

/* ------------------------------------------------------------------ the file */

int seen_save(struct disk *disk, const char *dir, const struct seen *seen, struct reason *why) {
    struct buffer text;
    buffer_init(&text);
    buffer_printf(&text, "%s %d\n", file_format.format, file_format.version);
    for (size_t i = 0; i < seen->count; i++) {
        const struct seen_peer *peer = &seen->peers[i];
        buffer_printf(&text, "peer %s %016" PRIx64 " %" PRIu64 " %016" PRIx64 " %" PRIu64 " %s\n",
                      peer->name, peer->id, peer->start_counter, peer->boot_nonce,
                      peer->acknowledged, peer->address[0] != '\0' ? peer->address : "-");
    }
    small_text_seal(&text);
    int rc = text.failed ? reason_set(why, LKV_ENOMEM, "no memory for the members seen")
                         : small_file_save(disk, dir, "seen", buffer_slice(&text), why);
    buffer_fini(&text);
    return rc;
}

static bool decode_peer(void *arg, const char *line) {
    struct seen *out = arg;
    if (out->count == OPTION_PEERS_MAX) {
        return false;
    }
    struct seen_peer *peer = &out->peers[out->count];
    int end = 0;
    if (sscanf(line, "peer %63s %" SCNx64 " %" SCNu64 " %" SCNx64 " %" SCNu64 "%n", peer->name,
               &peer->id, &peer->start_counter, &peer->boot_nonce, &peer->acknowledged,
               &end) != 5 ||
        line[end] != ' ' || strlen(line + end + 1) >= sizeof(peer->address)) {
        return false;
    }
    const char *address = line + end + 1;
    (void)snprintf(peer->address, sizeof(peer->address), "%s",
                   strcmp(address, "-") == 0 ? "" : address);
    peer->durable = true;
    out->count++;
    return true;
}

int seen_load(struct disk *disk, const char *dir, struct seen *out, struct reason *why) {
    *out = (struct seen){0};
    struct reason inner = {{0}};
    int rc = small_text_load(disk, dir, "seen", &file_format, decode_peer, out, &inner);
    if (rc == LKV_EDAMAGED || rc == LKV_EVERSION) {
        return reason_set(why, rc, "%s (removing it loses no data, only who was seen)", inner.text);
    }
    return rc == 0 || rc == LKV_ENOENT ? 0 : reason_set(why, rc, "%s", inner.text);
}

/* ------------------------------------------------------------------ lives */

struct seen_peer *seen_find(struct seen *seen, const char *name) {
    for (size_t i = 0; i < seen->count; i++) {
        if (strcmp(seen->peers[i].name, name) == 0) {
            return &seen->peers[i];
        }
    }
    return NULL;
}

void seen_keep(struct seen *seen, const struct option_peer *peers, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < seen->count; i++) {
        size_t at = 0;
        while (at < count && strcmp(peers[at].name, seen->peers[i].name) != 0) {
            at++;
        }
        if (at < count) {
            seen->peers[kept++] = seen->peers[i];
        }
    }
    seen->count = kept;
}

/* Which of the two is the right one nobody here can know. Both of their numbers and addresses, and the
 * one command that makes a directory the newer one. */
#define WHAT_HELPS                                                                             \
    "Two directories claim to be one node: stop the processes of both, keep the one with the " \
    "newer writes, and start it once with moved=on (kvctl serve --moved on), again if "        \
    "the copy was started more often with it"

int seen_judge(struct seen *seen, const struct hello *hello, struct reason *why) {
    const struct seen_peer *known = seen_find(seen, hello->name);
    if (known == NULL || known->id != hello->member_id) {
        return 0;
    }
    if (hello->start_counter < known->start_counter) {
        return reason_set(why, LKV_EIDENTITY,
                          "%s came from %s with start counter %" PRIu64 ", %" PRIu64
                          " was seen, from %s: a copied or restored directory. " WHAT_HELPS,
                          hello->name, hello->address, hello->start_counter, known->start_counter,
                          known->address);
    }
    if (hello->start_counter > known->start_counter) {
        return 0;
    }
    if (hello->boot_nonce != known->boot_nonce) {
        return reason_set(why, LKV_EIDENTITY,
                          "%s came twice with start counter %" PRIu64 ": from %s with boot nonce "
                          "%016" PRIx64 ", before from %s with %016" PRIx64
                          ": a copied or restored directory. " WHAT_HELPS,
                          hello->name, hello->start_counter, hello->address, hello->boot_nonce,
                          known->address, known->boot_nonce);
    }
    return 0;
}

int seen_judge_end(struct seen *seen, const struct hello *hello, struct reason *why) {
    const struct seen_peer *known = seen_find(seen, hello->name);
    if (known == NULL || known->id != hello->member_id || hello->cluster_id == 0 ||
        hello->start_counter <= known->start_counter || hello->end_unknown ||
        hello->last_index >= known->acknowledged) {
        return 0;
    }
    return reason_set(
        why, LKV_EDAMAGED,
        "the log of %s ends with entry %" PRIu64 ", but it had acknowledged entry %" PRIu64
        ": its directory was restored, or its disk lost writes that it had reported as "
        "durable",
        hello->name, hello->last_index, known->acknowledged);
}

static bool same_life(const struct seen_peer *a, const struct seen_peer *b) {
    return a->id == b->id && a->start_counter == b->start_counter && a->boot_nonce == b->boot_nonce;
}

struct seen_peer *seen_note(struct seen *seen, const struct hello *hello) {
    struct seen_peer life = {.id = hello->member_id,
                             .start_counter = hello->start_counter,
                             .boot_nonce = hello->boot_nonce};
    struct seen_peer *peer = seen_find(seen, hello->name);
    if (peer != NULL && same_life(peer, &life)) {
        return peer;
    }
    if (peer == NULL) {
        if (seen->count == OPTION_PEERS_MAX) {
            return NULL;
        }
        peer = &seen->peers[seen->count++];
    }
    life.acknowledged = peer->id == life.id ? peer->acknowledged : 0;
    *peer = life;
    (void)snprintf(peer->name, sizeof(peer->name), "%s", hello->name);
    (void)snprintf(peer->address, sizeof(peer->address), "%s", hello->address);
    return peer;
}

void seen_saved(struct seen *seen, const struct seen *copy) {
    for (size_t i = 0; i < seen->count && i < copy->count; i++) { /* rows never move */
        if (same_life(&seen->peers[i], &copy->peers[i])) {
            seen->peers[i].durable = true;
        }
    }
}
