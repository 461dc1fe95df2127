---------------------------------------------- MODULE two_phase ----------------------------------------------
\* two_phase. Two-phase commit as in Gray and Lamport, "Consensus on Transaction Commit": messages are never
\* consumed, so a message set stands for a network that loses, repeats and reorders.
\* Specification 538b361be3f3, resource_managers=3
EXTENDS Integers, Sequences, FiniteSets, Bags, TLC

resource_managers == 3

Min(A, B) == IF A < B THEN A ELSE B
Max(A, B) == IF A > B THEN A ELSE B
\* of a set of numbers; the fallback where it is empty
Least(S, Fallback) == IF S = {} THEN Fallback ELSE CHOOSE N \in S : \A M \in S : N <= M
Greatest(S, Fallback) == IF S = {} THEN Fallback ELSE CHOOSE N \in S : \A M \in S : N >= M
\* rounded down, and 0 where it is divided by 0
Div(A, B) == IF B = 0 THEN 0 ELSE IF B > 0 THEN A \div B ELSE (-A) \div (-B)
Mod(A, B) == IF B = 0 THEN 0 ELSE A - B * Div(A, B)
\* an option is the set of its value, or empty
Get(Option, Fallback) == IF Option = {} THEN Fallback ELSE CHOOSE V \in Option : TRUE

Sum(S, F(_)) ==
  LET G[T \in SUBSET S] == IF T = {} THEN 0 ELSE LET E == CHOOSE E \in T : TRUE IN F(E) + G[T \ {E}]
  IN G[S]
SumOfSequence(Q, F(_)) == Sum(DOMAIN Q, LAMBDA I : F(Q[I]))
SumOfBag(B, F(_)) == Sum(BagToSet(B), LAMBDA E : B[E] * F(E))
Messages(Q) == {Q[I] : I \in DOMAIN Q}

\* a sequence without what lies at some places
Without(Q, Places) ==
  LET G[N \in 0..Len(Q)] == IF N = 0 THEN <<>> ELSE IF N \in Places THEN G[N - 1] ELSE Append(G[N - 1], Q[N])
  IN G[Len(Q)]

\* Of each kind the newest message counts, and the one before it may still be on its way.
PutInMailbox(Q, M) ==
  LET Same == {I \in DOMAIN Q : Q[I].kind = M.kind}
  IN Append(Without(Q, {I \in Same : \E L \in Same : L > I}), M)
PutInBag(B, M) == B (+) SetToBag({M})
RemoveFromBag(B, M) == B (-) SetToBag({M})
PutInSet(S, M) == S \union {M}

VARIABLES
  transaction_manager,
  resource_manager,
  votes,  \* set, from resource_manager to transaction_manager
  decisions  \* set, from transaction_manager to resource_manager

vars == <<transaction_manager, resource_manager, votes, decisions>>

Init ==
  /\ transaction_manager = [state |-> "init", ready |-> {}]
  /\ resource_manager = [Me \in (0..2) |-> [state |-> "working"]]
  /\ votes = [J \in (0..2) |-> {}]
  /\ decisions = [J \in (0..2) |-> {}]

\* transaction_manager/init#decide_commit: to committed.
Transaction_manager_init_decide_commit ==
  /\ transaction_manager.state = "init"
  /\ (Cardinality(transaction_manager.ready) = resource_managers)
  /\ LET Transaction_manager_1 == [transaction_manager EXCEPT !.state = "committed"]
         Decisions_1 == [J \in (0..2) |-> PutInSet(decisions[J], [kind |-> "commit"])]
     IN /\ transaction_manager' = Transaction_manager_1
        /\ decisions' = Decisions_1
        /\ UNCHANGED <<resource_manager, votes>>

\* transaction_manager/init#decide_abort: to aborted.
Transaction_manager_init_decide_abort ==
  /\ transaction_manager.state = "init"
  /\ LET Transaction_manager_1 == [transaction_manager EXCEPT !.state = "aborted"]
         Decisions_1 == [J \in (0..2) |-> PutInSet(decisions[J], [kind |-> "abort"])]
     IN /\ transaction_manager' = Transaction_manager_1
        /\ decisions' = Decisions_1
        /\ UNCHANGED <<resource_manager, votes>>

\* resource_manager/working#prepare: to prepared.
Resource_manager_working_prepare(Me) ==
  /\ resource_manager[Me].state = "working"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "prepared"]]
         Votes_1 == [votes EXCEPT ![Me] = PutInSet(votes[Me], [kind |-> "prepared"])]
     IN /\ resource_manager' = Resource_manager_1
        /\ votes' = Votes_1
        /\ UNCHANGED <<transaction_manager, decisions>>

\* resource_manager/working#choose_to_abort: to aborted.
Resource_manager_working_choose_to_abort(Me) ==
  /\ resource_manager[Me].state = "working"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "aborted"]]
     IN /\ resource_manager' = Resource_manager_1
        /\ UNCHANGED <<transaction_manager, votes, decisions>>

\* transaction_manager/init#prepared: to init.
Transaction_manager_init_prepared(From, Msg) ==
  /\ Msg.kind = "prepared"
  /\ transaction_manager.state = "init"
  /\ LET Transaction_manager_1 == [transaction_manager EXCEPT !.ready = (transaction_manager.ready \union {From})]
     IN /\ transaction_manager' = Transaction_manager_1
        /\ UNCHANGED <<resource_manager, votes, decisions>>

