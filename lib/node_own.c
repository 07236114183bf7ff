/* Model own: the program applies what its tail brings, and gives images of what has become of it. It has
 * written one into the part file (api_image.c); here it becomes the node's newest image.
 *
 *   REQUEST_IMAGE (index) --> the image station (node_image.c), when it is free: meta-image behind it, sync,
 *   rename (bulk thread) --> the log's prefix goes (rule 14) --> answered */
#include "lib/node.h"

#include <inttypes.h>

static void give_back(struct node *node) {
    atomic_store(&node->own.taken, false);
}

void node_own_image(struct node *node, struct request *request) {
    if (request->from == 0 || request->from > node->ledger.visible) {
        give_back(node);
        request_fail(request, LKV_EINVAL,
                     "an image of entry %" PRIu64 ": %s has shown entries up to %" PRIu64 " so far",
                     request->from, node->options.id, node->ledger.visible);
        return;
    }
    node->own_request = request;
    node->turn_wanted = true;
    if (request->deadline_ns < node->next_expiry_ns) {
        node->next_expiry_ns = request->deadline_ns;
    }
}

/* The newest one covers all that this one would: an installed image has overtaken it. One that is damaged
 * covers nothing. */
static bool is_covered(const struct node *node, uint64_t index) {
    return node->repair.image_rotten ? index < node->image_index : index <= node->image_index;
}

uint64_t node_own_due(struct node *node) {
    struct request *request = node->own_request;
    if (request == NULL || node->own_saving) {
        return 0;
    }
    if (is_covered(node, request->from) || raft_term_at(node->raft, request->from) == 0) {
        node_own_done(node, 0, NULL);
        return 0;
    }
    return request->from;
}

void node_own_done(struct node *node, int rc, const struct reason *why) {
    struct request *request = node->own_request;
    node->own_request = NULL;
    node->own_saving = false;
    give_back(node);
    if (request == NULL) {
        return; /* it did not wait so long */
    }
    if (rc == 0) {
        request_finish(request);
    } else {
        request_fail(request, rc, "%s", why->text);
    }
}

uint64_t node_own_expire(struct node *node, uint64_t now_ns) {
    struct request *request = node->own_request;
    if (request == NULL || now_ns < request->deadline_ns) {
        return request != NULL ? request->deadline_ns : UINT64_MAX;
    }
    node->own_request = NULL;
    if (node->own_saving) {
        request_fail(request, LKV_EUNKNOWN,
                     "the disk has not taken the image in time, and may yet");
    } else {
        give_back(node);
        request_fail(request, LKV_ETIMEOUT,
                     "another image was being made or installed all the time");
    }
    return UINT64_MAX;
}

void node_own_fail_all(struct node *node, int rc, const char *text) {
    struct request *request = node->own_request;
    if (request != NULL && !node->own_saving) {
        node->own_request = NULL;
        give_back(node);
        request_fail(request, rc, "%s", text);
    }
}
