// A path as a sequence diagram: the rows that Python arranged, drawn as lifelines.py draws them, and the whole state after
// any step beside it.

const HEIGHTS = { receive: 34, again: 34, lose: 34, drive: 32, state: 28, clock: 30, partition: 30, heal: 30 };
const ROW = 22;
const MANY = 8; // lifelines that are always shown

// The entries of a path, first to last: a root with the first state, then steps.
function entriesTo(data, end) {
  const entries = [];
  for (let at = end; at !== undefined; at = data.steps[at].p) entries.unshift(data.steps[at]);
  return entries;
}

// The whole state after each entry.
function statesOf(entries) {
  const first = entries[0].initial;
  const states = [{ ...first, changed: new Set() }];
  for (const step of entries.slice(1)) {
    const old = states.at(-1);
    states.push({
      control: { ...old.control, ...step.control },
      data: { ...old.data, ...step.data },
      channels: step.channels ?? old.channels,
      now: step.now ?? null,
      changed: new Set([...Object.keys(step.control ?? {}), ...Object.keys(step.data ?? {})]),
    });
  }
  return states;
}

// options: {loop, label}; gives an element with the diagram and the state after the chosen step.
function sequenceView(data, end, options) {
  const entries = entriesTo(data, end);
  const states = statesOf(entries);
  const panel = h("div", { class: "state-panel", "aria-live": "polite" });
  const drawing = drawSequence(data.machines, entries, states, options, (i) => {
    panel.replaceChildren(stateTable(states[i], i, entries[i]));
  });
  panel.replaceChildren(stateTable(states.at(-1), entries.length - 1, entries.at(-1)));
  return h("div", { class: "sequence" }, h("div", { class: "sequence-scroll", tabindex: "0", role: "region", "aria-label": options.label }, drawing), panel);
}

// `says` picks the data that are shown, by name.
function stateTable(state, i, entry, says = () => true) {
  const machines = Object.entries(state.control);
  const rows = machines.flatMap(([machine, where]) => [
    h("tr", { class: `machine${state.changed.has(machine) ? " changed" : ""}` }, h("th", { scope: "row" }, machine), h("td", null, where)),
    ...Object.entries(state.data).filter(([name]) => name.startsWith(machine + ".") && says(name))
      .map(([name, value]) => h("tr", { class: state.changed.has(name) ? "changed" : null },
        h("th", { scope: "row" }, name.slice(machine.length + 1)), h("td", null, value))),
  ]);
  const waiting = Object.entries(state.channels).flatMap(([channel, messages]) =>
    messages.map((message) => h("tr", null, h("td", { colspan: 2 }, message, h("span", { class: "quiet block" }, channel)))));
  return [h("table", { class: "facts" },
    h("caption", null, i === 0 ? "At the start" : `After step ${i}`, entry.transition ? h("span", { class: "quiet" }, entry.transition) : null),
    h("tbody", null, rows),
    waiting.length ? h("tbody", null, h("tr", { class: "machine" }, h("th", { colspan: 2, scope: "rowgroup" }, "on their way")), waiting) : null,
    state.now === null || state.now === undefined ? null : h("tbody", null, h("tr", { class: "machine" }, h("th", { scope: "row" }, "now"), h("td", null, state.now))))][0];
}

// Where the lifelines stand: as far apart as their heads and the labels between them need, within reason.
function columns(heads, rows, gutter) {
  const gaps = heads.slice(1).map((w, i) => Math.max(110, (heads[i] + w) / 2 + 24));
  const arrows = rows.filter((r) => r.kind !== "send" && Number.isInteger(r.peer) && r.peer !== r.at)
    .map((r) => [Math.min(r.at, r.peer), Math.max(r.at, r.peer), measure(r.text, 11.5) + 32])
    .sort((a, b) => a[1] - a[0] - (b[1] - b[0]));
  for (const [low, high, need] of arrows) {
    const have = gaps.slice(low, high).reduce((sum, gap) => sum + gap, 0);
    for (let i = low; i < high && have < need; i++) gaps[i] = Math.min(340, gaps[i] + (need - have) / (high - low));
  }
  const x = [gutter + Math.max(heads[0] / 2, 50)];
  for (const gap of gaps) x.push(x.at(-1) + gap);
  return x;
}

