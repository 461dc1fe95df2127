-- A unit that the site has assigned to a lease is assigned to no other one. It is asked across runs, whose cuts have
-- one order by their entries; the language speaks of one run at a time.
SELECT DISTINCT cut.run, cut.number AS cut
FROM cut
JOIN authority AS mine ON mine.run = cut.run AND cut.number BETWEEN mine.since AND mine.until
JOIN run AS another ON another.run <> cut.run
JOIN cut AS then_ ON then_.run = another.run AND then_.entry = (
  SELECT MAX(before.entry) FROM cut AS before WHERE before.run = another.run AND before.entry <= cut.entry
)
JOIN authority AS theirs ON theirs.run = another.run AND then_.number BETWEEN theirs.since AND theirs.until
WHERE cut.entry > :checked
  AND EXISTS (
    SELECT 1 FROM json_each(mine.assigned) AS a JOIN json_each(theirs.assigned) AS b ON a.value = b.value
  )
