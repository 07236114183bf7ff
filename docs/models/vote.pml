/* Votes: who may lead a term. The protocol of raft/election.c and raft/vote.c, rules 1 to 3.
 *
 *   FOLLOWER --times out--> REVOTE ----------quorum would vote--> VOTE_NEXT -------quorum voted--> LEADER
 *                           (a pre-vote: binds nobody)            (term + 1; durable, then asks)
 *
 * State. Three nodes; of each the vote record (term, vote) on its disk and in memory, whether a write of
 * it is under way, its role and phase, the leader that it follows and whether it hears it, who granted in its
 * round, and to whom it owes a vote once that is durable.
 *
 * Messages are facts: what was once sent may arrive at any later time, any number of times, or never, and
 * overtake anything. So the network is no state of its own, but what may have been sent: who asked for
 * votes in a term, who was given them by whom, who led it. A pre-vote's request and reply mean nothing
 * once its round is over, so they last as long as the round.
 *
 * Actions. A node times out, stops hearing its leader, gets its record durable, dies and starts again
 * from its disk (the record of before the write, of after it, or the new term alone); a leader steps
 * down; a message arrives. In any order, at any time, any number of times: there is no clock and no fault
 * is counted.
 *
 * Not in it: the log (every node's is as long as any other's, so no log is ever behind), disks that hang,
 * learners.
 *
 * Holds in every state:
 *   one_leader   a term is led once: by one node, and by that node in one life. (Rules 1, 2; R1, R4, R5)
 *   undisturbed  while a quorum has been hearing a leader for the whole of a pre-vote's round, that round
 *                raises no term; and who hears a leader takes over no term from a vote request, unless it
 *                is by that leader's order. (Rule 3; R21)
 *   own_term     no term on a disk is ever replaced by a lower one. (Rule 2; R6)
 *
 * Bound: TERMS.
 *
 * Mutants, each without a rule: REPLY_BEFORE_DURABLE (2), SECOND_VOTE (2), CAMPAIGN_IN_SAME_TERM (1),
 * PREVOTE_COUNTS (a yes to a pre-vote taken for a vote), OLD_ROUNDS_COUNT, NO_PREVOTE, NO_STICKINESS,
 * ADOPT_BEFORE_STICKINESS (3). */

#ifndef TERMS
#define TERMS 2
#endif

#define NODES 3
#define NOBODY 3
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define IS_QUORUM(set) ((set) == 3 || (set) >= 5)

/* role and phase in one */
#define FOLLOWER 0
#define REVOTE 1    /* asks for pre-votes */
#define VOTE_NEXT 2 /* asks for votes, once its own is durable */
#define LEADER 3

/* Sets of nodes and of terms are bits. */
typedef Node {
    byte disk_term;
    byte disk_vote = NOBODY;
    byte term;
    byte vote = NOBODY;
    bit writing; /* the record in memory is on its way to the disk */
    byte role;
    byte leader = NOBODY;
    bit hears;          /* the leader, within an election timeout */
    byte granted;       /* by whom, in this round */
    byte yes;           /* replies to this round's pre-vote that are under way */
    byte told;          /* terms in refusals to it, under way */
    byte debt = NOBODY; /* who gets the vote when it is durable: the reply waits for that (rule 2) */
    byte calm;          /* for the check: who has been hearing a leader since the round began */
};
Node node[NODES];

/* What was sent in a term: by whom it was asked for votes, by whom of these on its leader's order, who
 * led it. */
typedef Term {
    byte asked;
    byte by_order;
    byte leader = NOBODY;
    byte gave[NODES] /* to each node: who sent it a vote */
};
Term sent[TERMS + 1];

hidden byte i; /* scratch, no part of the state */
hidden byte yes_or_no;

#define HEARS_LEADER(n) (node[n].role == LEADER || (node[n].leader != NOBODY && node[n].hears))

/* It is no more among those that have heard a leader all the time. */
inline disturb(n)
{
    node[0].calm = node[0].calm & (7 - BIT(n));
    node[1].calm = node[1].calm & (7 - BIT(n));
    node[2].calm = node[2].calm & (7 - BIT(n))
}

inline become_follower(n, whose)
{
    node[n].role = FOLLOWER;
    node[n].granted = 0;
    node[n].calm = 0;
    node[n].told = 0; /* only who asks listens to refusals */
#if !defined(OLD_ROUNDS_COUNT) && !defined(PREVOTE_COUNTS)
    node[n].yes = 0;
#endif
    if
    :: node[n].leader != whose ->
        node[n].leader = whose;
        node[n].hears = 0;
        disturb(n)
    :: else
    fi
}

inline adopt_term(n, new_term)
{
    node[n].term = new_term;
    node[n].vote = NOBODY;
    node[n].debt = NOBODY;
    node[n].writing = 1;
    become_follower(n, NOBODY)
}

