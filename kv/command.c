#include "kv/command.h"

#include "base/assert.h"
#include "base/crc.h"
#include "base/cursor.h"
#include "base/feature.h"
#include "base/scan.h"
#include "kv/txn.h"

#include <msgpack.h>

enum {
    COMMAND_VERSION = 1,
    COMMAND_PARTS = 4,        /* version, operation, envelope, arguments */
    ENVELOPE_PARTS = 4,       /* session, seq, acked_below, in_term */
    PUT_ARGUMENTS = 3,        /* key, value, lease */
    PUT_ARGUMENTS_MAX = 5,    /* flags, if_rev */
    DELETE_ARGUMENTS = 2,     /* key, end */
    DELETE_ARGUMENTS_MAX = 4, /* flags, if_rev */
    ADD_ARGUMENTS = 2,        /* key, delta */
    ADD_ARGUMENTS_MAX = 3,    /* flags */
    TXN_ARGUMENTS = 1,        /* program */
    COMPACT_ARGUMENTS = 1,    /* revision */
    OPEN_ARGUMENTS = 2,       /* ttl_ms, limit */
    GRANT_ARGUMENTS = 3,      /* lease, ttl_ms, limit */
    REVOKE_ARGUMENTS = 2,     /* lease, granted */
    CHECKPOINT_ARGUMENTS = 1  /* records */
};

/* ---------------------------------------------------------------------------- encoding */

/* Where packed bytes go; with `into` NULL they are only counted. */
struct sink {
    uint8_t *into;
    size_t size;
};

static int sink_write(void *arg, const char *data, size_t size) {
    struct sink *sink = arg;
    if (sink->into != NULL) {
        memcpy(sink->into + sink->size, data, size);
    }
    sink->size += size;
    return 0;
}

static void pack_bytes(msgpack_packer *packer, struct slice bytes) {
    msgpack_pack_bin(packer, bytes.size);
    if (bytes.size > 0) {
        msgpack_pack_bin_body(packer, bytes.data, bytes.size);
    }
}

/* Elements behind the last one of an array that is not 0 are left out. */
static void pack_options(msgpack_packer *packer, const struct kv_command *command, size_t count) {
    if (count > 0) {
        msgpack_pack_uint32(packer, command->flags);
    }
    if (count > 1) {
        msgpack_pack_uint64(packer, command->if_rev);
    }
}

static size_t count_options(const struct kv_command *command) {
    return command->if_rev != 0 ? 2 : command->flags != 0;
}

static void pack_put(msgpack_packer *packer, const struct kv_command *command) {
    size_t options = count_options(command);
    msgpack_pack_array(packer, PUT_ARGUMENTS + options);
    pack_bytes(packer, command->key);
    pack_bytes(packer, command->value);
    msgpack_pack_int64(packer, command->lease);
    pack_options(packer, command, options);
}

static void pack_delete(msgpack_packer *packer, const struct kv_command *command) {
    size_t options = count_options(command);
    msgpack_pack_array(packer, DELETE_ARGUMENTS + options);
    pack_bytes(packer, command->key);
    pack_bytes(packer, command->end);
    pack_options(packer, command, options);
}

static void pack_add(msgpack_packer *packer, const struct kv_command *command) {
    size_t options = command->flags != 0;
    msgpack_pack_array(packer, ADD_ARGUMENTS + options);
    pack_bytes(packer, command->key);
    msgpack_pack_int64(packer, command->delta);
    pack_options(packer, command, options);
}

static void pack_txn(msgpack_packer *packer, const struct kv_command *command) {
    msgpack_pack_array(packer, TXN_ARGUMENTS);
    pack_bytes(packer, command->txn);
}

static void pack_compact(msgpack_packer *packer, const struct kv_command *command) {
    msgpack_pack_array(packer, COMPACT_ARGUMENTS);
    msgpack_pack_uint64(packer, command->revision);
}

static void pack_open(msgpack_packer *packer, const struct kv_command *command) {
    msgpack_pack_array(packer, OPEN_ARGUMENTS);
    msgpack_pack_uint64(packer, command->ttl_ms);
    msgpack_pack_uint64(packer, command->limit);
}

static void pack_grant(msgpack_packer *packer, const struct kv_command *command) {
    msgpack_pack_array(packer, GRANT_ARGUMENTS);
    msgpack_pack_int64(packer, command->lease);
    msgpack_pack_uint64(packer, command->ttl_ms);
    msgpack_pack_uint64(packer, command->limit);
}

