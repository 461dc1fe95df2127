------------------------------------------------ MODULE lease ------------------------------------------------
\* lease. One lease of several units of one site's resource: the service manager that wants it, the broker
\* that promises it, the site authority that grants it, and the units themselves. After "Robust Leasing for
\* Virtual Infrastructure", section 4.
\* Specification 5f6ee348ee3a, max_units=1, last_end=2, expiry=true, close_early=true, lazy_close=true,
\* handler_limit=1, duplicates=0, reorders=0, kinds=1
\* TLC judges steps that change something; the explorer also those that change nothing.
\* Not in this module:
\*     guards_disjoint: of two actions that are possible at once TLC takes either; the explorer watches that
\*       none are
\*     handlers_are_waited_for_in_bounded_time, within: that it comes within 1 ticks is not said here, only
\*       that it comes
\*     quarantine_can_end: that some run leads to it is a claim about branching time
\*     one_number_one_message: the module keeps no numbers of messages
\*     never_stuck: that some run leads to it is a claim about branching time
EXTENDS Integers, Sequences, FiniteSets, Bags, TLC

max_units == 1  \* Units of the site; no request asks for more.
last_end == 2  \* The latest end of a term that is asked for, in ticks.
expiry == TRUE  \* Whether time passes. Without it no term ends and no handler is late.
close_early == TRUE  \* Whether a lease may be closed in any state, or only when it is active.
lazy_close == TRUE  \* Whether the site keeps an expired lease until its units are needed.
handler_limit == 1  \* Ticks after which a handler that has not ended is given up.
duplicates == 0  \* Messages that may be received twice.
reorders == 0  \* Messages that may overtake an earlier one.
kinds == 1  \* Different resource properties that a ticket may carry.

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
  service_manager,  \* Procures a lease, keeps it as long as it is wanted, and gives it back.
  broker,  \* Arbitrates requests for a type of resource and issues tickets.
  authority,  \* Owns the units of a site and grants leases against tickets.
  unit,  \* One unit of the site, such as a virtual machine. Its handlers are asked for on or off, and hide what lies between.
  to_broker,  \* mailbox, from service_manager to broker
  from_broker,  \* mailbox, from broker to service_manager
  to_authority,  \* mailbox, from service_manager to authority
  from_authority,  \* mailbox, from authority to service_manager
  clock

vars == <<service_manager, broker, authority, unit, to_broker, from_broker, to_authority, from_authority, clock>>

Init ==
  /\ service_manager = [state |-> "nascent", requested_units |-> 0, requested_end |-> 0, ticket_units |-> 0, ticket_end |-> 0, ticket_properties |-> 0, lease_units |-> 0, lease_end |-> 0]
  /\ broker = [state |-> "nascent", requested_units |-> 0, requested_end |-> 0, units |-> 0, term_end |-> 0, properties |-> 0]
  /\ authority = [state |-> "nascent", wanted |-> 0, units |-> 0, end |-> 0, properties |-> 0, chosen |-> {}, assigned |-> {}]
  /\ unit = [Me \in (0..0) |-> [state |-> "idle", deadline |-> 0, quarantined |-> FALSE]]
  /\ to_broker = <<>>
  /\ from_broker = <<>>
  /\ to_authority = <<>>
  /\ from_authority = <<>>
  /\ clock = 0

Unit_setup_driven(Me, Own) ==
  CASE Own.state = "idle" -> [Own EXCEPT !.state = "priming", !.deadline = (clock + handler_limit)]
    [] Own.state = "closed" -> [Own EXCEPT !.state = "priming", !.deadline = (clock + handler_limit)]
    [] OTHER -> Own

Unit_modify_driven(Me, Own) ==
  CASE Own.state = "idle" -> [Own EXCEPT !.state = "priming", !.deadline = (clock + handler_limit)]
    [] Own.state = "active" -> [Own EXCEPT !.state = "modifying", !.deadline = (clock + handler_limit)]
    [] Own.state = "closed" -> [Own EXCEPT !.state = "priming", !.deadline = (clock + handler_limit)]
    [] OTHER -> Own

Unit_teardown_driven(Me, Own) ==
  CASE Own.state = "priming" -> [Own EXCEPT !.state = "closing", !.deadline = (clock + handler_limit)]
    [] Own.state = "active" -> [Own EXCEPT !.state = "closing", !.deadline = (clock + handler_limit)]
    [] Own.state = "modifying" -> [Own EXCEPT !.state = "closing", !.deadline = (clock + handler_limit)]
    [] Own.state = "failed" -> [Own EXCEPT !.state = "closing", !.deadline = (clock + handler_limit)]
    [] OTHER -> Own

\* service_manager/nascent#demand: to ticketing.
Service_manager_nascent_demand(Arg_units, Arg_end) ==
  /\ service_manager.state = "nascent"
  /\ (((Arg_end > clock) /\ (Arg_units <= max_units)))
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "ticketing", !.requested_units = Arg_units, !.requested_end = Arg_end]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "ticket", units |-> Service_manager_1.requested_units, end |-> Service_manager_1.requested_end])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/nascent#close: to closed.
Service_manager_nascent_close ==
  /\ service_manager.state = "nascent"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/ticketing#close: to closed.
Service_manager_ticketing_close ==
  /\ service_manager.state = "ticketing"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/ticketing#tick: to failed. The term that was asked for is over.
Service_manager_ticketing_tick ==
  /\ service_manager.state = "ticketing"
  /\ (clock >= service_manager.requested_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/ticketed#redeem_now (answers schedule_redeem): to redeeming.
Service_manager_ticketed_redeem_now ==
  /\ service_manager.state = "ticketed"
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "redeeming"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "redeem", units |-> Service_manager_1.ticket_units, end |-> Service_manager_1.ticket_end, properties |-> Service_manager_1.ticket_properties])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/ticketed#close: to closed.
Service_manager_ticketed_close ==
  /\ service_manager.state = "ticketed"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/ticketed#tick: to closed.
Service_manager_ticketed_tick ==
  /\ service_manager.state = "ticketed"
  /\ (clock >= service_manager.ticket_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/redeeming#close: to closing.
Service_manager_redeeming_close ==
  /\ service_manager.state = "redeeming"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/redeeming#tick: to closing.
Service_manager_redeeming_tick ==
  /\ service_manager.state = "redeeming"
  /\ (clock >= service_manager.ticket_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/joining#joined (answers join): to active.
Service_manager_joining_joined ==
  /\ service_manager.state = "joining"
  /\ ((service_manager.lease_units = service_manager.ticket_units) /\ (service_manager.lease_end = service_manager.ticket_end))
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "active"]
     IN /\ service_manager' = Service_manager_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, to_authority, from_authority, clock>>

\* service_manager/joining#joined.2 (answers join): to active_ticketed. The lease is not as on the ticket; the
\* policy may try again.
Service_manager_joining_joined_2 ==
  /\ service_manager.state = "joining"
  /\ (((service_manager.lease_units /= service_manager.ticket_units) \/ (service_manager.lease_end /= service_manager.ticket_end))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "active_ticketed"]
     IN /\ service_manager' = Service_manager_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, to_authority, from_authority, clock>>

\* service_manager/joining#join_failed (answers join): to closing.
Service_manager_joining_join_failed ==
  /\ service_manager.state = "joining"
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/joining#close: to closing.
Service_manager_joining_close ==
  /\ service_manager.state = "joining"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/joining#tick: to closing.
Service_manager_joining_tick ==
  /\ service_manager.state = "joining"
  /\ (clock >= service_manager.lease_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/active#extend: to extending_ticket.
Service_manager_active_extend(Arg_units, Arg_end) ==
  /\ service_manager.state = "active"
  /\ ((clock < service_manager.lease_end) /\ (Arg_end > service_manager.ticket_end))
  /\ ((Arg_units <= max_units))
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "extending_ticket", !.requested_units = Arg_units, !.requested_end = Arg_end]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "extend_ticket", units |-> Service_manager_1.requested_units, end |-> Service_manager_1.requested_end])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/active#close: to closing.
Service_manager_active_close ==
  /\ service_manager.state = "active"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/active#tick: to closing.
Service_manager_active_tick ==
  /\ service_manager.state = "active"
  /\ (clock >= service_manager.lease_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/extending_ticket#close: to closing.
Service_manager_extending_ticket_close ==
  /\ service_manager.state = "extending_ticket"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/extending_ticket#tick: to closing.
Service_manager_extending_ticket_tick ==
  /\ service_manager.state = "extending_ticket"
  /\ (clock >= service_manager.lease_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/active_ticketed#extend_now (answers schedule_extension): to extending_lease.
Service_manager_active_ticketed_extend_now ==
  /\ service_manager.state = "active_ticketed"
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "extending_lease"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "extend_lease", units |-> Service_manager_1.ticket_units, end |-> Service_manager_1.ticket_end, properties |-> Service_manager_1.ticket_properties])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/active_ticketed#extend: to extending_ticket. A lease that could not be changed as wanted
\* goes on with another ticket.
Service_manager_active_ticketed_extend(Arg_units, Arg_end) ==
  /\ service_manager.state = "active_ticketed"
  /\ ((clock < service_manager.lease_end) /\ (Arg_end > service_manager.ticket_end))
  /\ ((Arg_units <= max_units))
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "extending_ticket", !.requested_units = Arg_units, !.requested_end = Arg_end]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "extend_ticket", units |-> Service_manager_1.requested_units, end |-> Service_manager_1.requested_end])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/active_ticketed#close: to closing.
Service_manager_active_ticketed_close ==
  /\ service_manager.state = "active_ticketed"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/active_ticketed#tick: to closing.
