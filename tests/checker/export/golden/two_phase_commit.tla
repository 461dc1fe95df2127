------------------------------------------ MODULE two_phase_commit -------------------------------------------
\* two_phase_commit. Two-phase commit between one coordinator and several participants, as machines that can
\* run: every message is sent by a state, and a decision is asked for again until all have acknowledged it.
\* Specification f568f3107db6, participants=2
\* TLC judges steps that change something; the explorer also those that change nothing.
\* Not in this module:
\*     guards_disjoint: of two actions that are possible at once TLC takes either; the explorer watches that
\*       none are
EXTENDS Integers, Sequences, FiniteSets, Bags, TLC

participants == 2  \* How many participants there are.

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
  coordinator,  \* Asks all, and decides to commit if all agree.
  participant,  \* Votes, and does what the coordinator then decides. Once it has agreed it cannot decide by itself.
  orders,  \* mailbox, from coordinator to participant
  answers  \* mailbox, from participant to coordinator

vars == <<coordinator, participant, orders, answers>>

Init ==
  /\ coordinator = [state |-> "idle", agreed |-> {}, done |-> {}]
  /\ participant = [Me \in (0..1) |-> [state |-> "working"]]
  /\ orders = [J \in (0..1) |-> <<>>]
  /\ answers = [J \in (0..1) |-> <<>>]

\* coordinator/idle#begin: to asking.
Coordinator_idle_begin ==
  /\ coordinator.state = "idle"
  /\ LET Coordinator_1 == [coordinator EXCEPT !.state = "asking"]
         Orders_1 == [J \in (0..1) |-> PutInMailbox(orders[J], [kind |-> "ask"])]
     IN /\ coordinator' = Coordinator_1
        /\ orders' = Orders_1
        /\ UNCHANGED <<participant, answers>>

\* coordinator/asking#give_up: to aborting.
Coordinator_asking_give_up_give_up ==
  /\ coordinator.state = "asking"
  /\ LET Coordinator_1 == [coordinator EXCEPT !.state = "aborting"]
         Orders_1 == [J \in (0..1) |-> PutInMailbox(orders[J], [kind |-> "abort"])]
     IN /\ coordinator' = Coordinator_1
        /\ orders' = Orders_1
        /\ UNCHANGED <<participant, answers>>

\* coordinator/asking#give_up (no_vote_comes): to aborting.
Coordinator_asking_give_up_no_vote_comes ==
  /\ coordinator.state = "asking"
  /\ (((\E p_ \in (0..1) : ((~TRUE) \/ (~TRUE))))) = TRUE
  /\ LET Coordinator_1 == [coordinator EXCEPT !.state = "aborting"]
         Orders_1 == [J \in (0..1) |-> PutInMailbox(orders[J], [kind |-> "abort"])]
     IN /\ coordinator' = Coordinator_1
        /\ orders' = Orders_1
        /\ UNCHANGED <<participant, answers>>

\* participant/voting#able (answers vote): to prepared.
Participant_voting_able(Me) ==
  /\ participant[Me].state = "voting"
  /\ LET Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "prepared"]]
         Answers_1 == [answers EXCEPT ![Me] = PutInMailbox(answers[Me], [kind |-> "agree"])]
     IN /\ participant' = Participant_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator, orders>>

\* participant/voting#unable (answers vote): to refused.
Participant_voting_unable(Me) ==
  /\ participant[Me].state = "voting"
  /\ LET Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "refused"]]
         Answers_1 == [answers EXCEPT ![Me] = PutInMailbox(answers[Me], [kind |-> "disagree"])]
     IN /\ participant' = Participant_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator, orders>>

\* participant/working#ask: to voting.
Participant_working_ask(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "ask"
  /\ participant[Me].state = "working"
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
         Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "voting"]]
     IN /\ participant' = Participant_1
        /\ orders' = Orders_1
        /\ UNCHANGED <<coordinator, answers>>

