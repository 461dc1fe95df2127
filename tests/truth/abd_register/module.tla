---- MODULE model ----
(* A register at replicas, of which a majority answers (Attiya, Bar-Noy and Dolev, JACM 42(1), 1995). *)
EXTENDS Naturals, FiniteSets
Replica == 0..2
Writes == 1
VARIABLES writer, stamp, wheard, reader, best, rheard, kept, msgs
vars == <<writer, stamp, wheard, reader, best, rheard, kept, msgs>>

Init ==
  /\ writer = "idle" /\ stamp = 0 /\ wheard = {}
  /\ reader = "idle" /\ best = 0 /\ rheard = {}
  /\ kept = [r \in Replica |-> 0] /\ msgs = {}

Max(a, b) == IF a < b THEN b ELSE a
Majority(s) == 2 * Cardinality(s) > Cardinality(Replica)

Write ==
  /\ writer = "idle" /\ stamp < Writes
  /\ writer' = "storing" /\ stamp' = stamp + 1
  /\ msgs' = msgs \cup {<<"store", r, stamp + 1>> : r \in Replica}
  /\ UNCHANGED <<wheard, reader, best, rheard, kept>>
EndWrite ==
  /\ writer = "storing" /\ Majority(wheard)
  /\ writer' = "idle" /\ wheard' = {}
  /\ UNCHANGED <<stamp, reader, best, rheard, kept, msgs>>
Read ==
  /\ reader = "idle" /\ reader' = "asking"
  /\ msgs' = msgs \cup {<<"query", r, 0>> : r \in Replica}
  /\ UNCHANGED <<writer, stamp, wheard, best, rheard, kept>>
Settle ==
  /\ reader = "asking" /\ Majority(rheard)
  /\ reader' = "storing" /\ rheard' = {}
  /\ msgs' = msgs \cup {<<"store too", r, best>> : r \in Replica}
  /\ UNCHANGED <<writer, stamp, wheard, best, kept>>
EndRead ==
  /\ reader = "storing" /\ Majority(rheard)
  /\ reader' = "done" /\ rheard' = {}
  /\ UNCHANGED <<writer, stamp, wheard, best, kept, msgs>>

Receive(m) ==
  LET r == m[2]
      left == msgs \ {m}
      mine == <<writer, stamp, wheard, reader, best, rheard>>
  IN CASE m[1] = "store" ->
            /\ kept' = [kept EXCEPT ![r] = Max(@, m[3])]
            /\ msgs' = left \cup {<<"stored", r, m[3]>>} /\ UNCHANGED mine
       [] m[1] = "query" -> msgs' = left \cup {<<"reply", r, kept[r]>>} /\ UNCHANGED <<mine, kept>>
       [] m[1] = "store too" ->
            /\ kept' = [kept EXCEPT ![r] = Max(@, m[3])]
            /\ msgs' = left \cup {<<"stored too", r, 0>>} /\ UNCHANGED mine
       [] m[1] = "stored" ->
            /\ msgs' = left
            /\ wheard' = IF writer = "storing" /\ m[3] = stamp THEN wheard \cup {r} ELSE wheard
            /\ UNCHANGED <<writer, stamp, reader, best, rheard, kept>>
       [] m[1] = "reply" ->
            /\ msgs' = left
            /\ rheard' = IF reader = "asking" THEN rheard \cup {r} ELSE rheard
            /\ best' = IF reader = "asking" THEN Max(best, m[3]) ELSE best
            /\ UNCHANGED <<writer, stamp, wheard, reader, kept>>
       [] m[1] = "stored too" ->
            /\ msgs' = left
            /\ rheard' = IF reader = "storing" THEN rheard \cup {r} ELSE rheard
            /\ UNCHANGED <<writer, stamp, wheard, reader, best, kept>>

Next == Write \/ EndWrite \/ Read \/ Settle \/ EndRead \/ \E m \in msgs : Receive(m)
Spec == Init /\ [][Next]_vars
====