\* resource_manager/working#commit: to committed.
Resource_manager_working_commit(Me, Msg) ==
  /\ Msg.kind = "commit"
  /\ resource_manager[Me].state = "working"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "committed"]]
     IN /\ resource_manager' = Resource_manager_1
        /\ UNCHANGED <<transaction_manager, votes, decisions>>

\* resource_manager/prepared#commit: to committed.
Resource_manager_prepared_commit(Me, Msg) ==
  /\ Msg.kind = "commit"
  /\ resource_manager[Me].state = "prepared"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "committed"]]
     IN /\ resource_manager' = Resource_manager_1
        /\ UNCHANGED <<transaction_manager, votes, decisions>>

\* resource_manager/committed#commit: to committed.
Resource_manager_committed_commit(Me, Msg) ==
  /\ Msg.kind = "commit"
  /\ resource_manager[Me].state = "committed"
  /\ UNCHANGED <<transaction_manager, resource_manager, votes, decisions>>

\* resource_manager/aborted#commit: to committed.
Resource_manager_aborted_commit(Me, Msg) ==
  /\ Msg.kind = "commit"
  /\ resource_manager[Me].state = "aborted"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "committed"]]
     IN /\ resource_manager' = Resource_manager_1
        /\ UNCHANGED <<transaction_manager, votes, decisions>>

\* resource_manager/working#abort: to aborted.
Resource_manager_working_abort(Me, Msg) ==
  /\ Msg.kind = "abort"
  /\ resource_manager[Me].state = "working"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "aborted"]]
     IN /\ resource_manager' = Resource_manager_1
        /\ UNCHANGED <<transaction_manager, votes, decisions>>

\* resource_manager/prepared#abort: to aborted.
Resource_manager_prepared_abort(Me, Msg) ==
  /\ Msg.kind = "abort"
  /\ resource_manager[Me].state = "prepared"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "aborted"]]
     IN /\ resource_manager' = Resource_manager_1
        /\ UNCHANGED <<transaction_manager, votes, decisions>>

\* resource_manager/committed#abort: to aborted.
Resource_manager_committed_abort(Me, Msg) ==
  /\ Msg.kind = "abort"
  /\ resource_manager[Me].state = "committed"
  /\ LET Resource_manager_1 == [resource_manager EXCEPT ![Me] = [resource_manager[Me] EXCEPT !.state = "aborted"]]
     IN /\ resource_manager' = Resource_manager_1
        /\ UNCHANGED <<transaction_manager, votes, decisions>>

\* resource_manager/aborted#abort: to aborted.
Resource_manager_aborted_abort(Me, Msg) ==
  /\ Msg.kind = "abort"
  /\ resource_manager[Me].state = "aborted"
  /\ UNCHANGED <<transaction_manager, resource_manager, votes, decisions>>

Next ==
  \/ Transaction_manager_init_decide_commit
  \/ Transaction_manager_init_decide_abort
  \/ \E Me \in (0..2) : Resource_manager_working_prepare(Me)
  \/ \E Me \in (0..2) : Resource_manager_working_choose_to_abort(Me)
  \/ \E From \in (0..2) : \E Msg \in votes[From] : Transaction_manager_init_prepared(From, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_working_commit(Me, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_prepared_commit(Me, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_committed_commit(Me, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_aborted_commit(Me, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_working_abort(Me, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_prepared_abort(Me, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_committed_abort(Me, Msg)
  \/ \E Me \in (0..2) : \E Msg \in decisions[Me] : Resource_manager_aborted_abort(Me, Msg)

\* What could happen all the time from some point on does happen. (Of a group of which some step changes
\* nothing, the explorer takes that step for enough; TLC asks for one that changes something.)
Fairness ==
  /\ \A From \in (0..2) : WF_vars((\E Msg \in votes[From] : Transaction_manager_init_prepared(From, Msg)))  \* deliver votes
  /\ \A Me \in (0..2) : WF_vars((\E Msg \in decisions[Me] : Resource_manager_working_commit(Me, Msg)) \/ (\E Msg \in decisions[Me] : Resource_manager_prepared_commit(Me, Msg)) \/ (\E Msg \in decisions[Me] : Resource_manager_committed_commit(Me, Msg)) \/ (\E Msg \in decisions[Me] : Resource_manager_aborted_commit(Me, Msg)) \/ (\E Msg \in decisions[Me] : Resource_manager_working_abort(Me, Msg)) \/ (\E Msg \in decisions[Me] : Resource_manager_prepared_abort(Me, Msg)) \/ (\E Msg \in decisions[Me] : Resource_manager_committed_abort(Me, Msg)) \/ (\E Msg \in decisions[Me] : Resource_manager_aborted_abort(Me, Msg)))  \* deliver decisions

Spec == Init /\ [][Next]_vars /\ Fairness

\* consistent: always. No resource manager commits while another aborts.
Consistent == (~((\E r_ \in (0..2) : (resource_manager[r_].state = "committed")) /\ (\E r_ \in (0..2) : (resource_manager[r_].state = "aborted"))))

\* can_commit: sometimes.
Can_commit == ~(\A r_ \in (0..2) : (resource_manager[r_].state = "committed"))  \* what breaks this is the witness

\* can_abort: sometimes.
Can_abort == ~(\A r_ \in (0..2) : (resource_manager[r_].state = "aborted"))  \* what breaks this is the witness

==============================================================================================================
