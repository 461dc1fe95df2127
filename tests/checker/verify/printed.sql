-- sqlite

-- never_terminated_early (paper, Table 1, invariant 7)
-- A site does not terminate a lease before the end of its term, unless the service manager closes it,
-- or its units cannot be set up: a lease that never came to have units, or has lost the last one while
-- it was being changed.
--   when:
--     old(authority.state) in {priming, active, modifying}
--     and authority.state not in {priming, active, modifying}
--   step:
--     now >= old(authority.end)
--     or took(authority.close)
--     or (old(authority.state) == priming
--      and (took(authority.setup_failed) or took(authority.no_room)))
--     or (old(authority.state) == modifying
--      and took(authority.modify_failed)
--      and not old(any(u.state == active for u in authority.chosen)))
--     or (old(authority.state) == active
--      and took(authority.unit_failed)
--      and old(authority.replaced == replace_limit
--          and all(u.state == failed for u in authority.assigned)))
--     or (old(authority.state) == modifying
--      and took(authority.no_room)
--      and old(authority.chosen) == {})
-- Yields the cuts that violate it.
SELECT cut.run, cut.number AS cut
FROM cut
CROSS JOIN authority AS old_authority
  ON old_authority.run = cut.run
  AND cut.number - 1 BETWEEN old_authority.since AND old_authority.until
CROSS JOIN authority
  ON authority.run = cut.run
  AND cut.number BETWEEN authority.since AND authority.until
WHERE cut.entry > :checked
  AND cut.number > 0
  AND old_authority.state IN ('priming', 'active', 'modifying')
  AND authority.state NOT IN ('priming', 'active', 'modifying')
  AND cut.now < old_authority."end"
  AND cut.event <> 'authority.close'
  AND (old_authority.state <> 'priming'
   OR (cut.event <> 'authority.setup_failed' AND cut.event <> 'authority.no_room'))
  AND (old_authority.state <> 'modifying'
   OR cut.event <> 'authority.modify_failed'
   OR EXISTS (
     SELECT 1
     FROM unit AS u
     WHERE u.run = cut.run AND cut.number - 1 BETWEEN u.since AND u.until
       AND u.instance IN (SELECT value FROM json_each(old_authority.chosen))
       AND u.state = 'active'
   ))
  AND (old_authority.state <> 'active'
   OR cut.event <> 'authority.unit_failed'
   OR old_authority.replaced <> 1
   OR EXISTS (
     SELECT 1
     FROM unit AS u
     WHERE u.run = cut.run AND cut.number - 1 BETWEEN u.since AND u.until
       AND u.instance IN (SELECT value FROM json_each(old_authority.assigned))
       AND u.state <> 'failed'
   ))
  AND (old_authority.state <> 'modifying'
   OR cut.event <> 'authority.no_room'
   OR old_authority.chosen <> '[]');

-- assigned_equals_ticketed (paper, Table 1, invariant 2)
-- The number of assigned units equals the number of ticketed units, once settled: while the service
-- manager's lease is active (and no longer ticket waits to be used) and the site's is too, and no word
-- of it is on its way, ticket, lease and units agree, and the units are up but for those that were
-- lost and are not repaired yet.
--   when:
--     authority.state == active
--     and service_manager.state in {active, extending_ticket}
--     and len(service_manager.lease_units) == service_manager.ticket_units
--     and service_manager.lease_end == service_manager.ticket_end
--     and heard(from_authority)
--   always:
--     len(authority.told) == service_manager.ticket_units
--     and len(service_manager.lease_units) == len(authority.told)
--     and all(u.state == active or (losses and u.state in {priming, failed}) for u in
--         authority.assigned)
--     and service_manager.lease_units <= authority.assigned
--     and len(authority.assigned) == len(authority.told)
-- Yields the cuts that violate it.
SELECT cut.run, cut.number AS cut
FROM cut
CROSS JOIN authority
  ON authority.run = cut.run
  AND cut.number BETWEEN authority.since AND authority.until
CROSS JOIN service_manager
  ON service_manager.run = cut.run
  AND cut.number BETWEEN service_manager.since AND service_manager.until
