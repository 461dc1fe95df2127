------------------------------------------- MODULE alternating_bit -------------------------------------------
\* alternating_bit. The alternating bit protocol over two lossy queues (Lamport, "Specifying Systems", chapter
\* 14).
\* Specification f4c385f5089a, queue_length=2
\* TLC judges steps that change something; the explorer also those that change nothing.
EXTENDS Integers, Sequences, FiniteSets, Bags, TLC

queue_length == 2

Min(A, B) == IF A < B THEN A ELSE B
Max(A, B) == IF A > B THEN A ELSE B
\* of a set of numbers; the fallback where it is empty
Least(S, Fallback) == IF S = {} THEN Fallback ELSE CHOOSE N \in S : \A M \in S : N <= M
Greatest(S, Fallback) == IF S = {} THEN Fallback ELSE CHOOSE N \in S : \A M \in S : N >= M
\* rounded down, and 0 where it is divided by 0
Div(A, B) == IF B = 0 THEN 0 ELSE IF B > 0 THEN A \div B ELSE (-A) \div (-B)
Mod(A, B) == IF B = 0 THEN 0 ELSE A - B * Div(A, B)
\* an option is the set of its value, or empty
Get(Option, Fallback) == IF Option = {} THEN Fallback ELSE CHOOSE V \in Option : TRUE

Sum(S, F(_)) ==
  LET G[T \in SUBSET S] == IF T = {} THEN 0 ELSE LET E == CHOOSE E \in T : TRUE IN F(E) + G[T \ {E}]
  IN G[S]
SumOfSequence(Q, F(_)) == Sum(DOMAIN Q, LAMBDA I : F(Q[I]))
SumOfBag(B, F(_)) == Sum(BagToSet(B), LAMBDA E : B[E] * F(E))
Messages(Q) == {Q[I] : I \in DOMAIN Q}

\* a sequence without what lies at some places
Without(Q, Places) ==
  LET G[N \in 0..Len(Q)] == IF N = 0 THEN <<>> ELSE IF N \in Places THEN G[N - 1] ELSE Append(G[N - 1], Q[N])
  IN G[Len(Q)]

\* Of each kind the newest message counts, and the one before it may still be on its way.
PutInMailbox(Q, M) ==
  LET Same == {I \in DOMAIN Q : Q[I].kind = M.kind}
  IN Append(Without(Q, {I \in Same : \E L \in Same : L > I}), M)
PutInBag(B, M) == B (+) SetToBag({M})
RemoveFromBag(B, M) == B (-) SetToBag({M})
PutInSet(S, M) == S \union {M}

VARIABLES
  transmitter,
  receiver,
  messages,  \* fifo, from transmitter to receiver
  acknowledgements  \* fifo, from receiver to transmitter

vars == <<transmitter, receiver, messages, acknowledgements>>

Init ==
  /\ transmitter \in [state : {"ready"}, bit : BOOLEAN, last : {"one", "two"}]
  /\ receiver \in [state : {"running"}, bit : BOOLEAN, last : {"one", "two"}]
  /\ messages = <<>>
  /\ acknowledgements = <<>>
  /\ (receiver.bit = transmitter.bit)

\* transmitter/ready#send_new: to waiting.
Transmitter_ready_send_new(Arg_value) ==
  /\ transmitter.state = "ready"
  /\ LET Transmitter_1 == [transmitter EXCEPT !.state = "waiting", !.bit = (~transmitter.bit), !.last = Arg_value]
         Messages_1 == Append(messages, [kind |-> "carry", bit |-> Transmitter_1.bit, value |-> Transmitter_1.last])
     IN /\ transmitter' = Transmitter_1
        /\ messages' = Messages_1
        /\ UNCHANGED <<receiver, acknowledgements>>

\* transmitter/waiting#send_again: to waiting.
Transmitter_waiting_send_again ==
  /\ transmitter.state = "waiting"
  /\ LET Messages_1 == Append(messages, [kind |-> "carry", bit |-> transmitter.bit, value |-> transmitter.last])
     IN /\ messages' = Messages_1
        /\ UNCHANGED <<transmitter, receiver, acknowledgements>>

\* receiver/running#acknowledge: to running.
Receiver_running_acknowledge ==
  /\ receiver.state = "running"
  /\ LET Acknowledgements_1 == Append(acknowledgements, [kind |-> "got", bit |-> receiver.bit])
     IN /\ acknowledgements' = Acknowledgements_1
        /\ UNCHANGED <<transmitter, receiver, messages>>

\* receiver/running#carry: to running.
Receiver_running_carry ==
  /\ messages /= <<>>
  /\ Head(messages).kind = "carry"
  /\ receiver.state = "running"
  /\ LET Messages_1 == Tail(messages)
         Receiver_1 == [receiver EXCEPT !.bit = Head(messages).bit, !.last = Head(messages).value]
     IN /\ receiver' = Receiver_1
        /\ messages' = Messages_1
        /\ UNCHANGED <<transmitter, acknowledgements>>

