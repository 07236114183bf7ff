/* Model own: a program's images of its state, written and read on the calling thread. */
#include "lib/machine.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>

struct lkv_image {
    struct lkv *db;
    struct own_place *place;
    bool writes;
    uint64_t index;
    struct own_reader reader;
};

static int make(struct lkv *db, struct lkv_image **out) {
    if (db == NULL || out == NULL) {
        return api_fail(LKV_EINVAL, "the handle, or where to put the image's, is NULL");
    }
    struct own_place *place = db->ops->own != NULL ? db->ops->own(db) : NULL;
    if (place == NULL) {
        return api_fail(LKV_EUNSUPPORTED,
                        "images of a program's state are on a node in this process, of model=own");
    }
    struct lkv_image *image = mem_calloc(1, sizeof(*image));
    if (image == NULL) {
        return api_fail(LKV_ENOMEM, "out of memory for an image");
    }
    image->db = db;
    image->place = place;
    *out = image;
    return 0;
}

/* ------------------------------------------------------------------ writing */

int lkv_image_begin(struct lkv *db, uint64_t index, struct lkv_image **out) {
    struct lkv_image *image;
    struct reason why = {{0}};
    char part[DISK_PATH_SIZE];
    if (out != NULL) {
        *out = NULL;
    }
    int rc = make(db, &image);
    if (rc != 0) {
        return rc;
    }
    struct own_place *place = image->place;
    if (atomic_exchange(&place->taken, true)) {
        mem_free(image);
        return api_fail(LKV_EBUSY, "another image is being written");
    }
    (void)snprintf(part, sizeof(part), "%s/" OWN_IMAGE_PART, place->dir);
    rc = own_writer_open(&place->writer, place->disk, part, &why);
    if (rc != 0) {
        atomic_store(&place->taken, false);
        mem_free(image);
        return api_fail_with(rc, &why);
    }
    image->writes = true;
    image->index = index;
    *out = image;
    return 0;
}

int lkv_image_write(struct lkv_image *image, struct lkv_bytes bytes) {
    struct slice slice;
    struct reason why = {{0}};
    if (image == NULL || !image->writes || api_slice(bytes, &slice) != 0) {
        return api_fail(LKV_EINVAL, "no image that is being written, or bytes at NULL");
    }
    int rc = own_writer_put(&image->place->writer, slice, &why);
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

/* What was written is in the file, and the file closed; the node has it then, or nobody. */
static int hand_over(struct lkv_image *image, int64_t timeout_ms, struct request **out) {
    struct own_place *place = image->place;
    struct reason why = {{0}};
    int rc = own_writer_flush(&place->writer, &why);
    own_writer_close(&place->writer);
    rc = rc == 0 ? api_begin(image->db, REQUEST_IMAGE, timeout_ms, out) : api_fail_with(rc, &why);
    if (rc != 0) {
        atomic_store(&place->taken, false);
    } else {
        (*out)->from = image->index;
    }
    mem_free(image);
    return rc;
}

int lkv_image_commit(struct lkv_image *image, int64_t timeout_ms) {
    if (image == NULL || !image->writes) {
        return api_fail(LKV_EINVAL, "no image that is being written");
    }
    struct lkv *db = image->db;
    struct own_place *place = image->place;
    struct request *request;
    int rc = hand_over(image, timeout_ms, &request);
    if (rc != 0) {
        return rc;
    }
    struct lkv_msg *answer = NULL;
    rc = api_call(db, request, &answer);
    if (answer == NULL) {
        atomic_store(&place->taken, false); /* the node has not got it */
    }
    lkv_msg_free(answer);
    return rc;
}

int image_commit_submit(struct lkv_image *image, int64_t timeout_ms, struct lkv_queue *queue,
                        void *tag) {
    struct lkv *db = image->db;
    struct own_place *place = image->place;
    struct request *request;
    int rc = hand_over(image, timeout_ms, &request);
    rc = rc == 0 ? api_submit(db, request, queue, tag) : rc;
    if (rc != 0) {
        atomic_store(&place->taken, false);
    }
    return rc;
}

/* ------------------------------------------------------------------ reading */

struct newest {
    uint64_t index;
};

static int visit(void *arg, const char *name) {
    struct newest *newest = arg;
    uint64_t index = 0;
    int end = 0;
    bool image =
        sscanf(name, "%20" SCNu64 ".img%n", &index, &end) == 1 && end == 24 && name[end] == '\0';
    newest->index = image && index > newest->index ? index : newest->index;
    return 0;
}

/* A newer one may take its place between finding and opening it. */
static int open_newest(struct lkv_image *image, struct reason *why) {
    struct own_place *place = image->place;
    char path[DISK_PATH_SIZE];
    int rc;
    uint64_t tried = 0;
    do {
        struct newest newest = {0};
        rc = disk_list(place->disk, place->dir, visit, &newest);
        if (rc != 0 || newest.index == 0) {
            return rc != 0 ? reason_set(why, rc, "%s: cannot read the directory", place->dir)
                           : reason_set(why, LKV_ENOENT, "there is no image yet");
        }
        if (newest.index == tried) {
            break; /* it is not that which has gone */
        }
        tried = image->index = newest.index;
        (void)snprintf(path, sizeof(path), "%s/%020" PRIu64 ".img", place->dir, newest.index);
        rc = own_reader_open(&image->reader, place->disk, path, why);
    } while (rc == LKV_ENOENT);
    return rc;
}

int lkv_image_open(struct lkv *db, struct lkv_image **out, uint64_t *index) {
    struct lkv_image *image;
    struct reason why = {{0}};
    if (out != NULL) {
        *out = NULL;
    }
    int rc = make(db, &image);
    if (rc != 0) {
        return rc;
    }
    rc = open_newest(image, &why);
    if (rc != 0) {
        mem_free(image);
        return api_fail_with(rc, &why);
    }
    if (index != NULL) {
        *index = image->index;
    }
    *out = image;
    return 0;
}

int lkv_image_read(struct lkv_image *image, void *into, size_t size, size_t *got) {
    struct reason why = {{0}};
    if (image == NULL || image->writes || into == NULL || size == 0 || got == NULL) {
        return api_fail(LKV_EINVAL, "no image that is being read, or no room for its bytes");
    }
    int rc = own_reader_next(&image->reader, into, size, got, NULL, &why);
    return rc == 0 ? 0 : api_fail_with(rc, &why);
}

void lkv_image_close(struct lkv_image *image) {
    if (image == NULL) {
        return;
    }
    if (image->writes) {
        own_writer_close(&image->place->writer);
        atomic_store(&image->place->taken, false);
    } else {
        own_reader_close(&image->reader);
    }
    mem_free(image);
}
