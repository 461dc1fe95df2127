---- MODULE model ----
(* A server lends one lock to its clients (Verdi's lockserv; Wilcox and others, PLDI 2015). *)
EXTENDS Naturals
Client == 0..2
None == 3
VARIABLES pc, waiting, holder, asks, unlocks, grants
vars == <<pc, waiting, holder, asks, unlocks, grants>>

Init ==
  /\ pc = [c \in Client |-> "idle"] /\ waiting = {} /\ holder = None
  /\ asks = {} /\ unlocks = {} /\ grants = {}

Want(c) == pc[c] = "idle" /\ pc' = [pc EXCEPT ![c] = "waiting"] /\ asks' = asks \cup {c}
           /\ UNCHANGED <<waiting, holder, unlocks, grants>>
Hear(c) == c \in asks /\ asks' = asks \ {c} /\ waiting' = waiting \cup {c}
           /\ UNCHANGED <<pc, holder, unlocks, grants>>
Lend(c) == holder = None /\ c \in waiting /\ holder' = c /\ waiting' = waiting \ {c} /\ grants' = grants \cup {c}
           /\ UNCHANGED <<pc, asks, unlocks>>
Hold(c) == c \in grants /\ grants' = grants \ {c} /\ pc' = [pc EXCEPT ![c] = "holding"]
           /\ UNCHANGED <<waiting, holder, asks, unlocks>>
GiveBack(c) == pc[c] = "holding" /\ pc' = [pc EXCEPT ![c] = "idle"] /\ unlocks' = unlocks \cup {c}
               /\ UNCHANGED <<waiting, holder, asks, grants>>
Free(c) == c \in unlocks /\ unlocks' = unlocks \ {c} /\ holder' = None
           /\ UNCHANGED <<pc, waiting, asks, grants>>

Next == \E c \in Client : Want(c) \/ Hear(c) \/ Lend(c) \/ Hold(c) \/ GiveBack(c) \/ Free(c)
Spec == Init /\ [][Next]_vars
====