Service_manager_active_ticketed_tick ==
  /\ service_manager.state = "active_ticketed"
  /\ (clock >= service_manager.ticket_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/extending_lease#close: to closing.
Service_manager_extending_lease_close ==
  /\ service_manager.state = "extending_lease"
  /\ (((close_early \/ (service_manager.state = "active")))) = TRUE
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/extending_lease#tick: to closing. Hang as long as the ticket lasts.
Service_manager_extending_lease_tick ==
  /\ service_manager.state = "extending_lease"
  /\ (clock >= service_manager.ticket_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closing"]
         To_authority_1 == PutInMailbox(to_authority, [kind |-> "close"])
     IN /\ service_manager' = Service_manager_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/closing#tick: to closed. The site may be unreachable; it will see by itself that the term
\* is over.
Service_manager_closing_tick ==
  /\ service_manager.state = "closing"
  /\ (clock >= service_manager.ticket_end)
  /\ LET Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* broker/ticketing#granted (answers allocate): to ticketed.
Broker_ticketing_granted(Arg_units, Arg_properties) ==
  /\ broker.state = "ticketing"
  /\ ((Arg_units <= broker.requested_units) /\ (clock < broker.requested_end))
  /\ ((Arg_units <= max_units))
  /\ LET Broker_1 == [broker EXCEPT !.state = "ticketed", !.units = Arg_units, !.term_end = broker.requested_end, !.properties = Arg_properties, !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_broker, to_authority, from_authority, clock>>

\* broker/ticketing#denied (answers allocate): to closed.
Broker_ticketing_denied ==
  /\ broker.state = "ticketing"
  /\ LET Broker_1 == [broker EXCEPT !.state = "closed", !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_broker, to_authority, from_authority, clock>>

\* broker/ticketing#tick: to closed.
Broker_ticketing_tick ==
  /\ broker.state = "ticketing"
  /\ (clock >= broker.requested_end)
  /\ LET Broker_1 == [broker EXCEPT !.state = "closed", !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_broker, to_authority, from_authority, clock>>

\* broker/ticketed#tick: to closed.
Broker_ticketed_tick ==
  /\ broker.state = "ticketed"
  /\ (clock >= broker.term_end)
  /\ LET Broker_1 == [broker EXCEPT !.state = "closed", !.units = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_broker, to_authority, from_authority, clock>>

\* broker/extending#granted (answers allocate_extension): to ticketed.
Broker_extending_granted(Arg_units, Arg_properties) ==
  /\ broker.state = "extending"
  /\ ((Arg_units <= broker.requested_units) /\ (clock < broker.term_end))
  /\ ((Arg_units <= max_units))
  /\ LET Broker_1 == [broker EXCEPT !.state = "ticketed", !.units = Arg_units, !.term_end = broker.requested_end, !.properties = Arg_properties, !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_broker, to_authority, from_authority, clock>>

\* broker/extending#denied (answers allocate_extension): to ticketed.
Broker_extending_denied ==
  /\ broker.state = "extending"
  /\ LET Broker_1 == [broker EXCEPT !.state = "ticketed", !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_broker, to_authority, from_authority, clock>>

\* broker/extending#tick: to closed.
Broker_extending_tick ==
  /\ broker.state = "extending"
  /\ (clock >= broker.term_end)
  /\ LET Broker_1 == [broker EXCEPT !.state = "closed", !.units = 0, !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_broker, to_authority, from_authority, clock>>

\* authority/priming#placed (answers place): to priming.
Authority_priming_placed(Arg_units) ==
  /\ authority.state = "priming"
  /\ (Cardinality(Arg_units) = authority.wanted)
  /\ (Cardinality(authority.chosen) /= authority.wanted)
  /\ ((((\A u_ \in Arg_units : ((unit[u_].state \in {"idle", "closed"}) \/ (u_ \in authority.assigned))) /\ ((Arg_units \subseteq authority.assigned) \/ (authority.assigned \subseteq Arg_units))))) = TRUE
  /\ LET Authority_1 == [authority EXCEPT !.chosen = Arg_units, !.assigned = Arg_units]
         Unit_1 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in Authority_1.chosen) THEN Unit_setup_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/priming#no_room (answers place): to closing.
Authority_priming_no_room ==
  /\ authority.state = "priming"
  /\ (Cardinality(authority.chosen) /= authority.wanted)
  /\ (((Cardinality({u_ \in (0..0) : ((unit[u_].state /= "failed") \/ (u_ \in authority.assigned))}) < authority.wanted))) = TRUE
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/priming#primed (answers setup): to active.
Authority_priming_primed ==
  /\ authority.state = "priming"
  /\ (Cardinality(authority.chosen) = authority.wanted)
  /\ (\A u_ \in authority.chosen : (unit[u_].state = "active"))
  /\ LET Authority_1 == [authority EXCEPT !.state = "active", !.units = authority.wanted]
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> Authority_1.units, end |-> Authority_1.end])
     IN /\ authority' = Authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, unit, to_broker, from_broker, to_authority, clock>>

\* authority/priming#setup_failed (answers setup): to closing.
Authority_priming_setup_failed ==
  /\ authority.state = "priming"
  /\ (Cardinality(authority.chosen) = authority.wanted)
  /\ (((\E u_ \in authority.chosen : (unit[u_].state = "failed")) /\ (\A u_ \in authority.chosen : (unit[u_].state \in {"active", "failed"})))) = TRUE
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/priming#reclaim: to closing.
Authority_priming_reclaim ==
  /\ authority.state = "priming"
  /\ (clock >= authority.end)
  /\ (lazy_close)
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/priming#tick: to closing.
Authority_priming_tick ==
  /\ authority.state = "priming"
  /\ ((clock >= authority.end) /\ (~lazy_close))
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/active#reclaim: to closing.
Authority_active_reclaim ==
  /\ authority.state = "active"
  /\ (clock >= authority.end)
  /\ (lazy_close)
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/active#tick: to closing.
Authority_active_tick ==
  /\ authority.state = "active"
  /\ ((clock >= authority.end) /\ (~lazy_close))
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/modifying#placed (answers place_extension): to modifying.
Authority_modifying_placed(Arg_units) ==
  /\ authority.state = "modifying"
  /\ (Cardinality(Arg_units) = authority.wanted)
  /\ (Cardinality(authority.chosen) /= authority.wanted)
  /\ ((((\A u_ \in Arg_units : ((unit[u_].state \in {"idle", "closed"}) \/ (u_ \in authority.assigned))) /\ ((Arg_units \subseteq authority.assigned) \/ (authority.assigned \subseteq Arg_units))))) = TRUE
  /\ LET Authority_1 == [authority EXCEPT !.chosen = Arg_units, !.assigned = (authority.assigned \union Arg_units)]
         Unit_1 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in Authority_1.chosen) THEN Unit_modify_driven(It, unit[It]) ELSE unit[It]]
         Unit_2 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in (Authority_1.assigned \ Authority_1.chosen)) THEN Unit_teardown_driven(It, Unit_1[It]) ELSE Unit_1[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_2
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/modifying#no_room (answers place_extension): to modifying. The lease goes on with the units that
\* it has.
Authority_modifying_no_room ==
  /\ authority.state = "modifying"
  /\ (Cardinality(authority.chosen) /= authority.wanted)
  /\ (((Cardinality({u_ \in (0..0) : ((unit[u_].state /= "failed") \/ (u_ \in authority.assigned))}) < authority.wanted))) = TRUE
  /\ LET Authority_1 == [authority EXCEPT !.wanted = Cardinality(authority.assigned), !.chosen = authority.assigned]
         Unit_1 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in Authority_1.chosen) THEN Unit_modify_driven(It, unit[It]) ELSE unit[It]]
         Unit_2 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in (Authority_1.assigned \ Authority_1.chosen)) THEN Unit_teardown_driven(It, Unit_1[It]) ELSE Unit_1[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_2
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/modifying#modified (answers modify): to active.
Authority_modifying_modified ==
  /\ authority.state = "modifying"
  /\ (Cardinality(authority.chosen) = authority.wanted)
  /\ ((\A u_ \in authority.chosen : (unit[u_].state = "active")) /\ (\A u_ \in (authority.assigned \ authority.chosen) : (unit[u_].state \in {"idle", "closed", "failed"})))
  /\ LET Authority_1 == [authority EXCEPT !.state = "active", !.units = authority.wanted, !.assigned = authority.chosen]
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> Authority_1.units, end |-> Authority_1.end])
     IN /\ authority' = Authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, unit, to_broker, from_broker, to_authority, clock>>

\* authority/modifying#modify_failed (answers modify): to modifying. The lease goes on with the units that are
\* up; the others are torn down.
Authority_modifying_modify_failed ==
  /\ authority.state = "modifying"
  /\ ((\E u_ \in authority.chosen : (unit[u_].state = "active"))) = TRUE
  /\ (Cardinality(authority.chosen) = authority.wanted)
  /\ (((\E u_ \in authority.chosen : (unit[u_].state = "failed")) /\ (\A u_ \in authority.chosen : (unit[u_].state \in {"active", "failed"})) /\ (\A u_ \in (authority.assigned \ authority.chosen) : (unit[u_].state \in {"idle", "closed", "failed"})))) = TRUE
  /\ LET Authority_1 == [authority EXCEPT !.wanted = Cardinality({u_ \in authority.chosen : (unit[u_].state = "active")}), !.chosen = {u_ \in authority.chosen : (unit[u_].state = "active")}]
         Unit_1 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in Authority_1.chosen) THEN Unit_modify_driven(It, unit[It]) ELSE unit[It]]
         Unit_2 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in (Authority_1.assigned \ Authority_1.chosen)) THEN Unit_teardown_driven(It, Unit_1[It]) ELSE Unit_1[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_2
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/modifying#modify_failed.2 (answers modify): to closing.
Authority_modifying_modify_failed_2 ==
  /\ authority.state = "modifying"
  /\ ((~(\E u_ \in authority.chosen : (unit[u_].state = "active")))) = TRUE
  /\ (Cardinality(authority.chosen) = authority.wanted)
  /\ (((\E u_ \in authority.chosen : (unit[u_].state = "failed")) /\ (\A u_ \in authority.chosen : (unit[u_].state \in {"active", "failed"})) /\ (\A u_ \in (authority.assigned \ authority.chosen) : (unit[u_].state \in {"idle", "closed", "failed"})))) = TRUE
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/modifying#reclaim: to closing.
Authority_modifying_reclaim ==
  /\ authority.state = "modifying"
  /\ (clock >= authority.end)
  /\ (lazy_close)
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/modifying#tick: to closing.
Authority_modifying_tick ==
  /\ authority.state = "modifying"
  /\ ((clock >= authority.end) /\ (~lazy_close))
  /\ LET Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, to_authority, from_authority, clock>>

\* authority/closing#torn_down (answers teardown): to closed.
Authority_closing_torn_down ==
  /\ authority.state = "closing"
  /\ (\A u_ \in authority.assigned : (unit[u_].state \in {"idle", "closed", "failed"}))
  /\ LET Authority_1 == [authority EXCEPT !.state = "closed", !.units = 0, !.wanted = 0, !.chosen = {}, !.assigned = {}]
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> Authority_1.units, end |-> Authority_1.end])
     IN /\ authority' = Authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, unit, to_broker, from_broker, to_authority, clock>>

\* unit/priming#up (answers run_setup): to active.
Unit_priming_up(Me) ==
  /\ unit[Me].state = "priming"
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "active", !.deadline = 0]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/priming#broken (answers run_setup): to failed.
Unit_priming_broken(Me) ==
  /\ unit[Me].state = "priming"
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "failed", !.deadline = 0]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/priming#tick: to failed.
Unit_priming_tick(Me) ==
  /\ unit[Me].state = "priming"
  /\ (clock >= unit[Me].deadline)
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "failed", !.deadline = 0]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/modifying#changed (answers run_modify): to active.
Unit_modifying_changed(Me) ==
  /\ unit[Me].state = "modifying"
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "active", !.deadline = 0]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/modifying#broken (answers run_modify): to failed.
Unit_modifying_broken(Me) ==
  /\ unit[Me].state = "modifying"
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "failed", !.deadline = 0]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/modifying#tick: to failed.
Unit_modifying_tick(Me) ==
  /\ unit[Me].state = "modifying"
  /\ (clock >= unit[Me].deadline)
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "failed", !.deadline = 0]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/closing#down (answers run_teardown): to closed.
Unit_closing_down(Me) ==
  /\ unit[Me].state = "closing"
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "closed", !.deadline = 0, !.quarantined = FALSE]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/closing#broken (answers run_teardown): to failed.
Unit_closing_broken(Me) ==
  /\ unit[Me].state = "closing"
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "failed", !.deadline = 0, !.quarantined = TRUE]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/closing#tick: to failed.
Unit_closing_tick(Me) ==
  /\ unit[Me].state = "closing"
  /\ (clock >= unit[Me].deadline)
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "failed", !.deadline = 0, !.quarantined = TRUE]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* unit/failed#repaired: to closed.
Unit_failed_repaired(Me) ==
  /\ unit[Me].state = "failed"
  /\ unit[Me].quarantined
  /\ LET Unit_1 == [unit EXCEPT ![Me] = [unit[Me] EXCEPT !.state = "closed", !.quarantined = FALSE]]
     IN /\ unit' = Unit_1
        /\ UNCHANGED <<service_manager, broker, authority, to_broker, from_broker, to_authority, from_authority, clock>>

\* broker/nascent#ticket: to ticketing.
Broker_nascent_ticket ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "ticket"
  /\ broker.state = "nascent"
  /\ LET To_broker_1 == Tail(to_broker)
         Broker_1 == [broker EXCEPT !.state = "ticketing", !.requested_units = Head(to_broker).units, !.requested_end = Head(to_broker).end]
     IN /\ broker' = Broker_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, from_broker, to_authority, from_authority, clock>>

\* ticket is ignored or refused. Asks for a ticket.
Broker_drops_ticket ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "ticket"
  /\ ~((broker.state = "nascent"))
  /\ LET To_broker_1 == Tail(to_broker)
     IN /\ to_broker' = To_broker_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* broker/ticketed#extend_ticket: to extending.
Broker_ticketed_extend_ticket ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "extend_ticket"
  /\ broker.state = "ticketed"
  /\ ((Head(to_broker).end > broker.term_end) /\ (clock < broker.term_end))
  /\ LET To_broker_1 == Tail(to_broker)
         Broker_1 == [broker EXCEPT !.state = "extending", !.requested_units = Head(to_broker).units, !.requested_end = Head(to_broker).end]
     IN /\ broker' = Broker_1
        /\ to_broker' = To_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, from_broker, to_authority, from_authority, clock>>

\* broker/ticketed#extend_ticket.2: to ticketed. Too late, or not longer; saying the ticket as it stands
\* denies it.
Broker_ticketed_extend_ticket_2 ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "extend_ticket"
  /\ broker.state = "ticketed"
  /\ (((Head(to_broker).end <= broker.term_end) \/ (clock >= broker.term_end))) = TRUE
  /\ LET To_broker_1 == Tail(to_broker)
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> broker.units, end |-> broker.term_end, properties |-> broker.properties])
     IN /\ to_broker' = To_broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_authority, from_authority, clock>>

\* extend_ticket is ignored or refused. Asks for a longer term, perhaps with another number of units.
Broker_drops_extend_ticket ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "extend_ticket"
  /\ (~((broker.state = "ticketed" /\ ((Head(to_broker).end > broker.term_end) /\ (clock < broker.term_end))) \/ (broker.state = "ticketed" /\ ((Head(to_broker).end <= broker.term_end) \/ (clock >= broker.term_end))))) = TRUE
  /\ LET To_broker_1 == Tail(to_broker)
     IN /\ to_broker' = To_broker_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* broker/nascent#relinquish: to closed. The request was taken back before it came.
Broker_nascent_relinquish ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "relinquish"
  /\ broker.state = "nascent"
  /\ LET To_broker_1 == Tail(to_broker)
         Broker_1 == [broker EXCEPT !.state = "closed"]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ to_broker' = To_broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_authority, from_authority, clock>>