function drawSequence(everyone, entries, states, options, choose) {
  // Every machine has its lifeline; where there are many, only those that do something have.
  const acting = new Set(entries.flatMap((entry) => (entry.rows || []).flatMap(([, , at, peer]) => [at, peer])));
  const shown = [...everyone.keys()].filter((i) => everyone.length <= MANY || acting.has(i));
  const machines = shown.map((i) => everyone[i]);
  const lane = (i) => (Number.isInteger(i) ? shown.indexOf(i) : null);
  const rowsOf = (entry) => (entry.rows || []).map(([kind, text, at, peer]) => ({ kind, text, at: lane(at), peer: lane(peer) }));
  const all = entries.flatMap(rowsOf);
  const gutter = 40;
  const heads = machines.map((machine) => measure(machine, 12, 600) + 24);
  const x = columns(heads, all, gutter);
  const width = Math.ceil(Math.max(x.at(-1) + heads.at(-1) / 2, ...all.filter((r) => Number.isInteger(r.at) && !(Number.isInteger(r.peer) && r.peer < r.at))
    .filter((r) => !Number.isInteger(r.peer) || r.kind === "send").map((r) => x[r.at] + measure(r.text, 11.5) + 28)) + 8);

  let y = 40;
  const text = (kind, px, py, words, anchor = "start", room = Infinity) => {
    const limit = Math.max(4, Math.floor((words.length * room) / measure(words, 11.5)));
    const shown = measure(words, 11.5) > room ? cut(words, limit) : words;
    return s("text", { class: kind, x: round(px), y: py, "text-anchor": anchor }, shown, shown === words ? null : s("title", null, words));
  };
  const pill = (px, name) => {
    const w = measure(name, 11.5) + 20;
    return s("g", { class: "state" }, s("rect", { x: round(px - w / 2), y: y + 3, width: round(w), height: 20, rx: 10 }), text("", px, y + 17, name, "middle"));
  };
  const note = (row, px) => [
    s("circle", { class: "dot", cx: round(px), cy: y + 11, r: 3 }),
    text(row.kind === "ignore" ? "quiet" : "", px + 9, y + 15, row.text)];
  const draw = {
    arrow(row, px, peer) {
      if (peer === null || peer === px) return note(row, px);
      const way = px > peer ? 1 : -1;
      const lost = row.kind === "lose";
      const end = lost ? (px + peer) / 2 : px - 7 * way;
      return [
        s("line", { class: `arrow ${row.kind}`, x1: round(peer), x2: round(end), y1: y + 26, y2: y + 26 }),
        lost ? s("path", { class: "arrow lose", d: `M${round(end - 5)} ${y + 21}l10 10m0 -10l-10 10` })
          : s("path", { class: "dot", d: `M${round(px)} ${y + 26}l${-8 * way} -4v8z` }),
        text(row.kind, (px + peer) / 2, y + 20, row.text, "middle", Math.abs(px - peer) - 20)];
    },
    send(row, px, peer) {
      const way = peer !== null && peer < px ? -1 : 1;
      return [
        s("path", { class: "stub", d: `M${round(px)} ${y + 11}h${14 * way}` }),
        s("circle", { class: "stub", cx: round(px + 17 * way), cy: y + 11, r: 3 }),
        text("quiet", px + 25 * way, y + 15, row.text, way < 0 ? "end" : "start", way < 0 ? px - gutter - 24 : Infinity)];
    },
    clock: (row) => [
      s("line", { class: "clock", x1: gutter, x2: width, y1: y + 15, y2: y + 15 }),
      text("quiet", gutter + 4, y + 19, row.text)],
    rule: (row) => [
      s("line", { class: `arrow again ${row.kind}`, x1: gutter, x2: width, y1: y + 15, y2: y + 15 }),
      text(row.kind, gutter + 4, y + 19, row.text)],
    stop: (row, px) => [
      s("path", { class: "arrow lose", d: `M${round(px - 5)} ${y + 6}l10 10m0 -10l-10 10` }),
      row.kind === "halt" ? s("path", { class: "arrow lose", d: `M${round(px - 9)} ${y + 20}h18` }) : null,
      text(row.kind, px + 13, y + 15, row.text)],
    recover: (row, px) => [
      s("circle", { class: "stub", cx: round(px), cy: y + 11, r: 6 }),
      s("path", { class: "arrow", d: `M${round(px + 5)} ${y + 8}a6 6 0 1 0 1 3` }),
      s("path", { class: "dot", d: `M${round(px + 6)} ${y + 4}l1 6l-6 -1z` }),
      text("recover", px + 13, y + 15, row.text)],
  };
  draw.crash = draw.halt = draw.stop;
  draw.partition = draw.heal = draw.rule;
  draw.receive = draw.again = draw.lose = draw.drive = draw.arrow;

  const states0 = machines.map((m, i) => pill(x[i], entries[0].initial.control[m] ?? ""));
  y += 34;
  const body = [];
  const steps = [];
  const pick = (i) => {
    steps.forEach((group, k) => group.classList.toggle("picked", k + 1 === i));
    choose(i);
  };
  let loopFrom = null;
  entries.slice(1).forEach((entry, k) => {
    if (options.loop === k) {
      y += 6;
      loopFrom = y;
    }
    const top = y;
    const parts = rowsOf(entry).map((row) => {
      const px = Number.isInteger(row.at) ? x[row.at] : null;
      const peer = Number.isInteger(row.peer) ? x[row.peer] : null;
      const made = px === null && !["clock", "partition", "heal"].includes(row.kind) ? text("quiet", gutter, y + 15, row.text)
        : row.kind === "state" ? pill(px, row.text) : (draw[row.kind] || note)(row, px, peer);
      y += HEIGHTS[row.kind] || ROW;
      return made;
    });
    y += 6;
    const group = s("g", { class: "step" },
      s("rect", { class: "band", x: 0, y: top, width, height: y - top - 2, rx: 4 }),
      text("number", gutter - 14, top + 18, String(k + 1), "end"), parts);
    steps.push(pressable(group, `Step ${k + 1}: ${entry.title}`, () => pick(k + 1)));
    body.push(group);
  });
  if (Number.isInteger(options.loop)) {
    y += 4;
    if (loopFrom !== null) body.push(s("path", { class: "loop", d: `M4 ${loopFrom}H${width - 2}V${y}H4Z` }));
    body.push(text("loop-text", width - 6, y + 14, loopFrom === null ? "nothing more happens" : "repeats for ever", "end"));
    y += 16;
  }
  y += 8;
  const lives = machines.map((_, i) => s("line", { class: "life", x1: round(x[i]), x2: round(x[i]), y1: 34, y2: y }));
  const tops = machines.map((machine, i) => s("g", { class: "head" },
    s("rect", { x: round(x[i] - heads[i] / 2), y: 8, width: round(heads[i]), height: 26, rx: 4 }), text("", x[i], 25, machine, "middle")));
  steps.at(-1)?.classList.add("picked");
  return s("svg", { class: "lifelines", width, height: y + 6, viewBox: `0 0 ${width} ${y + 6}`, role: "group", "aria-label": options.label },
    lives, tops, states0, body);
}