WHERE cut.entry > :checked
  AND authority.state = 'active'
  AND service_manager.state IN ('active', 'extending_ticket')
  AND json_array_length(service_manager.lease_units) = service_manager.ticket_units
  AND service_manager.lease_end = service_manager.ticket_end
  AND NOT EXISTS (
    SELECT 1
    FROM lane
    WHERE lane.run = cut.run AND cut.number BETWEEN lane.since AND lane.until
      AND lane.channel = 'from_authority'
      AND lane.newest > 0
  )
  AND (json_array_length(authority.told) <> service_manager.ticket_units
   OR json_array_length(service_manager.lease_units) <> json_array_length(authority.told)
   OR EXISTS (
     SELECT 1
     FROM unit AS u
     WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until
       AND u.instance IN (SELECT value FROM json_each(authority.assigned))
       AND u.state <> 'active'
   )
   OR EXISTS (
     SELECT 1
     FROM unit
     WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until
       AND unit.instance IN (SELECT value FROM json_each(service_manager.lease_units))
       AND unit.instance NOT IN (SELECT value FROM json_each(authority.assigned))
   )
   OR json_array_length(authority.assigned) <> json_array_length(authority.told));

-- broker_decides_once
-- A broker grants at most what was asked for, while it can be of use, or denies it, and then has
-- decided.
--   when: took(broker.granted) or took(broker.denied)
--   step:
--     (broker.state == ticketed or took(broker.denied))
--     and (took(broker.granted)
--      or broker.state == (closed if old(broker.state) == ticketing else ticketed))
--     and (took(broker.denied)
--      or (1 <= broker.units and broker.units <= old(broker.requested_units)
--       and (other_terms or broker.term_end == old(broker.requested_end))
--       and (now < old(broker.requested_end)
--        and old(broker.requested_start) <= broker.start
--        and broker.start < broker.term_end
--        and (other_terms or broker.start == old(broker.requested_start))
--        and now < broker.term_end
--          if old(broker.state) == ticketing
--          else now < old(broker.term_end)
--               and old(broker.term_end) < broker.term_end
--               and broker.start == old(broker.start))))
-- Yields the cuts that violate it.
SELECT cut.run, cut.number AS cut
FROM cut
CROSS JOIN broker ON broker.run = cut.run AND cut.number BETWEEN broker.since AND broker.until
CROSS JOIN broker AS old_broker
  ON old_broker.run = cut.run
  AND cut.number - 1 BETWEEN old_broker.since AND old_broker.until
WHERE cut.entry > :checked
  AND cut.number > 0
  AND (cut.event = 'broker.granted' OR cut.event = 'broker.denied')
  AND ((broker.state <> 'ticketed' AND cut.event <> 'broker.denied')
   OR (cut.event <> 'broker.granted'
    AND broker.state
    <> CASE WHEN old_broker.state = 'ticketing' THEN 'closed' ELSE 'ticketed' END)
   OR (cut.event <> 'broker.denied'
    AND (1 > broker.units
     OR broker.units > old_broker.requested_units
     OR broker.term_end <> old_broker.requested_end
     OR CASE WHEN old_broker.state = 'ticketing'
       THEN cut.now >= old_broker.requested_end
            OR old_broker.requested_start > broker.start
            OR broker.start >= broker.term_end
            OR broker.start <> old_broker.requested_start
            OR cut.now >= broker.term_end
       ELSE cut.now >= old_broker.term_end
            OR old_broker.term_end >= broker.term_end
            OR broker.start <> old_broker.start
     END)));

-- victims_are_given_back
-- A site that is asked to extend a lease gives up those units that the holder gives back, and keeps
-- those that it keeps, unless they have failed.
--   when:
--     took(authority.extend_lease)
--     and not ignored(authority.extend_lease)
--     and authority.state == modifying
--     and old(service_manager.state == extending_lease
--         and authority.end < service_manager.ticket_end
--         and all(m.end == service_manager.ticket_end for m in pending(extend_lease) if m.number > 0))
--   step:
--     authority.chosen <= old({u for u in authority.chosen if u not in service_manager.victims and
--         u.state != failed})
--     and all(u in authority.chosen
--         or u not in service_manager.kept
--         or old(u.state == failed or u not in authority.chosen) for u in unit)
-- Yields the cuts that violate it.
SELECT cut.run, cut.number AS cut
FROM cut
CROSS JOIN authority
  ON authority.run = cut.run
  AND cut.number BETWEEN authority.since AND authority.until
CROSS JOIN service_manager AS old_service_manager
  ON old_service_manager.run = cut.run
  AND cut.number - 1 BETWEEN old_service_manager.since AND old_service_manager.until
CROSS JOIN authority AS old_authority
  ON old_authority.run = cut.run
  AND cut.number - 1 BETWEEN old_authority.since AND old_authority.until