\* broker/ticketing#relinquish: to closed.
Broker_ticketing_relinquish ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "relinquish"
  /\ broker.state = "ticketing"
  /\ LET To_broker_1 == Tail(to_broker)
         Broker_1 == [broker EXCEPT !.state = "closed", !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ to_broker' = To_broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_authority, from_authority, clock>>

\* broker/ticketed#relinquish: to closed.
Broker_ticketed_relinquish ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "relinquish"
  /\ broker.state = "ticketed"
  /\ LET To_broker_1 == Tail(to_broker)
         Broker_1 == [broker EXCEPT !.state = "closed", !.units = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ to_broker' = To_broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_authority, from_authority, clock>>

\* broker/extending#relinquish: to closed.
Broker_extending_relinquish ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "relinquish"
  /\ broker.state = "extending"
  /\ LET To_broker_1 == Tail(to_broker)
         Broker_1 == [broker EXCEPT !.state = "closed", !.units = 0, !.requested_units = 0, !.requested_end = 0]
         From_broker_1 == PutInMailbox(from_broker, [kind |-> "update_ticket", units |-> Broker_1.units, end |-> Broker_1.term_end, properties |-> Broker_1.properties])
     IN /\ broker' = Broker_1
        /\ to_broker' = To_broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, authority, unit, to_authority, from_authority, clock>>

\* relinquish is ignored or refused. The ticket is no longer needed.
Broker_drops_relinquish ==
  /\ to_broker /= <<>>
  /\ Head(to_broker).kind = "relinquish"
  /\ (~((broker.state = "nascent") \/ (broker.state = "ticketing") \/ (broker.state = "ticketed") \/ (broker.state = "extending"))) = TRUE
  /\ LET To_broker_1 == Tail(to_broker)
     IN /\ to_broker' = To_broker_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, from_broker, to_authority, from_authority, clock>>

\* service_manager/ticketing#update_ticket: to ticketed.
Service_manager_ticketing_update_ticket ==
  /\ from_broker /= <<>>
  /\ Head(from_broker).kind = "update_ticket"
  /\ service_manager.state = "ticketing"
  /\ (Head(from_broker).units >= 1)
  /\ LET From_broker_1 == Tail(from_broker)
         Service_manager_1 == [service_manager EXCEPT !.state = "ticketed", !.ticket_units = Head(from_broker).units, !.ticket_end = Head(from_broker).end, !.ticket_properties = Head(from_broker).properties, !.requested_units = 0, !.requested_end = 0]
     IN /\ service_manager' = Service_manager_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, to_authority, from_authority, clock>>

\* service_manager/ticketing#update_ticket.2: to failed. The broker denied it.
Service_manager_ticketing_update_ticket_2 ==
  /\ from_broker /= <<>>
  /\ Head(from_broker).kind = "update_ticket"
  /\ service_manager.state = "ticketing"
  /\ (Head(from_broker).units = 0)
  /\ LET From_broker_1 == Tail(from_broker)
         Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<broker, authority, unit, to_authority, from_authority, clock>>

\* service_manager/extending_ticket#update_ticket: to active_ticketed.
Service_manager_extending_ticket_update_ticket ==
  /\ from_broker /= <<>>
  /\ Head(from_broker).kind = "update_ticket"
  /\ service_manager.state = "extending_ticket"
  /\ ((Head(from_broker).units >= 1) /\ (Head(from_broker).end > service_manager.ticket_end))
  /\ LET From_broker_1 == Tail(from_broker)
         Service_manager_1 == [service_manager EXCEPT !.state = "active_ticketed", !.ticket_units = Head(from_broker).units, !.ticket_end = Head(from_broker).end, !.ticket_properties = Head(from_broker).properties, !.requested_units = 0, !.requested_end = 0]
     IN /\ service_manager' = Service_manager_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, to_authority, from_authority, clock>>

\* service_manager/extending_ticket#update_ticket.2: to active. The broker denied it; the lease goes on to its
\* end.
Service_manager_extending_ticket_update_ticket_2 ==
  /\ from_broker /= <<>>
  /\ Head(from_broker).kind = "update_ticket"
  /\ service_manager.state = "extending_ticket"
  /\ ((((Head(from_broker).units = 0) \/ (Head(from_broker).end <= service_manager.ticket_end)) /\ (service_manager.lease_units = service_manager.ticket_units) /\ (service_manager.lease_end = service_manager.ticket_end))) = TRUE
  /\ LET From_broker_1 == Tail(from_broker)
         Service_manager_1 == [service_manager EXCEPT !.state = "active", !.requested_units = 0, !.requested_end = 0]
     IN /\ service_manager' = Service_manager_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, to_authority, from_authority, clock>>

\* service_manager/extending_ticket#update_ticket.3: to active_ticketed. The broker denied it, and the ticket
\* before is not used up yet.
Service_manager_extending_ticket_update_ticket_3 ==
  /\ from_broker /= <<>>
  /\ Head(from_broker).kind = "update_ticket"
  /\ service_manager.state = "extending_ticket"
  /\ ((((Head(from_broker).units = 0) \/ (Head(from_broker).end <= service_manager.ticket_end)) /\ ((service_manager.lease_units /= service_manager.ticket_units) \/ (service_manager.lease_end /= service_manager.ticket_end)))) = TRUE
  /\ LET From_broker_1 == Tail(from_broker)
         Service_manager_1 == [service_manager EXCEPT !.state = "active_ticketed", !.requested_units = 0, !.requested_end = 0]
     IN /\ service_manager' = Service_manager_1
        /\ from_broker' = From_broker_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, to_authority, from_authority, clock>>

\* update_ticket is ignored or refused. The ticket as it stands.
Service_manager_drops_update_ticket ==
  /\ from_broker /= <<>>
  /\ Head(from_broker).kind = "update_ticket"
  /\ (~((service_manager.state = "ticketing" /\ (Head(from_broker).units >= 1)) \/ (service_manager.state = "ticketing" /\ (Head(from_broker).units = 0)) \/ (service_manager.state = "extending_ticket" /\ ((Head(from_broker).units >= 1) /\ (Head(from_broker).end > service_manager.ticket_end))) \/ (service_manager.state = "extending_ticket" /\ (((Head(from_broker).units = 0) \/ (Head(from_broker).end <= service_manager.ticket_end)) /\ (service_manager.lease_units = service_manager.ticket_units) /\ (service_manager.lease_end = service_manager.ticket_end))) \/ (service_manager.state = "extending_ticket" /\ (((Head(from_broker).units = 0) \/ (Head(from_broker).end <= service_manager.ticket_end)) /\ ((service_manager.lease_units /= service_manager.ticket_units) \/ (service_manager.lease_end /= service_manager.ticket_end)))))) = TRUE
  /\ LET From_broker_1 == Tail(from_broker)
     IN /\ from_broker' = From_broker_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, to_authority, from_authority, clock>>

\* authority/nascent#redeem: to priming.
Authority_nascent_redeem ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "redeem"
  /\ authority.state = "nascent"
  /\ (Head(to_authority).end > clock)
  /\ LET To_authority_1 == Tail(to_authority)
         Authority_1 == [authority EXCEPT !.state = "priming", !.wanted = Head(to_authority).units, !.end = Head(to_authority).end, !.properties = Head(to_authority).properties]
         Unit_1 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in Authority_1.chosen) THEN Unit_setup_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, from_authority, clock>>

\* authority/nascent#redeem.2: to closed. The ticket's term is over.
Authority_nascent_redeem_2 ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "redeem"
  /\ authority.state = "nascent"
  /\ (Head(to_authority).end <= clock)
  /\ LET To_authority_1 == Tail(to_authority)
         Authority_1 == [authority EXCEPT !.state = "closed"]
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> Authority_1.units, end |-> Authority_1.end])
     IN /\ authority' = Authority_1
        /\ to_authority' = To_authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, unit, to_broker, from_broker, clock>>

\* authority/closed#redeem: to closed. Says again that it is over.
Authority_closed_redeem ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "redeem"
  /\ authority.state = "closed"
  /\ LET To_authority_1 == Tail(to_authority)
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> authority.units, end |-> authority.end])
     IN /\ to_authority' = To_authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, clock>>

\* redeem is ignored or refused. Presents a ticket and asks for the lease.
Authority_drops_redeem ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "redeem"
  /\ (~((authority.state = "nascent" /\ (Head(to_authority).end > clock)) \/ (authority.state = "nascent" /\ (Head(to_authority).end <= clock)) \/ (authority.state = "closed"))) = TRUE
  /\ LET To_authority_1 == Tail(to_authority)
     IN /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* authority/active#extend_lease: to modifying. The longer term counts from here on, whatever becomes of the
\* units. With the ticket that it has already, a lease is changed only where it could not be made as that
\* says.
Authority_active_extend_lease ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "extend_lease"
  /\ authority.state = "active"
  /\ (((Head(to_authority).end > clock) /\ ((Head(to_authority).end > authority.end) \/ ((Head(to_authority).end = authority.end) /\ (Head(to_authority).units /= authority.units))))) = TRUE
  /\ LET To_authority_1 == Tail(to_authority)
         Authority_1 == [authority EXCEPT !.state = "modifying", !.wanted = Head(to_authority).units, !.end = Head(to_authority).end, !.properties = Head(to_authority).properties]
         Unit_1 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in Authority_1.chosen) THEN Unit_modify_driven(It, unit[It]) ELSE unit[It]]
         Unit_2 == [It \in (0..0) |-> IF (Cardinality(Authority_1.chosen) = Authority_1.wanted) /\ (It \in (Authority_1.assigned \ Authority_1.chosen)) THEN Unit_teardown_driven(It, Unit_1[It]) ELSE Unit_1[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_2
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, from_authority, clock>>

\* authority/active#extend_lease.2: to active. Over, not longer, or as it is; saying the lease as it stands
\* denies it.
Authority_active_extend_lease_2 ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "extend_lease"
  /\ authority.state = "active"
  /\ (((Head(to_authority).end <= clock) \/ (Head(to_authority).end < authority.end) \/ ((Head(to_authority).end = authority.end) /\ (Head(to_authority).units = authority.units)))) = TRUE
  /\ LET To_authority_1 == Tail(to_authority)
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> authority.units, end |-> authority.end])
     IN /\ to_authority' = To_authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, clock>>

\* authority/closed#extend_lease: to closed. Says again that it is over.
Authority_closed_extend_lease ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "extend_lease"
  /\ authority.state = "closed"
  /\ LET To_authority_1 == Tail(to_authority)
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> authority.units, end |-> authority.end])
     IN /\ to_authority' = To_authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, clock>>

\* extend_lease is ignored or refused. Presents an extended ticket.
Authority_drops_extend_lease ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "extend_lease"
  /\ (~((authority.state = "active" /\ ((Head(to_authority).end > clock) /\ ((Head(to_authority).end > authority.end) \/ ((Head(to_authority).end = authority.end) /\ (Head(to_authority).units /= authority.units))))) \/ (authority.state = "active" /\ ((Head(to_authority).end <= clock) \/ (Head(to_authority).end < authority.end) \/ ((Head(to_authority).end = authority.end) /\ (Head(to_authority).units = authority.units)))) \/ (authority.state = "closed"))) = TRUE
  /\ LET To_authority_1 == Tail(to_authority)
     IN /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* authority/nascent#close: to closed. The request was taken back before it came.
Authority_nascent_close ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "close"
  /\ authority.state = "nascent"
  /\ LET To_authority_1 == Tail(to_authority)
         Authority_1 == [authority EXCEPT !.state = "closed"]
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> Authority_1.units, end |-> Authority_1.end])
     IN /\ authority' = Authority_1
        /\ to_authority' = To_authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, unit, to_broker, from_broker, clock>>

\* authority/priming#close: to closing.
Authority_priming_close ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "close"
  /\ authority.state = "priming"
  /\ LET To_authority_1 == Tail(to_authority)
         Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, from_authority, clock>>

\* authority/active#close: to closing.
Authority_active_close ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "close"
  /\ authority.state = "active"
  /\ LET To_authority_1 == Tail(to_authority)
         Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, from_authority, clock>>

\* authority/modifying#close: to closing.
Authority_modifying_close ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "close"
  /\ authority.state = "modifying"
  /\ LET To_authority_1 == Tail(to_authority)
         Authority_1 == [authority EXCEPT !.state = "closing"]
         Unit_1 == [It \in (0..0) |-> IF (It \in Authority_1.assigned) THEN Unit_teardown_driven(It, unit[It]) ELSE unit[It]]
     IN /\ authority' = Authority_1
        /\ unit' = Unit_1
        /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, to_broker, from_broker, from_authority, clock>>

\* authority/closed#close: to closed. Says again that it is over.
Authority_closed_close ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "close"
  /\ authority.state = "closed"
  /\ LET To_authority_1 == Tail(to_authority)
         From_authority_1 == PutInMailbox(from_authority, [kind |-> "update_lease", units |-> authority.units, end |-> authority.end])
     IN /\ to_authority' = To_authority_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, clock>>

\* close is ignored or refused. Ends the lease.
Authority_drops_close ==
  /\ to_authority /= <<>>
  /\ Head(to_authority).kind = "close"
  /\ (~((authority.state = "nascent") \/ (authority.state = "priming") \/ (authority.state = "active") \/ (authority.state = "modifying") \/ (authority.state = "closed"))) = TRUE
  /\ LET To_authority_1 == Tail(to_authority)
     IN /\ to_authority' = To_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, from_authority, clock>>

\* service_manager/redeeming#update_lease: to joining.
Service_manager_redeeming_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "redeeming"
  /\ (Head(from_authority).units >= 1)
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "joining", !.lease_units = Head(from_authority).units, !.lease_end = Head(from_authority).end]
     IN /\ service_manager' = Service_manager_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, to_authority, clock>>

\* service_manager/redeeming#update_lease.2: to failed. The site could not set the units up.
Service_manager_redeeming_update_lease_2 ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "redeeming"
  /\ (Head(from_authority).units = 0)
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/joining#update_lease: to failed.
Service_manager_joining_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "joining"
  /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/joining#update_lease.2: to closed.
Service_manager_joining_update_lease_2 ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "joining"
  /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/active#update_lease: to failed.
Service_manager_active_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "active"
  /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/active#update_lease.2: to closed.
Service_manager_active_update_lease_2 ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "active"
  /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/extending_ticket#update_lease: to failed.
Service_manager_extending_ticket_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "extending_ticket"
  /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/extending_ticket#update_lease.2: to closed.
Service_manager_extending_ticket_update_lease_2 ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "extending_ticket"
  /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/active_ticketed#update_lease: to failed.
Service_manager_active_ticketed_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "active_ticketed"
  /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/active_ticketed#update_lease.2: to closed.
Service_manager_active_ticketed_update_lease_2 ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "active_ticketed"
  /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/extending_lease#update_lease: to joining. The units may be others, also where they are as
