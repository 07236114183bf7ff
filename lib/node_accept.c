/* One listener for peers and clients: the first byte tells them apart, and who never sends one is
 * closed (N3, N7). */
#include "lib/node.h"
#include "lib/peer.h"

#include "base/mem.h"

enum { FIRST_BYTE_MS = 3000, STRANGERS_MAX = 256, LINKS_WITHOUT_HELLO_MAX = 256 };

/* A connection that has said nothing yet. */
struct stranger {
    struct list_link link;
    struct node *node;
    struct net_conn *conn;
    uint64_t opened_ns;
};

static struct net_conn *stranger_forget(struct stranger *stranger) {
    struct net_conn *conn = stranger->conn;
    list_remove(&stranger->link);
    stranger->node->stranger_count--;
    mem_free(stranger);
    return conn;
}

static bool is_client(uint8_t first) {
    /* An array of three or four elements: MessagePack-RPC. A peer's frame begins with 'L'. */
    return first == 0x93 || first == 0x94;
}

/* They are not counted among the clients' connections, and there are never many peers. */
static bool takes_links(const struct node *node) {
    size_t count = 0;
    for (struct list_link *at = node->incoming.next; at != &node->incoming; at = at->next) {
        count += !LIST_ITEM(at, struct link, link)->hello_came;
    }
    return count < LINKS_WITHOUT_HELLO_MAX;
}

static void on_data(void *arg, struct slice bytes) {
    struct stranger *stranger = arg;
    struct node *node = stranger->node;
    if (bytes.size == 0) {
        return;
    }
    struct net_conn *conn = stranger_forget(stranger);
    node->turn_wanted = true;
    if (is_client(bytes.data[0])) {
        server_adopt(node->server, conn, bytes);
    } else if (!takes_links(node)) {
        net_close(conn);
    } else {
        link_adopt(node, conn, bytes);
    }
}

static void on_close(void *arg, int rc) {
    (void)rc;
    (void)stranger_forget(arg);
}

static const struct net_conn_events stranger_events = {.on_data = on_data, .on_close = on_close};

void node_on_accept(void *arg, struct net_conn *conn) {
    struct node *node = arg;
    struct stranger *stranger =
        node->closing || node->stranger_count >= STRANGERS_MAX ||
                node->stranger_count >= node->options.connections_max / 4 + 8
            ? NULL
            : mem_calloc(1, sizeof(*stranger));
    if (stranger == NULL) {
        net_close(conn);
        return;
    }
    stranger->node = node;
    stranger->conn = conn;
    stranger->opened_ns = node_now(node);
    list_push_back(&node->strangers, &stranger->link);
    node->stranger_count++;
    net_attach(conn, &stranger_events, stranger);
}

uint64_t node_accept_timer(struct node *node, uint64_t now_ns) {
    while (!list_empty(&node->strangers)) {
        struct stranger *oldest = LIST_ITEM(node->strangers.next, struct stranger, link);
        uint64_t deadline = oldest->opened_ns + FIRST_BYTE_MS * MS_NS;
        if (now_ns < deadline) {
            return deadline;
        }
        net_close(stranger_forget(oldest));
    }
    return UINT64_MAX;
}

void node_accept_close(struct node *node) {
    net_listener_close(node->listener);
    net_listener_close(node->local_listener);
    node->listener = node->local_listener = NULL;
    while (!list_empty(&node->strangers)) {
        net_close(stranger_forget(LIST_ITEM(node->strangers.next, struct stranger, link)));
    }
}