CROSS JOIN service_manager
  ON service_manager.run = cut.run
  AND cut.number BETWEEN service_manager.since AND service_manager.until
WHERE cut.entry > :checked
  AND cut.number > 0
  AND cut.event = 'authority.extend_lease'
  AND NOT (cut.event = 'authority.extend_lease' AND cut.transition = '')
  AND authority.state = 'modifying'
  AND old_service_manager.state = 'extending_lease'
  AND old_authority."end" < old_service_manager.ticket_end
  AND NOT EXISTS (
    SELECT 1
    FROM message_extend_lease AS m
    WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until
      AND m.number > 0
      AND m."end" <> old_service_manager.ticket_end
  )
  AND (EXISTS (
     SELECT 1
     FROM unit
     WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until
       AND unit.instance IN (SELECT value FROM json_each(authority.chosen))
       AND NOT EXISTS (
         SELECT 1
         FROM unit AS u
         WHERE u.run = cut.run AND cut.number - 1 BETWEEN u.since AND u.until
           AND u.instance IN (SELECT value FROM json_each(old_authority.chosen))
           AND u.instance = unit.instance
           AND u.instance
           NOT IN (SELECT value FROM json_each(old_service_manager.victims))
           AND u.state <> 'failed'
       )
   )
   OR EXISTS (
     SELECT 1
     FROM unit AS u
     CROSS JOIN unit AS old_u
       ON old_u.run = cut.run AND old_u.instance = u.instance
       AND cut.number - 1 BETWEEN old_u.since AND old_u.until
     WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until
       AND u.instance NOT IN (SELECT value FROM json_each(authority.chosen))
       AND u.instance IN (SELECT value FROM json_each(service_manager.kept))
       AND old_u.state <> 'failed'
       AND u.instance IN (SELECT value FROM json_each(old_authority.chosen))
   ));

-- the_site_is_heard
-- What its site says of a lease is ignored, or brings a service manager on or to an end.
--   when: took(service_manager.update_lease)
--   step:
--     service_manager.state == old(service_manager.state)
--       if ignored(service_manager.update_lease)
--       else service_manager.state in {joining, closed, failed}
--            or (service_manager.state == active_ticketed
--             and old(service_manager.state) == joining)
--            or (service_manager.state == old(service_manager.state)
--             and service_manager.state in {extending_ticket, active_ticketed, extending_lease})
-- Yields the cuts that violate it.
SELECT cut.run, cut.number AS cut
FROM cut
CROSS JOIN service_manager
  ON service_manager.run = cut.run
  AND cut.number BETWEEN service_manager.since AND service_manager.until
CROSS JOIN service_manager AS old_service_manager
  ON old_service_manager.run = cut.run
  AND cut.number - 1 BETWEEN old_service_manager.since AND old_service_manager.until
WHERE cut.entry > :checked
  AND cut.number > 0
  AND cut.event = 'service_manager.update_lease'
  AND CASE WHEN cut.event = 'service_manager.update_lease' AND cut.transition = ''
    THEN service_manager.state <> old_service_manager.state
    ELSE service_manager.state NOT IN ('joining', 'closed', 'failed')
         AND (service_manager.state <> 'active_ticketed'
          OR old_service_manager.state <> 'joining')
         AND (service_manager.state <> old_service_manager.state
          OR service_manager.state
          NOT IN ('extending_ticket', 'active_ticketed', 'extending_lease'))
  END;

-- handlers_are_waited_for_in_bounded_time (paper, Table 1, invariant 9)
-- A unit that is being set up is up, given up or on its way down within the limit, while its site
-- runs.
--   when: unit[0].state == priming
--   leads_to: unit[0].state != priming or not running(unit[0])
--   within: 1
-- Yields the cuts that violate it.
SELECT cut.run, cut.number AS cut
FROM cut AS late
CROSS JOIN cut AS earlier ON earlier.run = late.run AND earlier.number = late.number - 1
CROSS JOIN cut ON cut.run = late.run AND cut.number < late.number
CROSS JOIN unit AS unit_0
  ON unit_0.run = cut.run AND unit_0.instance = 0
  AND cut.number BETWEEN unit_0.since AND unit_0.until
WHERE late.entry > :checked
  AND cut.now + 1 < late.now
  AND cut.now + 1 >= earlier.now
  AND unit_0.state = 'priming'
  AND NOT EXISTS (
    SELECT 1
    FROM cut AS later
    CROSS JOIN unit AS later_unit_0
      ON later_unit_0.run = later.run AND later_unit_0.instance = 0
      AND later.number BETWEEN later_unit_0.since AND later_unit_0.until
    WHERE later.run = cut.run
      AND later.number BETWEEN cut.number AND earlier.number
      AND (later_unit_0.state <> 'priming' OR NOT later_unit_0.running)
  )