\* many; joining twice does no harm.
Service_manager_extending_lease_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "extending_lease"
  /\ ((Head(from_authority).units >= 1) /\ (Head(from_authority).end >= service_manager.ticket_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "joining", !.lease_units = Head(from_authority).units, !.lease_end = Head(from_authority).end]
     IN /\ service_manager' = Service_manager_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, to_broker, from_broker, to_authority, clock>>

\* service_manager/extending_lease#update_lease.2: to failed.
Service_manager_extending_lease_update_lease_2 ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "extending_lease"
  /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "failed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/extending_lease#update_lease.3: to closed.
Service_manager_extending_lease_update_lease_3 ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "extending_lease"
  /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* service_manager/closing#update_lease: to closed.
Service_manager_closing_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ service_manager.state = "closing"
  /\ (Head(from_authority).units = 0)
  /\ LET From_authority_1 == Tail(from_authority)
         Service_manager_1 == [service_manager EXCEPT !.state = "closed"]
         To_broker_1 == PutInMailbox(to_broker, [kind |-> "relinquish"])
     IN /\ service_manager' = Service_manager_1
        /\ to_broker' = To_broker_1
        /\ from_authority' = From_authority_1
        /\ UNCHANGED <<broker, authority, unit, from_broker, to_authority, clock>>

\* update_lease is ignored or refused. The lease as it stands.
Service_manager_drops_update_lease ==
  /\ from_authority /= <<>>
  /\ Head(from_authority).kind = "update_lease"
  /\ (~((service_manager.state = "redeeming" /\ (Head(from_authority).units >= 1)) \/ (service_manager.state = "redeeming" /\ (Head(from_authority).units = 0)) \/ (service_manager.state = "joining" /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))) \/ (service_manager.state = "joining" /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))) \/ (service_manager.state = "active" /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))) \/ (service_manager.state = "active" /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))) \/ (service_manager.state = "extending_ticket" /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))) \/ (service_manager.state = "extending_ticket" /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))) \/ (service_manager.state = "active_ticketed" /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))) \/ (service_manager.state = "active_ticketed" /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))) \/ (service_manager.state = "extending_lease" /\ ((Head(from_authority).units >= 1) /\ (Head(from_authority).end >= service_manager.ticket_end))) \/ (service_manager.state = "extending_lease" /\ ((Head(from_authority).units = 0) /\ (clock < service_manager.lease_end))) \/ (service_manager.state = "extending_lease" /\ ((Head(from_authority).units = 0) /\ (clock >= service_manager.lease_end))) \/ (service_manager.state = "closing" /\ (Head(from_authority).units = 0)))) = TRUE
  /\ LET From_authority_1 == Tail(from_authority)
     IN /\ from_authority' = From_authority_1
        /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, to_authority, clock>>

\* The clock ticks, unless it has to wait for a timer.
Clock_ticks ==
  /\ clock < 2
  /\ ~((service_manager.state = "ticketing" /\ (clock >= service_manager.requested_end)))
  /\ ~((service_manager.state = "ticketed" /\ (clock >= service_manager.ticket_end)))
  /\ ~((service_manager.state = "redeeming" /\ (clock >= service_manager.ticket_end)))
  /\ ~((service_manager.state = "joining" /\ (clock >= service_manager.lease_end)))
  /\ ~((service_manager.state = "active" /\ (clock >= service_manager.lease_end)))
  /\ ~((service_manager.state = "extending_ticket" /\ (clock >= service_manager.lease_end)))
  /\ ~((service_manager.state = "active_ticketed" /\ (clock >= service_manager.ticket_end)))
  /\ ~((service_manager.state = "extending_lease" /\ (clock >= service_manager.ticket_end)))
  /\ ~((service_manager.state = "closing" /\ (clock >= service_manager.ticket_end)))
  /\ ~((broker.state = "ticketing" /\ (clock >= broker.requested_end)))
  /\ ~((broker.state = "ticketed" /\ (clock >= broker.term_end)))
  /\ ~((broker.state = "extending" /\ (clock >= broker.term_end)))
  /\ ~((authority.state = "priming" /\ ((clock >= authority.end) /\ (~lazy_close))))
  /\ ~((authority.state = "active" /\ ((clock >= authority.end) /\ (~lazy_close))))
  /\ ~((authority.state = "modifying" /\ ((clock >= authority.end) /\ (~lazy_close))))
  /\ (~(\E Me \in (0..0) : (unit[Me].state = "priming" /\ (clock >= unit[Me].deadline)))) = TRUE
  /\ (~(\E Me \in (0..0) : (unit[Me].state = "modifying" /\ (clock >= unit[Me].deadline)))) = TRUE
  /\ (~(\E Me \in (0..0) : (unit[Me].state = "closing" /\ (clock >= unit[Me].deadline)))) = TRUE
  /\ clock' = clock + 1
  /\ UNCHANGED <<service_manager, broker, authority, unit, to_broker, from_broker, to_authority, from_authority>>

Next ==
  \/ \E Arg_units \in {N \in (1..max_units) : 1 <= N} : \E Arg_end \in ((clock + 1)..last_end) : Service_manager_nascent_demand(Arg_units, Arg_end)
  \/ Service_manager_nascent_close
  \/ Service_manager_ticketing_close
  \/ Service_manager_ticketing_tick
  \/ Service_manager_ticketed_redeem_now
  \/ Service_manager_ticketed_close
  \/ Service_manager_ticketed_tick
  \/ Service_manager_redeeming_close
  \/ Service_manager_redeeming_tick
  \/ Service_manager_joining_joined
  \/ Service_manager_joining_joined_2
  \/ Service_manager_joining_join_failed
  \/ Service_manager_joining_close
  \/ Service_manager_joining_tick
  \/ \E Arg_units \in {N \in (1..max_units) : 1 <= N} : \E Arg_end \in ((clock + 1)..last_end) : Service_manager_active_extend(Arg_units, Arg_end)
  \/ Service_manager_active_close
  \/ Service_manager_active_tick
  \/ Service_manager_extending_ticket_close
  \/ Service_manager_extending_ticket_tick
  \/ Service_manager_active_ticketed_extend_now
  \/ \E Arg_units \in {N \in (1..max_units) : 1 <= N} : \E Arg_end \in ((clock + 1)..last_end) : Service_manager_active_ticketed_extend(Arg_units, Arg_end)
  \/ Service_manager_active_ticketed_close
  \/ Service_manager_active_ticketed_tick
  \/ Service_manager_extending_lease_close
  \/ Service_manager_extending_lease_tick
  \/ Service_manager_closing_tick
  \/ \E Arg_units \in {N \in (1..max_units) : 1 <= N} : \E Arg_properties \in (0..(kinds - 1)) : Broker_ticketing_granted(Arg_units, Arg_properties)
  \/ Broker_ticketing_denied
  \/ Broker_ticketing_tick
  \/ Broker_ticketed_tick
  \/ \E Arg_units \in {N \in (1..max_units) : 1 <= N} : \E Arg_properties \in (0..(kinds - 1)) : Broker_extending_granted(Arg_units, Arg_properties)
  \/ Broker_extending_denied
  \/ Broker_extending_tick
  \/ \E Arg_units \in (SUBSET (0..0)) : Authority_priming_placed(Arg_units)
  \/ Authority_priming_no_room
  \/ Authority_priming_primed
  \/ Authority_priming_setup_failed
  \/ Authority_priming_reclaim
  \/ Authority_priming_tick
  \/ Authority_active_reclaim
  \/ Authority_active_tick
  \/ \E Arg_units \in (SUBSET (0..0)) : Authority_modifying_placed(Arg_units)
  \/ Authority_modifying_no_room
  \/ Authority_modifying_modified
  \/ Authority_modifying_modify_failed
  \/ Authority_modifying_modify_failed_2
  \/ Authority_modifying_reclaim
  \/ Authority_modifying_tick
  \/ Authority_closing_torn_down
  \/ \E Me \in (0..0) : Unit_priming_up(Me)
  \/ \E Me \in (0..0) : Unit_priming_broken(Me)
  \/ \E Me \in (0..0) : Unit_priming_tick(Me)
  \/ \E Me \in (0..0) : Unit_modifying_changed(Me)
  \/ \E Me \in (0..0) : Unit_modifying_broken(Me)
  \/ \E Me \in (0..0) : Unit_modifying_tick(Me)
  \/ \E Me \in (0..0) : Unit_closing_down(Me)
  \/ \E Me \in (0..0) : Unit_closing_broken(Me)
  \/ \E Me \in (0..0) : Unit_closing_tick(Me)
  \/ \E Me \in (0..0) : Unit_failed_repaired(Me)
  \/ Broker_nascent_ticket
  \/ Broker_drops_ticket
  \/ Broker_ticketed_extend_ticket
  \/ Broker_ticketed_extend_ticket_2
  \/ Broker_drops_extend_ticket
  \/ Broker_nascent_relinquish
  \/ Broker_ticketing_relinquish
  \/ Broker_ticketed_relinquish
  \/ Broker_extending_relinquish
  \/ Broker_drops_relinquish
  \/ Service_manager_ticketing_update_ticket
  \/ Service_manager_ticketing_update_ticket_2
  \/ Service_manager_extending_ticket_update_ticket
  \/ Service_manager_extending_ticket_update_ticket_2
  \/ Service_manager_extending_ticket_update_ticket_3
  \/ Service_manager_drops_update_ticket
  \/ Authority_nascent_redeem
  \/ Authority_nascent_redeem_2
  \/ Authority_closed_redeem
  \/ Authority_drops_redeem
  \/ Authority_active_extend_lease
  \/ Authority_active_extend_lease_2
  \/ Authority_closed_extend_lease
  \/ Authority_drops_extend_lease
  \/ Authority_nascent_close
  \/ Authority_priming_close
  \/ Authority_active_close
  \/ Authority_modifying_close
  \/ Authority_closed_close
  \/ Authority_drops_close
  \/ Service_manager_redeeming_update_lease
  \/ Service_manager_redeeming_update_lease_2
  \/ Service_manager_joining_update_lease
  \/ Service_manager_joining_update_lease_2
  \/ Service_manager_active_update_lease
  \/ Service_manager_active_update_lease_2
  \/ Service_manager_extending_ticket_update_lease
  \/ Service_manager_extending_ticket_update_lease_2
  \/ Service_manager_active_ticketed_update_lease
  \/ Service_manager_active_ticketed_update_lease_2
  \/ Service_manager_extending_lease_update_lease
  \/ Service_manager_extending_lease_update_lease_2
  \/ Service_manager_extending_lease_update_lease_3
  \/ Service_manager_closing_update_lease
  \/ Service_manager_drops_update_lease
  \/ Clock_ticks

\* What could happen all the time from some point on does happen. (Of a group of which some step changes
\* nothing, the explorer takes that step for enough; TLC asks for one that changes something.)
Fairness ==
  /\ WF_vars((Service_manager_ticketing_tick) \/ (Service_manager_ticketed_tick) \/ (Service_manager_redeeming_tick) \/ (Service_manager_joining_tick) \/ (Service_manager_active_tick) \/ (Service_manager_extending_ticket_tick) \/ (Service_manager_active_ticketed_tick) \/ (Service_manager_extending_lease_tick) \/ (Service_manager_closing_tick))  \* service_manager tick
  /\ WF_vars((Service_manager_ticketed_redeem_now))  \* service_manager schedule_redeem
  /\ WF_vars((Service_manager_joining_joined) \/ (Service_manager_joining_joined_2) \/ (Service_manager_joining_join_failed))  \* service_manager join
  /\ WF_vars((Service_manager_active_ticketed_extend_now))  \* service_manager schedule_extension
  /\ WF_vars((\E Arg_units \in {N \in (1..max_units) : 1 <= N} : \E Arg_properties \in (0..(kinds - 1)) : Broker_ticketing_granted(Arg_units, Arg_properties)) \/ (Broker_ticketing_denied))  \* broker allocate
  /\ WF_vars((Broker_ticketing_tick) \/ (Broker_ticketed_tick) \/ (Broker_extending_tick))  \* broker tick
  /\ WF_vars((\E Arg_units \in {N \in (1..max_units) : 1 <= N} : \E Arg_properties \in (0..(kinds - 1)) : Broker_extending_granted(Arg_units, Arg_properties)) \/ (Broker_extending_denied))  \* broker allocate_extension
  /\ WF_vars((\E Arg_units \in (SUBSET (0..0)) : Authority_priming_placed(Arg_units)) \/ (Authority_priming_no_room))  \* authority place
  /\ WF_vars((Authority_priming_primed) \/ (Authority_priming_setup_failed))  \* authority setup
  /\ WF_vars((Authority_priming_reclaim) \/ (Authority_active_reclaim) \/ (Authority_modifying_reclaim))  \* authority reclaim
  /\ WF_vars((Authority_priming_tick) \/ (Authority_active_tick) \/ (Authority_modifying_tick))  \* authority tick
  /\ WF_vars((\E Arg_units \in (SUBSET (0..0)) : Authority_modifying_placed(Arg_units)) \/ (Authority_modifying_no_room))  \* authority place_extension
  /\ WF_vars((Authority_modifying_modified) \/ (Authority_modifying_modify_failed) \/ (Authority_modifying_modify_failed_2))  \* authority modify
  /\ WF_vars((Authority_closing_torn_down))  \* authority teardown
  /\ \A Me \in (0..0) : WF_vars((Unit_priming_up(Me)) \/ (Unit_priming_broken(Me)))  \* unit run_setup
  /\ \A Me \in (0..0) : WF_vars((Unit_priming_tick(Me)) \/ (Unit_modifying_tick(Me)) \/ (Unit_closing_tick(Me)))  \* unit tick
  /\ \A Me \in (0..0) : WF_vars((Unit_modifying_changed(Me)) \/ (Unit_modifying_broken(Me)))  \* unit run_modify
  /\ \A Me \in (0..0) : WF_vars((Unit_closing_down(Me)) \/ (Unit_closing_broken(Me)))  \* unit run_teardown
  /\ WF_vars((Broker_nascent_ticket) \/ (Broker_drops_ticket) \/ (Broker_ticketed_extend_ticket) \/ (Broker_ticketed_extend_ticket_2) \/ (Broker_drops_extend_ticket) \/ (Broker_nascent_relinquish) \/ (Broker_ticketing_relinquish) \/ (Broker_ticketed_relinquish) \/ (Broker_extending_relinquish) \/ (Broker_drops_relinquish))  \* deliver to_broker
  /\ WF_vars((Service_manager_ticketing_update_ticket) \/ (Service_manager_ticketing_update_ticket_2) \/ (Service_manager_extending_ticket_update_ticket) \/ (Service_manager_extending_ticket_update_ticket_2) \/ (Service_manager_extending_ticket_update_ticket_3) \/ (Service_manager_drops_update_ticket))  \* deliver from_broker
  /\ WF_vars((Authority_nascent_redeem) \/ (Authority_nascent_redeem_2) \/ (Authority_closed_redeem) \/ (Authority_drops_redeem) \/ (Authority_active_extend_lease) \/ (Authority_active_extend_lease_2) \/ (Authority_closed_extend_lease) \/ (Authority_drops_extend_lease) \/ (Authority_nascent_close) \/ (Authority_priming_close) \/ (Authority_active_close) \/ (Authority_modifying_close) \/ (Authority_closed_close) \/ (Authority_drops_close))  \* deliver to_authority
  /\ WF_vars((Service_manager_redeeming_update_lease) \/ (Service_manager_redeeming_update_lease_2) \/ (Service_manager_joining_update_lease) \/ (Service_manager_joining_update_lease_2) \/ (Service_manager_active_update_lease) \/ (Service_manager_active_update_lease_2) \/ (Service_manager_extending_ticket_update_lease) \/ (Service_manager_extending_ticket_update_lease_2) \/ (Service_manager_active_ticketed_update_lease) \/ (Service_manager_active_ticketed_update_lease_2) \/ (Service_manager_extending_lease_update_lease) \/ (Service_manager_extending_lease_update_lease_2) \/ (Service_manager_extending_lease_update_lease_3) \/ (Service_manager_closing_update_lease) \/ (Service_manager_drops_update_lease))  \* deliver from_authority
  /\ WF_vars((Clock_ticks))  \* clock

