#include "kv/version.h"

#include "base/assert.h"
#include "base/mem.h"
#include "kv/memory.h"

/* A value in a blob: the reference, and where in it the value starts. */
struct version_share {
    struct blob *blob; /* owned reference */
    const uint8_t *at;
};

enum {
    /* Below it, copying costs less than what the rest of the payload (key, envelope, the blob's
     * header) would keep allocated, and a second cache miss for each reader. */
    SHARE_SIZE_MIN = 1024,
    VALUE_SIZE_MAX = (1 << 28) - 1
};

/* The payload may be at most an eighth larger than the value: a small value must not keep a large
 * command alive. */
static bool worth_sharing(const struct version_new *from) {
    return from->payload != NULL && from->value.size >= SHARE_SIZE_MIN &&
           from->payload->size - from->value.size <= from->value.size / 8;
}

static size_t data_size(const struct kv_version *version) {
    return (size_t)version->key_size + (version->has_jump ? sizeof(struct version_jump) : 0) +
           (version->has_extra ? sizeof(struct version_extra) : 0) +
           (version->shares_blob ? sizeof(struct version_share) : (size_t)version->value_size);
}

/* Never smaller than the struct: its tail padding is part of the type. */
static size_t whole_size(size_t data) {
    size_t size = offsetof(struct kv_version, data) + data;
    return size < sizeof(struct kv_version) ? sizeof(struct kv_version) : size;
}

/* The parts behind the key have no alignment: they are read and written by copying. */
static const uint8_t *jump_at(const struct kv_version *version) {
    return version->data + version->key_size;
}

static const uint8_t *extra_at(const struct kv_version *version) {
    return jump_at(version) + (version->has_jump ? sizeof(struct version_jump) : 0);
}

static const uint8_t *value_at(const struct kv_version *version) {
    return extra_at(version) + (version->has_extra ? sizeof(struct version_extra) : 0);
}

static void fill(struct kv_version *version, const struct version_new *from) {
    memcpy(version->data, from->key.data, from->key.size);
    uint8_t *at = version->data + from->key.size;
    if (version->has_jump) {
        memset(at, 0, sizeof(struct version_jump));
        at += sizeof(struct version_jump);
    }
    if (version->has_extra) {
        struct version_extra extra = {.lease = from->lease, .sub = from->sub};
        memcpy(at, &extra, sizeof(extra));
        at += sizeof(extra);
    }
    if (version->shares_blob) {
        struct version_share share = {.blob = blob_ref(from->payload), .at = from->value.data};
        memcpy(at, &share, sizeof(share));
    } else if (from->value.size > 0) {
        memcpy(at, from->value.data, from->value.size);
    }
}

struct kv_version *version_new(const struct version_new *from) {
    ASSERT(from->key.size > 0 && from->key.size <= UINT16_MAX);
    ASSERT(from->value.size <= VALUE_SIZE_MAX);
    bool shares = worth_sharing(from);
    bool extra = from->lease != 0 || from->sub != 0;
    size_t size = whole_size(from->key.size + (from->has_jump ? sizeof(struct version_jump) : 0) +
                             (extra ? sizeof(struct version_extra) : 0) +
                             (shares ? sizeof(struct version_share) : from->value.size));
    struct kv_version *version =
        from->pool != NULL ? pool_alloc(from->pool, size) : mem_alloc(size);
    if (version == NULL) {
        return NULL;
    }
    version->newer = NULL;
    version->older = NULL;
    version->main = version->create_rev = version->version = 0;
    atomic_init(&version->refs, 1);
    version->value_size = from->value.size & VALUE_SIZE_MAX;
    version->shares_blob = shares;
    version->has_extra = extra;
    version->has_jump = from->has_jump;
    version->in_pool = from->pool != NULL;
    version->key_size = (uint16_t)from->key.size;
    version->at = 0;
    fill(version, from);
    return version;
}

static struct version_share share_of(const struct kv_version *version) {
    struct version_share share;
    memcpy(&share, value_at(version), sizeof(share));
    return share;
}

static struct version_extra extra_of(const struct kv_version *version) {
    struct version_extra extra = {0};
    if (version->has_extra) {
        memcpy(&extra, extra_at(version), sizeof(extra));
    }
    return extra;
}

void version_unref(struct kv_version *version) {
    /* acq_rel: whoever frees must come after every other holder's last look. */
    unsigned before = atomic_fetch_sub_explicit(&version->refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    if (before == 1) {
        if (version->shares_blob) {
            blob_unref(share_of(version).blob);
        }
        if (version->in_pool) {
            pool_free(version, whole_size(data_size(version)));
        } else {
            mem_free(version);
        }
    }
}

unsigned version_level(uint64_t main) {
    enum { BITS = 4 };
    /* Any function that spreads will do; all nodes may differ in it. (Fibonacci hashing: Knuth.) */
    uint64_t spread = main * 0x9e3779b97f4a7c15u;
    return spread == 0 ? VERSION_LEVEL_MAX - 1 : (unsigned)__builtin_clzll(spread) / BITS;
}

struct version_jump version_jump(const struct kv_version *version) {
    struct version_jump jump = {NULL, 0};
    if (version->has_jump) {
        memcpy(&jump, jump_at(version), sizeof(jump));
    }
    return jump;
}

void version_set_jump(struct kv_version *version, struct kv_version *to) {
    const struct version_jump jump = {to, to != NULL ? to->main : 0};
    memcpy(version->data + version->key_size, &jump, sizeof(jump));
}

struct kv_version *version_copy(const struct kv_version *version, struct pool *pool,
                                bool has_jump) {
    const struct version_new from = {.key = version_key(version),
                                     .value = version_value(version),
                                     .lease = version_lease(version),
                                     .sub = version_sub(version),
                                     .payload = version_blob(version),
                                     .has_jump = has_jump,
                                     .pool = pool};
    struct kv_version *copy = version_new(&from);
    if (copy != NULL) {
        copy->main = version->main;
        copy->create_rev = version->create_rev;
        copy->version = version->version;
    }
    return copy;
}

struct slice version_value(const struct kv_version *version) {
    const uint8_t *at = version->shares_blob ? share_of(version).at : value_at(version);
    return slice_of(at, version->value_size);
}

struct blob *version_blob(const struct kv_version *version) {
    return version->shares_blob ? share_of(version).blob : NULL;
}

int64_t version_lease(const struct kv_version *version) {
    return extra_of(version).lease;
}

uint32_t version_sub(const struct kv_version *version) {
    return extra_of(version).sub;
}

bool version_is_sparse(const struct kv_version *version) {
    return version->in_pool && pool_is_sparse(version, whole_size(data_size(version)));
}

size_t version_memory(const struct kv_version *version) {
    size_t own = pool_block_size(whole_size(data_size(version)));
    return own + (version->shares_blob ? memory_of(sizeof(struct blob) + version->value_size) : 0);
}
