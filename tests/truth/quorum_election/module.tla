---- MODULE model ----
(* The election of Raft (Ongaro and Ousterhout, USENIX ATC 2014) in one term; messages are never consumed. *)
EXTENDS Naturals, FiniteSets
Node == 0..2
None == 3
Terms == 1
VARIABLES pc, term, voted, votes, msgs
vars == <<pc, term, voted, votes, msgs>>

Init ==
  /\ pc = [n \in Node |-> "follower"] /\ term = [n \in Node |-> 0]
  /\ voted = [n \in Node |-> None] /\ votes = [n \in Node |-> {}] /\ msgs = {}

TimeOut(n) ==
  /\ pc[n] # "leader"
  /\ pc' = [pc EXCEPT ![n] = "candidate"] /\ term' = [term EXCEPT ![n] = @ + 1]
  /\ voted' = [voted EXCEPT ![n] = n] /\ votes' = [votes EXCEPT ![n] = {n}]
  /\ msgs' = msgs \cup {<<"request", n, m, term[n] + 1>> : m \in Node \ {n}}
Give(m) ==
  /\ m[1] = "request" /\ m[4] > term[m[3]]
  /\ pc' = [pc EXCEPT ![m[3]] = "follower"] /\ term' = [term EXCEPT ![m[3]] = m[4]]
  /\ voted' = [voted EXCEPT ![m[3]] = m[2]] /\ votes' = [votes EXCEPT ![m[3]] = {}]
  /\ msgs' = msgs \cup {<<"vote", m[3], m[2], m[4]>>}
Count(m) ==
  /\ m[1] = "vote" /\ pc[m[3]] = "candidate" /\ m[4] = term[m[3]] /\ m[2] \notin votes[m[3]]
  /\ votes' = [votes EXCEPT ![m[3]] = @ \cup {m[2]}]
  /\ UNCHANGED <<pc, term, voted, msgs>>
Win(n) ==
  /\ pc[n] = "candidate" /\ 2 * Cardinality(votes[n]) > Cardinality(Node)
  /\ pc' = [pc EXCEPT ![n] = "leader"]
  /\ UNCHANGED <<term, voted, votes, msgs>>

Next == (\E n \in Node : TimeOut(n) \/ Win(n)) \/ \E m \in msgs : Give(m) \/ Count(m)
Spec == Init /\ [][Next]_vars
Bounds == \A n \in Node : term[n] <= Terms
====
