---- MODULE model ----
(* Mutual exclusion by votes of a majority (Maekawa, ACM TOCS 3(2), 1985), without its inquiries. *)
EXTENDS Naturals, FiniteSets
Proc == 0..1
Voter == 0..2
VARIABLES pc, votes, given, requests, releases, sent
vars == <<pc, votes, given, requests, releases, sent>>

Init ==
  /\ pc = [p \in Proc |-> "idle"] /\ votes = [p \in Proc |-> {}] /\ given = [v \in Voter |-> FALSE]
  /\ requests = {} /\ releases = {} /\ sent = {}

Want(p) ==
  /\ pc[p] = "idle"
  /\ pc' = [pc EXCEPT ![p] = "waiting"]
  /\ requests' = requests \cup {<<p, v>> : v \in Voter}
  /\ UNCHANGED <<votes, given, releases, sent>>
Enter(p) ==
  /\ pc[p] = "waiting" /\ 2 * Cardinality(votes[p]) > Cardinality(Voter)
  /\ pc' = [pc EXCEPT ![p] = "inside"]
  /\ UNCHANGED <<votes, given, requests, releases, sent>>
Leave(p) ==
  /\ pc[p] = "inside" /\ votes[p] = Voter
  /\ pc' = [pc EXCEPT ![p] = "idle"]
  /\ votes' = [votes EXCEPT ![p] = {}]
  /\ releases' = releases \cup {<<p, v>> : v \in Voter}
  /\ UNCHANGED <<given, requests, sent>>
Give(p, v) ==
  /\ <<p, v>> \in requests /\ ~given[v]
  /\ requests' = requests \ {<<p, v>>}
  /\ given' = [given EXCEPT ![v] = TRUE]
  /\ sent' = sent \cup {<<p, v>>}
  /\ UNCHANGED <<pc, votes, releases>>
TakeBack(p, v) ==
  /\ <<p, v>> \in releases
  /\ releases' = releases \ {<<p, v>>}
  /\ given' = [given EXCEPT ![v] = FALSE]
  /\ UNCHANGED <<pc, votes, requests, sent>>
Count(p, v) ==
  /\ <<p, v>> \in sent
  /\ sent' = sent \ {<<p, v>>}
  /\ votes' = [votes EXCEPT ![p] = @ \cup {v}]
  /\ UNCHANGED <<pc, given, requests, releases>>

Next == \E p \in Proc : Want(p) \/ Enter(p) \/ Leave(p) \/ \E v \in Voter : Give(p, v) \/ TakeBack(p, v) \/ Count(p, v)
Spec == Init /\ [][Next]_vars
====
