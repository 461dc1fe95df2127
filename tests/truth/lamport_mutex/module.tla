---- MODULE model ----
(* Lamport's mutual exclusion by logical clocks (CACM 21(7), 1978), over queues between each two processes. *)
EXTENDS Naturals, Sequences
Proc == 0..1
VARIABLES clock, req, ack, net, crit
vars == <<clock, req, ack, net, crit>>

Init ==
  /\ clock = [p \in Proc |-> 1]
  /\ req = [p \in Proc |-> [q \in Proc |-> 0]]
  /\ ack = [p \in Proc |-> {}]
  /\ net = [p \in Proc |-> [q \in Proc |-> <<>>]]
  /\ crit = {}

ToOthers(p, m) == [q \in Proc |-> IF q = p THEN net[p][q] ELSE Append(net[p][q], m)]
Beats(p, q) == req[p][q] = 0 \/ req[p][p] < req[p][q] \/ (req[p][p] = req[p][q] /\ p < q)
Max(a, b) == IF a < b THEN b ELSE a

Request(p) ==
  /\ req[p][p] = 0
  /\ req' = [req EXCEPT ![p][p] = clock[p]]
  /\ ack' = [ack EXCEPT ![p] = {p}]
  /\ net' = [net EXCEPT ![p] = ToOthers(p, [kind |-> "req", clock |-> clock[p]])]
  /\ UNCHANGED <<clock, crit>>
Enter(p) ==
  /\ ack[p] = Proc
  /\ \A q \in Proc \ {p} : Beats(p, q)
  /\ crit' = crit \cup {p}
  /\ UNCHANGED <<clock, req, ack, net>>
Exit(p) ==
  /\ p \in crit
  /\ crit' = crit \ {p}
  /\ req' = [req EXCEPT ![p][p] = 0]
  /\ ack' = [ack EXCEPT ![p] = {}]
  /\ net' = [net EXCEPT ![p] = ToOthers(p, [kind |-> "rel"])]
  /\ UNCHANGED clock
Receive(p, q) ==
  /\ net[q][p] # <<>>
  /\ LET m == Head(net[q][p]) IN
     CASE m.kind = "req" ->
            /\ req' = [req EXCEPT ![p][q] = m.clock]
            /\ clock' = [clock EXCEPT ![p] = Max(m.clock, @) + 1]
            /\ net' = [net EXCEPT ![q][p] = Tail(@), ![p][q] = Append(@, [kind |-> "ack"])]
            /\ UNCHANGED <<ack, crit>>
       [] m.kind = "ack" ->
            /\ ack' = [ack EXCEPT ![p] = @ \cup {q}]
            /\ net' = [net EXCEPT ![q][p] = Tail(@)]
            /\ UNCHANGED <<clock, req, crit>>
       [] m.kind = "rel" ->
            /\ req' = [req EXCEPT ![p][q] = 0]
            /\ net' = [net EXCEPT ![q][p] = Tail(@)]
            /\ UNCHANGED <<clock, ack, crit>>

Next == \E p \in Proc : Request(p) \/ Enter(p) \/ Exit(p) \/ \E q \in Proc \ {p} : Receive(p, q)
Spec == Init /\ [][Next]_vars
Bounds == \A p \in Proc : clock[p] <= 5
====
