---- MODULE model ----
(* Mutual exclusion by requests with timestamps (Ricart and Agrawala, CACM 24(1), 1981). *)
EXTENDS Naturals, FiniteSets, Bags
Proc == 0..1
VARIABLES clock, mine, replies, deferred, pc, net
vars == <<clock, mine, replies, deferred, pc, net>>

Init ==
  /\ clock = [p \in Proc |-> 0] /\ mine = [p \in Proc |-> 0]
  /\ replies = [p \in Proc |-> {}] /\ deferred = [p \in Proc |-> {}]
  /\ pc = [p \in Proc |-> "idle"]
  /\ net = EmptyBag

Max(a, b) == IF a < b THEN b ELSE a
Request(p, q, t) == [from |-> p, to |-> q, kind |-> "request", clock |-> t]
Reply(p, q) == [from |-> p, to |-> q, kind |-> "reply", clock |-> 0]
GoesBefore(p, q, t) == pc[p] = "inside" \/ (pc[p] = "requesting" /\ (mine[p] < t \/ (mine[p] = t /\ p < q)))

Want(p) ==
  /\ pc[p] = "idle"
  /\ pc' = [pc EXCEPT ![p] = "requesting"]
  /\ clock' = [clock EXCEPT ![p] = @ + 1] /\ mine' = [mine EXCEPT ![p] = clock[p] + 1]
  /\ replies' = [replies EXCEPT ![p] = {p}]
  /\ net' = net (+) SetToBag({Request(p, q, clock[p] + 1) : q \in Proc \ {p}})
  /\ UNCHANGED deferred
Enter(p) ==
  /\ pc[p] = "requesting" /\ replies[p] = Proc
  /\ pc' = [pc EXCEPT ![p] = "inside"]
  /\ UNCHANGED <<clock, mine, replies, deferred, net>>
Leave(p) ==
  /\ pc[p] = "inside"
  /\ pc' = [pc EXCEPT ![p] = "idle"]
  /\ mine' = [mine EXCEPT ![p] = 0] /\ replies' = [replies EXCEPT ![p] = {}]
  /\ deferred' = [deferred EXCEPT ![p] = {}]
  /\ net' = net (+) SetToBag({Reply(p, q) : q \in deferred[p]})
  /\ UNCHANGED clock
Receive(m) ==
  LET p == m.to q == m.from IN
  IF m.kind = "reply"
  THEN /\ replies' = [replies EXCEPT ![p] = @ \cup {q}]
       /\ net' = net (-) SetToBag({m})
       /\ UNCHANGED <<clock, mine, deferred, pc>>
  ELSE /\ clock' = [clock EXCEPT ![p] = Max(@, m.clock)]
       /\ IF GoesBefore(p, q, m.clock)
          THEN /\ deferred' = [deferred EXCEPT ![p] = @ \cup {q}]
               /\ net' = net (-) SetToBag({m})
          ELSE /\ net' = (net (-) SetToBag({m})) (+) SetToBag({Reply(p, q)})
               /\ UNCHANGED deferred
       /\ UNCHANGED <<mine, replies, pc>>

Next == (\E p \in Proc : Want(p) \/ Enter(p) \/ Leave(p)) \/ \E m \in BagToSet(net) : Receive(m)
Spec == Init /\ [][Next]_vars
Bounds == \A p \in Proc : clock[p] <= 3
====
