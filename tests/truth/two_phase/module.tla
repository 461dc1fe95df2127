---- MODULE model ----
(* Two-phase commit (Gray and Lamport, "Consensus on transaction commit", 2006); messages are never consumed. *)
EXTENDS Naturals
RM == 0..2
VARIABLES pc, tm, ready, votes, decided
vars == <<pc, tm, ready, votes, decided>>

Init == pc = [r \in RM |-> "working"] /\ tm = "init" /\ ready = {} /\ votes = {} /\ decided = {}

Vote(r) == pc[r] = "working" /\ pc' = [pc EXCEPT ![r] = "prepared"] /\ votes' = votes \cup {r}
           /\ UNCHANGED <<tm, ready, decided>>
GiveUp(r) == pc[r] = "working" /\ pc' = [pc EXCEPT ![r] = "aborted"] /\ UNCHANGED <<tm, ready, votes, decided>>
Count(r) == tm = "init" /\ r \in votes /\ ready' = ready \cup {r} /\ UNCHANGED <<pc, tm, votes, decided>>
Commit == tm = "init" /\ ready = RM /\ tm' = "committed" /\ decided' = decided \cup {"commit"}
          /\ UNCHANGED <<pc, ready, votes>>
Abort == tm = "init" /\ tm' = "aborted" /\ decided' = decided \cup {"abort"} /\ UNCHANGED <<pc, ready, votes>>
Obey(r, what, end) == what \in decided /\ pc' = [pc EXCEPT ![r] = end] /\ UNCHANGED <<tm, ready, votes, decided>>

Next == Commit \/ Abort \/ \E r \in RM :
          Vote(r) \/ GiveUp(r) \/ Count(r) \/ Obey(r, "commit", "committed") \/ Obey(r, "abort", "aborted")
Spec == Init /\ [][Next]_vars
====
