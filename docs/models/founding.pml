/* Founding: three blank nodes become one cluster. The protocol of lib/founding.c, rule 18.
 *
 *        blank ----- every peer's newest hello is blank and lists the same full set -----> founded
 *          \                                                                                 ^
 *           `------- a founded peer's hello lists this very incarnation: adopt --------------'
 *
 * State. Of each node: its incarnation (a wiped directory begins another one), the set that it is founded
 * with (0: blank), and of each peer the newest hello: incarnation, founded or not, and the listed set. A
 * set has two bits for each node: 0 absent, otherwise its incarnation. The cluster id is a hash over the
 * set, so here a set is the cluster. Between two nodes one old hello may be under way, besides the ones
 * that arrive at once.
 *
 * Actions. A node says hello to another; a hello is delayed, and arrives late; a node decides; a blank node
 * restarts and has forgotten what it heard; a directory is wiped; a cluster of which two members are founded
 * acknowledges a write. A late hello is always believed, even where the code could tell that it is an old
 * one.
 *
 * Holds in every state:
 *   one_cluster  no two clusters have ever acknowledged writes.
 *   itself       nobody is founded with a set in which it is another incarnation.
 * Holds in every fair run without wiped directories (-DWIPES=0, with pan -a -f):
 *   founds       in the end all three are founded, with the same set.
 *
 * Bounds: WIPES (0 or 1), RESTARTS and DELAYED hellos.
 *
 * Mutants, each without a part of the rule: FOUND_WHEN_ALL_HEARD (not asking whether they list the same),
 * ADOPT_BY_NAME (not asking for which incarnation), NO_ADOPTION (against `founds`). */

#ifndef WIPES
#define WIPES 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef DELAYED
#define DELAYED 1
#endif

#define NODES 3
#define BLANK 0
#define MEMBER(set, n) (((set) >> (2 * (n))) & 3)
#define AS_MEMBER(n, incarnation) ((incarnation) << (2 * (n)))
#define IS_FULL(set) (MEMBER(set, 0) && MEMBER(set, 1) && MEMBER(set, 2))

typedef Hello {
    byte incarnation; /* 1 or 2; 0: not heard */
    bit founded;
    byte set;
};
typedef Hellos {
    Hello hello[NODES]
};
typedef Node {
    byte incarnation = 1;
    byte cluster; /* the founding set, or BLANK */
};

Node node[NODES];
Hellos heard[NODES]; /* [by].hello[peer]: the newest */
Hellos late[NODES];  /* [to].hello[from]: under way */
byte wipes, restarts, delayed;
byte acknowledged; /* the cluster that acknowledged a write, or BLANK */

hidden byte set; /* scratch, no part of the state */
hidden byte i;
hidden byte is_stranger;

/* What a blank node lists: itself and whom it heard. */
inline list_of(n)
{
    set = AS_MEMBER(n, node[n].incarnation);
    i = 0;
    do
    :: i < NODES -> set = set | AS_MEMBER(i, heard[n].hello[i].incarnation); i++
    :: else -> break
    od
}

inline write_hello(what, from)
{
    what.incarnation = node[from].incarnation;
    what.founded = (node[from].cluster != BLANK);
    if
    :: node[from].cluster != BLANK -> set = node[from].cluster
    :: else -> list_of(from)
    fi;
    what.set = set
}

inline forget(what)
{
    what.incarnation = 0;
    what.founded = 0;
    what.set = 0
}

/* What it heard is of no use to a founded node. */
inline forget_all(n)
{
    forget(heard[n].hello[0]);
    forget(heard[n].hello[1]);
    forget(heard[n].hello[2])
}

inline found(n, cluster_set)
{
    assert(MEMBER(cluster_set, n) == node[n].incarnation); /* itself */
    node[n].cluster = cluster_set;
    forget_all(n)
}

inline hear_now(n, from)
{
    write_hello(heard[n].hello[from], from)
}

inline hear_late(n, from)
{
    if
    :: node[n].cluster != BLANK
    :: else ->
        heard[n].hello[from].incarnation = late[n].hello[from].incarnation;
        heard[n].hello[from].founded = late[n].hello[from].founded;
        heard[n].hello[from].set = late[n].hello[from].set
    fi;
    forget(late[n].hello[from])
}