\* carry is ignored or refused.
Receiver_drops_carry ==
  /\ messages /= <<>>
  /\ Head(messages).kind = "carry"
  /\ ~((receiver.state = "running"))
  /\ LET Messages_1 == Tail(messages)
     IN /\ messages' = Messages_1
        /\ UNCHANGED <<transmitter, receiver, acknowledgements>>

\* messages loses a message.
Messages_loses(I) ==
  /\ LET Messages_1 == Without(messages, {I})
     IN /\ messages' = Messages_1
        /\ UNCHANGED <<transmitter, receiver, acknowledgements>>

\* transmitter/waiting#got: to ready.
Transmitter_waiting_got ==
  /\ acknowledgements /= <<>>
  /\ Head(acknowledgements).kind = "got"
  /\ transmitter.state = "waiting"
  /\ (Head(acknowledgements).bit = transmitter.bit)
  /\ LET Acknowledgements_1 == Tail(acknowledgements)
         Transmitter_1 == [transmitter EXCEPT !.state = "ready"]
     IN /\ transmitter' = Transmitter_1
        /\ acknowledgements' = Acknowledgements_1
        /\ UNCHANGED <<receiver, messages>>

\* got is ignored or refused.
Transmitter_drops_got ==
  /\ acknowledgements /= <<>>
  /\ Head(acknowledgements).kind = "got"
  /\ ~((transmitter.state = "waiting" /\ (Head(acknowledgements).bit = transmitter.bit)))
  /\ LET Acknowledgements_1 == Tail(acknowledgements)
     IN /\ acknowledgements' = Acknowledgements_1
        /\ UNCHANGED <<transmitter, receiver, messages>>

\* acknowledgements loses a message.
Acknowledgements_loses(I) ==
  /\ LET Acknowledgements_1 == Without(acknowledgements, {I})
     IN /\ acknowledgements' = Acknowledgements_1
        /\ UNCHANGED <<transmitter, receiver, messages>>

Next ==
  \/ \E Arg_value \in {"one", "two"} : Transmitter_ready_send_new(Arg_value)
  \/ Transmitter_waiting_send_again
  \/ Receiver_running_acknowledge
  \/ Receiver_running_carry
  \/ Receiver_drops_carry
  \/ \E I \in (1..Len(messages)) : Messages_loses(I)
  \/ Transmitter_waiting_got
  \/ Transmitter_drops_got
  \/ \E I \in (1..Len(acknowledgements)) : Acknowledgements_loses(I)

\* What could happen all the time from some point on does happen. (Of a group of which some step changes
\* nothing, the explorer takes that step for enough; TLC asks for one that changes something.)
Fairness ==
  /\ WF_vars((Receiver_running_carry) \/ (Receiver_drops_carry))  \* deliver messages
  /\ WF_vars((Transmitter_waiting_got) \/ (Transmitter_drops_got))  \* deliver acknowledgements

Spec == Init /\ [][Next]_vars /\ Fairness

\* States out of these bounds are not explored.
Bounds ==
  /\ (((SumOfSequence(messages, LAMBDA Any_ : 1) <= queue_length) /\ (SumOfSequence(acknowledgements, LAMBDA Any_ : 1) <= queue_length)))

\* A claim P about steps that asks who consumed what: it holds of every action that a step can be taken for.
Judged(P(_, _, _)) ==
  /\ \A Arg_value \in {"one", "two"} : Transmitter_ready_send_new(Arg_value) => P("transmitter", 0, "send_new")
  /\ Transmitter_waiting_send_again => P("transmitter", 0, "send_again")
  /\ Receiver_running_acknowledge => P("receiver", 0, "acknowledge")
  /\ Receiver_running_carry => P("receiver", 0, "carry")
  /\ Receiver_drops_carry => P("receiver", 0, "carry")
  /\ \A I \in (1..Len(messages)) : Messages_loses(I) => P("", 0, "")
  /\ Transmitter_waiting_got => P("transmitter", 0, "got")
  /\ Transmitter_drops_got => P("transmitter", 0, "got")
  /\ \A I \in (1..Len(acknowledgements)) : Acknowledgements_loses(I) => P("", 0, "")

\* a_new_value_waits_for_the_old: step. A value is acknowledged only after the receiver has it.
A_new_value_waits_for_the_old == [][Judged(LAMBDA Took_role, Took_instance, Took_event : Bounds' => (((Took_role = "transmitter" /\ Took_event = "got") /\ (transmitter.state = "waiting") /\ (transmitter'.state = "ready")) => ((receiver'.bit = transmitter'.bit) /\ (receiver'.last = transmitter'.last))))]_vars

==============================================================================================================
