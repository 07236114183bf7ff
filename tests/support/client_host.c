#include "tests/support/client_host.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ the store */

void host_store_open(struct host_store *store) {
    *store = (struct host_store){0};
    int rc = kv_open(&store->kv, &(struct kv_options){.hash_seed = 1});
    ASSERT(rc == 0);
}

void host_store_close(struct host_store *store) {
    kv_close(store->kv);
}

static void apply(struct host_store *store, struct request *request) {
    struct entry entry = {
        .index = ++store->index, .term = 1, .type = ENTRY_COMMAND, .payload = request->command};
    struct kv_result result;
    size_t applied = 0;
    struct reason why;
    while (applied == 0) {
        int rc = kv_apply(store->kv, &entry, 1, &result, &applied, &why);
        ASSERT(rc == 0);
    }
    msg_set_u64(request->reply, "rev", result.revision);
    msg_set_u64(request->reply, "count", result.count);
    msg_set_u64(request->reply, "index", entry.index);
}

static void get(struct host_store *store, struct request *request) {
    struct kv_stamp stamp;
    struct kv_item item;
    int rc = kv_get(store->kv, request->key, &item, &stamp);
    msg_set_u64(request->reply, "rev", stamp.revision);
    if (rc != 0) {
        msg_set_rc(request->reply, rc, NULL);
        return;
    }
    struct kv_item *items = mem_calloc(1, sizeof(*items));
    ASSERT(items != NULL);
    items[0] = item;
    request->reply->range = (struct kv_range){.items = items, .count = 1, .stamp = stamp};
}

static void range(struct host_store *store, struct request *request) {
    struct kv_query query = {.from = request->key,
                             .to = request->end,
                             .limit = request->limit,
                             .keys_only = (request->range_flags & LKV_KEYS_ONLY) != 0,
                             .count_only = (request->range_flags & LKV_COUNT_ONLY) != 0,
                             .descending = (request->range_flags & LKV_DESCENDING) != 0,
                             .with_total = (request->range_flags & LKV_TOTAL) != 0,
                             .bytes_max = 1 << 20};
    int rc = kv_range(store->kv, &query, &request->reply->range);
    ASSERT(rc == 0);
    msg_set_u64(request->reply, "total", request->reply->range.total);
    msg_set_u64(request->reply, "more", request->reply->range.more ? 1 : 0);
}

static void answer(struct host *host, struct request *request) {
    switch (request->op) {
    case REQUEST_WRITE: apply(host->store, request); break;
    case REQUEST_GET: get(host->store, request); break;
    case REQUEST_RANGE: range(host->store, request); break;
    case REQUEST_STATUS: msg_set_str(request->reply, "id", "host"); break;
    case REQUEST_DIGEST: msg_set_u64(request->reply, "digest", host->store->index); break;
    case REQUEST_APPEND:
    case REQUEST_LOG_READ:
    case REQUEST_LOG_SPAN:
    case REQUEST_SESSION_KEEP:
    case REQUEST_VIEW_OPEN:
    case REQUEST_VIEW_CLOSE:
    case REQUEST_LEASE_KEEP:
    case REQUEST_LEASE_TTL:
    case REQUEST_LEASE_LIST:
    case REQUEST_WATCH:
    case REQUEST_LOG_HOLD:
    case REQUEST_IMAGE: msg_set_rc(request->reply, LKV_EUNSUPPORTED, NULL); break;
    }
    request_finish(request);
}

/* ------------------------------------------------------------------ the role */

static void keep(struct host *host, struct request *request) {
    list_push_back(&host->kept, &request->link);
    host->kept_count++;
}

static void follow(struct host *host, struct request *request) {
    if (!request->forwarded) {
        atomic_fetch_add(&host->passed_on, 1);
        answer(host, request);
        return;
    }
    msg_set_str(request->reply, "leader_address", host->leader_address);
    request_fail(request, LKV_ENOTLEADER, "the leader is at %s", host->leader_address);
}