Spec == Init /\ [][Next]_vars /\ Fairness

\* A claim P about steps that asks who consumed what: it holds of every action that a step can be taken for.
Judged(P(_, _, _, _)) ==
  /\ \A Arg_units \in {N \in (1..max_units) : 1 <= N} : \A Arg_end \in ((clock + 1)..last_end) : Service_manager_nascent_demand(Arg_units, Arg_end) => P("service_manager", 0, "demand", FALSE)
  /\ Service_manager_nascent_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_ticketing_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_ticketing_tick => P("service_manager", 0, "tick", FALSE)
  /\ Service_manager_ticketed_redeem_now => P("service_manager", 0, "redeem_now", FALSE)
  /\ Service_manager_ticketed_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_ticketed_tick => P("service_manager", 0, "tick", FALSE)
  /\ Service_manager_redeeming_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_redeeming_tick => P("service_manager", 0, "tick", FALSE)
  /\ Service_manager_joining_joined => P("service_manager", 0, "joined", FALSE)
  /\ Service_manager_joining_joined_2 => P("service_manager", 0, "joined", FALSE)
  /\ Service_manager_joining_join_failed => P("service_manager", 0, "join_failed", FALSE)
  /\ Service_manager_joining_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_joining_tick => P("service_manager", 0, "tick", FALSE)
  /\ \A Arg_units \in {N \in (1..max_units) : 1 <= N} : \A Arg_end \in ((clock + 1)..last_end) : Service_manager_active_extend(Arg_units, Arg_end) => P("service_manager", 0, "extend", FALSE)
  /\ Service_manager_active_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_active_tick => P("service_manager", 0, "tick", FALSE)
  /\ Service_manager_extending_ticket_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_extending_ticket_tick => P("service_manager", 0, "tick", FALSE)
  /\ Service_manager_active_ticketed_extend_now => P("service_manager", 0, "extend_now", FALSE)
  /\ \A Arg_units \in {N \in (1..max_units) : 1 <= N} : \A Arg_end \in ((clock + 1)..last_end) : Service_manager_active_ticketed_extend(Arg_units, Arg_end) => P("service_manager", 0, "extend", FALSE)
  /\ Service_manager_active_ticketed_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_active_ticketed_tick => P("service_manager", 0, "tick", FALSE)
  /\ Service_manager_extending_lease_close => P("service_manager", 0, "close", FALSE)
  /\ Service_manager_extending_lease_tick => P("service_manager", 0, "tick", FALSE)
  /\ Service_manager_closing_tick => P("service_manager", 0, "tick", FALSE)
  /\ \A Arg_units \in {N \in (1..max_units) : 1 <= N} : \A Arg_properties \in (0..(kinds - 1)) : Broker_ticketing_granted(Arg_units, Arg_properties) => P("broker", 0, "granted", FALSE)
  /\ Broker_ticketing_denied => P("broker", 0, "denied", FALSE)
  /\ Broker_ticketing_tick => P("broker", 0, "tick", FALSE)
  /\ Broker_ticketed_tick => P("broker", 0, "tick", FALSE)
  /\ \A Arg_units \in {N \in (1..max_units) : 1 <= N} : \A Arg_properties \in (0..(kinds - 1)) : Broker_extending_granted(Arg_units, Arg_properties) => P("broker", 0, "granted", FALSE)
  /\ Broker_extending_denied => P("broker", 0, "denied", FALSE)
  /\ Broker_extending_tick => P("broker", 0, "tick", FALSE)
  /\ \A Arg_units \in (SUBSET (0..0)) : Authority_priming_placed(Arg_units) => P("authority", 0, "placed", FALSE)
  /\ Authority_priming_no_room => P("authority", 0, "no_room", FALSE)
  /\ Authority_priming_primed => P("authority", 0, "primed", FALSE)
  /\ Authority_priming_setup_failed => P("authority", 0, "setup_failed", FALSE)
  /\ Authority_priming_reclaim => P("authority", 0, "reclaim", FALSE)
  /\ Authority_priming_tick => P("authority", 0, "tick", FALSE)
  /\ Authority_active_reclaim => P("authority", 0, "reclaim", FALSE)
  /\ Authority_active_tick => P("authority", 0, "tick", FALSE)
  /\ \A Arg_units \in (SUBSET (0..0)) : Authority_modifying_placed(Arg_units) => P("authority", 0, "placed", FALSE)
  /\ Authority_modifying_no_room => P("authority", 0, "no_room", FALSE)
  /\ Authority_modifying_modified => P("authority", 0, "modified", FALSE)
  /\ Authority_modifying_modify_failed => P("authority", 0, "modify_failed", FALSE)
  /\ Authority_modifying_modify_failed_2 => P("authority", 0, "modify_failed", FALSE)
  /\ Authority_modifying_reclaim => P("authority", 0, "reclaim", FALSE)
  /\ Authority_modifying_tick => P("authority", 0, "tick", FALSE)
  /\ Authority_closing_torn_down => P("authority", 0, "torn_down", FALSE)
  /\ \A Me \in (0..0) : Unit_priming_up(Me) => P("unit", Me, "up", FALSE)
  /\ \A Me \in (0..0) : Unit_priming_broken(Me) => P("unit", Me, "broken", FALSE)
  /\ \A Me \in (0..0) : Unit_priming_tick(Me) => P("unit", Me, "tick", FALSE)
  /\ \A Me \in (0..0) : Unit_modifying_changed(Me) => P("unit", Me, "changed", FALSE)
  /\ \A Me \in (0..0) : Unit_modifying_broken(Me) => P("unit", Me, "broken", FALSE)
  /\ \A Me \in (0..0) : Unit_modifying_tick(Me) => P("unit", Me, "tick", FALSE)
  /\ \A Me \in (0..0) : Unit_closing_down(Me) => P("unit", Me, "down", FALSE)
  /\ \A Me \in (0..0) : Unit_closing_broken(Me) => P("unit", Me, "broken", FALSE)
  /\ \A Me \in (0..0) : Unit_closing_tick(Me) => P("unit", Me, "tick", FALSE)
  /\ \A Me \in (0..0) : Unit_failed_repaired(Me) => P("unit", Me, "repaired", FALSE)
  /\ Broker_nascent_ticket => P("broker", 0, "ticket", FALSE)
  /\ Broker_drops_ticket => P("broker", 0, "ticket", TRUE)
  /\ Broker_ticketed_extend_ticket => P("broker", 0, "extend_ticket", FALSE)
  /\ Broker_ticketed_extend_ticket_2 => P("broker", 0, "extend_ticket", FALSE)
  /\ Broker_drops_extend_ticket => P("broker", 0, "extend_ticket", TRUE)
  /\ Broker_nascent_relinquish => P("broker", 0, "relinquish", FALSE)
  /\ Broker_ticketing_relinquish => P("broker", 0, "relinquish", FALSE)
  /\ Broker_ticketed_relinquish => P("broker", 0, "relinquish", FALSE)
  /\ Broker_extending_relinquish => P("broker", 0, "relinquish", FALSE)
  /\ Broker_drops_relinquish => P("broker", 0, "relinquish", TRUE)
  /\ Service_manager_ticketing_update_ticket => P("service_manager", 0, "update_ticket", FALSE)
  /\ Service_manager_ticketing_update_ticket_2 => P("service_manager", 0, "update_ticket", FALSE)
  /\ Service_manager_extending_ticket_update_ticket => P("service_manager", 0, "update_ticket", FALSE)
  /\ Service_manager_extending_ticket_update_ticket_2 => P("service_manager", 0, "update_ticket", FALSE)
  /\ Service_manager_extending_ticket_update_ticket_3 => P("service_manager", 0, "update_ticket", FALSE)
  /\ Service_manager_drops_update_ticket => P("service_manager", 0, "update_ticket", TRUE)
  /\ Authority_nascent_redeem => P("authority", 0, "redeem", FALSE)
  /\ Authority_nascent_redeem_2 => P("authority", 0, "redeem", FALSE)
  /\ Authority_closed_redeem => P("authority", 0, "redeem", FALSE)
  /\ Authority_drops_redeem => P("authority", 0, "redeem", TRUE)
  /\ Authority_active_extend_lease => P("authority", 0, "extend_lease", FALSE)
  /\ Authority_active_extend_lease_2 => P("authority", 0, "extend_lease", FALSE)
  /\ Authority_closed_extend_lease => P("authority", 0, "extend_lease", FALSE)
  /\ Authority_drops_extend_lease => P("authority", 0, "extend_lease", TRUE)
  /\ Authority_nascent_close => P("authority", 0, "close", FALSE)
  /\ Authority_priming_close => P("authority", 0, "close", FALSE)
  /\ Authority_active_close => P("authority", 0, "close", FALSE)
  /\ Authority_modifying_close => P("authority", 0, "close", FALSE)
  /\ Authority_closed_close => P("authority", 0, "close", FALSE)
  /\ Authority_drops_close => P("authority", 0, "close", TRUE)
  /\ Service_manager_redeeming_update_lease => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_redeeming_update_lease_2 => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_joining_update_lease => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_joining_update_lease_2 => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_active_update_lease => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_active_update_lease_2 => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_extending_ticket_update_lease => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_extending_ticket_update_lease_2 => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_active_ticketed_update_lease => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_active_ticketed_update_lease_2 => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_extending_lease_update_lease => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_extending_lease_update_lease_2 => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_extending_lease_update_lease_3 => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_closing_update_lease => P("service_manager", 0, "update_lease", FALSE)
  /\ Service_manager_drops_update_lease => P("service_manager", 0, "update_lease", TRUE)
  /\ Clock_ticks => P("", 0, "", FALSE)

\* No int leaves its range.
TypesHold ==
  /\ 0 <= service_manager.requested_units
  /\ 0 <= service_manager.ticket_units
  /\ 0 <= service_manager.lease_units
  /\ 0 <= broker.requested_units
  /\ 0 <= broker.units
  /\ 0 <= authority.wanted
  /\ 0 <= authority.units

\* valid_ticket: always. Every lease has a valid ticket, of at least one unit: a site holds units for a lease
\* only up to an end that the broker has issued a ticket for, and a service manager that uses a lease holds a
\* ticket of at least one unit.
Valid_ticket == (((authority.state \in {"priming", "active", "modifying"}) \/ (service_manager.state \in {"ticketed", "redeeming", "joining", "active", "extending_ticket", "active_ticketed", "extending_lease"})) => (((authority.state \notin {"priming", "active", "modifying"}) \/ ((0 < authority.end) /\ (authority.end <= broker.term_end))) /\ ((service_manager.state \notin {"ticketed", "redeeming", "joining", "active", "extending_ticket", "active_ticketed", "extending_lease"}) \/ ((service_manager.ticket_units >= 1) /\ ((0 < service_manager.ticket_end) /\ (service_manager.ticket_end <= broker.term_end))))))

