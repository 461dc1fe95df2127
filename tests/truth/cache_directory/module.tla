---- MODULE model ----
(* A directory protocol of two states: a block is lent to one cache at a time, and recalled for the next. *)
EXTENDS Naturals, Sequences
Cache == 0..2
None == 3
VARIABLES cache, owner, next, asks, back, line
vars == <<cache, owner, next, asks, back, line>>

Init ==
  /\ cache = [c \in Cache |-> "invalid"]
  /\ owner = None /\ next = None
  /\ asks = {} /\ back = {}
  /\ line = [c \in Cache |-> <<>>]

Miss(c) ==
  /\ cache[c] = "invalid"
  /\ cache' = [cache EXCEPT ![c] = "waiting"]
  /\ asks' = asks \cup {c}
  /\ UNCHANGED <<owner, next, back, line>>
Get(c) ==
  /\ c \in asks /\ next = None
  /\ asks' = asks \ {c}
  /\ IF owner = None
     THEN owner' = c /\ line' = [line EXCEPT ![c] = Append(@, "block")] /\ UNCHANGED next
     ELSE next' = c /\ line' = [line EXCEPT ![owner] = Append(@, "recall")] /\ UNCHANGED owner
  /\ UNCHANGED <<cache, back>>
GiveBack(c) ==
  /\ c \in back
  /\ back' = back \ {c}
  /\ owner' = next /\ next' = None
  /\ line' = [line EXCEPT ![next] = Append(@, "block")]
  /\ UNCHANGED <<cache, asks>>
Receive(c) ==
  /\ line[c] # <<>>
  /\ line' = [line EXCEPT ![c] = Tail(@)]
  /\ IF Head(line[c]) = "block"
     THEN cache' = [cache EXCEPT ![c] = "modified"] /\ UNCHANGED back
     ELSE cache' = [cache EXCEPT ![c] = "invalid"] /\ back' = back \cup {c}
  /\ UNCHANGED <<owner, next, asks>>

Next == \E c \in Cache : Miss(c) \/ Get(c) \/ GiveBack(c) \/ Receive(c)
Spec == Init /\ [][Next]_vars
====