static void pack_revoke(msgpack_packer *packer, const struct kv_command *command) {
    msgpack_pack_array(packer, REVOKE_ARGUMENTS);
    msgpack_pack_int64(packer, command->lease);
    msgpack_pack_uint64(packer, command->granted);
}

static void pack_checkpoint(msgpack_packer *packer, const struct kv_command *command) {
    msgpack_pack_array(packer, CHECKPOINT_ARGUMENTS);
    pack_bytes(packer, command->checkpoints);
}

static void pack_end(msgpack_packer *packer, const struct kv_command *command) {
    (void)command;
    msgpack_pack_array(packer, 0);
}

/* ---------------------------------------------------------------------------- decoding */

/* Takes typed elements of one array; the first that does not fit is what `why` tells. */
struct parts {
    const msgpack_object *at;
    uint32_t left;
    const char *failed; /* name of the field, NULL while all is well */
    bool newer;         /* there is more than this program knows of: of a later feature level */
};

/* `count` elements, and up to `max` that are left out while they are 0. */
static struct parts parts_up_to(const msgpack_object *object, uint32_t count, uint32_t max,
                                const char *name) {
    bool array = object->type == MSGPACK_OBJECT_ARRAY;
    bool good = array && object->via.array.size >= count;
    uint32_t size = good ? object->via.array.size : 0;
    return (struct parts){.newer = size > max,
                          .at = good ? object->via.array.ptr : NULL,
                          .left = size < max ? size : max,
                          .failed = good ? NULL : name};
}

static struct parts parts_of(const msgpack_object *object, uint32_t count, const char *name) {
    return parts_up_to(object, count, count, name);
}

static const msgpack_object *take(struct parts *parts, msgpack_object_type type, const char *name) {
    if (parts->failed != NULL) {
        return NULL;
    }
    ASSERT(parts->left > 0); /* as many as parts_of was asked for */
    if (parts->at->type != type) {
        parts->failed = name;
        return NULL;
    }
    parts->left--;
    return parts->at++;
}

static uint64_t take_number(struct parts *parts, const char *name) {
    const msgpack_object *object = take(parts, MSGPACK_OBJECT_POSITIVE_INTEGER, name);
    return object != NULL ? object->via.u64 : 0;
}

static struct slice take_bytes(struct parts *parts, const char *name) {
    const msgpack_object *object = take(parts, MSGPACK_OBJECT_BIN, name);
    return object != NULL ? slice_of(object->via.bin.ptr, object->via.bin.size) : (struct slice){0};
}

static struct slice take_key(struct parts *parts, const char *name, size_t size_min) {
    struct slice key = take_bytes(parts, name);
    if (parts->failed == NULL && (key.size < size_min || key.size > KV_KEY_SIZE_MAX)) {
        parts->failed = name;
    }
    return key;
}

/* A lease id is positive, 0 is none: etcd's clients hold them as signed 64-bit numbers. */
static int64_t take_lease(struct parts *parts) {
    uint64_t lease = take_number(parts, "lease");
    if (parts->failed == NULL && lease > INT64_MAX) {
        parts->failed = "lease";
    }
    return (int64_t)lease;
}

static uint64_t take_bounded(struct parts *parts, const char *name, uint64_t min, uint64_t max) {
    uint64_t number = take_number(parts, name);
    if (parts->failed == NULL && (number < min || number > max)) {
        parts->failed = name;
    }
    return number;
}

static int64_t take_signed(struct parts *parts, const char *name) {
    if (parts->failed == NULL && parts->at->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) {
        return take(parts, MSGPACK_OBJECT_NEGATIVE_INTEGER, name)->via.i64;
    }
    return (int64_t)take_bounded(parts, name, 0, INT64_MAX);
}

/* There is one encoding of each command: the last element of an array is not one that is left out. */
static uint64_t take_option(struct parts *parts, const char *name, uint64_t max) {
    if (parts->failed != NULL || parts->left == 0) {
        return 0;
    }
    return take_bounded(parts, name, parts->left == 1, max);
}

static struct parts take_put(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_up_to(object, PUT_ARGUMENTS, PUT_ARGUMENTS_MAX, "arguments of put");
    out->key = take_key(&parts, "key", 1);
    out->value = take_bytes(&parts, "value");
    out->lease = take_lease(&parts);
    out->flags = (uint32_t)take_option(&parts, "flags", UINT32_MAX);
    out->if_rev = take_option(&parts, "if_rev", UINT64_MAX);
    return parts;
}

