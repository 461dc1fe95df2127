-- postgresql: unit[1] in hub.peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peers @> to_jsonb(1)
-- postgresql: unit[hub.amount] not in hub.peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT hub.peers @> to_jsonb(((hub.amount % 3 + 3) % 3))
-- postgresql: hub.peers == {}
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peers = '[]'
-- postgresql: hub.peers != hub.peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peers <> hub.peers
-- postgresql: hub.peers <= unit[2].peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_2 ON unit_2.run = cut.run AND unit_2.instance = 2 AND cut.number BETWEEN unit_2.since AND unit_2.until WHERE NOT EXISTS ( SELECT 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND hub.peers @> to_jsonb(unit.instance) AND NOT unit_2.peers @> to_jsonb(unit.instance) )
-- postgresql: hub.peers < hub.peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND hub.peers @> to_jsonb(unit.instance) AND NOT hub.peers @> to_jsonb(unit.instance) ) AND hub.peers <> hub.peers
-- postgresql: len(hub.peers) > 1
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE jsonb_array_length(hub.peers) > 1
-- postgresql: all(u.flag for u in hub.peers)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) AND NOT u.flag )
-- postgresql: any(u.flag and u.amount > 0 for u in hub.peers if u.tint == red)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) AND u.tint = 'red' AND u.flag AND u.amount > 0 )
-- postgresql: hub.amount
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.amount
-- postgresql: -hub.amount
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (-hub.amount)
-- postgresql: abs(hub.amount - 3)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ABS(hub.amount - 3)
-- postgresql: hub.amount * (hub.amount + 1) - hub.amount * 2
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.amount * (hub.amount + 1) - hub.amount * 2
-- postgresql: hub.amount - (unit[0].amount - unit[1].amount)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.amount - (unit_0.amount - unit_1.amount)
-- postgresql: hub.amount // 2 * 2
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.amount - ((hub.amount % 2 + 2) % 2)) / 2 * 2
-- postgresql: hub.amount // unit[0].amount
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE COALESCE((hub.amount - COALESCE((hub.amount % NULLIF(unit_0.amount, 0) + unit_0.amount) % NULLIF(unit_0.amount, 0), 0)) / NULLIF(unit_0.amount, 0), 0)
-- postgresql: hub.amount % unit[0].amount
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE COALESCE((hub.amount % NULLIF(unit_0.amount, 0) + unit_0.amount) % NULLIF(unit_0.amount, 0), 0)
-- postgresql: -7 // 2 + -7 % 2
SELECT 1 FROM cut WHERE ((-7) - (((-7) % 2 + 2) % 2)) / 2 + (((-7) % 2 + 2) % 2)
-- postgresql: hub.amount % -2
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE((hub.amount % NULLIF((-2), 0) + (-2)) % NULLIF((-2), 0), 0)
-- postgresql: (hub.amount + 1) // -2
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE((hub.amount + 1 - COALESCE(((hub.amount + 1) % NULLIF((-2), 0) + (-2)) % NULLIF((-2), 0), 0)) / NULLIF((-2), 0), 0)
-- postgresql: min(hub.amount, unit[0].amount, 1)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE LEAST(hub.amount, unit_0.amount, 1)
-- postgresql: max(hub.amount, limit)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE GREATEST(hub.amount, (-2))
-- postgresql: units * limit
SELECT 1 FROM cut WHERE 3 * (-2)
-- postgresql: sum(u.amount for u in unit)
SELECT 1 FROM cut WHERE COALESCE(( SELECT CAST(SUM(u.amount) AS BIGINT) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until ), 0)
-- postgresql: sum(u.amount for u in hub.peers if u.flag)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(( SELECT CAST(SUM(u.amount) AS BIGINT) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) AND u.flag ), 0)
-- postgresql: sum(2 for u in hub.peers)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) ) * 2
-- postgresql: sum(hub.amount for u in unit if u.flag)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag ) * hub.amount
-- postgresql: count(u.flag for u in unit)
SELECT 1 FROM cut WHERE ( SELECT COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag )
-- postgresql: count(u.flag for u in unit if u.amount > 0)
SELECT 1 FROM cut WHERE ( SELECT COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.amount > 0 AND u.flag )
-- postgresql: count(u.flag for u in hub.peers)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) AND u.flag )
-- postgresql: min((u.amount for u in hub.peers), default=7)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(( SELECT MIN(u.amount) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) ), 7)
-- postgresql: max(u.amount for u in unit)
SELECT 1 FROM cut WHERE ( SELECT MAX(u.amount) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until )
-- postgresql: max((u.amount for u in unit if u.flag), default=hub.amount)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(( SELECT MAX(u.amount) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag ), hub.amount)
-- postgresql: min((hub.amount for u in hub.peers), default=-1)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CASE WHEN EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) )  THEN hub.amount ELSE (-1) END
-- postgresql: max((u.amount * 2 for u in {unit[0]}), default=-5)
SELECT 1 FROM cut WHERE COALESCE(( SELECT MAX(u.amount * 2) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.instance = 0 ), (-5))
-- postgresql: sum(m.amount for m in pending(ask))
SELECT 1 FROM cut WHERE COALESCE(( SELECT CAST(SUM(m.amount) AS BIGINT) FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ), 0)
-- postgresql: len(up)
SELECT 1 FROM cut WHERE ( SELECT COUNT(*) FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until )
-- postgresql: len(pending(beg)) + len(around)
SELECT 1 FROM cut WHERE ( SELECT COUNT(*) FROM message_beg AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ) + ( SELECT COUNT(*) FROM message_hail AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until )
-- postgresql: sum(1 for m in pending(ask) if m.amount > 0 and m.who in hub.peers)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.amount > 0 AND hub.peers @> to_jsonb(m.who) ) * 1
-- postgresql: max((m.number for m in pending(down)), default=0)
SELECT 1 FROM cut WHERE COALESCE(( SELECT MAX(m.number) FROM message_tell AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ), 0)
-- postgresql: sum(m.number for m in pending(line))
SELECT 1 FROM cut WHERE COALESCE(( SELECT CAST(SUM(m.number) AS BIGINT) FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ), 0)
-- postgresql: max((m.number + m.amount for m in pending(call) if m.sender == unit[1]), default=0)
SELECT 1 FROM cut WHERE COALESCE(( SELECT MAX(m.number + m.amount) FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.sender = 1 ), 0)
-- postgresql: count(m.number > 1 for m in pending(line) if m.sender in hub.peers)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND hub.peers @> to_jsonb(m.sender) AND m.number > 1 )
-- postgresql: hub.counts[unit[1]]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(CAST(hub.counts ->> CAST(1 AS TEXT) AS BIGINT), 0)
-- postgresql: hub.counts[unit[hub.amount]]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(CAST(hub.counts ->> CAST(((hub.amount % 3 + 3) % 3) AS TEXT) AS BIGINT), 0)
-- postgresql: sum(unit[0].counts[u] for u in hub.peers)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE COALESCE(( SELECT CAST(SUM(COALESCE(CAST(unit_0.counts ->> CAST(u.instance AS TEXT) AS BIGINT), 0)) AS BIGINT) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) ), 0)
-- postgresql: get(hub.maybe, 4)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(hub.maybe, 4)
-- postgresql: get(none if hub.flag else hub.amount, -1)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(CASE WHEN hub.flag THEN NULL ELSE hub.amount END, (-1))
-- postgresql: {u: u.amount for u in unit}[hub.peer]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit ON unit.run = cut.run AND unit.instance = hub.peer AND cut.number BETWEEN unit.since AND unit.until WHERE unit.amount
-- postgresql: (hub.counts if hub.flag else unit[0].counts)[hub.peer]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE CASE WHEN hub.flag THEN COALESCE(CAST(hub.counts ->> CAST(hub.peer AS TEXT) AS BIGINT), 0) ELSE COALESCE(CAST(unit_0.counts ->> CAST(hub.peer AS TEXT) AS BIGINT), 0) END
-- postgresql: old(hub.counts[unit[1]]) + old(hub.amount)
SELECT 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until WHERE COALESCE(CAST(old_hub.counts ->> CAST(1 AS TEXT) AS BIGINT), 0) + old_hub.amount
-- postgresql: old({u: u.amount + hub.amount for u in unit})[hub.peer]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS old_unit ON old_unit.run = cut.run AND old_unit.instance = hub.peer AND cut.number - 1 BETWEEN old_unit.since AND old_unit.until JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until WHERE old_unit.amount + old_hub.amount
-- postgresql: index(hub.peer) - index(hub.seat)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peer - hub.seat
-- postgresql: now - old(now)
SELECT 1 FROM cut JOIN cut AS old_cut ON old_cut.run = cut.run AND old_cut.number = cut.number - 1 WHERE cut.now - old_cut.now
-- postgresql: len({red, hub.tint})
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM colour WHERE colour.member IN ('red', hub.tint) )
-- postgresql: len(hub.tints | {blue})
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM colour WHERE (hub.tints @> to_jsonb(CAST(colour.member AS TEXT)) OR colour.member = 'blue') )
-- postgresql: len({s for s in slot if s in hub.seats})
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT COUNT(*) FROM slot WHERE EXISTS ( SELECT 1 FROM slot AS s WHERE s.member = slot.member AND hub.seats @> to_jsonb(s.member) ) )
-- postgresql: (2 if hub.flag else 1) if unit[0].flag else (0 if hub.flag else 3)
SELECT 1 FROM cut JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CASE WHEN unit_0.flag THEN CASE WHEN hub.flag THEN 2 ELSE 1 END ELSE CASE WHEN hub.flag THEN 0 ELSE 3 END END
-- postgresql: index(unit[hub.amount])
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ((hub.amount % 3 + 3) % 3)
-- postgresql: index(slot[1])
SELECT 1 FROM cut WHERE 1
-- postgresql: hub.flag if unit[0].flag else unit[1].flag
SELECT 1 FROM cut JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE CASE WHEN unit_0.flag THEN hub.flag ELSE unit_1.flag END
-- postgresql: hub.flag or not hub.flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.flag OR NOT hub.flag)
-- postgresql: hub.flag and hub.tint == red and not hub.flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.flag AND hub.tint = 'red' AND NOT hub.flag
-- postgresql: unit[units].flag
SELECT 1 FROM cut JOIN unit ON unit.run = cut.run AND unit.instance = ((3 % 3 + 3) % 3) AND cut.number BETWEEN unit.since AND unit.until WHERE unit.flag
-- postgresql: all(u.flag if u.tint == red else u.amount > 0 for u in unit)
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND CASE WHEN u.tint = 'red' THEN NOT u.flag ELSE u.amount <= 0 END )
-- postgresql: hub.tint == hub.tint
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint = hub.tint
-- postgresql: hub.flag or hub.flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.flag OR hub.flag)
-- postgresql: hub.flag and true and hub.flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.flag AND TRUE AND hub.flag
-- postgresql: limit == -2 and hub.flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (-2) = (-2) AND hub.flag
-- postgresql: hub.flag or units != 3
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.flag OR 3 <> 3)
-- postgresql: not true
SELECT 1 FROM cut WHERE FALSE
-- postgresql: {} == {}
SELECT 1 FROM cut WHERE '[]' = '[]'
-- postgresql: {} != hub.peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE '[]' <> hub.peers
-- postgresql: len({}) > 0
SELECT 1 FROM cut WHERE jsonb_array_length('[]') > 0
-- postgresql: {} <= hub.peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND FALSE AND NOT hub.peers @> to_jsonb(unit.instance) )
-- postgresql: ({} if hub.flag else hub.peers) == hub.peers
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CASE WHEN hub.flag THEN '[]' = hub.peers ELSE hub.peers = hub.peers END
-- postgresql: unit[0] in {}
SELECT 1 FROM cut WHERE FALSE
-- postgresql: hub.flag and unit[0].flag and unit[1].flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.flag AND unit_0.flag AND unit_1.flag
-- postgresql: hub.flag or unit[0].flag and not unit[1].flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE (hub.flag OR (unit_0.flag AND NOT unit_1.flag))
-- postgresql: not (hub.flag or unit[0].flag)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE NOT hub.flag AND NOT unit_0.flag
-- postgresql: hub.tint == red
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint = 'red'
-- postgresql: hub.tint != liked
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint <> 'green'
-- postgresql: hub.tint in {red, green}
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint IN ('red', 'green')
-- postgresql: hub.state == busy
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.state = 'busy'
-- postgresql: unit[2].state in {off, hot}
SELECT 1 FROM cut JOIN unit AS unit_2 ON unit_2.run = cut.run AND unit_2.instance = 2 AND cut.number BETWEEN unit_2.since AND unit_2.until WHERE unit_2.state IN ('off', 'hot')
-- postgresql: unit[hub.amount].state != hot
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit ON unit.run = cut.run AND unit.instance = ((hub.amount % 3 + 3) % 3) AND cut.number BETWEEN unit.since AND unit.until WHERE unit.state <> 'hot'
-- postgresql: all(u.state == off for u in unit)
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.state <> 'off' )
-- postgresql: hub.friend == none
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.friend IS NULL
-- postgresql: hub.friend != unit[1]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.friend IS DISTINCT FROM 1
-- postgresql: hub.friend == unit[0].friend
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE hub.friend IS NOT DISTINCT FROM unit_0.friend
-- postgresql: hub.maybe != unit[0].maybe
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE hub.maybe IS DISTINCT FROM unit_0.maybe
-- postgresql: hub.friend == hub.peer
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.friend IS NOT DISTINCT FROM hub.peer
-- postgresql: hub.marks[hub.tint]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CAST(hub.marks ->> hub.tint AS BOOLEAN)
-- postgresql: hub.marks == unit[0].marks
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE hub.marks = unit_0.marks
-- postgresql: hub.marks != {c: c == hub.tint for c in colour}
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT 1 FROM colour WHERE CAST(hub.marks ->> colour.member AS BOOLEAN) <> (colour.member = hub.tint) )
-- postgresql: hub.nested[hub.seat] == none
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CAST(hub.nested ->> CAST(hub.seat AS INTEGER) AS INTEGER) IS NULL
-- postgresql: hub.nested[slot[1]] == unit[2]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CAST(hub.nested ->> CAST(1 AS INTEGER) AS INTEGER) IS NOT DISTINCT FROM 2
-- postgresql: hub.nested == unit[1].nested
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.nested = unit_1.nested
-- postgresql: {u: u.flag for u in unit}[hub.peer]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit ON unit.run = cut.run AND unit.instance = hub.peer AND cut.number BETWEEN unit.since AND unit.until WHERE unit.flag
-- postgresql: all(m.who == m.sender for m in pending(ask))
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.who <> m.sender )
-- postgresql: any(m.latest for m in pending(tell))
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM message_tell AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.latest )
-- postgresql: all(m.latest == (m.number == 2) for m in pending(tell) if m.receiver == unit[1])
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM message_tell AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.receiver = 1 AND m.latest <> (m.number = 2) )
-- postgresql: any(m.kind == ask for m in pending(up))
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.kind = 'ask' )
-- postgresql: any(m.kind != beg and m.sender in hub.peers for m in pending(up))
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT 1 FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.kind <> 'beg' AND hub.peers @> to_jsonb(m.sender) )
-- postgresql: all(m.tint != red for m in pending(beg))
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM message_beg AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.tint = 'red' )
-- postgresql: any(m.sender == u and m.amount == u.amount for m in pending(ask) for u in unit)
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND m.sender = u.instance AND m.amount = u.amount ) )
-- postgresql: any(m.receiver == m.sender for m in pending(around))
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM message_hail AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.receiver = m.sender )
-- postgresql: all(m.number == 1 for m in pending(call))
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.number <> 1 )
-- postgresql: any(m.number < n.number for m in pending(call) for n in pending(line) if m.sender == n.sender)
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND EXISTS ( SELECT 1 FROM message_call AS n WHERE n.run = cut.run AND cut.number BETWEEN n.since AND n.until AND m.sender = n.sender AND m.number < n.number ) )
-- postgresql: all(m == n or m.sender != n.sender for m in pending(call) for n in pending(call))
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND EXISTS ( SELECT 1 FROM message_call AS n WHERE n.run = cut.run AND cut.number BETWEEN n.since AND n.until AND (m.kind <> n.kind OR m.content <> n.content) AND m.sender = n.sender ) )
-- postgresql: any(m.receiver == hub[0] and m.kind == call and m.number == 2 for m in pending(line))
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.receiver = 0 AND m.kind = 'call' AND m.number = 2 )
-- postgresql: old(all(m.number == 1 for m in pending(line)))
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until AND m.number <> 1 )
-- postgresql: all(any(a.flag for a in a.peers) or a.flag for a in unit)
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM unit AS a WHERE a.run = cut.run AND cut.number BETWEEN a.since AND a.until AND NOT EXISTS ( SELECT 1 FROM unit AS a_2 WHERE a_2.run = cut.run AND cut.number BETWEEN a_2.since AND a_2.until AND a.peers @> to_jsonb(a_2.instance) AND a_2.flag ) AND NOT a.flag )
-- postgresql: all(old(u.flag) or not u.flag for u in unit)
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM unit AS u JOIN unit AS old_u ON old_u.run = cut.run AND old_u.instance = u.instance AND cut.number - 1 BETWEEN old_u.since AND old_u.until WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND NOT old_u.flag AND u.flag )
-- postgresql: old(all(u.flag for u in hub.peers)) == hub.flag
SELECT 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (NOT EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number - 1 BETWEEN u.since AND u.until AND old_hub.peers @> to_jsonb(u.instance) AND NOT u.flag )) = hub.flag
-- postgresql: old(old(hub.flag)) and hub.flag
SELECT 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE old_hub.flag AND hub.flag
-- postgresql: old(len(up)) <= len(up)
SELECT 1 FROM cut WHERE ( SELECT COUNT(*) FROM up AS m WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until ) <= ( SELECT COUNT(*) FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until )
-- postgresql: old(hub.state) == hub.state
SELECT 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE old_hub.state = hub.state
-- postgresql: old(hub.peers) <= hub.peers
SELECT 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND old_hub.peers @> to_jsonb(unit.instance) AND NOT hub.peers @> to_jsonb(unit.instance) )
-- postgresql: old(any(m.latest for m in pending(tell)))
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM message_tell AS m WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until AND m.latest )
-- postgresql: took(hub)
SELECT 1 FROM cut WHERE cut.role = 'hub'
-- postgresql: took(unit)
SELECT 1 FROM cut WHERE cut.role = 'unit'
-- postgresql: took(unit[2])
SELECT 1 FROM cut WHERE cut.role = 'unit' AND cut.instance = 2
-- postgresql: took(unit.poke)
SELECT 1 FROM cut WHERE cut.event = 'unit.poke'
-- postgresql: took(unit[0].poke)
SELECT 1 FROM cut WHERE cut.event = 'unit.poke' AND cut.instance = 0
-- postgresql: took(hub.nudge)
SELECT 1 FROM cut WHERE cut.event = 'hub.nudge'
-- postgresql: ignored(unit[2].tell)
SELECT 1 FROM cut WHERE cut.event = 'unit.tell' AND cut.instance = 2 AND cut.transition = ''
-- postgresql: ignored(unit.tell)
SELECT 1 FROM cut WHERE cut.event = 'unit.tell' AND cut.transition = ''
-- postgresql: any(took(u.tell) for u in unit if u.flag)
SELECT 1 FROM cut WHERE EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag AND cut.event = 'unit.tell' AND cut.instance = u.instance )
-- postgresql: any(took(u) and u.flag for u in hub.peers)
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND hub.peers @> to_jsonb(u.instance) AND cut.role = 'unit' AND cut.instance = u.instance AND u.flag )
-- postgresql: hub.until <= now
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.until_ <= cut.now
-- postgresql: hub.until + 1 < now
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.until_ + 1 < cut.now
-- postgresql: now - hub.until >= 2
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE cut.now - hub.until_ >= 2
-- postgresql: 1 < hub.amount <= 2
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE 1 < hub.amount AND hub.amount <= 2
-- postgresql: hub.label == unit[0].label
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE hub.label = unit_0.label
-- postgresql: hub.until == unit[1].until
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.until_ = unit_1.until_
-- postgresql: hub.seat == slot[1]
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.seat = 1
-- postgresql: hub.peer in {unit[0], unit[2]}
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peer IN (0, 2)
-- postgresql: hub.tint in hub.tints
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tints @> to_jsonb(CAST(hub.tint AS TEXT))
-- postgresql: hub.tint not in unit[0].tints
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE NOT unit_0.tints @> to_jsonb(CAST(hub.tint AS TEXT))
-- postgresql: hub.seats == {slot[0]}
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.seats = '[0]'
-- postgresql: hub.tints <= {red, blue}
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT 1 FROM colour WHERE hub.tints @> to_jsonb(CAST(colour.member AS TEXT)) AND colour.member NOT IN ('red', 'blue') )
-- postgresql: hub.tints == colour
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tints = '["red","green","blue"]'
-- postgresql: all(c in hub.tints for c in colour if hub.marks[c])
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT 1 FROM colour AS c WHERE CAST(hub.marks ->> c.member AS BOOLEAN) AND NOT hub.tints @> to_jsonb(CAST(c.member AS TEXT)) )
-- postgresql: (hub.flag if unit[0].flag else unit[1].flag) == hub.flag
SELECT 1 FROM cut JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE CASE WHEN unit_0.flag THEN hub.flag ELSE unit_1.flag END = hub.flag
-- postgresql: all(a.peer == b or b.peer != a for a in unit for b in unit if a != b)
SELECT 1 FROM cut WHERE NOT EXISTS ( SELECT 1 FROM unit AS a WHERE a.run = cut.run AND cut.number BETWEEN a.since AND a.until AND EXISTS ( SELECT 1 FROM unit AS b WHERE b.run = cut.run AND cut.number BETWEEN b.since AND b.until AND a.instance <> b.instance AND a.peer <> b.instance AND b.peer = a.instance ) )
-- postgresql: limit < 0 and units == 3
SELECT 1 FROM cut WHERE (-2) < 0 AND 3 = 3
-- postgresql: true
SELECT 1 FROM cut WHERE TRUE
-- postgresql: false or hub.flag
SELECT 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (FALSE OR hub.flag)
-- mariadb: unit[1] in hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE JSON_CONTAINS(hub.peers, 1)
-- mariadb: unit[hub.amount] not in hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT JSON_CONTAINS(hub.peers, ((hub.amount % 3 + 3) % 3))
-- mariadb: hub.peers == {}
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peers = '[]'
-- mariadb: hub.peers != hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peers <> hub.peers
-- mariadb: hub.peers <= unit[2].peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_2 ON unit_2.run = cut.run AND unit_2.instance = 2 AND cut.number BETWEEN unit_2.since AND unit_2.until WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND JSON_CONTAINS(hub.peers, unit.instance) AND NOT JSON_CONTAINS(unit_2.peers, unit.instance) )
-- mariadb: hub.peers < hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND JSON_CONTAINS(hub.peers, unit.instance) AND NOT JSON_CONTAINS(hub.peers, unit.instance) ) AND hub.peers <> hub.peers
-- mariadb: len(hub.peers) > 1
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE JSON_LENGTH(hub.peers) > 1
-- mariadb: all(u.flag for u in hub.peers)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) AND NOT u.flag )
-- mariadb: any(u.flag and u.amount > 0 for u in hub.peers if u.tint == red)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) AND u.tint = 'red' AND u.flag AND u.amount > 0 )
-- mariadb: hub.amount
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.amount
-- mariadb: -hub.amount
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (-hub.amount)
-- mariadb: abs(hub.amount - 3)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ABS(hub.amount - 3)
-- mariadb: hub.amount * (hub.amount + 1) - hub.amount * 2
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.amount * (hub.amount + 1) - hub.amount * 2
-- mariadb: hub.amount - (unit[0].amount - unit[1].amount)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.amount - (unit_0.amount - unit_1.amount)
-- mariadb: hub.amount // 2 * 2
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.amount - ((hub.amount % 2 + 2) % 2)) DIV 2 * 2
-- mariadb: hub.amount // unit[0].amount
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE COALESCE((hub.amount - COALESCE((hub.amount % NULLIF(unit_0.amount, 0) + unit_0.amount) % NULLIF(unit_0.amount, 0), 0)) DIV NULLIF(unit_0.amount, 0), 0)
-- mariadb: hub.amount % unit[0].amount
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE COALESCE((hub.amount % NULLIF(unit_0.amount, 0) + unit_0.amount) % NULLIF(unit_0.amount, 0), 0)
-- mariadb: -7 // 2 + -7 % 2
SELECT STRAIGHT_JOIN 1 FROM cut WHERE ((-7) - (((-7) % 2 + 2) % 2)) DIV 2 + (((-7) % 2 + 2) % 2)
-- mariadb: hub.amount % -2
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE((hub.amount % NULLIF((-2), 0) + (-2)) % NULLIF((-2), 0), 0)
-- mariadb: (hub.amount + 1) // -2
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE((hub.amount + 1 - COALESCE(((hub.amount + 1) % NULLIF((-2), 0) + (-2)) % NULLIF((-2), 0), 0)) DIV NULLIF((-2), 0), 0)
-- mariadb: min(hub.amount, unit[0].amount, 1)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE LEAST(hub.amount, unit_0.amount, 1)
-- mariadb: max(hub.amount, limit)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE GREATEST(hub.amount, (-2))
-- mariadb: units * limit
SELECT STRAIGHT_JOIN 1 FROM cut WHERE 3 * (-2)
-- mariadb: sum(u.amount for u in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE COALESCE(( SELECT STRAIGHT_JOIN CAST(SUM(u.amount) AS SIGNED) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until ), 0)
-- mariadb: sum(u.amount for u in hub.peers if u.flag)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(( SELECT STRAIGHT_JOIN CAST(SUM(u.amount) AS SIGNED) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) AND u.flag ), 0)
-- mariadb: sum(2 for u in hub.peers)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) ) * 2
-- mariadb: sum(hub.amount for u in unit if u.flag)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag ) * hub.amount
-- mariadb: count(u.flag for u in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag )
-- mariadb: count(u.flag for u in unit if u.amount > 0)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.amount > 0 AND u.flag )
-- mariadb: count(u.flag for u in hub.peers)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) AND u.flag )
-- mariadb: min((u.amount for u in hub.peers), default=7)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(( SELECT STRAIGHT_JOIN MIN(u.amount) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) ), 7)
-- mariadb: max(u.amount for u in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE ( SELECT STRAIGHT_JOIN MAX(u.amount) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until )
-- mariadb: max((u.amount for u in unit if u.flag), default=hub.amount)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(( SELECT STRAIGHT_JOIN MAX(u.amount) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag ), hub.amount)
-- mariadb: min((hub.amount for u in hub.peers), default=-1)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CASE WHEN EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) )  THEN hub.amount ELSE (-1) END
-- mariadb: max((u.amount * 2 for u in {unit[0]}), default=-5)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE COALESCE(( SELECT STRAIGHT_JOIN MAX(u.amount * 2) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.instance = 0 ), (-5))
-- mariadb: sum(m.amount for m in pending(ask))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE COALESCE(( SELECT STRAIGHT_JOIN CAST(SUM(m.amount) AS SIGNED) FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ), 0)
-- mariadb: len(up)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until )
-- mariadb: len(pending(beg)) + len(around)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM message_beg AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ) + ( SELECT STRAIGHT_JOIN COUNT(*) FROM message_hail AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until )
-- mariadb: sum(1 for m in pending(ask) if m.amount > 0 and m.who in hub.peers)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.amount > 0 AND JSON_CONTAINS(hub.peers, m.who) ) * 1
-- mariadb: max((m.number for m in pending(down)), default=0)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE COALESCE(( SELECT STRAIGHT_JOIN MAX(m.number) FROM message_tell AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ), 0)
-- mariadb: sum(m.number for m in pending(line))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE COALESCE(( SELECT STRAIGHT_JOIN CAST(SUM(m.number) AS SIGNED) FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until ), 0)
-- mariadb: max((m.number + m.amount for m in pending(call) if m.sender == unit[1]), default=0)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE COALESCE(( SELECT STRAIGHT_JOIN MAX(m.number + m.amount) FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.sender = 1 ), 0)
-- mariadb: count(m.number > 1 for m in pending(line) if m.sender in hub.peers)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND JSON_CONTAINS(hub.peers, m.sender) AND m.number > 1 )
-- mariadb: hub.counts[unit[1]]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(CAST(JSON_VALUE(hub.counts, CONCAT('$."', 1, '"')) AS SIGNED), 0)
-- mariadb: hub.counts[unit[hub.amount]]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(CAST(JSON_VALUE(hub.counts, CONCAT('$."', ((hub.amount % 3 + 3) % 3), '"')) AS SIGNED), 0)
-- mariadb: sum(unit[0].counts[u] for u in hub.peers)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE COALESCE(( SELECT STRAIGHT_JOIN CAST(SUM(COALESCE(CAST(JSON_VALUE(unit_0.counts, CONCAT('$."', u.instance, '"')) AS SIGNED), 0)) AS SIGNED) FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) ), 0)
-- mariadb: get(hub.maybe, 4)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(hub.maybe, 4)
-- mariadb: get(none if hub.flag else hub.amount, -1)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE COALESCE(CASE WHEN hub.flag THEN NULL ELSE hub.amount END, (-1))
-- mariadb: {u: u.amount for u in unit}[hub.peer]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit ON unit.run = cut.run AND unit.instance = hub.peer AND cut.number BETWEEN unit.since AND unit.until WHERE unit.amount
-- mariadb: (hub.counts if hub.flag else unit[0].counts)[hub.peer]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE CASE WHEN hub.flag THEN COALESCE(CAST(JSON_VALUE(hub.counts, CONCAT('$."', hub.peer, '"')) AS SIGNED), 0) ELSE COALESCE(CAST(JSON_VALUE(unit_0.counts, CONCAT('$."', hub.peer, '"')) AS SIGNED), 0) END
-- mariadb: old(hub.counts[unit[1]]) + old(hub.amount)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until WHERE COALESCE(CAST(JSON_VALUE(old_hub.counts, CONCAT('$."', 1, '"')) AS SIGNED), 0) + old_hub.amount
-- mariadb: old({u: u.amount + hub.amount for u in unit})[hub.peer]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS old_unit ON old_unit.run = cut.run AND old_unit.instance = hub.peer AND cut.number - 1 BETWEEN old_unit.since AND old_unit.until JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until WHERE old_unit.amount + old_hub.amount
-- mariadb: index(hub.peer) - index(hub.seat)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peer - hub.seat
-- mariadb: now - old(now)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN cut AS old_cut ON old_cut.run = cut.run AND old_cut.number = cut.number - 1 WHERE cut.now - old_cut.now
-- mariadb: len({red, hub.tint})
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM colour WHERE colour.member IN ('red', hub.tint) )
-- mariadb: len(hub.tints | {blue})
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM colour WHERE (JSON_CONTAINS(hub.tints, JSON_QUOTE(colour.member)) OR colour.member = 'blue') )
-- mariadb: len({s for s in slot if s in hub.seats})
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM slot WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM slot AS s WHERE s.member = slot.member AND JSON_CONTAINS(hub.seats, s.member) ) )
-- mariadb: (2 if hub.flag else 1) if unit[0].flag else (0 if hub.flag else 3)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CASE WHEN unit_0.flag THEN CASE WHEN hub.flag THEN 2 ELSE 1 END ELSE CASE WHEN hub.flag THEN 0 ELSE 3 END END
-- mariadb: index(unit[hub.amount])
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE ((hub.amount % 3 + 3) % 3)
-- mariadb: index(slot[1])
SELECT STRAIGHT_JOIN 1 FROM cut WHERE 1
-- mariadb: hub.flag if unit[0].flag else unit[1].flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE CASE WHEN unit_0.flag THEN hub.flag ELSE unit_1.flag END
-- mariadb: hub.flag or not hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.flag OR NOT hub.flag)
-- mariadb: hub.flag and hub.tint == red and not hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.flag AND hub.tint = 'red' AND NOT hub.flag
-- mariadb: unit[units].flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN unit ON unit.run = cut.run AND unit.instance = ((3 % 3 + 3) % 3) AND cut.number BETWEEN unit.since AND unit.until WHERE unit.flag
-- mariadb: all(u.flag if u.tint == red else u.amount > 0 for u in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND CASE WHEN u.tint = 'red' THEN NOT u.flag ELSE u.amount <= 0 END )
-- mariadb: hub.tint == hub.tint
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint = hub.tint
-- mariadb: hub.flag or hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.flag OR hub.flag)
-- mariadb: hub.flag and true and hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.flag AND TRUE AND hub.flag
-- mariadb: limit == -2 and hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (-2) = (-2) AND hub.flag
-- mariadb: hub.flag or units != 3
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (hub.flag OR 3 <> 3)
-- mariadb: not true
SELECT STRAIGHT_JOIN 1 FROM cut WHERE FALSE
-- mariadb: {} == {}
SELECT STRAIGHT_JOIN 1 FROM cut WHERE '[]' = '[]'
-- mariadb: {} != hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE '[]' <> hub.peers
-- mariadb: len({}) > 0
SELECT STRAIGHT_JOIN 1 FROM cut WHERE JSON_LENGTH('[]') > 0
-- mariadb: {} <= hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND FALSE AND NOT JSON_CONTAINS(hub.peers, unit.instance) )
-- mariadb: ({} if hub.flag else hub.peers) == hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CASE WHEN hub.flag THEN '[]' = hub.peers ELSE hub.peers = hub.peers END
-- mariadb: unit[0] in {}
SELECT STRAIGHT_JOIN 1 FROM cut WHERE FALSE
-- mariadb: hub.flag and unit[0].flag and unit[1].flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.flag AND unit_0.flag AND unit_1.flag
-- mariadb: hub.flag or unit[0].flag and not unit[1].flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE (hub.flag OR (unit_0.flag AND NOT unit_1.flag))
-- mariadb: not (hub.flag or unit[0].flag)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE NOT hub.flag AND NOT unit_0.flag
-- mariadb: hub.tint == red
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint = 'red'
-- mariadb: hub.tint != liked
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint <> 'green'
-- mariadb: hub.tint in {red, green}
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tint IN ('red', 'green')
-- mariadb: hub.state == busy
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.state = 'busy'
-- mariadb: unit[2].state in {off, hot}
SELECT STRAIGHT_JOIN 1 FROM cut JOIN unit AS unit_2 ON unit_2.run = cut.run AND unit_2.instance = 2 AND cut.number BETWEEN unit_2.since AND unit_2.until WHERE unit_2.state IN ('off', 'hot')
-- mariadb: unit[hub.amount].state != hot
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit ON unit.run = cut.run AND unit.instance = ((hub.amount % 3 + 3) % 3) AND cut.number BETWEEN unit.since AND unit.until WHERE unit.state <> 'hot'
-- mariadb: all(u.state == off for u in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.state <> 'off' )
-- mariadb: hub.friend == none
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.friend IS NULL
-- mariadb: hub.friend != unit[1]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT hub.friend <=> 1
-- mariadb: hub.friend == unit[0].friend
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE hub.friend <=> unit_0.friend
-- mariadb: hub.maybe != unit[0].maybe
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE NOT hub.maybe <=> unit_0.maybe
-- mariadb: hub.friend == hub.peer
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.friend <=> hub.peer
-- mariadb: hub.marks[hub.tint]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CAST(JSON_VALUE(hub.marks, CONCAT('$.', hub.tint)) AS SIGNED)
-- mariadb: hub.marks == unit[0].marks
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE hub.marks = unit_0.marks
-- mariadb: hub.marks != {c: c == hub.tint for c in colour}
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM colour WHERE CAST(JSON_VALUE(hub.marks, CONCAT('$.', colour.member)) AS SIGNED) <> (colour.member = hub.tint) )
-- mariadb: hub.nested[hub.seat] == none
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CAST(JSON_VALUE(hub.nested, CONCAT('$[', hub.seat, ']')) AS SIGNED) IS NULL
-- mariadb: hub.nested[slot[1]] == unit[2]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE CAST(JSON_VALUE(hub.nested, CONCAT('$[', 1, ']')) AS SIGNED) <=> 2
-- mariadb: hub.nested == unit[1].nested
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.nested = unit_1.nested
-- mariadb: {u: u.flag for u in unit}[hub.peer]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit ON unit.run = cut.run AND unit.instance = hub.peer AND cut.number BETWEEN unit.since AND unit.until WHERE unit.flag
-- mariadb: all(m.who == m.sender for m in pending(ask))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.who <> m.sender )
-- mariadb: any(m.latest for m in pending(tell))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_tell AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.latest )
-- mariadb: all(m.latest == (m.number == 2) for m in pending(tell) if m.receiver == unit[1])
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_tell AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.receiver = 1 AND m.latest <> (m.number = 2) )
-- mariadb: any(m.kind == ask for m in pending(up))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.kind = 'ask' )
-- mariadb: any(m.kind != beg and m.sender in hub.peers for m in pending(up))
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.kind <> 'beg' AND JSON_CONTAINS(hub.peers, m.sender) )
-- mariadb: all(m.tint != red for m in pending(beg))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_beg AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.tint = 'red' )
-- mariadb: any(m.sender == u and m.amount == u.amount for m in pending(ask) for u in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_ask AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND m.sender = u.instance AND m.amount = u.amount ) )
-- mariadb: any(m.receiver == m.sender for m in pending(around))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_hail AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.receiver = m.sender )
-- mariadb: all(m.number == 1 for m in pending(call))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.number <> 1 )
-- mariadb: any(m.number < n.number for m in pending(call) for n in pending(line) if m.sender == n.sender)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_call AS n WHERE n.run = cut.run AND cut.number BETWEEN n.since AND n.until AND m.sender = n.sender AND m.number < n.number ) )
-- mariadb: all(m == n or m.sender != n.sender for m in pending(call) for n in pending(call))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_call AS n WHERE n.run = cut.run AND cut.number BETWEEN n.since AND n.until AND (m.kind <> n.kind OR m.content <> n.content) AND m.sender = n.sender ) )
-- mariadb: any(m.receiver == hub[0] and m.kind == call and m.number == 2 for m in pending(line))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until AND m.receiver = 0 AND m.kind = 'call' AND m.number = 2 )
-- mariadb: old(all(m.number == 1 for m in pending(line)))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_call AS m WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until AND m.number <> 1 )
-- mariadb: all(any(a.flag for a in a.peers) or a.flag for a in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS a WHERE a.run = cut.run AND cut.number BETWEEN a.since AND a.until AND NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS a_2 WHERE a_2.run = cut.run AND cut.number BETWEEN a_2.since AND a_2.until AND JSON_CONTAINS(a.peers, a_2.instance) AND a_2.flag ) AND NOT a.flag )
-- mariadb: all(old(u.flag) or not u.flag for u in unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u JOIN unit AS old_u ON old_u.run = cut.run AND old_u.instance = u.instance AND cut.number - 1 BETWEEN old_u.since AND old_u.until WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND NOT old_u.flag AND u.flag )
-- mariadb: old(all(u.flag for u in hub.peers)) == hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number - 1 BETWEEN u.since AND u.until AND JSON_CONTAINS(old_hub.peers, u.instance) AND NOT u.flag )) = hub.flag
-- mariadb: old(old(hub.flag)) and hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE old_hub.flag AND hub.flag
-- mariadb: old(len(up)) <= len(up)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE ( SELECT STRAIGHT_JOIN COUNT(*) FROM up AS m WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until ) <= ( SELECT STRAIGHT_JOIN COUNT(*) FROM up AS m WHERE m.run = cut.run AND cut.number BETWEEN m.since AND m.until )
-- mariadb: old(hub.state) == hub.state
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE old_hub.state = hub.state
-- mariadb: old(hub.peers) <= hub.peers
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub AS old_hub ON old_hub.run = cut.run AND cut.number - 1 BETWEEN old_hub.since AND old_hub.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit WHERE unit.run = cut.run AND cut.number BETWEEN unit.since AND unit.until AND JSON_CONTAINS(old_hub.peers, unit.instance) AND NOT JSON_CONTAINS(hub.peers, unit.instance) )
-- mariadb: old(any(m.latest for m in pending(tell)))
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM message_tell AS m WHERE m.run = cut.run AND cut.number - 1 BETWEEN m.since AND m.until AND m.latest )
-- mariadb: took(hub)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.role = 'hub'
-- mariadb: took(unit)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.role = 'unit'
-- mariadb: took(unit[2])
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.role = 'unit' AND cut.instance = 2
-- mariadb: took(unit.poke)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.event = 'unit.poke'
-- mariadb: took(unit[0].poke)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.event = 'unit.poke' AND cut.instance = 0
-- mariadb: took(hub.nudge)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.event = 'hub.nudge'
-- mariadb: ignored(unit[2].tell)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.event = 'unit.tell' AND cut.instance = 2 AND cut.transition = ''
-- mariadb: ignored(unit.tell)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE cut.event = 'unit.tell' AND cut.transition = ''
-- mariadb: any(took(u.tell) for u in unit if u.flag)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND u.flag AND cut.event = 'unit.tell' AND cut.instance = u.instance )
-- mariadb: any(took(u) and u.flag for u in hub.peers)
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS u WHERE u.run = cut.run AND cut.number BETWEEN u.since AND u.until AND JSON_CONTAINS(hub.peers, u.instance) AND cut.role = 'unit' AND cut.instance = u.instance AND u.flag )
-- mariadb: hub.until <= now
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.until_ <= cut.now
-- mariadb: hub.until + 1 < now
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.until_ + 1 < cut.now
-- mariadb: now - hub.until >= 2
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE cut.now - hub.until_ >= 2
-- mariadb: 1 < hub.amount <= 2
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE 1 < hub.amount AND hub.amount <= 2
-- mariadb: hub.label == unit[0].label
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE hub.label = unit_0.label
-- mariadb: hub.until == unit[1].until
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE hub.until_ = unit_1.until_
-- mariadb: hub.seat == slot[1]
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.seat = 1
-- mariadb: hub.peer in {unit[0], unit[2]}
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.peer IN (0, 2)
-- mariadb: hub.tint in hub.tints
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE JSON_CONTAINS(hub.tints, JSON_QUOTE(hub.tint))
-- mariadb: hub.tint not in unit[0].tints
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until WHERE NOT JSON_CONTAINS(unit_0.tints, JSON_QUOTE(hub.tint))
-- mariadb: hub.seats == {slot[0]}
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.seats = '[0]'
-- mariadb: hub.tints <= {red, blue}
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM colour WHERE JSON_CONTAINS(hub.tints, JSON_QUOTE(colour.member)) AND colour.member NOT IN ('red', 'blue') )
-- mariadb: hub.tints == colour
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE hub.tints = '["red","green","blue"]'
-- mariadb: all(c in hub.tints for c in colour if hub.marks[c])
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM colour AS c WHERE CAST(JSON_VALUE(hub.marks, CONCAT('$.', c.member)) AS SIGNED) AND NOT JSON_CONTAINS(hub.tints, JSON_QUOTE(c.member)) )
-- mariadb: (hub.flag if unit[0].flag else unit[1].flag) == hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN unit AS unit_0 ON unit_0.run = cut.run AND unit_0.instance = 0 AND cut.number BETWEEN unit_0.since AND unit_0.until JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until JOIN unit AS unit_1 ON unit_1.run = cut.run AND unit_1.instance = 1 AND cut.number BETWEEN unit_1.since AND unit_1.until WHERE CASE WHEN unit_0.flag THEN hub.flag ELSE unit_1.flag END = hub.flag
-- mariadb: all(a.peer == b or b.peer != a for a in unit for b in unit if a != b)
SELECT STRAIGHT_JOIN 1 FROM cut WHERE NOT EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS a WHERE a.run = cut.run AND cut.number BETWEEN a.since AND a.until AND EXISTS ( SELECT STRAIGHT_JOIN 1 FROM unit AS b WHERE b.run = cut.run AND cut.number BETWEEN b.since AND b.until AND a.instance <> b.instance AND a.peer <> b.instance AND b.peer = a.instance ) )
-- mariadb: limit < 0 and units == 3
SELECT STRAIGHT_JOIN 1 FROM cut WHERE (-2) < 0 AND 3 = 3
-- mariadb: true
SELECT STRAIGHT_JOIN 1 FROM cut WHERE TRUE
-- mariadb: false or hub.flag
SELECT STRAIGHT_JOIN 1 FROM cut JOIN hub ON hub.run = cut.run AND cut.number BETWEEN hub.since AND hub.until WHERE (FALSE OR hub.flag)
