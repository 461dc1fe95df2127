// The calendar of an inventory: a row for each unit; where only amounts are known, a band of what is promised.

const ROW = 22, LABELS = 210, PAST_SHARE = 0.3;
const RANGES = [["10 minutes", 600], ["1 hour", 3600], ["6 hours", 21600], ["1 day", 86400], ["1 week", 604800]];

const untilNow = (actor, tick) => (tick - actor.now) * actor.tick_seconds; // in seconds; below 0 it is past
const clock = (seconds, range) => new Date(Date.now() + seconds * 1000).toLocaleString([], range > 86400
  ? { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" } : { hour: "2-digit", minute: "2-digit" });

function calendarRange(actors) {
  const ends = actors.flatMap((a) => [...(a.calendar ?? []).map((u) => u.until), ...(a.periods ?? []).map((p) => p.end)]
    .filter(Boolean).map((end) => untilNow(a, end)));
  const last = Math.max(0, ...ends);
  return (RANGES.find(([, seconds]) => seconds * (1 - PAST_SHARE) >= last) ?? RANGES.at(-1))[1];
}

// Where each period lies in a band: as low as it fits beside those that begin before.
function stacked(periods) {
  const placed = [];
  for (const period of [...periods].sort((a, b) => a.start - b.start || a.end - b.end)) {
    const beside = placed.filter((p) => p.start < period.end && period.start < p.end);
    let low = 0;
    while (beside.some((p) => low < p.low + p.units && p.low < low + period.units))
      low = Math.min(...beside.filter((p) => low < p.low + p.units && p.low < low + period.units).map((p) => p.low + p.units));
    placed.push({ ...period, low });
  }
  return placed;
}

function calendar(actors, range, width) {
  const first = -range * PAST_SHARE, plot = width - LABELS - 10;
  const at = (seconds) => LABELS + (Math.min(Math.max(seconds, first), first + range) - first) / range * plot;
  const parts = [];
  let y = 24;
  const block = (from, to, top, height, kind, title, label) => {
    if (at(to) - at(from) < 0.5) return;
    const wide = at(to) - at(from);
    parts.push(s("rect", { x: round(at(from)), y: top, width: round(wide), height, rx: 3, class: `block ${kind}` }, s("title", null, title)));
    if (label && measure(label, 11) < wide - 8) parts.push(s("text", { x: round(at(from)) + 5, y: top + height / 2 + 4, class: "inside" }, label));
  };
  for (const actor of actors) {
    const units = actor.calendar ?? [], periods = actor.periods ?? [];
    if (!units.length && !periods.length) continue;
    parts.push(s("text", { x: 0, y: y + 13, class: "quiet" }, units.length ? `units of ${cut(actor.name, 24)}` : `amounts at ${cut(actor.name, 24)}`));
    y += ROW;
    for (const unit of units) {
      const flags = unit.flags.length ? `, ${unit.flags.join(", ")}` : "";
      parts.push(s("text", { x: 0, y: y + 14, class: "unit" }, cut(`${unit.unit}: ${unit.state}${flags}`, 32), s("title", null, `${unit.unit}: ${unit.state}${flags}`)));
      for (const was of unit.past)
        block(untilNow(actor, was.from), untilNow(actor, was.to), y + 2, ROW - 5, was.use, `${unit.unit} was ${was.state}`, "");
      if (unit.use !== "free") {
        const since = unit.since === null ? first : untilNow(actor, unit.since);
        const open = unit.use === "held" ? first + range : 0; // until somebody sees to it
        block(since, open, y + 2, ROW - 5, unit.use, `${unit.unit} is ${unit.state}${flags}${unit.lease ? `, ${unit.lease}` : ""}`, unit.use === "held" ? "" : unit.lease);
        if (unit.until > actor.now) block(0, untilNow(actor, unit.until), y + 2, ROW - 5, "ahead", `${unit.lease} has ${unit.unit} until then`, unit.lease);
      }
      y += ROW;
    }
    const placed = stacked(periods), most = Math.max(0, ...placed.map((p) => p.low + p.units));
    const unit = Math.min(ROW - 4, 160 / Math.max(1, most));
    for (const p of placed)
      block(untilNow(actor, p.start), untilNow(actor, p.end), round(y + (most - p.low - p.units) * unit) + 1, Math.max(2, round(p.units * unit) - 2),
        p.start > actor.now ? "ahead" : "used", `${p.lease}: ${count(p.units, "unit")}, ${p.state}`, `${p.lease}: ${p.units}`);
    y += most * unit + 10;
  }
  if (y === 24) return null;
  const lines = [];
  for (let n = 0; n <= 6; n += 1) {
    const seconds = first + range * n / 6;
    lines.push(s("line", { x1: round(at(seconds)), x2: round(at(seconds)), y1: 20, y2: y, class: "grid" }),
      s("text", { x: round(at(seconds)), y: 13, class: "quiet", "text-anchor": n === 0 ? "start" : n === 6 ? "end" : "middle" }, clock(seconds, range)));
  }
  return s("svg", { class: "calendar", viewBox: `0 0 ${width} ${Math.ceil(y)}`, role: "img", "aria-label": "Calendar of the inventory" },
    s("defs", null, s("pattern", { id: "held", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { x1: 1, x2: 1, y1: 0, y2: 6, class: "stripe" }))),
    lines, parts, s("line", { x1: round(at(0)), x2: round(at(0)), y1: 16, y2: y, class: "now" }, s("title", null, "now")));
}