#ifdef ADOPT_BY_NAME
#define LISTS_US(n, peer) (MEMBER(heard[n].hello[peer].set, n) != 0)
#else
#define LISTS_US(n, peer) (MEMBER(heard[n].hello[peer].set, n) == node[n].incarnation)
#endif
#define FOUNDED(n, peer) (heard[n].hello[peer].founded)

/* A founded peer decides for us: founding_decide looks at these first. */
inline look_at_founded(n, peer)
{
    if
#ifndef NO_ADOPTION
    :: node[n].cluster == BLANK && FOUNDED(n, peer) && LISTS_US(n, peer) -> found(n, heard[n].hello[peer].set)
#endif
    :: else ->
        is_stranger = is_stranger || (node[n].cluster == BLANK && FOUNDED(n, peer))
    fi
}

#define AGREES(n, peer) (peer == n || heard[n].hello[peer].set == set)

inline decide(n)
{
    is_stranger = false;
    look_at_founded(n, 0);
    look_at_founded(n, 1);
    look_at_founded(n, 2);
    if
    :: node[n].cluster == BLANK && !is_stranger ->
        list_of(n);
        if
#ifdef FOUND_WHEN_ALL_HEARD
        :: IS_FULL(set) -> found(n, set)
#else
        :: IS_FULL(set) && AGREES(n, 0) && AGREES(n, 1) && AGREES(n, 2) -> found(n, set)
#endif
        :: else
        fi
    :: else
    fi
}

#define FOUNDED_WITH(n, cluster_set) \
    (node[n].cluster == cluster_set && MEMBER(cluster_set, n) == node[n].incarnation)

inline acknowledge(cluster_set)
{
    assert(acknowledged == BLANK || acknowledged == cluster_set); /* one_cluster */
    acknowledged = cluster_set
}

/* Two of three are a quorum, that can acknowledge from now on. */
inline acknowledge_if_quorum(a, b)
{
    if
    :: node[a].cluster != BLANK && FOUNDED_WITH(a, node[a].cluster) && FOUNDED_WITH(b, node[a].cluster) ->
        acknowledge(node[a].cluster)
    :: else
    fi
}

proctype run_node(byte me)
{
end:
    do
    :: atomic { node[me].cluster == BLANK ->
                decide(me);
                acknowledge_if_quorum(0, 1);
                acknowledge_if_quorum(0, 2);
                acknowledge_if_quorum(1, 2) }
    od
}

proctype run_link(byte to; byte from)
{
end:
    do
    :: atomic { node[to].cluster == BLANK -> hear_now(to, from) }
    :: atomic { late[to].hello[from].incarnation != 0 -> hear_late(to, from) }
    :: atomic { node[to].cluster != BLANK -> forget(late[to].hello[from]) }
    od
}

inline lose_memory(n)
{
    forget_all(n);
    forget(late[n].hello[0]); /* its connections are gone */
    forget(late[n].hello[1]);
    forget(late[n].hello[2])
}

inline delay_hello(to, from)
{
    delayed++;
    write_hello(late[to].hello[from], from)
}

proctype run_faults()
{
    byte n, m;
    do
    :: atomic { restarts < RESTARTS -> restarts++; select (n : 0 .. 2);
                if
                :: node[n].cluster == BLANK -> lose_memory(n)
                :: else
                fi; n = 0 }
    :: atomic { wipes < WIPES -> wipes++;
                node[0].incarnation = 2; node[0].cluster = BLANK; lose_memory(0) } /* all are alike: this one */
    :: atomic { delayed < DELAYED -> select (n : 0 .. 2); select (m : 0 .. 2);
                if
                :: n != m && late[n].hello[m].incarnation == 0 -> delay_hello(n, m)
                :: else
                fi; n = 0; m = 0 }
    :: break
    od
}

init {
    atomic {
        run run_node(0); run run_node(1); run run_node(2);
        run run_link(0, 1); run run_link(0, 2); run run_link(1, 0);
        run run_link(1, 2); run run_link(2, 0); run run_link(2, 1);
        run run_faults()
    }
}

#define ALL_FOUNDED \
    (node[0].cluster != BLANK && node[0].cluster == node[1].cluster && node[1].cluster == node[2].cluster)

#if WIPES == 0
ltl founds { <> ALL_FOUNDED }
#endif