/* Rule 1: a new term each time. */
inline campaign(n, is_order)
{
    assert(is_order || !IS_QUORUM(node[n].calm)); /* undisturbed */
    become_follower(n, NOBODY);
    node[n].role = VOTE_NEXT;
#ifdef CAMPAIGN_IN_SAME_TERM
    if
    :: node[n].vote == n /* it has its own vote of this term already */
    :: else -> node[n].term++
    fi;
#else
    node[n].term++;
#endif
    sent[node[n].term].by_order = sent[node[n].term].by_order | (is_order << n);
    node[n].vote = n;
    node[n].debt = NOBODY;
    node[n].writing = 1
}

inline prevote(n)
{
    become_follower(n, NOBODY);
    node[n].role = REVOTE;
    node[n].granted = BIT(n);
    node[n].calm = (HEARS_LEADER(0)) | (HEARS_LEADER(1) << 1) | (HEARS_LEADER(2) << 2);
#ifdef NO_PREVOTE
    campaign(n, 0)
#endif
}

inline lead(n)
{
    assert(sent[node[n].term].leader == NOBODY); /* one_leader */
    become_follower(n, NOBODY);
    node[n].role = LEADER;
    node[n].leader = n;
    sent[node[n].term].leader = n
}

inline send_vote(n, candidate)
{
    sent[node[n].term].gave[candidate] = sent[node[n].term].gave[candidate] | BIT(n)
}

/* What waited for the record goes on from here. */
inline durable(n)
{
    assert(node[n].disk_term <= node[n].term); /* own_term */
    node[n].disk_term = node[n].term;
    node[n].disk_vote = node[n].vote;
    node[n].writing = 0;
    if
    :: node[n].debt != NOBODY ->
        send_vote(n, node[n].debt);
        node[n].debt = NOBODY
    :: else
    fi;
    if
    :: node[n].role == VOTE_NEXT ->
        node[n].granted = BIT(n);
        sent[node[n].term].asked = sent[node[n].term].asked | BIT(n)
    :: else
    fi
}

/* A refusal, with the voter's term. Whoever asks takes over a higher one; others do not listen. */
inline refuse(n, asker)
{
    if
    :: node[n].term > node[asker].term && (node[asker].role == REVOTE || node[asker].role == VOTE_NEXT) ->
        node[asker].told = node[asker].told | BIT(node[n].term)
    :: else
    fi
}

/* Rule 3: stickiness, then the term. Nothing changes here by answering. */
inline receive_prevote(n, asker)
{
#ifdef NO_STICKINESS
    yes_or_no = true;
#else
    yes_or_no = !HEARS_LEADER(n);
#endif
    yes_or_no = yes_or_no && !node[n].writing && node[asker].term >= node[n].term;
    if
    :: yes_or_no -> node[asker].yes = node[asker].yes | BIT(n)
    :: else -> refuse(n, asker)
    fi
}

/* On the order of the leader that this voter follows, given in the term in which it follows it. */
#define TOKEN_RIGHT(n, asker, in_term) \
    (HAS(sent[in_term].by_order, asker) && in_term == node[n].term + 1 && \
     node[n].leader == sent[node[n].term].leader)

inline give_vote(n, candidate)
{
    if
    :: node[n].role != FOLLOWER -> become_follower(n, NOBODY)
    :: else
    fi;
    if
    :: node[n].disk_term == node[n].term && node[n].disk_vote == candidate ->
        send_vote(n, candidate) /* again */
    :: else ->
        node[n].vote = candidate;
        node[n].writing = 1;
#ifdef REPLY_BEFORE_DURABLE
        send_vote(n, candidate)
#else
        node[n].debt = candidate
#endif
    fi
}

/* Rule 3: stickiness, then the term, then whether the vote of that term is still to be given. */
inline receive_request(n, asker, in_term)
{
#ifdef ADOPT_BEFORE_STICKINESS
    if
    :: in_term > node[n].term ->
        assert(!HEARS_LEADER(n) || TOKEN_RIGHT(n, asker, in_term)); /* undisturbed */
        adopt_term(n, in_term)
    :: else
    fi;
#endif
    if
#ifndef NO_STICKINESS
    :: HEARS_LEADER(n) && !TOKEN_RIGHT(n, asker, in_term) -> refuse(n, asker)
#endif
    :: else ->
        if
        :: in_term > node[n].term ->
            assert(!HEARS_LEADER(n) || node[n].leader == sent[in_term - 1].leader); /* undisturbed */
            adopt_term(n, in_term)
        :: else
        fi;
        yes_or_no = in_term == node[n].term && node[n].leader == NOBODY;
#ifndef SECOND_VOTE
        yes_or_no = yes_or_no && (node[n].vote == NOBODY || node[n].vote == asker);
#endif
        if
        :: yes_or_no -> give_vote(n, asker)
        :: else -> refuse(n, asker)
        fi
    fi
}

