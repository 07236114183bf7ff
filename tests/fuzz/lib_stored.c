/* Files as a disk may hand them back: the log's segments and vote, images, the identity, commands.
 *
 * The checksums are made good first wherever they are at a fixed place, so that what is behind them is
 * reached. Nothing may crash, leak or hang; what is refused says why; and a log that opens is one that
 * opens again with the same end (recovery has made it durable). */
#include "base/assert.h"
#include "base/crc.h"
#include "kv/command.h"
#include "kv/kv.h"
#include "lib/identity.h"
#include "lib/meta_image.h"
#include "log/format.h"
#include "log/log.h"
#include "tests/sim/sim_disk.h"

#include <stdio.h>

enum { FILE_MAX = 64 * 1024 };

static const struct log_options options = {
    .cluster_id = 7, .group_id = 1, .segment_bytes = 16384, .record_bytes_max = 65536};

static void put_file(struct sim_disk *sim, const char *path, struct slice bytes) {
    struct disk *disk = sim_disk_seam(sim);
    struct disk_file *file;
    int rc = disk_open(disk, path, DISK_WRITE | DISK_CREATE, &file);
    ASSERT(rc == 0);
    rc = bytes.size > 0 ? disk_write(file, 0, &bytes, 1) : 0;
    ASSERT(rc == 0 && disk_sync(file) == 0);
    disk_close(file);
}

/* --- the log: bytes of the newest segment behind a good header, damaged by the input */

static int append(struct log *log, uint64_t index, size_t size) {
    struct blob *payload = blob_new(size);
    ASSERT(payload != NULL);
    memset(payload->data, (int)index, size);
    struct entry entry = {.index = index, .term = 1, .type = ENTRY_COMMAND, .payload = payload};
    struct log_write write = {.entries = &entry, .count = 1};
    int rc = log_write(log, &write, NULL);
    blob_unref(payload);
    return rc;
}

static struct sim_disk *disk_with_log(void) {
    struct sim_disk *sim = sim_disk_new(1);
    struct disk *disk = sim_disk_seam(sim);
    struct log *log;
    struct log_state state;
    ASSERT(disk_make_dir(disk, "d") == 0);
    int rc = log_open(&log, disk, "d", &options, 0, 0, &state, NULL);
    ASSERT(rc == 0);
    struct log_write vote = {.save_vote = true, .vote = {.term = 1, .voted_for = 5}};
    rc = log_write(log, &vote, NULL);
    for (uint64_t index = 1; rc == 0 && index <= 12; index++) {
        rc = append(log, index, (size_t)index * 200);
    }
    ASSERT(rc == 0);
    log_close(log);
    return sim;
}

/* Each four bytes of the input: file, place (twice), a new byte. */
static void damage(struct sim_disk *sim, struct slice input) {
    for (size_t at = 0; at + 4 <= input.size && at < 64; at += 4) {
        const uint8_t *step = input.data + at;
        size_t files = 0;
        while (sim_disk_path(sim, files) != NULL) {
            files++;
        }
        char path[256];
        (void)snprintf(path, sizeof(path), "%s", sim_disk_path(sim, step[0] % files));
        uint64_t place = (uint64_t)(step[1] << 8 | step[2]) % 20000;
        (void)sim_disk_poke(sim, path, place, slice_of(&step[3], 1));
    }
}

static void open_log(struct slice input) {
    struct sim_disk *sim = disk_with_log();
    damage(sim, input);
    struct log *log;
    struct log_state state, again;
    struct reason why = {{0}};
    int rc = log_open(&log, sim_disk_seam(sim), "d", &options, 0, 0, &state, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    if (rc == 0) {
        uint64_t last = state.last;
        log_close(log);
        rc = log_open(&log, sim_disk_seam(sim), "d", &options, 0, 0, &again, &why);
        ASSERT(rc == 0 && again.last == last);
        log_close(log);
    }
    sim_disk_kill(sim);
    sim_disk_free(sim);
}

/* --- single decoders */

static void mend_crc(uint8_t *block, size_t size) {
    if (size >= 512) {
        uint32_t crc = crc32c(0, slice_of(block, 508));
        memcpy(block + 508, &crc, sizeof(crc));
    }
}

static void decode_blocks(struct slice input) {
    uint8_t block[512] = {0};
    memcpy(block, input.data, input.size < sizeof(block) ? input.size : sizeof(block));
    mend_crc(block, sizeof(block));
    struct reason why = {{0}};
    struct segment_header header;
    struct vote_record record;
    (void)!segment_header_decode(slice_of(block, sizeof(block)), &header, &why);
    (void)!vote_record_decode(slice_of(block, sizeof(block)), &record, &why);
}

static void decode_command(struct slice input) {
    struct kv_command command;
    struct reason why = {{0}};
    if (kv_command_decode(input, &command, &why) == 0) {
        struct blob *again = kv_command_encode(&command);
        struct kv_command twice;
        ASSERT(again != NULL && kv_command_decode(blob_slice(again), &twice, &why) == 0);
        ASSERT(twice.op == command.op && twice.key.size == command.key.size);
        blob_unref(again);
    } else {
        ASSERT(why.text[0] != '\0');
    }
}

static void decode_meta_image(struct slice input) {
    struct meta_image image;
    struct reason why = {{0}};
    int rc = meta_image_decode(input, &image, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
}

static void load_identity(struct slice input) {
    struct sim_disk *sim = sim_disk_new(1);
    ASSERT(disk_make_dir(sim_disk_seam(sim), "d") == 0);
    put_file(sim, "d/identity", input);
    struct identity identity;
    struct reason why = {{0}};
    int rc = identity_load(sim_disk_seam(sim), "d", &identity, &why);
    ASSERT((rc != 0) == (why.text[0] != '\0'));
    sim_disk_kill(sim);
    sim_disk_free(sim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const readers[])(struct slice) = {open_log, decode_blocks, decode_command,
                                                    decode_meta_image, load_identity};
    if (size >= 1 && size < FILE_MAX) {
        readers[data[0] % (sizeof(readers) / sizeof(readers[0]))](slice_of(data + 1, size - 1));
    }
    return 0;
}