static int submit(void *arg, struct request *request) {
    struct host *host = arg;
    atomic_fetch_add(&host->calls, 1);
    switch ((enum host_role)atomic_load(&host->role)) {
    case HOST_LEADER: answer(host, request); break;
    case HOST_FOLLOWER: follow(host, request); break;
    case HOST_NO_LEADER:
        if (request->no_park) {
            request_fail(request, LKV_ENOLEADER, NULL);
        } else {
            keep(host, request);
        }
        break;
    case HOST_SILENT: keep(host, request); break;
    case HOST_FULL: return LKV_EBUSY;
    case HOST_STOPPED: request_fail(request, LKV_ESTOPPED, NULL); break;
    }
    return 0;
}

void host_answer_kept(struct host *host) {
    struct list_link *link;
    while ((link = list_pop_front(&host->kept)) != NULL) {
        host->kept_count--;
        answer(host, LIST_ITEM(link, struct request, link));
    }
}

void host_fail_kept(struct host *host, int rc) {
    struct list_link *link;
    while ((link = list_pop_front(&host->kept)) != NULL) {
        host->kept_count--;
        request_fail(LIST_ITEM(link, struct request, link), rc, NULL);
    }
}

/* ------------------------------------------------------------------ connections */

/* One that has said nothing yet. */
struct greeting {
    struct list_link link;
    struct host *host;
    struct net_conn *conn;
};

static void forget(struct greeting *greeting) {
    list_remove(&greeting->link);
    free(greeting);
}

static void on_first_data(void *arg, struct slice bytes) {
    struct greeting greeting = *(struct greeting *)arg;
    forget(arg);
    server_adopt(greeting.host->server, greeting.conn, bytes);
}

static void on_first_close(void *arg, int rc) {
    (void)rc;
    forget(arg);
}

static void on_accept(void *arg, struct net_conn *conn) {
    static const struct net_conn_events events = {.on_data = on_first_data,
                                                  .on_close = on_first_close};
    struct host *host = arg;
    struct greeting *greeting = calloc(1, sizeof(*greeting));
    ASSERT(greeting != NULL);
    greeting->host = host;
    greeting->conn = conn;
    list_push_back(&host->greeting, &greeting->link);
    net_attach(conn, &events, greeting);
}

/* ------------------------------------------------------------------ life */

void host_open(struct host *host, struct host_store *store, struct loop *loop, struct net *net,
               const char *address, const struct server_options *options) {
    *host = (struct host){.store = store, .loop = loop, .options = *options};
    list_init(&host->kept);
    list_init(&host->greeting);
    struct server_options *o = &host->options;
    o->key_bytes_max = o->key_bytes_max != 0 ? o->key_bytes_max : 8192;
    o->value_bytes_max = o->value_bytes_max != 0 ? o->value_bytes_max : 4 << 20;
    o->connections_max = o->connections_max != 0 ? o->connections_max : 1024;
    o->output_bytes_max = o->output_bytes_max != 0 ? o->output_bytes_max : 64 << 20;
    o->timeout_ms_max = o->timeout_ms_max != 0 ? o->timeout_ms_max : 60000;
    struct server_host server_host = {.submit = submit, .arg = host};
    int rc = server_open(&host->server, loop, o, &server_host);
    ASSERT(rc == 0);
    struct reason why = {{0}};
    rc = net_listen(net, address, on_accept, host, &host->listener, &why);
    if (rc != 0) {
        (void)fprintf(stderr, "%s: %s\n", address, why.text);
    }
    ASSERT(rc == 0);
}

void host_close(struct host *host) {
    net_listener_close(host->listener);
    server_close(host->server);
    host->server = NULL;
    while (!list_empty(&host->greeting)) {
        struct greeting *greeting = LIST_ITEM(host->greeting.next, struct greeting, link);
        net_close(greeting->conn);
        forget(greeting);
    }
    struct list_link *link;
    while ((link = list_pop_front(&host->kept)) != NULL) {
        request_fail(LIST_ITEM(link, struct request, link), LKV_ECLOSED, NULL);
    }
}

uint64_t host_turn(struct host *host) {
    return host->server != NULL ? server_expire(host->server, loop_now_ns(host->loop)) : UINT64_MAX;
}