\* ask is ignored or refused. Can you commit?
Participant_drops_ask(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "ask"
  /\ ~((participant[Me].state = "working"))
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
     IN /\ orders' = Orders_1
        /\ UNCHANGED <<coordinator, participant, answers>>

\* participant/prepared#commit: to committed.
Participant_prepared_commit(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "commit"
  /\ participant[Me].state = "prepared"
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
         Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "committed"]]
         Answers_1 == [answers EXCEPT ![Me] = PutInMailbox(answers[Me], [kind |-> "acknowledge"])]
     IN /\ participant' = Participant_1
        /\ orders' = Orders_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator>>

\* commit is ignored or refused.
Participant_drops_commit(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "commit"
  /\ ~((participant[Me].state = "prepared"))
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
     IN /\ orders' = Orders_1
        /\ UNCHANGED <<coordinator, participant, answers>>

\* participant/working#abort: to aborted.
Participant_working_abort(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "abort"
  /\ participant[Me].state = "working"
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
         Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "aborted"]]
         Answers_1 == [answers EXCEPT ![Me] = PutInMailbox(answers[Me], [kind |-> "acknowledge"])]
     IN /\ participant' = Participant_1
        /\ orders' = Orders_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator>>

\* participant/voting#abort: to aborted.
Participant_voting_abort(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "abort"
  /\ participant[Me].state = "voting"
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
         Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "aborted"]]
         Answers_1 == [answers EXCEPT ![Me] = PutInMailbox(answers[Me], [kind |-> "acknowledge"])]
     IN /\ participant' = Participant_1
        /\ orders' = Orders_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator>>

\* participant/prepared#abort: to aborted.
Participant_prepared_abort(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "abort"
  /\ participant[Me].state = "prepared"
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
         Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "aborted"]]
         Answers_1 == [answers EXCEPT ![Me] = PutInMailbox(answers[Me], [kind |-> "acknowledge"])]
     IN /\ participant' = Participant_1
        /\ orders' = Orders_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator>>