\* ticket_lasts_while_it_is_used: always. While a lease's term lasts and its site holds units for it, its
\* ticket is held, for at least one unit.
Ticket_lasts_while_it_is_used == (((authority.state \in {"priming", "active", "modifying"}) /\ (clock < authority.end)) => ((broker.state \in {"ticketed", "extending"}) /\ (broker.units >= 1)))

\* ticket_is_as_issued: always. The service manager's ticket is the one that the broker issued, unless word of
\* another is on its way.
Ticket_is_as_issued == (((broker.state = "ticketed") /\ (service_manager.state \in {"ticketed", "redeeming", "joining", "active", "active_ticketed", "extending_lease"}) /\ (SumOfSequence(from_broker, LAMBDA Any_ : IF Any_.kind = "update_ticket" THEN 1 ELSE 0) = 0) /\ (SumOfSequence(to_broker, LAMBDA Any_ : IF Any_.kind = "extend_ticket" THEN 1 ELSE 0) = 0)) => ((service_manager.ticket_units = broker.units) /\ (service_manager.ticket_end = broker.term_end) /\ (service_manager.ticket_properties = broker.properties)))

\* assigned_equals_ticketed: always. The number of assigned units equals the number of ticketed units, once
\* settled: while the service manager's lease is active (and no longer ticket waits to be used) and the site's
\* is too, ticket, lease and units that are up agree.
Assigned_equals_ticketed == (((authority.state = "active") /\ (service_manager.state \in {"active", "extending_ticket"}) /\ (service_manager.lease_units = service_manager.ticket_units) /\ (service_manager.lease_end = service_manager.ticket_end)) => ((authority.units = service_manager.ticket_units) /\ (service_manager.lease_units = authority.units) /\ (Cardinality({u_ \in authority.assigned : (unit[u_].state = "active")}) = authority.units) /\ (Cardinality(authority.assigned) = authority.units)))

\* active_as_ticketed: always. A service manager calls a lease active only when it is as on its ticket.
Active_as_ticketed == ((service_manager.state = "active") => ((service_manager.lease_units = service_manager.ticket_units) /\ (service_manager.lease_end = service_manager.ticket_end)))

\* site_wants_what_the_ticket_says: step. What a site means to give is what the ticket that it was shown says.
Site_wants_what_the_ticket_says == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((((Took_role = "authority" /\ Took_event = "redeem") /\ (authority'.state = "priming") /\ (service_manager.state = "redeeming")) \/ ((Took_role = "authority" /\ Took_event = "extend_lease") /\ (authority'.state = "modifying") /\ (service_manager.state = "extending_lease"))) => ((authority'.wanted = service_manager'.ticket_units) /\ (authority'.end = service_manager'.ticket_end) /\ (authority'.properties = service_manager'.ticket_properties))))]_vars

\* a_new_lease_is_as_ticketed: step. A ticket that is redeemed brings exactly the units and the term that it
\* is for, or nothing.
A_new_lease_is_as_ticketed == [][(((service_manager.state = "redeeming") /\ (service_manager'.state = "joining")) => ((service_manager'.lease_units = service_manager'.ticket_units) /\ (service_manager'.lease_end = service_manager'.ticket_end)))]_vars

\* ticket_changes_on_extension_only: step. The units on a ticket, and their properties, change only on ticket
\* extensions: at the broker when its policy grants one, at the service manager when it hears of one that it
\* asked for. (The end of the ticket is no change of it.)
Ticket_changes_on_extension_only == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((((broker.state \in {"ticketed", "extending"}) /\ (broker'.state /= "closed") /\ ((broker'.units /= broker.units) \/ (broker'.properties /= broker.properties))) \/ ((service_manager.state \notin {"nascent", "ticketing"}) /\ ((service_manager'.ticket_units /= service_manager.ticket_units) \/ (service_manager'.ticket_properties /= service_manager.ticket_properties)))) => (((Took_role = "broker" /\ Took_event = "granted") /\ (broker.state = "extending")) \/ ((Took_role = "service_manager" /\ Took_event = "update_ticket") /\ (service_manager.state = "extending_ticket")))))]_vars

\* lease_changes_on_extension_only: step. The leased units, and their properties, change only on lease
\* extensions: at the site when it takes or finishes one, at the service manager when it hears of one that it
\* asked for. (The end of the lease is no change of it.)
Lease_changes_on_extension_only == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((((authority.state \in {"active", "modifying"}) /\ (authority'.state \in {"active", "modifying"}) /\ ((authority'.units /= authority.units) \/ (authority'.assigned /= authority.assigned) \/ (authority'.properties /= authority.properties))) \/ ((service_manager.state \notin {"nascent", "ticketing", "ticketed", "redeeming"}) /\ (service_manager'.lease_units /= service_manager.lease_units))) => (((Took_role = "authority") /\ ((authority'.state = "modifying") \/ (authority.state = "modifying"))) \/ ((Took_role = "service_manager" /\ Took_event = "update_lease") /\ (service_manager.state = "extending_lease")))))]_vars

\* lease_changes_when_asked_only: step. A site begins to change a lease's units only on a request to extend.
Lease_changes_when_asked_only == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((authority.state /= "modifying") /\ (authority'.state = "modifying")) => (Took_role = "authority" /\ Took_event = "extend_lease")))]_vars

\* extension_asked_before_the_end: step. A longer ticket is asked for only before the lease ends.
Extension_asked_before_the_end == [][(((service_manager'.state = "extending_ticket") /\ (service_manager.state /= "extending_ticket")) => (clock' < service_manager'.lease_end))]_vars

\* extension_answered_before_the_end: step. A broker answers a request for extension before the end of the
\* lease: it grants only while the ticket (which ends no earlier than the lease) lasts, and while it runs no
\* request is still open when the ticket is over.
Extension_answered_before_the_end == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((broker.state = "extending") => (((~(Took_role = "broker" /\ Took_event = "granted")) \/ (clock' < broker.term_end)) /\ ((clock' = clock) \/ (clock' <= broker'.term_end) \/ (~TRUE)))))]_vars

\* extension_request_is_taken_up: step. A request to extend that comes while the ticket lasts is put to the
\* broker's policy.
Extension_request_is_taken_up == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "broker" /\ Took_event = "extend_ticket") /\ (broker.state = "ticketed") /\ (service_manager.state = "extending_ticket") /\ (clock' < broker.term_end) /\ (service_manager'.requested_end > broker.term_end)) => (broker'.state = "extending")))]_vars

\* broker_decides: leads_to. A broker does not sit on a request to extend.
Broker_decides == ((broker.state = "extending")) ~> ((broker.state /= "extending"))

\* never_terminated_early: step. A site does not terminate a lease before the end of its term, unless the
\* service manager closes it, or its units cannot be set up: a lease that never came to have units, or has
\* lost the last one while it was being changed.
Never_terminated_early == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((authority.state \in {"priming", "active", "modifying"}) /\ (authority'.state \notin {"priming", "active", "modifying"})) => ((clock' >= authority.end) \/ (Took_role = "authority" /\ Took_event = "close") \/ ((authority.state = "priming") /\ ((Took_role = "authority" /\ Took_event = "setup_failed") \/ (Took_role = "authority" /\ Took_event = "no_room"))) \/ ((authority.state = "modifying") /\ (Took_role = "authority" /\ Took_event = "modify_failed") /\ (~(\E u_ \in authority.chosen : (unit[u_].state = "active")))))))]_vars

\* never_terminated_when_extended: step. A site that has received a request to extend with a valid ticket does
\* not terminate the lease at its old end: the new end counts from the receipt on, and the lease goes on to it
\* even if units cannot be changed as wanted.
Never_terminated_when_extended == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "authority" /\ Took_event = "extend_lease") /\ (authority.state = "active") /\ (authority'.state /= "active")) => ((authority'.state = "modifying") /\ (authority'.end >= authority.end) /\ (clock' < authority'.end))))]_vars

\* valid_extension_is_accepted: step. A site does not deny an extension that comes with a ticket that lasts.
Valid_extension_is_accepted == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "authority" /\ Took_event = "extend_lease") /\ (authority.state = "active") /\ (service_manager.state = "extending_lease") /\ (clock' < service_manager'.ticket_end)) => ((authority'.state = "modifying") /\ (authority'.end = service_manager'.ticket_end))))]_vars

\* a_ticket_changes_a_lease_once: step. A lease that is as its ticket says is not changed with the same ticket
\* again, whoever presents it.
A_ticket_changes_a_lease_once == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "authority" /\ Took_event = "extend_lease") /\ (authority.state = "active") /\ (authority'.state = "modifying")) => ((authority'.end > authority.end) \/ (authority'.wanted /= authority.units))))]_vars

\* handlers_end_in_time: step. A handler ends, or is given up, within its limit, while its site runs.
Handlers_end_in_time == [][(((clock' > clock) /\ (\E u_ \in (0..0) : (unit'[u_].state \in {"priming", "modifying", "closing"}))) => (\A u_ \in (0..0) : ((unit'[u_].state \notin {"priming", "modifying", "closing"}) \/ (clock' <= unit'[u_].deadline) \/ (~TRUE))))]_vars

\* deadlines_are_the_limit: always. No handler is given more time than the limit.
Deadlines_are_the_limit == ((\E u_ \in (0..0) : (unit[u_].state \in {"priming", "modifying", "closing"})) => (\A u_ \in (0..0) : (unit[u_].deadline <= (clock + handler_limit))))

\* handlers_are_waited_for_in_bounded_time: leads_to. A unit that is being set up is up, given up or on its
\* way down within the limit, while its site runs.
Handlers_are_waited_for_in_bounded_time == ((unit[0].state = "priming")) ~> (((unit[0].state /= "priming") \/ (~TRUE)))

\* site_gives_no_more_than_the_ticket: always. A site never means to give more units than the ticket that it
\* was shown has, nor a longer term.
Site_gives_no_more_than_the_ticket == ((authority.state \in {"priming", "active", "modifying"}) => ((1 <= authority.wanted) /\ (authority.end <= broker.term_end) /\ (authority.wanted <= Max(service_manager.ticket_units, service_manager.lease_units))))

\* site_gives_what_a_ticket_grants: always. Whatever a service manager sends, a site never means to give more
\* units, nor to another end, than a ticket says that the broker has issued. (Asked where the service manager
\* may be a liar; `pending` is then all that it was sent.)
Site_gives_what_a_ticket_grants == ((FALSE /\ (authority.state \in {"priming", "active", "modifying"})) => (\E m_ \in {M0 \in Messages(from_broker) : M0.kind = "update_ticket"} : TRUE /\ ((m_.units >= authority.wanted) /\ (m_.end = authority.end))))

\* broker_gives_no_more_than_it_has: always. A broker never tickets more than its inventory. Over several
\* leases, see the system `contention`.
Broker_gives_no_more_than_it_has == ((broker.units > 0) => (broker.units <= max_units))

\* quarantine: step. A unit whose teardown failed is never given to a lease before a teardown has ended well.
Quarantine == [][((\E u_ \in (0..0) : unit[u_].quarantined) => (\A u_ \in (0..0) : ((~unit[u_].quarantined) \/ (unit'[u_].state \in {"failed", "closing", "closed"}))))]_vars

\* the_ticket_is_given_back_last: step. A ticket is given back only when the site has let go of the units, or
\* the term is over.
The_ticket_is_given_back_last == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "broker" /\ Took_event = "relinquish") => ((authority'.state \in {"nascent", "closed"}) \/ (clock' >= authority'.end))))]_vars

\* units_come_free: always. A site that has closed a lease holds no unit for it, and none is up; a broker that
\* is done promises none.
Units_come_free == (((authority.state = "closed") \/ (broker.state = "closed")) => (((authority.state /= "closed") \/ ((authority.assigned = {}) /\ (authority.chosen = {}) /\ (authority.units = 0) /\ (authority.wanted = 0) /\ (\A u_ \in (0..0) : (unit[u_].state \in {"idle", "closed", "failed"})))) /\ ((broker.state /= "closed") \/ (broker.units = 0))))

\* no_regress: step. No machine regresses to an earlier committed state: ends are final, no machine becomes
\* nascent again, none that has used its ticket goes back to asking for it, and no term is ever shortened.
No_regress == [][(((service_manager.state \notin {"closed", "failed"}) \/ (service_manager'.state = service_manager.state)) /\ ((broker.state /= "closed") \/ (broker'.state = "closed")) /\ ((authority.state /= "closed") \/ (authority'.state = "closed")) /\ ((service_manager.state = "nascent") \/ (service_manager'.state /= "nascent")) /\ ((broker.state = "nascent") \/ (broker'.state /= "nascent")) /\ ((authority.state = "nascent") \/ (authority'.state /= "nascent")) /\ ((service_manager.state \notin {"joining", "active", "extending_ticket", "active_ticketed", "extending_lease"}) \/ (service_manager'.state \notin {"ticketing", "ticketed", "redeeming"})) /\ ((authority.state \notin {"active", "modifying"}) \/ (authority'.state /= "priming")) /\ ((broker.state \notin {"ticketed", "extending"}) \/ (broker'.state /= "ticketing")) /\ (service_manager'.ticket_end >= service_manager.ticket_end) /\ (service_manager'.lease_end >= service_manager.lease_end) /\ (broker'.term_end >= broker.term_end) /\ (authority'.end >= authority.end))]_vars

\* close_is_always_legal: step. A close is obeyed in every state, and ends the lease or begins to.
Close_is_always_legal == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "service_manager" /\ Took_event = "close") => (service_manager'.state \in {"closing", "closed"})))]_vars

\* a_close_is_accepted_to_the_end: always. A lease can be closed, its ticket given back and its units taken
\* back in every state until that has been done; a site also answers a close that comes again.
A_close_is_accepted_to_the_end == (((service_manager.state \in {"nascent", "ticketing", "ticketed", "redeeming", "joining", "active", "extending_ticket", "active_ticketed", "extending_lease"}) = (service_manager.state \notin {"closing", "closed", "failed"})) /\ ((broker.state \in {"nascent", "ticketing", "ticketed", "extending"}) = (broker.state /= "closed")) /\ ((authority.state \in {"nascent", "priming", "active", "modifying", "closed"}) = (authority.state /= "closing")))

\* requests_are_answered: leads_to. A request for a ticket is answered, or given up.
Requests_are_answered == ((service_manager.state = "ticketing")) ~> ((service_manager.state /= "ticketing"))

\* extensions_are_answered: leads_to. A request to extend is answered, or the lease ends.
Extensions_are_answered == ((service_manager.state \in {"extending_ticket", "extending_lease"})) ~> ((service_manager.state \notin {"extending_ticket", "extending_lease"}))

\* redeeming_ends: leads_to. A ticket that is redeemed becomes a lease, or is given up.
Redeeming_ends == ((service_manager.state = "redeeming")) ~> ((service_manager.state /= "redeeming"))

\* closing_ends: leads_to. A lease that is being closed comes to its end at the site.
Closing_ends == ((authority.state = "closing")) ~> ((authority.state = "closed"))

\* requests_are_whole: always. While a request waits for its answer it asks for a unit or more, of those that
\* there are, and for a term; an answered one is forgotten.
Requests_are_whole == ((service_manager.requested_units <= max_units) /\ ((service_manager.state \notin {"ticketing", "extending_ticket"}) \/ ((service_manager.requested_units >= 1) /\ (service_manager.requested_end > service_manager.ticket_end))) /\ ((service_manager.state \notin {"ticketed", "redeeming", "joining", "active", "active_ticketed", "extending_lease"}) \/ ((service_manager.requested_units = 0) /\ (service_manager.requested_end = 0))) /\ ((broker.state \notin {"ticketing", "extending"}) \/ ((broker.requested_units >= 1) /\ (broker.requested_end > broker.term_end))) /\ ((broker.state \in {"ticketing", "extending"}) \/ ((broker.requested_units = 0) /\ (broker.requested_end = 0))))

\* requests_are_kept_as_made: always. A broker decides on what its service manager asks for.
Requests_are_kept_as_made == (((broker.state \in {"ticketing", "extending"}) /\ (service_manager.state \in {"ticketing", "extending_ticket"})) => ((broker.requested_units = service_manager.requested_units) /\ (broker.requested_end = service_manager.requested_end)))

\* broker_decides_once: step. A broker grants at most what was asked for, while it can be of use, or denies
\* it, and then has decided.
Broker_decides_once == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "broker" /\ Took_event = "granted") \/ (Took_role = "broker" /\ Took_event = "denied")) => (((broker'.state = "ticketed") \/ (Took_role = "broker" /\ Took_event = "denied")) /\ ((Took_role = "broker" /\ Took_event = "granted") \/ (broker'.state = (IF (broker.state = "ticketing") THEN "closed" ELSE "ticketed"))) /\ ((Took_role = "broker" /\ Took_event = "denied") \/ (((1 <= broker'.units) /\ (broker'.units <= broker.requested_units)) /\ (broker'.term_end = broker.requested_end) /\ (clock' < (IF (broker.state = "ticketing") THEN broker'.term_end ELSE broker.term_end)))))))]_vars

\* a_ticket_that_is_given_back_is_gone: step. A broker holds no ticket for a service manager that has given it
\* back.
A_ticket_that_is_given_back_is_gone == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "broker" /\ Took_event = "relinquish") => (broker'.state = "closed")))]_vars

\* patient_to_the_end: step. A timer ends what it times when the term is over, and not before. Of a lease or a
\* redeemed ticket the site is told first.
Patient_to_the_end == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "service_manager" /\ Took_event = "tick") \/ (Took_role = "broker" /\ Took_event = "tick") \/ (Took_role = "authority" /\ Took_event = "tick")) => (((~(Took_role = "service_manager" /\ Took_event = "tick")) \/ ((clock' >= (IF (service_manager.state = "ticketing") THEN service_manager.requested_end ELSE (IF (service_manager.state \in {"joining", "active", "extending_ticket"}) THEN service_manager'.lease_end ELSE service_manager'.ticket_end))) /\ (service_manager'.state = (IF (service_manager.state = "ticketing") THEN "failed" ELSE (IF (service_manager.state \in {"ticketed", "closing"}) THEN "closed" ELSE "closing"))))) /\ ((~(Took_role = "broker" /\ Took_event = "tick")) \/ ((clock' >= (IF (broker.state = "ticketing") THEN broker.requested_end ELSE broker'.term_end)) /\ (broker'.state = "closed"))) /\ ((~(Took_role = "authority" /\ Took_event = "tick")) \/ ((clock' >= authority'.end) /\ (authority'.state = "closing"))))))]_vars

\* reclaimed_when_over: step. A lease is reclaimed only when its term is over, and then its units come free.
Reclaimed_when_over == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "authority" /\ Took_event = "reclaim") => ((clock' >= authority'.end) /\ (authority'.state \in {"closing", "closed"}))))]_vars

\* failed_means_broken_off: step. A lease has failed if it was denied, or ended by its site before its term;
\* every other end is as agreed.
Failed_means_broken_off == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((service_manager'.state \in {"closed", "failed"}) /\ (service_manager.state \notin {"closed", "failed"})) => ((service_manager'.state = "failed") = (((service_manager.state = "ticketing") /\ (~(Took_role = "service_manager" /\ Took_event = "close"))) \/ ((Took_role = "service_manager" /\ Took_event = "update_lease") /\ ((service_manager.state = "redeeming") \/ ((service_manager.state /= "closing") /\ (clock' < service_manager'.lease_end))))))))]_vars

\* the_site_is_heard: step. What its site says of a lease is ignored, or brings a service manager on or to an
\* end.
The_site_is_heard == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "service_manager" /\ Took_event = "update_lease") => (IF (Took_role = "service_manager" /\ Took_event = "update_lease" /\ Took_ignored) THEN (service_manager'.state = service_manager.state) ELSE (service_manager'.state \in {"joining", "closed", "failed"}))))]_vars

\* a_redeem_is_answered: step. A site that was shown a ticket sets up the lease or says that there is none.
A_redeem_is_answered == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "authority" /\ Took_event = "redeem") => (authority'.state /= "nascent")))]_vars

\* the_end_is_obeyed: step. A service manager that is told that the lease is over does not use it any more,
\* and goes on with one that has units; the answer to its request makes a guest join them.
The_end_is_obeyed == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "service_manager" /\ Took_event = "update_lease") => (((\E m_ \in {M0 \in Messages(from_authority) : M0.kind = "update_lease"} : TRUE /\ (m_.units /= 0)) \/ (service_manager'.state \in {"closed", "failed"})) /\ ((\E m_ \in {M0 \in Messages(from_authority) : M0.kind = "update_lease"} : TRUE /\ (m_.units = 0)) \/ ((service_manager'.state = "joining") \/ (Took_role = "service_manager" /\ Took_event = "update_lease" /\ Took_ignored))) /\ (((service_manager.state \notin {"redeeming", "extending_lease"}) \/ (\E m_ \in {M0 \in Messages(from_authority) : M0.kind = "update_lease"} : TRUE /\ ((m_.units = 0) \/ (m_.end < service_manager.ticket_end)))) \/ (service_manager'.state = "joining")))))]_vars

\* the_end_is_heard: leads_to. When its site has ended a lease, a service manager does not use it much longer.
The_end_is_heard == ((authority.state = "closed")) ~> ((service_manager.state \in {"closed", "failed"}))

\* policies_choose_the_time: step. A ticket is redeemed, and a lease extended, when the policy says so.
Policies_choose_the_time == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((service_manager.state /= service_manager'.state) /\ (service_manager'.state \in {"redeeming", "extending_lease"})) => ((Took_role = "service_manager" /\ Took_event = "redeem_now") \/ (Took_role = "service_manager" /\ Took_event = "extend_now"))))]_vars

\* joining_decides: step. A guest that runs makes a lease active, and one that cannot be brought to run ends
\* it.
Joining_decides == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "service_manager" /\ Took_event = "joined") \/ (Took_role = "service_manager" /\ Took_event = "join_failed")) => (IF (Took_role = "service_manager" /\ Took_event = "joined") THEN (service_manager'.state \in {"active", "active_ticketed"}) ELSE (service_manager'.state = "closing"))))]_vars

\* a_ticket_waits_to_be_used: always. A lease waits to be extended only while it is not as on its ticket.
A_ticket_waits_to_be_used == ((service_manager.state = "active_ticketed") => ((service_manager.lease_units /= service_manager.ticket_units) \/ (service_manager.lease_end /= service_manager.ticket_end)))

\* an_extended_lease_lasts_as_ticketed: step. An extension brings the whole longer term, though perhaps fewer
\* units.
An_extended_lease_lasts_as_ticketed == [][(((service_manager.state = "extending_lease") /\ (service_manager'.state = "joining")) => (service_manager'.lease_end = service_manager'.ticket_end))]_vars

\* a_failed_extension_keeps_what_is_up: step. A lease whose extension fails goes on with exactly the units
\* that are up.
A_failed_extension_keeps_what_is_up == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "authority" /\ Took_event = "modify_failed") /\ (authority'.state = "modifying")) => ((authority'.chosen = {u_ \in authority.chosen : (unit[u_].state = "active")}) /\ (authority'.wanted = Cardinality(authority'.chosen)))))]_vars