UNION
SELECT cut.run, cut.number AS cut
FROM run
CROSS JOIN cut ON cut.run = run.run
CROSS JOIN unit AS unit_0
  ON unit_0.run = cut.run AND unit_0.instance = 0
  AND cut.number BETWEEN unit_0.since AND unit_0.until
WHERE run.ended > :checked
  AND unit_0.state = 'priming'
  AND NOT EXISTS (
    SELECT 1
    FROM cut AS later
    CROSS JOIN unit AS later_unit_0
      ON later_unit_0.run = later.run AND later_unit_0.instance = 0
      AND later.number BETWEEN later_unit_0.since AND later_unit_0.until
    WHERE later.run = cut.run
      AND later.number >= cut.number
      AND (later_unit_0.state <> 'priming' OR NOT later_unit_0.running)
  );

-- postgresql

-- site_wants_what_the_ticket_says (paper, Table 1, invariant 2)
-- What a site means to give is what the ticket that it was shown says.
--   when:
--     (took(authority.redeem)
--      and authority.state == priming
--      and old(service_manager.state) == redeeming)
--     or (took(authority.extend_lease)
--      and not ignored(authority.extend_lease)
--      and authority.state == modifying
--      and old(service_manager.state) == extending_lease
--      and old(all(m.end == service_manager.ticket_end for m in pending(extend_lease) if m.number >
--          0)))
--   step:
--     authority.wanted == service_manager.ticket_units
--     and authority.end == service_manager.ticket_end
--     and authority.properties == service_manager.ticket_properties
-- Yields the cuts that violate it.
SELECT cut.run, cut.number AS cut
FROM cut
JOIN authority ON authority.run = cut.run AND cut.number BETWEEN authority.since AND authority.until
JOIN service_manager AS old_service_manager
  ON old_service_manager.run = cut.run
  AND cut.number - 1 BETWEEN old_service_manager.since AND old_service_manager.until
JOIN service_manager
  ON service_manager.run = cut.run
  AND cut.number BETWEEN service_manager.since AND service_manager.until
WHERE cut.entry > :checked
  AND cut.number > 0
  AND ((cut.event = 'authority.redeem'
    AND authority.state = 'priming'
    AND old_service_manager.state = 'redeeming')
   OR (cut.event = 'authority.extend_lease'
    AND NOT (cut.event = 'authority.extend_lease' AND cut.transition = '')
    AND authority.state = 'modifying'
    AND old_service_manager.state = 'extending_lease'
    AND NOT EXISTS (
      SELECT 1
      FROM message_extend_lease AS m
      WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until
        AND m.number > 0
        AND m."end" <> old_service_manager.ticket_end
    )))
  AND (authority.wanted <> service_manager.ticket_units
   OR authority."end" <> service_manager.ticket_end
   OR authority.properties <> service_manager.ticket_properties);

-- mariadb

-- units_come_free
-- A site that has closed a lease holds no unit for it, and none is up; a broker that is done promises
-- none.
--   when: authority.state == closed or broker.state == closed
--   always:
--     (authority.state != closed
--      or (authority.assigned == {}
--       and authority.chosen == {}
--       and authority.told == {}
--       and authority.wanted == 0
--       and all(u.state in {idle, closed, failed, kept} for u in unit)))
--     and (broker.state != closed or broker.units == 0)
-- Yields the cuts that violate it.
SELECT STRAIGHT_JOIN cut.run, cut.number AS cut
FROM cut
JOIN authority ON authority.run = cut.run AND cut.number BETWEEN authority.since AND authority.until
JOIN broker ON broker.run = cut.run AND cut.number BETWEEN broker.since AND broker.until
WHERE cut.entry > :checked
  AND (authority.state = 'closed' OR broker.state = 'closed')
  AND ((authority.state = 'closed'
    AND (authority.assigned <> '[]'
     OR authority.chosen <> '[]'
     OR authority.told <> '[]'
     OR authority.wanted <> 0
     OR EXISTS (
       SELECT STRAIGHT_JOIN 1
       FROM unit AS u
       WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until
         AND u.state NOT IN ('idle', 'closed', 'failed', 'kept')
     )))
   OR (broker.state = 'closed' AND broker.units <> 0));