/* A yes to the pre-vote. */
inline receive_yes(n, voter)
{
    if
    :: node[n].role == REVOTE ->
        node[n].granted = node[n].granted | BIT(voter);
        if
        :: IS_QUORUM(node[n].granted) && !node[n].writing && node[n].term < TERMS -> campaign(n, 0)
        :: else
        fi
#ifdef PREVOTE_COUNTS
    :: node[n].role == VOTE_NEXT && !node[n].writing ->
        node[n].granted = node[n].granted | BIT(voter);
        if
        :: IS_QUORUM(node[n].granted) -> lead(n)
        :: else
        fi
#endif
    :: else
    fi
}

/* A vote in its own term, as a set: twice counts once (R4). */
inline receive_vote(n, voter)
{
    node[n].granted = node[n].granted | BIT(voter);
    if
    :: IS_QUORUM(node[n].granted) -> lead(n)
    :: else
    fi
}

inline receive_heartbeat(n, in_term)
{
    if
    :: in_term > node[n].term -> adopt_term(n, in_term)
    :: else
    fi;
    if
    :: node[n].leader == NOBODY -> become_follower(n, sent[in_term].leader)
    :: else
    fi;
    assert(node[n].leader == sent[in_term].leader); /* one_leader */
    node[n].hears = 1
}

inline crash(n)
{
    if
    :: node[n].writing -> node[n].disk_term = node[n].term; node[n].disk_vote = node[n].vote
    :: node[n].writing && node[n].disk_term < node[n].term -> /* the term, and then the vote, were two writes */
        node[n].disk_term = node[n].term;
        node[n].disk_vote = NOBODY
    :: true
    fi;
    become_follower(n, NOBODY);
    node[n].term = node[n].disk_term;
    node[n].vote = node[n].disk_vote;
    node[n].writing = 0;
    node[n].debt = NOBODY;
    node[n].yes = 0
}

/* What may arrive in or about a term, from anybody. */
#define TERM_ACTIONS(in_term) \
    :: atomic { sent[in_term].leader != NOBODY && sent[in_term].leader != me && \
                in_term >= node[me].term && !(node[me].term == in_term && node[me].hears) -> \
                receive_heartbeat(me, in_term) } \
    :: atomic { node[me].role == LEADER && in_term > node[me].term && \
                (node[0].term == in_term || node[1].term == in_term || node[2].term == in_term) -> \
                adopt_term(me, in_term) } /* the answer to its heartbeat deposes it */ \
    :: atomic { HAS(node[me].told, in_term) && in_term > node[me].term -> adopt_term(me, in_term) }

/* What may arrive from one node. */
#define LINK_ACTIONS(from) \
    :: atomic { node[from].role == REVOTE && !HAS(node[from].yes | node[from].granted, me) -> \
                receive_prevote(me, from) } \
    :: atomic { HAS(node[me].yes, from) -> receive_yes(me, from) } \
    :: atomic { node[me].role == VOTE_NEXT && !node[me].writing && \
                HAS(sent[node[me].term].gave[me], from) -> receive_vote(me, from) }

#define REQUEST_ACTIONS(from, in_term) \
    :: atomic { HAS(sent[in_term].asked, from) -> \
                receive_request(me, from, in_term) }

#define ONE ((me + 1) % NODES)
#define OTHER ((me + 2) % NODES)

active [NODES] proctype run_node()
{
    byte me = _pid;
end:
    do
    :: atomic { node[me].role != LEADER && !node[me].hears && !node[me].writing && node[me].term < TERMS ->
                prevote(me) }
    :: atomic { node[me].hears -> node[me].hears = 0; disturb(me) }
    :: atomic { node[me].writing -> durable(me) }
    :: atomic { node[me].term > 0 -> crash(me) }
    :: atomic { node[me].role == LEADER -> become_follower(me, NOBODY) } /* rule 4: nobody answers it */
    :: atomic { node[me].role == FOLLOWER && node[me].leader != NOBODY && !node[me].writing &&
                node[me].term < TERMS -> campaign(me, 1) } /* its leader's order to take over */
    TERM_ACTIONS(1)
    TERM_ACTIONS(2)
    LINK_ACTIONS(ONE)
    LINK_ACTIONS(OTHER)
    REQUEST_ACTIONS(ONE, 1)
    REQUEST_ACTIONS(ONE, 2)
    REQUEST_ACTIONS(OTHER, 1)
    REQUEST_ACTIONS(OTHER, 2)
#if TERMS > 2
    TERM_ACTIONS(3)
    REQUEST_ACTIONS(ONE, 3)
    REQUEST_ACTIONS(OTHER, 3)
#endif
    od
}
