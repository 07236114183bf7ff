/* Rule 18: how a cluster comes to be, and that there is never a second one. */
#include "lib/founding.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct option_peer peers[] = {{.name = "a", .address = "a:1"},
                                           {.name = "b", .address = "b:1"},
                                           {.name = "c", .address = "c:1"}};
enum { A, B, C, NODES };

static struct founding blank(int who, uint64_t id) {
    struct founding founding;
    struct identity self = {.member_id = id};
    (void)snprintf(self.name, NAME_SIZE, "%.63s", peers[who].name);
    founding_init(&founding, &self, peers, NODES);
    return founding;
}

/* A hello of node `who` in incarnation `id`, which has seen the given ids (0: not seen). */
static struct hello hello_of(int who, uint64_t id, uint64_t sequence, uint64_t a, uint64_t b,
                             uint64_t c) {
    struct hello hello = {.member_id = id, .start_counter = 1, .sequence = sequence};
    (void)snprintf(hello.name, NAME_SIZE, "%.63s", peers[who].name);
    const uint64_t seen[] = {a, b, c};
    for (int i = 0; i < NODES; i++) {
        if (seen[i] != 0) {
            struct identity_member *member = &hello.members[hello.member_count++];
            (void)snprintf(member->name, NAME_SIZE, "%.63s", peers[i].name);
            (void)snprintf(member->address, ADDRESS_SIZE, "%.63s", peers[i].address);
            member->id = seen[i];
        }
    }
    return hello;
}

static struct founding_result decide(const struct founding *founding) {
    struct founding_result result;
    founding_decide(founding, &result);
    return result;
}

static bool hear(struct founding *founding, struct hello hello) {
    return founding_hear(founding, &hello);
}

Test(lib_founding, splits_the_option_into_self_and_peers) {
    struct founding founding = blank(B, 2);
    cr_assert_str_eq(founding.self_name, "b");
    cr_assert_str_eq(founding.self_address, "b:1");
    cr_assert_eq(founding.self_id, 2);
    cr_assert_eq(founding.peer_count, 2);
    cr_assert_str_eq(founding.peers[0].name, "a");
    cr_assert_str_eq(founding.peers[1].address, "c:1");
}

Test(lib_founding, lists_itself_and_whom_it_has_heard) {
    struct founding founding = blank(A, 1);
    struct identity_member list[OPTION_PEERS_MAX];
    cr_assert_eq(founding_list(&founding, list), 1);
    cr_assert_str_eq(list[0].name, "a");
    cr_assert_str_eq(list[0].address, "a:1");
    cr_assert(hear(&founding, hello_of(C, 3, 1, 0, 0, 3)));
    cr_assert_eq(founding_list(&founding, list), 2);
    cr_assert_str_eq(list[1].name, "c");
    cr_assert_str_eq(list[1].address, "c:1");
    cr_assert_eq(list[1].id, 3);
}

Test(lib_founding, tells_when_its_own_list_has_changed) {
    struct founding founding = blank(A, 1);
    cr_assert(hear(&founding, hello_of(B, 2, 1, 0, 2, 0)));
    cr_assert_not(hear(&founding, hello_of(B, 2, 2, 1, 2, 0)), "only what b has seen is new");
    cr_assert_not(hear(&founding, hello_of(B, 2, 1, 0, 2, 0)), "older");
    cr_assert(hear(&founding, hello_of(B, 22, 1, 1, 22, 0)), "another incarnation");
}

Test(lib_founding, ignores_who_is_not_in_the_option) {
    struct founding founding = blank(A, 1);
    struct hello stranger = hello_of(B, 9, 1, 0, 0, 0);
    (void)snprintf(stranger.name, NAME_SIZE, "x");
    cr_assert_not(hear(&founding, stranger));
    struct identity_member list[OPTION_PEERS_MAX];
    cr_assert_eq(founding_list(&founding, list), 1);
}

Test(lib_founding, waits_for_all_and_says_how_many) {
    struct founding founding = blank(A, 1);
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT);
    cr_assert_str_eq(result.why.text, "founding: 1 of 3 members seen");
    (void)hear(&founding, hello_of(B, 2, 1, 1, 2, 3));
    result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT);
    cr_assert_str_eq(result.why.text, "founding: 2 of 3 members seen");
}