\* units_are_changed_as_wanted: step. Every unit of a lease that is extended is set up or changed for it.
Units_are_changed_as_wanted == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "authority") /\ (authority'.state = "modifying") /\ (Cardinality(authority'.chosen) = authority'.wanted) /\ TRUE) => (\A u_ \in authority'.chosen : (unit'[u_].state \in {"priming", "modifying"}))))]_vars

\* units_are_torn_down: step. Every unit of a lease that ends is torn down, also one that has failed.
Units_are_torn_down == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "authority") /\ (authority'.state = "closing") /\ (authority.state /= "closing") /\ TRUE) => (\A u_ \in authority'.assigned : (unit'[u_].state \in {"idle", "closing", "closed"}))))]_vars

\* a_handler_decides: step. A unit is up only when a handler has brought it up, and down only when a teardown
\* has ended well or an operator has seen to it. One whose handler has failed, or is late, has failed; after a
\* teardown it is quarantined.
A_handler_decides == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "unit") => (\A u_ \in (0..0) : (((unit'[u_].state /= "active") \/ (unit[u_].state = "active") \/ (Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "up") \/ (Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "changed")) /\ ((~((Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "up") \/ (Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "changed"))) \/ (unit'[u_].state = "active")) /\ ((~((Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "down") \/ (Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "repaired"))) \/ (unit'[u_].state = "closed")) /\ ((~(Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "repaired")) \/ unit[u_].quarantined) /\ ((~((Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "broken") \/ (Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "tick"))) \/ ((unit'[u_].state = "failed") /\ ((unit[u_].state /= "closing") \/ unit'[u_].quarantined)))))))]_vars

\* nothing_changes_a_unit_unasked: step. What the site asks of a unit begins with a handler; no unit is up or
\* down by being asked.
Nothing_changes_a_unit_unasked == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((Took_role = "authority") => (\A u_ \in (0..0) : ((unit'[u_].state = unit[u_].state) \/ (unit'[u_].state \in {"priming", "modifying", "closing"})))))]_vars

\* handlers_have_their_time: step. A handler has its whole limit, and no unit has a deadline when none runs.
Handlers_have_their_time == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (\A u_ \in (0..0) : (((unit'[u_].state = unit[u_].state) \/ (unit'[u_].state \notin {"priming", "modifying", "closing"}) \/ (unit'[u_].deadline = (clock' + handler_limit))) /\ ((unit'[u_].state \in {"priming", "modifying", "closing"}) \/ (unit'[u_].deadline = 0)) /\ ((~(Took_role = "unit" /\ Took_instance = u_ /\ Took_event = "tick")) \/ (clock' >= unit[u_].deadline)))))]_vars

\* answers_are_taken_while_awaited: always. The answers of policies and handlers are accepted while they are
\* awaited, and then alone.
Answers_are_taken_while_awaited == (((service_manager.state = "ticketed") = (service_manager.state = "ticketed")) /\ (((service_manager.state = "joining") /\ (((service_manager.lease_units = service_manager.ticket_units) /\ (service_manager.lease_end = service_manager.ticket_end)) \/ (service_manager.lease_units /= service_manager.ticket_units) \/ (service_manager.lease_end /= service_manager.ticket_end))) = (service_manager.state = "joining")) /\ ((service_manager.state = "joining") = (service_manager.state = "joining")) /\ ((service_manager.state = "active_ticketed") = (service_manager.state = "active_ticketed")) /\ ((((broker.state = "ticketing") /\ (clock < broker.requested_end) /\ (broker.requested_units >= 1)) \/ ((broker.state = "extending") /\ (clock < broker.term_end) /\ (broker.requested_units >= 1))) = (((broker.state = "ticketing") /\ (clock < broker.requested_end)) \/ ((broker.state = "extending") /\ (clock < broker.term_end)))) /\ ((broker.state \in {"ticketing", "extending"}) = (broker.state \in {"ticketing", "extending"})) /\ ((~((authority.state \in {"priming", "modifying"}) /\ (((Cardinality((0..0)) >= 0) /\ (authority.wanted = 0)) \/ ((authority.wanted >= 0) /\ (authority.wanted <= Cardinality((0..0))))))) \/ (authority.state \in {"priming", "modifying"})) /\ (((authority.state \in {"priming", "modifying"}) /\ (((Cardinality((0..0)) >= 0) /\ (authority.wanted = 0)) \/ ((authority.wanted >= 0) /\ (authority.wanted <= Cardinality((0..0)))))) \/ (authority.state \notin {"priming", "modifying"}) \/ (authority.wanted > Cardinality((0..0)))) /\ ((authority.state \in {"priming", "modifying"}) = (authority.state \in {"priming", "modifying"})) /\ ((authority.state = "priming") = (authority.state = "priming")) /\ ((authority.state = "priming") = (authority.state = "priming")) /\ ((authority.state = "modifying") = (authority.state = "modifying")) /\ (((authority.state = "modifying") /\ ((\E u__guard_ \in authority.chosen : (unit[u__guard_].state = "active")) \/ (~(\E u__guard_ \in authority.chosen : (unit[u__guard_].state = "active"))))) = (authority.state = "modifying")) /\ ((authority.state = "closing") = (authority.state = "closing")) /\ (\A u_ \in (0..0) : (((unit[u_].state = "priming") = (unit[u_].state = "priming")) /\ ((unit[u_].state = "modifying") = (unit[u_].state = "modifying")) /\ ((unit[u_].state = "closing") = (unit[u_].state = "closing")) /\ ((unit[u_].state \in {"priming", "modifying", "closing"}) = (unit[u_].state \in {"priming", "modifying", "closing"})))))

\* requests_are_taken_in_their_turn: always. A lease is asked for once, and extended while it is active and
\* lasts; who has ended says so again. A unit is set up, changed and torn down unless that is done or being
\* done, and repaired when it is quarantined.
Requests_are_taken_in_their_turn == (((service_manager.state = "nascent") = (service_manager.state = "nascent")) /\ (((service_manager.state \in {"active", "active_ticketed"}) /\ (clock < service_manager.lease_end)) = ((service_manager.state \in {"active", "active_ticketed"}) /\ (clock < service_manager.lease_end))) /\ ((broker.state = "nascent") = (broker.state = "nascent")) /\ ((broker.state = "ticketed") = (broker.state = "ticketed")) /\ ((authority.state \in {"nascent", "closed"}) = (authority.state \in {"nascent", "closed"})) /\ ((authority.state \in {"active", "closed"}) = (authority.state \in {"active", "closed"})) /\ (\A u_ \in (0..0) : (((unit[u_].state \in {"idle", "closed"}) = (unit[u_].state \in {"idle", "closed"})) /\ ((unit[u_].state \in {"idle", "active", "closed"}) = (unit[u_].state \in {"idle", "active", "closed"})) /\ ((unit[u_].state \in {"priming", "active", "modifying", "failed"}) = (unit[u_].state \in {"priming", "active", "modifying", "failed"})) /\ (((unit[u_].state = "failed") /\ unit[u_].quarantined) = ((unit[u_].state = "failed") /\ unit[u_].quarantined)))))

\* news_is_taken_while_of_use: always. Word of a ticket is accepted while it is awaited, and word of a lease
\* from the redeem on, until the lease is over.
News_is_taken_while_of_use == (((service_manager.state \in {"ticketing", "extending_ticket"}) = (service_manager.state \in {"ticketing", "extending_ticket"})) /\ (((service_manager.state \in {"redeeming", "extending_lease", "closing"}) \/ ((service_manager.state \in {"joining", "active", "extending_ticket", "active_ticketed"}) /\ ((clock < service_manager.lease_end) \/ (clock >= service_manager.lease_end)))) = (service_manager.state \in {"redeeming", "joining", "active", "extending_ticket", "active_ticketed", "extending_lease", "closing"})))

\* what_can_be_accepted_is_not_ignored: step. A message that a machine accepts with some values it does not
\* ignore with others, but for word of a lease that goes on as it is known.
What_can_be_accepted_is_not_ignored == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : ((~((Took_role = "broker" /\ Took_event = "ticket" /\ Took_ignored) /\ (broker.state = "nascent"))) /\ (~((Took_role = "broker" /\ Took_event = "extend_ticket" /\ Took_ignored) /\ (broker.state = "ticketed"))) /\ (~((Took_role = "broker" /\ Took_event = "relinquish" /\ Took_ignored) /\ (broker.state \in {"nascent", "ticketing", "ticketed", "extending"}))) /\ (~((Took_role = "authority" /\ Took_event = "redeem" /\ Took_ignored) /\ (authority.state \in {"nascent", "closed"}))) /\ (~((Took_role = "authority" /\ Took_event = "extend_lease" /\ Took_ignored) /\ (authority.state \in {"active", "closed"}))) /\ (~((Took_role = "authority" /\ Took_event = "close" /\ Took_ignored) /\ (authority.state \in {"nascent", "priming", "active", "modifying", "closed"}))) /\ (~((Took_role = "service_manager" /\ Took_event = "update_ticket" /\ Took_ignored) /\ (service_manager.state \in {"ticketing", "extending_ticket"}))) /\ (~((Took_role = "service_manager" /\ Took_event = "update_lease" /\ Took_ignored) /\ (service_manager.state = "redeeming")))))]_vars

\* timers_run_to_the_end: always. A timer is due, and a lease may be reclaimed, as soon as the term is over or
\* a handler is late, and not before.
Timers_run_to_the_end == (((((service_manager.state = "ticketing") /\ (clock >= service_manager.requested_end)) \/ ((service_manager.state \in {"ticketed", "redeeming", "active_ticketed", "extending_lease", "closing"}) /\ (clock >= service_manager.ticket_end)) \/ ((service_manager.state \in {"joining", "active", "extending_ticket"}) /\ (clock >= service_manager.lease_end))) = ((service_manager.state \notin {"nascent", "closed", "failed"}) /\ (clock >= (IF (service_manager.state = "ticketing") THEN service_manager.requested_end ELSE (IF (service_manager.state \in {"joining", "active", "extending_ticket"}) THEN service_manager.lease_end ELSE service_manager.ticket_end))))) /\ ((((broker.state = "ticketing") /\ (clock >= broker.requested_end)) \/ ((broker.state \in {"ticketed", "extending"}) /\ (clock >= broker.term_end))) = ((broker.state \notin {"nascent", "closed"}) /\ (clock >= (IF (broker.state = "ticketing") THEN broker.requested_end ELSE broker.term_end)))) /\ (((authority.state \in {"priming", "active", "modifying"}) /\ (clock >= authority.end)) = ((authority.state \in {"priming", "active", "modifying"}) /\ (clock >= authority.end))) /\ (((authority.state \in {"priming", "active", "modifying"}) /\ (clock >= authority.end) /\ (~lazy_close)) = (((authority.state \in {"priming", "active", "modifying"}) /\ (clock >= authority.end)) /\ (~lazy_close))) /\ (\A u_ \in (0..0) : (((unit[u_].state \in {"priming", "modifying", "closing"}) /\ (clock >= unit[u_].deadline)) = ((unit[u_].state \in {"priming", "modifying", "closing"}) /\ (clock >= unit[u_].deadline)))))

\* a_request_is_given_up_at_its_end: step. While its actor runs, no request for a ticket waits longer than the
\* term that is asked for.
A_request_is_given_up_at_its_end == [][(((clock' > clock) /\ ((service_manager'.state = "ticketing") \/ (broker'.state = "ticketing"))) => (((service_manager'.state /= "ticketing") \/ (clock' <= service_manager'.requested_end) \/ (~TRUE)) /\ ((broker'.state /= "ticketing") \/ (clock' <= broker'.requested_end) \/ (~TRUE))))]_vars

\* a_ticket_is_held_to_its_end: step. While its actor runs, nobody holds or uses a ticket after its term,
\* neither broker nor service manager.
A_ticket_is_held_to_its_end == [][(((clock' > clock) /\ ((broker'.state \in {"ticketed", "extending"}) \/ (service_manager'.state \in {"ticketed", "redeeming", "active_ticketed", "extending_lease", "closing"}))) => (((broker'.state \notin {"ticketed", "extending"}) \/ (clock' <= broker'.term_end) \/ (~TRUE)) /\ ((service_manager'.state \notin {"ticketed", "redeeming", "active_ticketed", "extending_lease", "closing"}) \/ (clock' <= service_manager'.ticket_end) \/ (~TRUE))))]_vars

\* a_lease_is_used_to_its_end: step. While it runs, no service manager uses a lease after its term.
A_lease_is_used_to_its_end == [][(((clock' > clock) /\ (service_manager'.state \in {"joining", "active", "extending_ticket"})) => ((clock' <= service_manager'.lease_end) \/ (~TRUE)))]_vars

\* an_eager_site_closes_at_the_end: step. While it runs, a site that is not lazy keeps no lease after its
\* term.
An_eager_site_closes_at_the_end == [][(((clock' > clock) /\ (authority'.state \in {"priming", "active", "modifying"})) => (lazy_close \/ (clock' <= authority'.end) \/ (~TRUE)))]_vars

\* a_ticket_is_redeemed_before_its_end: step. A site begins a lease only for a ticket that is shown to it and
\* lasts.
A_ticket_is_redeemed_before_its_end == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((authority.state /= "priming") /\ (authority'.state = "priming")) => ((Took_role = "authority" /\ Took_event = "redeem") /\ (clock' < authority'.end))))]_vars

\* a_ticket_that_lasts_is_accepted: step. A site does not deny a lease to a service manager that shows a
\* ticket that lasts.
A_ticket_that_lasts_is_accepted == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((Took_role = "authority" /\ Took_event = "redeem") /\ (authority.state = "nascent") /\ (service_manager.state = "redeeming") /\ (clock' < service_manager'.ticket_end)) => (authority'.state = "priming")))]_vars

\* a_ticket_is_extended_before_its_end: step. A broker considers a longer term only while the ticket lasts,
\* and only when it is asked.
A_ticket_is_extended_before_its_end == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((broker.state /= "extending") /\ (broker'.state = "extending")) => ((Took_role = "broker" /\ Took_event = "extend_ticket") /\ (clock' < broker'.term_end))))]_vars

\* a_ticket_is_kept_to_its_end: step. A broker takes no ticket back before the end of its term, unless it is
\* given back.
A_ticket_is_kept_to_its_end == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((broker.state \in {"ticketed", "extending"}) /\ (broker'.state \notin {"ticketed", "extending"})) => ((Took_role = "broker" /\ Took_event = "relinquish") \/ (clock' >= broker'.term_end))))]_vars

\* a_lease_is_kept_to_its_end: step. A service manager gives up a ticket that it has redeemed, or a lease,
\* only when it is told to, when its guest cannot be brought to run, or when the term is over.
A_lease_is_kept_to_its_end == [][Judged(LAMBDA Took_role, Took_instance, Took_event, Took_ignored : (((service_manager.state \in {"redeeming", "joining", "active", "extending_ticket", "active_ticketed", "extending_lease"}) /\ (service_manager'.state = "closing")) => ((Took_role = "service_manager" /\ Took_event = "close") \/ (Took_role = "service_manager" /\ Took_event = "join_failed") \/ (clock' >= (IF (service_manager.state \in {"joining", "active", "extending_ticket"}) THEN service_manager'.lease_end ELSE service_manager'.ticket_end)))))]_vars

\* a_lease_of_all_units: sometimes. The whole site can be leased.
A_lease_of_all_units == ~((service_manager.state = "active") /\ (authority.state = "active") /\ (authority.units = max_units))  \* what breaks this is the witness

\* a_lease_grows: sometimes. A lease can get more units while it goes on.
A_lease_grows == ~((authority.state = "modifying") /\ (authority.wanted > authority.units))  \* what breaks this is the witness

\* a_lease_shrinks: sometimes. A lease can give units back while it goes on.
A_lease_shrinks == ~((authority.state = "modifying") /\ (authority.wanted < authority.units))  \* what breaks this is the witness

\* a_lease_is_extended: sometimes. A lease can go on past its first term.
A_lease_is_extended == ~((service_manager.state = "active") /\ (service_manager.lease_end > 1) /\ (broker.term_end = service_manager.lease_end))  \* what breaks this is the witness

\* a_unit_is_quarantined: sometimes. A teardown can fail.
A_unit_is_quarantined == ~(\E u_ \in (0..0) : unit[u_].quarantined)  \* what breaks this is the witness

\* a_ticket_has_properties: sometimes. The broker's policy chooses the properties of a ticket, where there are
\* several.
A_ticket_has_properties == ~((service_manager.state = "redeeming") /\ (authority.state = "nascent") /\ ((kinds = 1) \/ (broker.properties /= authority.properties)))  \* what breaks this is the witness

\* an_extension_has_properties: sometimes. The broker's policy may choose others when it extends a ticket.
An_extension_has_properties == ~((service_manager.state = "extending_ticket") /\ (broker.state = "ticketed") /\ (broker.term_end > service_manager.ticket_end) /\ ((kinds = 1) \/ (broker.properties /= service_manager.ticket_properties)))  \* what breaks this is the witness

\* deadlock_free: nothing stops but in an allowed end: over
DeadlockFree == (ENABLED Next \/ ((service_manager.state \in {"nascent", "closed", "failed"}) /\ (broker.state \in {"nascent", "closed"}) /\ (authority.state \in {"nascent", "closed"})))

==============================================================================================================
