/* One member's directory, opened without its cluster to look into it: image and log as this disk has
 * them. What is committed is the cluster's to say, so entries that were never acknowledged may show;
 * nothing is written but what recovery itself makes durable, and a lone node's start counter. */
#include "lib/node.h"

#include "base/mem.h"

enum { READ_BYTES = 4 * 1024 * 1024, READ_ENTRIES = 256 };

static int apply_some(struct node *node, uint64_t last, struct entry *entries,
                      struct kv_result *results, struct reason *why) {
    size_t count = 0;
    int rc = log_read(node->log, node->applied + 1, last, READ_BYTES, entries, READ_ENTRIES, &count,
                      why);
    if (rc != 0) {
        return rc;
    }
    for (size_t at = 0, applied = 0; rc == 0 && at < count; at += applied) {
        rc = node->state->apply(node, entries + at, count - at, results, &applied, why);
        node->applied += applied;
    }
    for (size_t i = 0; i < count; i++) {
        blob_unref(entries[i].payload);
    }
    return rc;
}

int node_open_offline(struct node *node, struct reason *why) {
    if (node->raft == NULL) {
        return reason_set(why, LKV_EIDENTITY,
                          "%s belongs to no cluster yet: there is nothing to read", node->dir);
    }
    struct raft_status status;
    raft_status(node->raft, &status);
    if (node->state->includes(node) > node->applied && node->state->includes(node) <= status.last) {
        node->applied = node->state->includes(node);
        node->state->catch_up(node);
    }
    struct entry *entries = mem_calloc(READ_ENTRIES, sizeof(*entries));
    struct kv_result *results = mem_calloc(READ_ENTRIES, sizeof(*results));
    int rc =
        entries != NULL && results != NULL ? 0 : reason_set(why, LKV_ENOMEM, "no memory to replay");
    while (rc == 0 && node->applied < status.last) {
        rc = apply_some(node, status.last, entries, results, why);
    }
    mem_free(entries);
    mem_free(results);
    node->offline = true;
    return rc;
}