Test(lib_founding, waits_until_each_has_seen_the_same) {
    struct founding founding = blank(A, 1);
    (void)hear(&founding, hello_of(B, 2, 1, 1, 2, 3));
    (void)hear(&founding, hello_of(C, 3, 1, 1, 0, 3));
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT);
    cr_assert_str_eq(result.why.text, "founding: c has not seen the same members yet");
    (void)hear(&founding, hello_of(C, 3, 2, 1, 22, 3)); /* another b */
    cr_assert_eq(decide(&founding).decision, FOUNDING_WAIT);
    (void)hear(&founding, hello_of(C, 3, 3, 1, 2, 3));
    result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_FOUND);
    cr_assert_eq(result.member_count, 3);
    cr_assert_neq(result.cluster_id, 0);
}

Test(lib_founding, founds_the_same_cluster_on_every_node_in_every_order) {
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const uint64_t ids[] = {1, 2, 3};
    uint64_t cluster = 0;
    for (int self = 0; self < NODES; self++) {
        for (int order = 0; order < 6; order++) {
            struct option_peer shuffled[NODES];
            for (int i = 0; i < NODES; i++) {
                shuffled[i] = peers[orders[order][i]];
            }
            struct identity identity = {.member_id = ids[self]};
            (void)snprintf(identity.name, NAME_SIZE, "%.63s", peers[self].name);
            struct founding founding;
            founding_init(&founding, &identity, shuffled, NODES);
            for (int i = 0; i < NODES; i++) {
                int from = orders[5 - order][i];
                if (from != self) {
                    (void)hear(&founding, hello_of(from, ids[from], 1, 1, 2, 3));
                }
            }
            struct founding_result result = decide(&founding);
            cr_assert_eq(result.decision, FOUNDING_FOUND);
            cr_assert(cluster == 0 || result.cluster_id == cluster);
            cluster = result.cluster_id;
        }
    }
}

Test(lib_founding, a_lone_node_founds_at_once) {
    struct identity self = {.name = "n1", .member_id = 5};
    struct founding founding;
    founding_init(&founding, &self, NULL, 0);
    cr_assert_eq(decide(&founding).decision, FOUNDING_FOUND);
}

Test(lib_founding, adopts_the_cluster_that_lists_this_incarnation) {
    struct founding founding = blank(B, 2);
    struct hello founded = hello_of(A, 1, 1, 1, 2, 3);
    founded.cluster_id = 77;
    (void)hear(&founding, founded);
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_ADOPT);
    cr_assert_eq(result.cluster_id, 77);
    cr_assert_eq(result.member_count, 3);
    cr_assert_eq(result.members[1].id, 2);
}

/* X-E5: what would be refused at the next start is not founded in the first place. */
Test(lib_founding, waits_while_two_nodes_have_another_address_for_one) {
    struct founding founding = blank(A, 1);
    struct hello odd = hello_of(B, 2, 1, 1, 2, 3);
    (void)snprintf(odd.members[2].address, ADDRESS_SIZE, "elsewhere:9");
    (void)hear(&founding, hello_of(C, 3, 1, 1, 2, 3));
    (void)hear(&founding, odd);
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT);
    cr_assert_str_eq(result.why.text, "founding: a has c at \"c:1\", b has it at \"elsewhere:9\": "
                                      "the option peers must be the same on all");
    odd.sequence++;
    odd.cluster_id = 77;
    (void)hear(&founding, odd);
    result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT, "nor is it adopted");
    cr_assert_not_null(strstr(result.why.text, "elsewhere:9"));
    (void)hear(&founding, hello_of(B, 2, 3, 1, 2, 3));
    cr_assert_eq(decide(&founding).decision, FOUNDING_FOUND);
}

/* ------------------------------------------------------------------ rule 19: growing */

static struct founding lone(int who, uint64_t id, uint64_t cluster) {
    struct founding founding = blank(who, id);
    founding.own_cluster = cluster;
    return founding;
}

/* What a lone node that was started with peers says. */
static struct hello lone_hello(int who, uint64_t id, uint64_t cluster) {
    struct hello hello =
        hello_of(who, id, 1, who == A ? id : 0, who == B ? id : 0, who == C ? id : 0);
    hello.cluster_id = cluster;
    hello.members[0].address[0] = '\0';
    return hello;
}

