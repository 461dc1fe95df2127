---- MODULE model ----
(* One value is chosen by a majority of acceptors (Lamport, "Paxos made simple", 2001); messages are never consumed. *)
EXTENDS Naturals, FiniteSets
Prop == 1..2
Acc == 0..2
VARIABLES pc, heard, best, value, promised, ballot, held, msgs
vars == <<pc, heard, best, value, promised, ballot, held, msgs>>

Init ==
  /\ pc = [p \in Prop |-> "idle"] /\ heard = [p \in Prop |-> {}]
  /\ best = [p \in Prop |-> 0] /\ value = [p \in Prop |-> p]
  /\ promised = [a \in Acc |-> 0] /\ ballot = [a \in Acc |-> 0] /\ held = [a \in Acc |-> 0]
  /\ msgs = {}

Max(a, b) == IF a < b THEN b ELSE a
Majority(s) == 2 * Cardinality(s) > Cardinality(Acc)

Begin(p) ==
  /\ pc[p] = "idle" /\ pc' = [pc EXCEPT ![p] = "preparing"]
  /\ msgs' = msgs \cup {<<"prepare", p, a>> : a \in Acc}
  /\ UNCHANGED <<heard, best, value, promised, ballot, held>>
Promise(p, a) ==
  /\ <<"prepare", p, a>> \in msgs /\ p > promised[a]
  /\ promised' = [promised EXCEPT ![a] = p]
  /\ msgs' = msgs \cup {<<"promise", p, a, ballot[a], held[a]>>}
  /\ UNCHANGED <<pc, heard, best, value, ballot, held>>
Hear(m) ==
  /\ m[1] = "promise"
  /\ LET p == m[2] IN
     /\ pc[p] = "preparing" /\ m[3] \notin heard[p]
     /\ heard' = [heard EXCEPT ![p] = @ \cup {m[3]}]
     /\ best' = [best EXCEPT ![p] = Max(@, m[4])]
     /\ value' = [value EXCEPT ![p] = IF m[4] > best[p] THEN m[5] ELSE @]
  /\ UNCHANGED <<pc, promised, ballot, held, msgs>>
Propose(p) ==
  /\ pc[p] = "preparing" /\ Majority(heard[p])
  /\ pc' = [pc EXCEPT ![p] = "proposing"]
  /\ heard' = [heard EXCEPT ![p] = {}] /\ best' = [best EXCEPT ![p] = 0]
  /\ msgs' = msgs \cup {<<"accept", p, a, value[p]>> : a \in Acc}
  /\ UNCHANGED <<value, promised, ballot, held>>
Accept(m) ==
  /\ m[1] = "accept"
  /\ LET p == m[2] a == m[3] IN
     /\ p >= promised[a] /\ p > ballot[a]
     /\ promised' = [promised EXCEPT ![a] = p] /\ ballot' = [ballot EXCEPT ![a] = p]
     /\ held' = [held EXCEPT ![a] = m[4]]
     /\ msgs' = msgs \cup {<<"accepted", p, a>>}
  /\ UNCHANGED <<pc, heard, best, value>>
Count(m) ==
  /\ m[1] = "accepted"
  /\ LET p == m[2] IN
     /\ pc[p] = "proposing" /\ m[3] \notin heard[p]
     /\ IF Majority(heard[p] \cup {m[3]})
        THEN pc' = [pc EXCEPT ![p] = "chosen"] /\ heard' = [heard EXCEPT ![p] = {}]
        ELSE heard' = [heard EXCEPT ![p] = @ \cup {m[3]}] /\ UNCHANGED pc
  /\ UNCHANGED <<best, value, promised, ballot, held, msgs>>

Next ==
  \/ \E p \in Prop : Begin(p) \/ Propose(p) \/ \E a \in Acc : Promise(p, a)
  \/ \E m \in msgs : Hear(m) \/ Accept(m) \/ Count(m)
Spec == Init /\ [][Next]_vars
====