static struct parts take_delete(const msgpack_object *object, struct kv_command *out) {
    struct parts parts =
        parts_up_to(object, DELETE_ARGUMENTS, DELETE_ARGUMENTS_MAX, "arguments of delete");
    out->key = take_key(&parts, "key", 1);
    out->end = take_key(&parts, "end", 0);
    out->flags = (uint32_t)take_option(&parts, "flags", UINT32_MAX);
    out->if_rev = take_option(&parts, "if_rev", UINT64_MAX);
    return parts;
}

static struct parts take_add(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_up_to(object, ADD_ARGUMENTS, ADD_ARGUMENTS_MAX, "arguments of add");
    out->key = take_key(&parts, "key", 1);
    out->delta = take_signed(&parts, "delta");
    out->flags = (uint32_t)take_option(&parts, "flags", UINT32_MAX);
    return parts;
}

static struct parts take_txn(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, TXN_ARGUMENTS, "arguments of txn");
    out->txn = take_bytes(&parts, "program");
    return parts;
}

static struct parts take_compact(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, COMPACT_ARGUMENTS, "arguments of compact");
    out->revision = take_bounded(&parts, "revision", 1, UINT64_MAX);
    return parts;
}

static struct parts take_open(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, OPEN_ARGUMENTS, "arguments of session open");
    out->ttl_ms = take_bounded(&parts, "ttl_ms", 1, KV_SESSION_TTL_MS_MAX);
    out->limit = take_bounded(&parts, "limit", 0, KV_SESSIONS_MAX);
    return parts;
}

static struct parts take_grant(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, GRANT_ARGUMENTS, "arguments of lease grant");
    out->lease = take_lease(&parts);
    out->ttl_ms = take_number(&parts, "ttl_ms");
    out->limit = take_number(&parts, "limit");
    return parts;
}

static struct parts take_revoke(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, REVOKE_ARGUMENTS, "arguments of lease revoke");
    out->lease = take_lease(&parts);
    out->granted = take_number(&parts, "granted");
    return parts;
}

static struct parts take_checkpoint(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, CHECKPOINT_ARGUMENTS, "arguments of lease checkpoint");
    out->checkpoints = take_bytes(&parts, "records");
    return parts;
}

static struct parts take_end(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, 0, "arguments of session close");
    if (parts.failed == NULL && out->session == 0) {
        parts.failed = "session";
    }
    return parts;
}

/* ---------------------------------------------------------------------------- the operations */

struct operation {
    void (*pack)(msgpack_packer *packer, const struct kv_command *command);
    struct parts (*take)(const msgpack_object *object, struct kv_command *out);
};

/* Those between belong to later versions: they have no row. */
static const struct operation operations[] = {
    [KV_PUT] = {pack_put, take_put},
    [KV_DELETE] = {pack_delete, take_delete},
    [KV_TXN] = {pack_txn, take_txn},
    [KV_COMPACT] = {pack_compact, take_compact},
    [KV_LEASE_GRANT] = {pack_grant, take_grant},
    [KV_LEASE_REVOKE] = {pack_revoke, take_revoke},
    [KV_LEASE_CHECKPOINT] = {pack_checkpoint, take_checkpoint},
    [KV_SESSION_OPEN] = {pack_open, take_open},
    [KV_SESSION_CLOSE] = {pack_end, take_end},
    [KV_SESSION_EXPIRE] = {pack_end, take_end},
    [KV_ADD] = {pack_add, take_add},
};

enum { OPERATION_COUNT = sizeof(operations) / sizeof(operations[0]) };

static void pack_command(const struct kv_command *command, struct sink *sink) {
    msgpack_packer packer;
    msgpack_packer_init(&packer, sink, sink_write);
    msgpack_pack_array(&packer, COMMAND_PARTS);
    msgpack_pack_uint64(&packer, COMMAND_VERSION);
    msgpack_pack_uint64(&packer, (uint64_t)command->op);
    msgpack_pack_array(&packer, ENVELOPE_PARTS);
    msgpack_pack_uint64(&packer, command->session);
    msgpack_pack_uint64(&packer, command->seq);
    msgpack_pack_uint64(&packer, command->acked_below);
    msgpack_pack_uint64(&packer, command->in_term);
    operations[command->op].pack(&packer, command);
}