Test(lib_founding, rule_19_a_lone_node_keeps_its_cluster_and_takes_in_its_peers) {
    struct founding founding = lone(A, 1, 77);
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT);
    cr_assert_str_eq(result.why.text, "growing: 1 of 3 members seen");
    (void)hear(&founding, hello_of(B, 2, 1, 1, 2, 3));
    (void)hear(&founding, hello_of(C, 3, 1, 0, 2, 3));
    result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT, "c has not seen it");
    (void)hear(&founding, hello_of(C, 3, 2, 1, 2, 3));
    result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_GROW);
    cr_assert_eq(result.cluster_id, 77);
    cr_assert_eq(result.member_count, 3);
}

/* The blank ones agree with each other and with everything they have heard: still they found nothing. */
Test(lib_founding, rule_19_blank_nodes_wait_for_the_lone_one) {
    struct founding founding = blank(B, 2);
    (void)hear(&founding, hello_of(C, 3, 1, 1, 2, 3));
    (void)hear(&founding, lone_hello(A, 1, 77));
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_WAIT);
    cr_assert_not_null(strstr(result.why.text, "a is alone in cluster 000000000000004d"), "%s",
                       result.why.text);
    struct identity_member list[OPTION_PEERS_MAX];
    cr_assert_eq(founding_list(&founding, list), 3, "it tells the lone one that it has seen it");
    struct hello grown = hello_of(A, 1, 2, 1, 2, 3);
    grown.cluster_id = 77;
    grown.grown_index = 40;
    grown.grown_term = 6;
    (void)hear(&founding, grown);
    result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_ADOPT);
    cr_assert_eq(result.cluster_id, 77);
    cr_assert_eq(result.grown_index, 40);
    cr_assert_eq(result.grown_term, 6);
}

/* M10: the directory that the cluster counted in is gone. */
Test(lib_founding, rule_19_a_blank_node_that_was_wiped_meanwhile_is_a_stranger) {
    struct founding founding = blank(B, 22);
    struct hello grown = hello_of(A, 1, 2, 1, 2, 3);
    grown.cluster_id = 77;
    grown.grown_index = 40;
    (void)hear(&founding, grown);
    cr_assert_eq(decide(&founding).decision, FOUNDING_STRANGER);
}

/* A backup of the lone directory must not grow a second time. */
Test(lib_founding, rule_19_a_copy_from_before_it_grew_is_told_so) {
    struct founding founding = lone(A, 1, 77);
    struct hello grown = hello_of(B, 2, 2, 1, 2, 3);
    grown.cluster_id = 77;
    grown.grown_index = 40;
    (void)hear(&founding, hello_of(C, 3, 1, 1, 2, 3));
    (void)hear(&founding, grown);
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_STRANGER);
    cr_assert_not_null(strstr(result.why.text, "has grown already"), "%s", result.why.text);
}

/* X-E4: its directory was wiped, the others are a cluster that knows its earlier incarnation. */
Test(lib_founding, a_wiped_node_is_told_what_to_do_and_founds_nothing) {
    struct founding founding = blank(B, 22);
    struct hello founded = hello_of(A, 1, 1, 1, 2, 3);
    founded.cluster_id = 77;
    (void)hear(&founding, founded);
    (void)hear(&founding, hello_of(C, 3, 1, 1, 22, 3)); /* blank, and in agreement with us */
    struct founding_result result = decide(&founding);
    cr_assert_eq(result.decision, FOUNDING_STRANGER);
    cr_assert_not_null(strstr(result.why.text, "cannot replace a member"), "%s", result.why.text);
    cr_assert_not_null(strstr(result.why.text, "0000000000000002"));
    cr_assert_not_null(strstr(result.why.text, "0000000000000016"));
}

Test(lib_founding, is_a_stranger_to_a_cluster_without_its_name) {
    struct founding founding = blank(B, 2);
    struct hello founded = hello_of(A, 1, 1, 1, 0, 3);
    founded.cluster_id = 77;
    (void)hear(&founding, founded);
    cr_assert_eq(decide(&founding).decision, FOUNDING_STRANGER);
}