\* participant/refused#abort: to aborted.
Participant_refused_abort(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "abort"
  /\ participant[Me].state = "refused"
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
         Participant_1 == [participant EXCEPT ![Me] = [participant[Me] EXCEPT !.state = "aborted"]]
         Answers_1 == [answers EXCEPT ![Me] = PutInMailbox(answers[Me], [kind |-> "acknowledge"])]
     IN /\ participant' = Participant_1
        /\ orders' = Orders_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator>>

\* abort is ignored or refused.
Participant_drops_abort(Me) ==
  /\ orders[Me] /= <<>>
  /\ Head(orders[Me]).kind = "abort"
  /\ (~((participant[Me].state = "working") \/ (participant[Me].state = "voting") \/ (participant[Me].state = "prepared") \/ (participant[Me].state = "refused"))) = TRUE
  /\ LET Orders_1 == [orders EXCEPT ![Me] = Tail(orders[Me])]
     IN /\ orders' = Orders_1
        /\ UNCHANGED <<coordinator, participant, answers>>

\* coordinator/asking#agree: to committing.
Coordinator_asking_agree(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "agree"
  /\ coordinator.state = "asking"
  /\ ((coordinator.agreed \union {From}) = (0..1))
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
         Coordinator_1 == [coordinator EXCEPT !.state = "committing", !.agreed = (coordinator.agreed \union {From})]
         Orders_1 == [J \in (0..1) |-> PutInMailbox(orders[J], [kind |-> "commit"])]
     IN /\ coordinator' = Coordinator_1
        /\ orders' = Orders_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<participant>>

\* coordinator/asking#agree.2: stays.
Coordinator_asking_agree_2(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "agree"
  /\ coordinator.state = "asking"
  /\ ((coordinator.agreed \union {From}) /= (0..1))
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
         Coordinator_1 == [coordinator EXCEPT !.agreed = (coordinator.agreed \union {From})]
     IN /\ coordinator' = Coordinator_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<participant, orders>>

\* agree is ignored or refused. I can commit, and will, if I am told to.
Coordinator_drops_agree(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "agree"
  /\ (~((coordinator.state = "asking" /\ ((coordinator.agreed \union {From}) = (0..1))) \/ (coordinator.state = "asking" /\ ((coordinator.agreed \union {From}) /= (0..1))))) = TRUE
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
     IN /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator, participant, orders>>

\* coordinator/asking#disagree: to aborting.
Coordinator_asking_disagree(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "disagree"
  /\ coordinator.state = "asking"
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
         Coordinator_1 == [coordinator EXCEPT !.state = "aborting"]
         Orders_1 == [J \in (0..1) |-> PutInMailbox(orders[J], [kind |-> "abort"])]
     IN /\ coordinator' = Coordinator_1
        /\ orders' = Orders_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<participant>>

\* disagree is ignored or refused. I cannot commit.
Coordinator_drops_disagree(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "disagree"
  /\ ~((coordinator.state = "asking"))
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
     IN /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator, participant, orders>>

\* coordinator/committing#acknowledge: to committed.
Coordinator_committing_acknowledge(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "acknowledge"
  /\ coordinator.state = "committing"
  /\ ((coordinator.done \union {From}) = (0..1))
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
         Coordinator_1 == [coordinator EXCEPT !.state = "committed", !.done = (coordinator.done \union {From})]
     IN /\ coordinator' = Coordinator_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<participant, orders>>

\* coordinator/committing#acknowledge.2: stays.
Coordinator_committing_acknowledge_2(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "acknowledge"
  /\ coordinator.state = "committing"
  /\ ((coordinator.done \union {From}) /= (0..1))
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
         Coordinator_1 == [coordinator EXCEPT !.done = (coordinator.done \union {From})]
     IN /\ coordinator' = Coordinator_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<participant, orders>>

\* coordinator/aborting#acknowledge: to aborted.
Coordinator_aborting_acknowledge(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "acknowledge"
  /\ coordinator.state = "aborting"
  /\ ((coordinator.done \union {From}) = (0..1))
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
         Coordinator_1 == [coordinator EXCEPT !.state = "aborted", !.done = (coordinator.done \union {From})]
     IN /\ coordinator' = Coordinator_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<participant, orders>>

\* coordinator/aborting#acknowledge.2: stays.
Coordinator_aborting_acknowledge_2(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "acknowledge"
  /\ coordinator.state = "aborting"
  /\ ((coordinator.done \union {From}) /= (0..1))
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
         Coordinator_1 == [coordinator EXCEPT !.done = (coordinator.done \union {From})]
     IN /\ coordinator' = Coordinator_1
        /\ answers' = Answers_1
        /\ UNCHANGED <<participant, orders>>

\* acknowledge is ignored or refused. I have done as I was told.
Coordinator_drops_acknowledge(From) ==
  /\ answers[From] /= <<>>
  /\ Head(answers[From]).kind = "acknowledge"
  /\ (~((coordinator.state = "committing" /\ ((coordinator.done \union {From}) = (0..1))) \/ (coordinator.state = "committing" /\ ((coordinator.done \union {From}) /= (0..1))) \/ (coordinator.state = "aborting" /\ ((coordinator.done \union {From}) = (0..1))) \/ (coordinator.state = "aborting" /\ ((coordinator.done \union {From}) /= (0..1))))) = TRUE
  /\ LET Answers_1 == [answers EXCEPT ![From] = Tail(answers[From])]
     IN /\ answers' = Answers_1
        /\ UNCHANGED <<coordinator, participant, orders>>

Next ==
  \/ Coordinator_idle_begin
  \/ Coordinator_asking_give_up_give_up
  \/ Coordinator_asking_give_up_no_vote_comes
  \/ \E Me \in (0..1) : Participant_voting_able(Me)
  \/ \E Me \in (0..1) : Participant_voting_unable(Me)
  \/ \E Me \in (0..1) : Participant_working_ask(Me)
  \/ \E Me \in (0..1) : Participant_drops_ask(Me)
  \/ \E Me \in (0..1) : Participant_prepared_commit(Me)
  \/ \E Me \in (0..1) : Participant_drops_commit(Me)
  \/ \E Me \in (0..1) : Participant_working_abort(Me)
  \/ \E Me \in (0..1) : Participant_voting_abort(Me)
  \/ \E Me \in (0..1) : Participant_prepared_abort(Me)
  \/ \E Me \in (0..1) : Participant_refused_abort(Me)
  \/ \E Me \in (0..1) : Participant_drops_abort(Me)
  \/ \E From \in (0..1) : Coordinator_asking_agree(From)
  \/ \E From \in (0..1) : Coordinator_asking_agree_2(From)
  \/ \E From \in (0..1) : Coordinator_drops_agree(From)
  \/ \E From \in (0..1) : Coordinator_asking_disagree(From)
  \/ \E From \in (0..1) : Coordinator_drops_disagree(From)
  \/ \E From \in (0..1) : Coordinator_committing_acknowledge(From)
  \/ \E From \in (0..1) : Coordinator_committing_acknowledge_2(From)
  \/ \E From \in (0..1) : Coordinator_aborting_acknowledge(From)
  \/ \E From \in (0..1) : Coordinator_aborting_acknowledge_2(From)
  \/ \E From \in (0..1) : Coordinator_drops_acknowledge(From)

\* What could happen all the time from some point on does happen. (Of a group of which some step changes
\* nothing, the explorer takes that step for enough; TLC asks for one that changes something.)
Fairness ==
  /\ WF_vars((Coordinator_asking_give_up_no_vote_comes))  \* coordinator no_vote_comes
  /\ \A Me \in (0..1) : WF_vars((Participant_voting_able(Me)) \/ (Participant_voting_unable(Me)))  \* participant vote
  /\ \A Me \in (0..1) : WF_vars((Participant_working_ask(Me)) \/ (Participant_drops_ask(Me)) \/ (Participant_prepared_commit(Me)) \/ (Participant_drops_commit(Me)) \/ (Participant_working_abort(Me)) \/ (Participant_voting_abort(Me)) \/ (Participant_prepared_abort(Me)) \/ (Participant_refused_abort(Me)) \/ (Participant_drops_abort(Me)))  \* deliver orders
  /\ \A From \in (0..1) : WF_vars((Coordinator_asking_agree(From)) \/ (Coordinator_asking_agree_2(From)) \/ (Coordinator_drops_agree(From)) \/ (Coordinator_asking_disagree(From)) \/ (Coordinator_drops_disagree(From)) \/ (Coordinator_committing_acknowledge(From)) \/ (Coordinator_committing_acknowledge_2(From)) \/ (Coordinator_aborting_acknowledge(From)) \/ (Coordinator_aborting_acknowledge_2(From)) \/ (Coordinator_drops_acknowledge(From)))  \* deliver answers

Spec == Init /\ [][Next]_vars /\ Fairness

\* A claim P about steps that asks who consumed what: it holds of every action that a step can be taken for.
Judged(P(_, _, _)) ==
  /\ Coordinator_idle_begin => P("coordinator", 0, "begin")
  /\ Coordinator_asking_give_up_give_up => P("coordinator", 0, "give_up")
  /\ Coordinator_asking_give_up_no_vote_comes => P("coordinator", 0, "give_up")
  /\ \A Me \in (0..1) : Participant_voting_able(Me) => P("participant", Me, "able")
  /\ \A Me \in (0..1) : Participant_voting_unable(Me) => P("participant", Me, "unable")
  /\ \A Me \in (0..1) : Participant_working_ask(Me) => P("participant", Me, "ask")
  /\ \A Me \in (0..1) : Participant_drops_ask(Me) => P("participant", Me, "ask")
  /\ \A Me \in (0..1) : Participant_prepared_commit(Me) => P("participant", Me, "commit")
  /\ \A Me \in (0..1) : Participant_drops_commit(Me) => P("participant", Me, "commit")
  /\ \A Me \in (0..1) : Participant_working_abort(Me) => P("participant", Me, "abort")
  /\ \A Me \in (0..1) : Participant_voting_abort(Me) => P("participant", Me, "abort")
  /\ \A Me \in (0..1) : Participant_prepared_abort(Me) => P("participant", Me, "abort")
  /\ \A Me \in (0..1) : Participant_refused_abort(Me) => P("participant", Me, "abort")
  /\ \A Me \in (0..1) : Participant_drops_abort(Me) => P("participant", Me, "abort")
  /\ \A From \in (0..1) : Coordinator_asking_agree(From) => P("coordinator", 0, "agree")
  /\ \A From \in (0..1) : Coordinator_asking_agree_2(From) => P("coordinator", 0, "agree")
  /\ \A From \in (0..1) : Coordinator_drops_agree(From) => P("coordinator", 0, "agree")
  /\ \A From \in (0..1) : Coordinator_asking_disagree(From) => P("coordinator", 0, "disagree")
  /\ \A From \in (0..1) : Coordinator_drops_disagree(From) => P("coordinator", 0, "disagree")
  /\ \A From \in (0..1) : Coordinator_committing_acknowledge(From) => P("coordinator", 0, "acknowledge")
  /\ \A From \in (0..1) : Coordinator_committing_acknowledge_2(From) => P("coordinator", 0, "acknowledge")
  /\ \A From \in (0..1) : Coordinator_aborting_acknowledge(From) => P("coordinator", 0, "acknowledge")
  /\ \A From \in (0..1) : Coordinator_aborting_acknowledge_2(From) => P("coordinator", 0, "acknowledge")
  /\ \A From \in (0..1) : Coordinator_drops_acknowledge(From) => P("coordinator", 0, "acknowledge")

\* agreement: always. No participant commits while another aborts.
Agreement == (~((\E p_ \in (0..1) : (participant[p_].state = "committed")) /\ (\E p_ \in (0..1) : (participant[p_].state = "aborted"))))

\* commit_needs_all: always. A participant commits only if all have agreed.
Commit_needs_all == ((\E p_ \in (0..1) : (participant[p_].state = "committed")) => (\A p_ \in (0..1) : (participant[p_].state \in {"prepared", "committed"})))

\* decisions_stand: step. A decision is never taken back.
Decisions_stand == [][(\A p_ \in (0..1) : ((participant[p_].state \notin {"committed", "aborted"}) \/ (participant'[p_].state = participant[p_].state)))]_vars

\* votes_are_cast: step. A participant agrees only when its vote is that it can commit.
Votes_are_cast == [][Judged(LAMBDA Took_role, Took_instance, Took_event : (\A p_ \in (0..1) : ((participant[p_].state = participant'[p_].state) \/ (participant'[p_].state /= "prepared") \/ (Took_role = "participant" /\ Took_instance = p_ /\ Took_event = "able"))))]_vars

\* giving_up_aborts: step. A coordinator that gives up waiting for the votes decides to abort.
Giving_up_aborts == [][Judged(LAMBDA Took_role, Took_instance, Took_event : (((Took_role = "coordinator" /\ Took_event = "give_up") /\ (coordinator.state = "asking")) => (coordinator'.state = "aborting")))]_vars

\* a_transaction_ends: leads_to. Without faults, every transaction that has begun comes to its end.
A_transaction_ends == ((coordinator.state = "asking")) ~> ((coordinator.state \in {"committed", "aborted"}))

\* prepared_ends: leads_to. Every participant that has agreed hears of the decision. Not when the coordinator
\* is gone for good (it blocks).
Prepared_ends == ((\E p_ \in (0..1) : ((participant[p_].state = "prepared") /\ TRUE))) ~> ((~(\E p_ \in (0..1) : ((participant[p_].state = "prepared") /\ TRUE))))

\* prepared_ends_beside_a_coordinator: leads_to. It waits for nobody but the coordinator.
Prepared_ends_beside_a_coordinator == ((TRUE /\ (\E p_ \in (0..1) : ((participant[p_].state = "prepared") /\ TRUE)))) ~> (((~TRUE) \/ (~(\E p_ \in (0..1) : ((participant[p_].state = "prepared") /\ TRUE)))))

\* all_may_commit: sometimes.
All_may_commit == ~(\A p_ \in (0..1) : (participant[p_].state = "committed"))  \* what breaks this is the witness

\* all_may_abort: sometimes.
All_may_abort == ~(\A p_ \in (0..1) : (participant[p_].state = "aborted"))  \* what breaks this is the witness

\* deadlock_free: nothing stops but in an allowed end: committed, aborted
DeadlockFree == (ENABLED Next \/ ((coordinator.state = "committed") /\ (\A p_ \in (0..1) : (participant[p_].state = "committed"))) \/ ((coordinator.state = "aborted") /\ (\A p_ \in (0..1) : (participant[p_].state = "aborted"))))

==============================================================================================================