struct blob *kv_command_encode(const struct kv_command *command) {
    struct sink sink = {0};
    pack_command(command, &sink);
    struct blob *blob = blob_new(sink.size);
    if (blob == NULL) {
        return NULL;
    }
    sink = (struct sink){.into = blob->data};
    pack_command(command, &sink);
    ASSERT(sink.size == blob->size);
    blob->crc = crc32c(0, blob_slice(blob));
    blob->crc_known = true;
    return blob;
}

uint32_t kv_command_level(const struct kv_command *command) {
    bool is_new = command->op == KV_TXN || command->op == KV_COMPACT || command->op == KV_ADD ||
                  kv_command_is_lease(command);
    bool has_new = command->flags != 0 || command->if_rev != 0 || command->lease != 0;
    return is_new || has_new ? KV_LEVEL_HISTORY : FEATURE_LEVEL_FIRST;
}

/* ---------------------------------------------------------------------------- checking */

static const char *lease_fault(const struct kv_command *command) {
    if (command->op == KV_LEASE_CHECKPOINT) {
        struct reader reader = reader_of(command->checkpoints);
        struct kv_checkpoint checkpoint;
        size_t count = 0;
        while (reader.left > 0 && kv_checkpoint_get(&reader, &checkpoint)) {
            count++;
        }
        bool whole = count * KV_CHECKPOINT_SIZE == command->checkpoints.size;
        return whole && count > 0 && count <= KV_CHECKPOINTS_MAX
                   ? NULL
                   : "records: not 1 to 4096 of leases";
    }
    if (command->lease <= 0) {
        return "lease: not from 1 on";
    }
    if (command->op == KV_LEASE_REVOKE) {
        return NULL;
    }
    if (command->ttl_ms == 0 || command->ttl_ms > KV_LEASE_TTL_MS_MAX) {
        return "ttl_ms: not 1 to 31622400000";
    }
    return command->limit <= KV_LEASES_MAX ? NULL : "limit: not 0 to 65536";
}

/* What the command says beside the shape of its parts. NULL: nothing is wrong. */
static const char *fault_of(const struct kv_command *command) {
    const struct kv_step step = step_of(command);
    switch (command->op) {
    case KV_PUT:
    case KV_DELETE:
    case KV_ADD: return step_fault(&step);
    case KV_TXN: return NULL; /* kv_txn_check */
    case KV_COMPACT: return command->revision > 0 ? NULL : "revision: 0";
    case KV_LEASE_GRANT:
    case KV_LEASE_REVOKE:
    case KV_LEASE_CHECKPOINT: return lease_fault(command);
    case KV_SESSION_OPEN:
        if (command->ttl_ms == 0 || command->ttl_ms > KV_SESSION_TTL_MS_MAX) {
            return "ttl_ms: not 1 to 604800000";
        }
        return command->limit <= KV_SESSIONS_MAX ? NULL : "limit: not 0 to 65536";
    case KV_SESSION_CLOSE:
    case KV_SESSION_EXPIRE: return command->session > 0 ? NULL : "session: 0";
    case KV_RANGE: break;
    }
    return "operation: not one of a command";
}

int kv_command_check(const struct kv_command *command, struct reason *why) {
    const char *fault = fault_of(command);
    if (fault != NULL) {
        return reason_set(why, LKV_EINVAL, "command: %s", fault);
    }
    struct sink sink = {0};
    pack_command(command, &sink);
    if (sink.size > KV_COMMAND_SIZE_MAX) {
        return reason_set(why, LKV_ETOOLARGE, "command: %zu bytes, at most %d", sink.size,
                          KV_COMMAND_SIZE_MAX);
    }
    return command->op == KV_TXN ? kv_txn_check(command->txn, why) : 0;
}

/* The same of an entry: who has proposed that has not followed the rules. */
static int check_entry(const struct kv_command *command, struct reason *why) {
    const char *fault = fault_of(command);
    if (fault != NULL) {
        return reason_set(why, LKV_EPROTOCOL, "command: malformed %s", fault);
    }
    int rc = command->op == KV_TXN ? kv_txn_check(command->txn, why) : 0;
    return rc == LKV_EINVAL ? LKV_EPROTOCOL : rc;
}

/* ---------------------------------------------------------------------------- the whole */

static struct parts take_envelope(const msgpack_object *object, struct kv_command *out) {
    struct parts parts = parts_of(object, ENVELOPE_PARTS, "envelope");
    out->session = take_number(&parts, "session");
    out->seq = take_number(&parts, "seq");
    out->acked_below = take_number(&parts, "acked_below");
    out->in_term = take_number(&parts, "in_term");
    return parts;
}

