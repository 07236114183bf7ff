#include "lib/role.h"

#include "base/mem.h"

#include <pthread.h>

/* What a watcher and its messages share; the last of them frees it. */
struct role_gate {
    atomic_uint refs;
    atomic_uint stepping_down; /* messages not freed yet */
    atomic_uint soft;          /* follower and candidate messages not freed yet */
    pthread_mutex_t mutex;     /* of what follows */
    void (*on_freed)(void *arg);
    void *arg;
};

struct role_watcher {
    struct role_watcher *next;
    struct lkv_queue *queue; /* borrowed */
    void *tag;
    struct role_gate *gate;
    uint64_t ready_term; /* told leader_ready of it: stepping_down is owed; 0: not */
    bool behind;         /* a soft change was held back */
};

static void gate_unref(struct role_gate *gate) {
    if (atomic_fetch_sub(&gate->refs, 1) == 1) {
        (void)pthread_mutex_destroy(&gate->mutex);
        mem_free(gate);
    }
}

static void gate_notify(struct role_gate *gate) {
    (void)pthread_mutex_lock(&gate->mutex);
    if (gate->on_freed != NULL) {
        gate->on_freed(gate->arg);
    }
    (void)pthread_mutex_unlock(&gate->mutex);
}

static void on_soft_freed(void *arg, struct lkv_msg *msg) {
    (void)msg;
    struct role_gate *gate = arg;
    atomic_fetch_sub(&gate->soft, 1);
    gate_notify(gate);
    gate_unref(gate);
}

static void on_stepping_down_freed(void *arg, struct lkv_msg *msg) {
    (void)msg;
    struct role_gate *gate = arg;
    atomic_fetch_sub(&gate->stepping_down, 1);
    gate_notify(gate);
    gate_unref(gate);
}

void role_init(struct role *role, void (*on_freed)(void *arg), void *arg) {
    *role = (struct role){.on_freed = on_freed, .arg = arg, .kind = ROLE_FOLLOWER};
}

void role_fini(struct role *role) {
    while (role->watchers != NULL) {
        struct role_watcher *watcher = role->watchers;
        role->watchers = watcher->next;
        (void)pthread_mutex_lock(&watcher->gate->mutex);
        watcher->gate->on_freed = NULL;
        (void)pthread_mutex_unlock(&watcher->gate->mutex);
        gate_unref(watcher->gate);
        mem_free(watcher);
    }
}

static const char *kind_name(enum role_kind kind) {
    switch (kind) {
    case ROLE_FOLLOWER: return "follower";
    case ROLE_CANDIDATE: return "candidate";
    case ROLE_READY: return "leader_ready";
    case ROLE_STEPPING_DOWN: return "stepping_down";
    case ROLE_STOPPED: return "stopped";
    }
    return "?";
}

static int send(struct role_watcher *watcher, enum role_kind kind, uint64_t term, uint64_t index,
                int rc, const char *why) {
    struct lkv_msg *msg = msg_new(LKV_ROLE, watcher->tag);
    if (msg == NULL) {
        return LKV_ENOMEM;
    }
    if (rc != 0) {
        msg_set_rc(msg, rc, "%s", why);
    }
    msg_set_str(msg, "role", kind_name(kind));
    msg_set_u64(msg, "term", term);
    if (kind == ROLE_READY) {
        msg_set_u64(msg, "index", index);
    }
    if (lkv_msg_str(msg, "role") == NULL) { /* a role without its name tells nothing */
        lkv_msg_free(msg);
        return LKV_ENOMEM;
    }
    bool soft = kind == ROLE_FOLLOWER || kind == ROLE_CANDIDATE;
    if (soft || kind == ROLE_STEPPING_DOWN) {
        atomic_fetch_add(&watcher->gate->refs, 1);
        atomic_fetch_add(soft ? &watcher->gate->soft : &watcher->gate->stepping_down, 1);
        msg->on_free = soft ? on_soft_freed : on_stepping_down_freed;
        msg->on_free_arg = watcher->gate;
    }
    queue_push(watcher->queue, msg);
    return 0;
}

/* What a watcher that acts as leader is owed before it hears of anything else. */
static int end_leadership(struct role_watcher *watcher) {
    int rc = send(watcher, ROLE_STEPPING_DOWN, watcher->ready_term, 0, 0, NULL);
    watcher->ready_term = rc == 0 ? 0 : watcher->ready_term; /* not told: it is still owed */
    return rc;
}

/* Tells one watcher the role's present kind, after what is owed before it. */
static int tell(struct role_watcher *watcher, const struct role *role) {
    if (watcher->ready_term != 0) {
        int rc = end_leadership(watcher);
        if (rc != 0) {
            return rc;
        }
    }
    switch (role->kind) {
    case ROLE_STEPPING_DOWN: return 0; /* told just now, or it never heard that we lead */
    case ROLE_READY:
    case ROLE_STOPPED: break;
    case ROLE_FOLLOWER:
    case ROLE_CANDIDATE:
        /* A program that does not take its messages must not make us hoard them. */
        watcher->behind = atomic_load(&watcher->gate->soft) > 0;
        if (watcher->behind) {
            return 0;
        }
        break;
    }
    watcher->behind = false;
    int rc = send(watcher, role->kind, role->term, role->index, role->stop_rc, role->stop_why.text);
    if (rc == 0 && role->kind == ROLE_READY) {
        watcher->ready_term = role->term;
    }
    return rc;
}

int role_add_watcher(struct role *role, struct lkv_queue *queue, void *tag) {
    struct role_watcher *watcher = mem_calloc(1, sizeof(*watcher));
    struct role_gate *gate = mem_calloc(1, sizeof(*gate));
    if (watcher == NULL || gate == NULL) {
        mem_free(watcher);
        mem_free(gate);
        return LKV_ENOMEM;
    }
    atomic_init(&gate->refs, 1);
    (void)pthread_mutex_init(&gate->mutex, NULL);
    gate->on_freed = role->on_freed;
    gate->arg = role->arg;
    *watcher =
        (struct role_watcher){.next = role->watchers, .queue = queue, .tag = tag, .gate = gate};
    role->watchers = watcher;
    if (role->kind == ROLE_STEPPING_DOWN) { /* others do; it never heard that we led */
        return send(watcher, ROLE_FOLLOWER, role->term, 0, 0, NULL);
    }
    return tell(watcher, role);
}

int role_set(struct role *role, enum role_kind kind, uint64_t term, uint64_t index) {
    if (role->kind == kind && role->term == term && role->index == index) {
        return 0;
    }
    role->kind = kind;
    role->term = term;
    role->index = index;
    int rc = 0;
    for (struct role_watcher *at = role->watchers; at != NULL && rc == 0; at = at->next) {
        rc = tell(at, role);
    }
    return rc;
}

int role_stop(struct role *role, uint64_t term, int rc, const char *why) {
    if (role->kind != ROLE_STOPPED) {
        role->stop_rc = reason_set(&role->stop_why, rc, "%s", why);
    }
    return role_set(role, ROLE_STOPPED, term, 0);
}

int role_pump(struct role *role) {
    int rc = 0;
    for (struct role_watcher *at = role->watchers; at != NULL && rc == 0; at = at->next) {
        if (at->behind) {
            rc = tell(at, role);
        }
    }
    return rc;
}

bool role_gate_closed(const struct role *role) {
    for (const struct role_watcher *at = role->watchers; at != NULL; at = at->next) {
        if (atomic_load(&at->gate->stepping_down) > 0) {
            return true;
        }
    }
    return false;
}