Test(lib_founding, takes_hellos_of_one_life_in_their_order) {
    struct founding founding = blank(A, 1);
    (void)hear(&founding, hello_of(C, 3, 1, 1, 2, 3));
    (void)hear(&founding, hello_of(B, 2, 5, 1, 2, 0)); /* b has forgotten c: no agreement */
    (void)hear(&founding, hello_of(B, 2, 4, 1, 2, 3)); /* stale */
    cr_assert_eq(decide(&founding).decision, FOUNDING_WAIT);
    struct hello next_life = hello_of(B, 2, 1, 1, 2, 3);
    next_life.start_counter = 2;
    (void)hear(&founding, next_life);
    cr_assert_eq(decide(&founding).decision, FOUNDING_FOUND);
    (void)hear(&founding, hello_of(B, 2, 9, 1, 0, 0)); /* of the earlier life, late */
    cr_assert_eq(decide(&founding).decision, FOUNDING_FOUND);
}

/* Nothing tells which of two directories is the later one: a late hello of the earlier must not keep
 * the living one out. */
Test(lib_founding, a_living_incarnation_is_heard_again_after_a_stale_hello) {
    struct founding founding = blank(A, 1);
    (void)hear(&founding, hello_of(C, 3, 1, 1, 22, 3));
    (void)hear(&founding, hello_of(B, 22, 1, 1, 22, 3));
    (void)hear(&founding, hello_of(B, 2, 7, 1, 2, 3)); /* of the wiped directory, late */
    cr_assert_eq(decide(&founding).decision, FOUNDING_WAIT);
    cr_assert(hear(&founding, hello_of(B, 22, 2, 1, 22, 3)));
    cr_assert_eq(decide(&founding).decision, FOUNDING_FOUND);
}

/* ------------------------------------------------------------------ a small world, searched
 *
 * Three nodes on connections as TCP makes them: ordered, broken by the end of either process, but
 * what was sent before a death may still arrive. Nodes restart blank and are wiped; founded ones keep
 * what they are. A cluster of which two nodes are members may acknowledge writes: never two of them. */

enum { IN_FLIGHT = 6 };

struct world_node {
    struct founding founding;
    uint64_t id, start_counter, sequence, life, cluster;
    struct hello founded; /* its members, once founded */
};

struct in_flight {
    bool used;
    int from, to;
    uint64_t from_life, to_life;
    struct hello hello;
};

struct world {
    struct world_node nodes[NODES];
    struct in_flight net[IN_FLIGHT];
    int wipes, restarts;
    uint64_t next_life;
    uint64_t acknowledged; /* the cluster that had two members at some moment */
};

static void boot(struct world *world, int who, uint64_t id) {
    struct world_node *node = &world->nodes[who];
    node->start_counter = node->id == id ? node->start_counter + 1 : 1;
    node->id = id;
    node->sequence = 0;
    node->life = ++world->next_life;
    node->founding = blank(who, id);
}

static struct hello say(struct world *world, int who) {
    struct world_node *node = &world->nodes[who];
    struct hello hello = {.member_id = node->id,
                          .start_counter = node->start_counter,
                          .boot_nonce = node->life,
                          .sequence = ++node->sequence,
                          .cluster_id = node->cluster};
    (void)snprintf(hello.name, NAME_SIZE, "%.63s", peers[who].name);
    if (node->cluster != 0) {
        hello.member_count = node->founded.member_count;
        memcpy(hello.members, node->founded.members, sizeof(hello.members));
    } else {
        hello.member_count = founding_list(&node->founding, hello.members);
    }
    return hello;
}

static void send(struct world *world, int from, int to) {
    for (int i = 0; i < IN_FLIGHT; i++) {
        if (!world->net[i].used) {
            world->net[i] = (struct in_flight){.used = true,
                                               .from = from,
                                               .to = to,
                                               .from_life = world->nodes[from].life,
                                               .to_life = world->nodes[to].life,
                                               .hello = say(world, from)};
            return;
        }
    }
}

