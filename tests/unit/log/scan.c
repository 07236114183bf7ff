/* The walk over one file's records, where the window ends, where the file ends, and where the disk fails. */
#include "log/scan.h"
#include "tests/unit/log/forge.h"

enum { WINDOW = LOG_SCAN_WINDOW_MIN, RECORDS = 100 };

static struct sim_disk *sim;
static struct disk *disk;
static struct disk_file *file;
static struct forge forge;
static uint64_t offsets[RECORDS + 1]; /* by index */
static struct log_scan scan;

/* A file of a hundred records, three windows and more. */
static void setup(void) {
    sim = sim_disk_new(1);
    disk = sim_disk_seam(sim);
    cr_assert_eq(disk_make_dir(disk, "d"), 0);
    struct segment_place place = forge_place(1, 1, 0);
    forge_begin(&forge, &place, (struct segment_place){0}, (struct segment_place){0});
    for (uint64_t index = 1; index <= RECORDS; index++) {
        offsets[index] = forge_record(&forge, index, 1, index > 1, ENTRY_COMMAND);
    }
    cr_assert_gt(forge.at, LOG_BLOCK + 2 * WINDOW);
    forge_finish(&forge, disk);
    cr_assert_eq(disk_open(disk, "d/00000000000000000001.seg", DISK_WRITE, &file), 0);
}

static void teardown(void) {
    log_scan_fini(&scan);
    disk_close(file);
    sim_disk_free(sim);
}

TestSuite(log_scan, .init = setup, .fini = teardown);

static void begin(uint64_t limit) {
    cr_assert_eq(log_scan_init(&scan, file, &forge_identity, 1, LOG_BLOCK, limit, WINDOW), 0);
}

/* Up to the end, or the error. */
static int count_records(uint64_t *count) {
    struct log_scan_item item;
    int rc;
    *count = 0;
    while ((rc = log_scan_next(&scan, &item)) == 1) {
        ++*count;
        cr_assert_eq(item.offset, offsets[item.header.index]);
    }
    return rc;
}

Test(log_scan, goes_on_where_it_was_after_looking_back) {
    struct log_scan_item first, item;
    begin(FORGE_CAPACITY);
    cr_assert_eq(log_scan_next(&scan, &first), 1);
    for (uint64_t index = 2; index <= RECORDS; index++) {
        bool intact = false;
        cr_assert_eq(log_scan_next(&scan, &item), 1);
        cr_assert_eq(item.header.index, index);
        cr_assert_not(item.after_hole);
        uint8_t payload[FORGE_PAYLOAD];
        cr_assert_eq(log_scan_payload(&scan, &first, payload, &intact), 0);
        cr_assert(intact && payload[0] == 1 && payload[FORGE_PAYLOAD - 1] == 1);
    }
    cr_assert_eq(log_scan_next(&scan, &item), 0);
    bool zero;
    cr_assert_eq(log_scan_all_zero(&scan, scan.at, &zero), 0);
    cr_assert(zero);
    cr_assert_eq(log_scan_all_zero(&scan, offsets[5], &zero), 0);
    cr_assert_not(zero);
}

/* What lies behind the file's end is zeros. */
Test(log_scan, finds_no_more_than_the_file_has) {
    for (uint64_t kept = 98; kept <= RECORDS; kept++) {
        uint64_t end = kept < RECORDS ? offsets[kept + 1] : forge.at;
        uint64_t count;
        bool zero = false;
        cr_assert(sim_disk_cut_file(sim, "d/00000000000000000001.seg", end - 1));
        begin(FORGE_CAPACITY + 8 * WINDOW);
        cr_assert_eq(count_records(&count), 0);
        cr_assert_eq(count, kept, "a payload that is cut is found by its checksum only");
        cr_assert_eq(log_scan_all_zero(&scan, end, &zero), 0);
        cr_assert(zero);
        log_scan_fini(&scan);
        forge_finish(&forge, disk);
    }
}

