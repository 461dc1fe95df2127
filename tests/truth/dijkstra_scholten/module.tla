---- MODULE model ----
(* A root learns that a computation has ended (Dijkstra and Scholten, IPL 11(1), 1980). *)
EXTENDS Naturals
Node == 0..2
None == 3
Most == 1
VARIABLES active, parent, deficit, left, work, done
vars == <<active, parent, deficit, left, work, done>>

Init ==
  /\ active = [n \in Node |-> n = 0] /\ parent = [n \in Node |-> None]
  /\ deficit = [n \in Node |-> 0] /\ left = [n \in Node |-> Most]
  /\ work = [n \in Node |-> [m \in Node |-> 0]]  \* how many are on their way from n to m
  /\ done = [n \in Node |-> [m \in Node |-> 0]]

Send(n, m) ==
  /\ active[n] /\ n # m /\ left[n] > 0
  /\ deficit' = [deficit EXCEPT ![n] = @ + 1] /\ left' = [left EXCEPT ![n] = @ - 1]
  /\ work' = [work EXCEPT ![n][m] = @ + 1]
  /\ UNCHANGED <<active, parent, done>>
Rest(n) ==
  /\ active[n]
  /\ active' = [active EXCEPT ![n] = FALSE]
  /\ UNCHANGED <<parent, deficit, left, work, done>>
Leave(n) ==
  /\ ~active[n] /\ parent[n] # None /\ deficit[n] = 0
  /\ done' = [done EXCEPT ![n][parent[n]] = @ + 1]
  /\ parent' = [parent EXCEPT ![n] = None]
  /\ UNCHANGED <<active, deficit, left, work>>
Work(n, m) ==
  /\ work[n][m] > 0
  /\ work' = [work EXCEPT ![n][m] = @ - 1]
  /\ active' = [active EXCEPT ![m] = TRUE]
  /\ IF m = 0 \/ parent[m] # None
     THEN done' = [done EXCEPT ![m][n] = @ + 1] /\ UNCHANGED parent
     ELSE parent' = [parent EXCEPT ![m] = n] /\ UNCHANGED done
  /\ UNCHANGED <<deficit, left>>
Done(n, m) ==
  /\ done[n][m] > 0
  /\ done' = [done EXCEPT ![n][m] = @ - 1]
  /\ deficit' = [deficit EXCEPT ![m] = @ - 1]
  /\ UNCHANGED <<active, parent, left, work>>

Next == \E n \in Node : Rest(n) \/ Leave(n) \/ \E m \in Node : Send(n, m) \/ Work(n, m) \/ Done(n, m)
Spec == Init /\ [][Next]_vars
====