/* Oldest first within a connection; connections overtake each other. */
static void deliver(struct world *world, int at) {
    struct in_flight *chosen = &world->net[at];
    if (!chosen->used) {
        return;
    }
    for (int i = 0; i < IN_FLIGHT; i++) {
        struct in_flight *other = &world->net[i];
        if (other->used && other->from == chosen->from && other->to == chosen->to &&
            other->from_life == chosen->from_life &&
            other->hello.sequence < chosen->hello.sequence) {
            chosen = other;
        }
    }
    chosen->used = false;
    struct world_node *node = &world->nodes[chosen->to];
    if (node->life == chosen->to_life && node->cluster == 0) {
        (void)founding_hear(&node->founding, &chosen->hello);
    }
}

static void act(struct world *world, int who) {
    struct world_node *node = &world->nodes[who];
    struct founding_result result = decide(&node->founding);
    if (node->cluster == 0 &&
        (result.decision == FOUNDING_FOUND || result.decision == FOUNDING_ADOPT)) {
        node->cluster = result.cluster_id;
        node->founded.member_count = result.member_count;
        memcpy(node->founded.members, result.members, sizeof(result.members));
    }
}

static void check(struct world *world, uint64_t seed) {
    for (int i = 0; i < NODES; i++) {
        uint64_t mine = world->nodes[i].cluster;
        if (mine != 0 && mine == world->nodes[(i + 1) % NODES].cluster) {
            cr_assert(world->acknowledged == 0 || world->acknowledged == mine,
                      "seed %lu: two clusters acknowledge", seed);
            world->acknowledged = mine;
        }
    }
}

static void step(struct world *world, struct prng *prng, uint64_t *next_id) {
    int who = (int)prng_below(prng, NODES);
    switch (prng_below(prng, 16)) {
    case 0:
        if (world->wipes > 0) { /* a new directory; the old process and its cluster are gone */
            world->wipes--;
            world->nodes[who].cluster = 0;
            boot(world, who, ++*next_id);
        }
        break;
    case 1:
        if (world->restarts > 0) {
            world->restarts--;
            boot(world, who, world->nodes[who].id);
        }
        break;
    case 2:
    case 3:
    case 4:
    case 5: act(world, who); break;
    case 6:
    case 7:
    case 8:
    case 9:
    case 10: send(world, who, (int)(((uint64_t)who + 1 + prng_below(prng, 2)) % NODES)); break;
    default: deliver(world, (int)prng_below(prng, IN_FLIGHT)); break;
    }
}

static bool settle(struct world *world) {
    for (int i = 0; i < IN_FLIGHT; i++) {
        deliver(world, i);
    }
    for (int round = 0; round < 6; round++) {
        for (int from = 0; from < NODES; from++) {
            for (int to = 0; to < NODES; to++) {
                if (from != to) {
                    send(world, from, to);
                    deliver(world, 0);
                }
            }
            act(world, from);
        }
    }
    return world->nodes[A].cluster != 0 && world->nodes[A].cluster == world->nodes[B].cluster &&
           world->nodes[A].cluster == world->nodes[C].cluster;
}

static struct world new_world(int wipes, int restarts) {
    struct world world = {.wipes = wipes, .restarts = restarts};
    for (int i = 0; i < NODES; i++) {
        boot(&world, i, (uint64_t)i + 1);
    }
    return world;
}

static void live(uint64_t seed) {
    struct prng prng = prng_of(seed);
    struct world world = new_world((int)(seed % 3), (int)(seed / 3 % 2));
    uint64_t next_id = NODES;
    for (int i = 0; i < 60; i++) {
        step(&world, &prng, &next_id);
        check(&world, seed);
    }
    (void)settle(&world);
    check(&world, seed);
}

Test(lib_founding, never_lets_two_clusters_acknowledge_in_random_worlds, .timeout = 100) {
    for (uint64_t seed = 0; seed < 30000; seed++) {
        live(seed);
    }
}

/* Naively, founding deadlocks as soon as one node is first. */
Test(lib_founding, comes_to_one_cluster_of_all_whatever_the_order_when_nobody_is_wiped,
     .timeout = 100) {
    for (uint64_t seed = 0; seed < 5000; seed++) {
        struct prng prng = prng_of(seed);
        struct world world = new_world(0, (int)(seed % 4));
        uint64_t next_id = NODES;
        for (int i = 0; i < 40; i++) {
            step(&world, &prng, &next_id);
        }
        cr_assert(settle(&world), "seed %lu", seed);
    }
}
