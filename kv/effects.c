#include "kv/batch.h"
#include "kv/durable.h"
#include "kv/work.h"

static int effect_put(struct batch *batch, struct operation *operation, uint64_t revision,
                      struct kv_result *result) {
    struct store *store = batch->store;
    struct changes changes = {0};
    int64_t lease = operation->command.lease;
    if (lease != 0 && leases_find(&store->leases, lease) == NULL) {
        result->rc = LKV_ELEASE;
        return 0;
    }
    int rc = change_put(store, operation->hash, operation->fresh, revision, &changes);
    if (rc == 0) {
        operation->fresh = NULL; /* the store's now */
        changes_commit(store, &changes);
        result->revision = revision;
    }
    return rc;
}

static int effect_delete(struct batch *batch, struct slice key, uint64_t revision,
                         uint64_t *count) {
    struct changes changes = {0};
    int rc = change_delete(batch->store, key, revision, &changes);
    if (rc == 0) {
        changes_commit(batch->store, &changes);
        *count = changes.count;
    }
    return rc;
}

/* What is below the revision can be neither read nor watched from now on; nothing is freed yet. As of the
 * entry, and not as of what views need: all nodes answer the same (rule 24). */
static int effect_compact(struct batch *batch, uint64_t revision) {
    if (revision > batch->stamp.revision) {
        return LKV_EFUTURE;
    }
    if (revision <= batch->stamp.kept_from) {
        return LKV_ECOMPACTED;
    }
    batch->stamp.kept_from = revision;
    return 0;
}

static int effect_lease(struct batch *batch, const struct kv_command *command,
                        struct kv_result *result) {
    struct store *store = batch->store;
    int rc = leases_command(&store->leases, command, result);
    if (rc == 0 && store->durable != NULL && command->op == KV_LEASE_GRANT) {
        durable_note_lease(store, command->lease);
    } else if (rc == 0 && store->durable != NULL) {
        durable_note_checkpoints(store, command->checkpoints);
    }
    return rc;
}

static int effect_session(struct batch *batch, const struct kv_command *command,
                          struct kv_result *result) {
    int rc = sessions_command(&batch->store->sessions, command, result);
    uint64_t id = result->session != 0 ? result->session : command->session;
    if (rc == 0 && id != 0 && batch->store->durable != NULL) {
        durable_note_session(batch->store, id, 0);
    }
    return rc;
}

int effect_of(struct batch *batch, const struct entry *entry, struct operation *operation,
              struct kv_result *result) {
    const struct kv_command *command = &operation->command;
    uint64_t revision = batch->stamp.revision + 1;
    int rc = 0;
    switch (command->op) {
    case KV_PUT:
        if (operation->fresh == NULL) {
            return work_on(batch, entry, command, result);
        }
        return effect_put(batch, operation, revision, result);
    case KV_DELETE:
        if (command->end.size > 0 || command->flags != 0 || command->if_rev != 0) {
            return work_on(batch, entry, command, result);
        }
        rc = effect_delete(batch, command->key, revision, &result->count);
        /* The revision rises only if a key changed. */
        result->revision = result->count > 0 ? revision : batch->stamp.revision;
        return rc;
    case KV_ADD:
    case KV_TXN: return work_on(batch, entry, command, result);
    case KV_COMPACT: result->rc = effect_compact(batch, command->revision); return 0;
    case KV_LEASE_REVOKE: return work_on(batch, entry, command, result);
    case KV_LEASE_GRANT:
    case KV_LEASE_CHECKPOINT: return effect_lease(batch, command, result);
    case KV_SESSION_OPEN:
    case KV_SESSION_CLOSE:
    case KV_SESSION_EXPIRE: return effect_session(batch, command, result);
    case KV_RANGE: break;
    }
    return LKV_EPROTOCOL; /* the decoder lets only known operations pass */
}