/* The version is read before anything else is expected: a newer format may have another shape. */
static int check_version(const msgpack_object *object, struct reason *why) {
    bool numbered = object->type == MSGPACK_OBJECT_ARRAY && object->via.array.size > 0 &&
                    object->via.array.ptr[0].type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
                    object->via.array.ptr[0].via.u64 > 0;
    if (!numbered) {
        return reason_set(why, LKV_EPROTOCOL, "command: no array that starts with a version");
    }
    uint64_t version = object->via.array.ptr[0].via.u64;
    if (version != COMMAND_VERSION) {
        return reason_set(why, LKV_EVERSION, "command: version %llu, this program reads %d",
                          (unsigned long long)version, COMMAND_VERSION);
    }
    return 0;
}

static bool is_known(uint64_t op) {
    return op < OPERATION_COUNT && operations[op].take != NULL;
}

static int take_command(const msgpack_object *object, struct kv_command *out, struct reason *why) {
    int rc = check_version(object, why);
    if (rc != 0) {
        return rc;
    }
    struct parts parts = parts_of(object, COMMAND_PARTS, "command");
    (void)take_number(&parts, "version");
    uint64_t op = take_number(&parts, "operation");
    if (parts.failed != NULL || op == 0) {
        return reason_set(why, LKV_EPROTOCOL, "command: malformed %s",
                          parts.failed != NULL ? parts.failed : "operation");
    }
    if (!is_known(op)) {
        /* Rule 22: never skipped, since the other replicas may know what it does. */
        return reason_set(why, LKV_EVERSION,
                          "command: operation %llu, which this program does not know",
                          (unsigned long long)op);
    }
    out->op = (enum kv_op)op;
    struct parts envelope = take_envelope(&parts.at[0], out);
    struct parts arguments = operations[op].take(&parts.at[1], out);
    const char *failed = envelope.failed != NULL ? envelope.failed : arguments.failed;
    if (failed != NULL) {
        return reason_set(why, LKV_EPROTOCOL, "command: malformed %s", failed);
    }
    if (parts.newer || envelope.newer || arguments.newer) {
        /* Rule 22: what is there and not understood may decide what it does. */
        return reason_set(why, LKV_EVERSION,
                          "command: operation %llu has more to it than this program knows",
                          (unsigned long long)op);
    }
    return 0;
}

static int scan_command(struct slice bytes, struct reason *why) {
    static const struct scan_limits limits = {.bytes_max = KV_COMMAND_SIZE_MAX,
                                              .objects_max = KV_COMMAND_OBJECTS_MAX};
    struct scan scan = {0};
    int rc = scan_object(&scan, bytes, &limits, why);
    if (rc == 1) {
        return scan.offset == bytes.size
                   ? 0
                   : reason_set(why, LKV_EPROTOCOL, "command: %zu bytes after its end",
                                bytes.size - scan.offset);
    }
    if (rc == 0) {
        return reason_set(why, LKV_EPROTOCOL, "command: cut off after %zu bytes", bytes.size);
    }
    return LKV_EPROTOCOL; /* too large is malformed here: nobody could have proposed it */
}

int kv_command_decode(struct slice bytes, struct kv_command *out, struct reason *why) {
    int rc = kv_command_decode_again(bytes, out, why);
    return rc == 0 ? check_entry(out, why) : rc;
}

int kv_command_decode_again(struct slice bytes, struct kv_command *out, struct reason *why) {
    *out = (struct kv_command){0};
    int rc = scan_command(bytes, why);
    if (rc != 0) {
        return rc;
    }
    /* Room for the few objects that the scan lets pass; byte strings stay where they are. */
    enum { ZONE_SIZE = 512 };
    msgpack_zone zone;
    if (!msgpack_zone_init(&zone, ZONE_SIZE)) {
        return reason_set(why, LKV_ENOMEM, "command: out of memory");
    }
    msgpack_object object;
    size_t offset = 0;
    msgpack_unpack_return unpacked =
        msgpack_unpack((const char *)bytes.data, bytes.size, &offset, &zone, &object);
    if (unpacked == MSGPACK_UNPACK_SUCCESS) {
        rc = take_command(&object, out, why);
    } else { /* the scan has accepted the bytes */
        rc = reason_set(why, LKV_ENOMEM, "command: out of memory");
    }
    msgpack_zone_destroy(&zone);
    return rc;
}