/* S11: sector by sector, up to the file's end. */
Test(log_scan, passes_unreadable_sectors_up_to_the_end_of_the_file) {
    uint64_t count;
    uint64_t end = offsets[RECORDS] + LOG_RECORD_HEADER + FORGE_PAYLOAD;
    cr_assert(sim_disk_unreadable(sim, "d/00000000000000000001.seg", offsets[50], 1));
    begin(FORGE_CAPACITY);
    cr_assert_eq(count_records(&count), LKV_EIO);
    log_scan_fini(&scan);
    cr_assert(sim_disk_cut_file(sim, "d/00000000000000000001.seg", end));
    begin(FORGE_CAPACITY + 8 * WINDOW);
    scan.passes_unreadable = true;
    cr_assert_eq(count_records(&count), 0);
    cr_assert(scan.unreadable);
    /* Of 512 bytes, five or six records of 112 begin in them, or reach in with their header. */
    cr_assert(count >= RECORDS - 6 && count <= RECORDS - 5, "%zu", (size_t)count);
    log_scan_fini(&scan);
    /* Within the last, short piece of the file, too. */
    cr_assert(sim_disk_unreadable(sim, "d/00000000000000000001.seg", end - 1, 1));
    begin(FORGE_CAPACITY + 8 * WINDOW);
    scan.passes_unreadable = true;
    cr_assert_eq(count_records(&count), 0);
    cr_assert_lt(count, RECORDS - 6);
}

/* Only an unreadable sector is passed; any other error is none of the disk's surface. */
Test(log_scan, reports_other_errors_from_wherever_they_come) {
    struct log_scan_item item;
    uint64_t count;
    bool zero = false;
    cr_assert(sim_disk_unreadable(sim, "d/00000000000000000001.seg", offsets[3], 1));
    for (uint64_t nth = 0; nth < 4; nth++) { /* the whole window first, then its sectors */
        begin(FORGE_CAPACITY);
        scan.passes_unreadable = true;
        sim_disk_fail(sim, SIM_READ, nth, LKV_EPERM, false);
        cr_assert_eq(count_records(&count), LKV_EPERM, "read %zu", (size_t)nth);
        cr_assert_eq(count, 0);
        log_scan_fini(&scan);
    }
    begin(FORGE_CAPACITY);
    scan.passes_unreadable = true;
    cr_assert_eq(log_scan_next(&scan, &item), 1);
    sim_disk_fail(sim, SIM_READ, 0, LKV_EPERM, false);
    cr_assert_eq(log_scan_all_zero(&scan, LOG_BLOCK + 2 * WINDOW, &zero), LKV_EPERM);
}

/* The first record again, after the window has gone on; its payload cannot be read, or is another one. */
Test(log_scan, an_entry_is_read_whole_or_not_at_all) {
    struct log_scan_item first, item;
    struct entry entry = {0};
    bool intact = false;
    begin(FORGE_CAPACITY);
    cr_assert_eq(log_scan_next(&scan, &first), 1);
    for (uint64_t index = 2; index <= RECORDS; index++) {
        cr_assert_eq(log_scan_next(&scan, &item), 1);
    }
    sim_disk_fail(sim, SIM_READ, 0, LKV_EPERM, false);
    cr_assert_eq(log_scan_entry(&scan, &first, &entry, &intact), LKV_EPERM);
    cr_assert_null(entry.payload);
    cr_assert_eq(log_scan_entry(&scan, &first, &entry, &intact), 0);
    cr_assert(intact && entry.index == 1 && entry.payload->size == FORGE_PAYLOAD);
    blob_unref(entry.payload);
    first.header.payload_crc ^= 1;
    entry = (struct entry){0};
    cr_assert_eq(log_scan_entry(&scan, &first, &entry, &intact), 0);
    cr_assert(!intact && entry.payload == NULL);
}
