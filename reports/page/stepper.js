// Stepping freely: the steps that are possible, the way so far as a sequence, the state, and how each property stands.
// Where the positions come from is the source's affair: a server, or a graph that stands in the page.

const SIGNS = { violated: "✗ violated here", owed: "… owed", holds: "✓ holds here", shown: "✓ witness", elsewhere: "– not here", unasked: "– not checked", "no case": "no case" };
const PLAY = 350; // ms between two steps that are played

// source: {at(trail, since) -> Promise<position>, system}; options: {onmove(position, trail), global: keys work on the whole page}
// Gives {element, go(trail), step(key), back(), trail, here, entries, reset()}.
function stepper(source, options) {
  let trail = [], entries = [], ahead = [], here = null, shown = 0, playing = null, all = false;
  const choices = h("div", { class: "choices", "aria-label": "Steps that are possible" });
  const panel = h("div", { class: "state-panel", "aria-live": "polite" });
  const drawing = h("div", { class: "sequence-scroll", tabindex: "0", role: "region", "aria-label": "The way so far, as a sequence" });
  const line = h("div", { class: "notices", role: "status" });
  const where = h("span", { class: "where" });
  const tool = (label, title, press) => h("button", { type: "button", title, "aria-label": title, onclick: press }, label);
  const first = tool("Start", "Go to the start (Home)", () => go(trail.slice(0, 1)));
  const previous = tool("← Back", "One step back (←)", () => back());
  const next = tool("Forward →", "One step forward again (→)", () => forward());
  const play = tool("Play", "Take steps without faults, until nothing can happen (p)", () => (playing ? halt() : run()));
  const tools = h("div", { class: "tools" }, first, previous, next, play, where);
  const element = h("div", { class: "stepper" }, tools, line, h("div", { class: "bench" }, choices, drawing, panel));

  // Every move is a request; one that a later one has overtaken is dropped.
  let asked = 0;
  async function go(wanted, quiet = false) {
    const number = ++asked;
    let same = 0;
    while (same < trail.length && same < wanted.length && trail[same] === wanted[same]) same++;
    const position = await source.at(wanted, same);
    if (number !== asked) return here;
    entries = [...entries.slice(0, position.since), ...position.entries].slice(0, position.trail.length);
    // Going back keeps the way that was left, so that forward is the same one.
    const old = [...trail, ...ahead];
    trail = position.trail;
    ahead = trail.every((key, i) => old[i] === key) ? old.slice(trail.length) : [];
    here = position;
    shown = entries.length - 1;
    if (playing && position.choices.every((choice) => choice.fault)) halt();
    draw();
    options.onmove(position, trail, quiet);
    return position;
  }
  const step = (key) => go([...trail, key]);
  const back = () => (trail.length > 1 ? go(trail.slice(0, -1)) : null);
  const forward = () => (ahead.length ? go([...trail, ahead[0]]) : null);

  // A fair way on: a group of steps that has waited longest comes first, time only where nothing else can happen.
  const taken = new Map();
  let turn = 0;
  function run() {
    taken.clear();
    play.textContent = "Pause";
    playing = setInterval(advance, PLAY);
    advance();
  }
  function halt() {
    clearInterval(playing);
    playing = null;
    play.textContent = "Play";
  }
  let busy = false;
  async function advance() {
    if (busy || !here) return;
    const possible = here.choices.filter((choice) => !choice.fault);
    const mine = possible.filter((choice) => choice.machine);
    if (!possible.length) return halt();
    const groups = mine.length ? mine : possible;
    const group = (choice) => `${choice.machine} ${choice.transition || choice.title}`;
    const chosen = groups.reduce((a, b) => ((taken.get(group(b)) ?? -1) < (taken.get(group(a)) ?? -1) ? b : a));
    taken.set(group(chosen), ++turn);
    busy = true;
    try { await step(chosen.key); } finally { busy = false; }
  }

  function draw() {
    first.disabled = previous.disabled = trail.length < 2;
    next.disabled = !ahead.length;
    where.textContent = trail.length < 2 ? "at the start" : `after ${count(trail.length - 1, "step")}`;
    const states = statesOf(entries);
    drawing.replaceChildren(drawSequence(source.system.machines, entries, states, { label: "The way so far", loop: null }, (i) => {
      shown = i;
      drawState(states);
    }));
    drawing.scrollTop = drawing.scrollHeight;
    drawState(states);
    drawChoices();
    drawNotices();
  }

  function drawState(states) {
    const past = shown < entries.length - 1;
    panel.replaceChildren(
      ...(past ? [h("p", null, h("button", { type: "button", onclick: () => go(trail.slice(0, shown + 1)) }, `← Go back to step ${shown}`))] : []),
      stateTable(states[shown], shown, entries[shown], (name) => all || states[shown].data[name] !== states[0].data[name] || states[shown].changed.has(name)),
      h("p", null, h("button", { type: "button", onclick: () => { all = !all; drawState(states); } }, all ? "Only what differs from the start" : "All data")),
      ...(!past && (here.faults.length || Object.keys(here.left).length) ? [h("div", { class: "faults" }, here.faults.map((words) => h("p", null, "⚡ ", words)),
        Object.keys(here.left).length ? h("p", { class: "quiet" }, "faults left: ", Object.entries(here.left).map(([kind, n]) => `${kind} ${n}`).join(", ")) : null)] : []));
  }

  function drawNotices() {
    const broken = here.claims.filter((claim) => claim.status === "violated");
    line.replaceChildren(
      ...broken.map((claim) => h("p", { class: "notice violated-here" }, h("strong", null, "✗ "), whole(claim.name), " is violated here",
        claim.binding ? ` for ${Object.entries(claim.binding).map(([k, v]) => `${k}=${v}`).join(", ")}` : "", claim.reason ? `: ${claim.reason}` : "",
        claim.failed ? h("ul", null, claim.failed.map((part) => h("li", null, h("code", null, part), " is false"))) : null)),
      ...(here.outside ? [h("p", { class: "notice warned" }, "This state is outside the bounds that are explored: a search goes no further here.")] : []),
      ...(here.mistake ? [h("p", { class: "notice" }, here.mistake)] : []));
  }

  // The steps in the order in which they are shown: by machine, those without a fault first.
  function ordered() {
    const by = new Map();
    for (const fault of [false, true]) {
      for (const choice of here.choices.filter((c) => c.fault === fault)) {
        const key = `${fault} ${choice.machine || ""}`;
        by.set(key, [...(by.get(key) || []), choice]);
      }
    }
    return [...by.values()];
  }

  function drawChoices() {
    let drawn = 0;
    const group = (own) => [h("h3", null, own[0].machine || "time and network"), h("ol", null, own.map((choice) => {
      const key = ++drawn < 10 ? String(drawn) : "";
      const words = choice.machine ? choice.title.slice(choice.machine.length + 2) : choice.title;
      const becomes = Object.entries(choice.control).map(([machine, state]) => `${machine} → ${state}`).join(", ");
      return h("li", null, h("button", { type: "button", class: `choice${choice.fault ? " fault" : ""}`, "data-key": choice.key, title: choice.transition || choice.title, onclick: () => step(choice.key) },
        h("kbd", null, key), h("span", { class: "words" }, words), becomes ? h("span", { class: "becomes" }, becomes) : null));
    }))];
    const all = ordered();
    const [normal, faults] = [all.filter((own) => !own[0].fault), all.filter((own) => own[0].fault)];
    const open = choices.querySelector("details")?.open ?? !normal.length;
    const many = here.choices.filter((choice) => choice.fault).length;
    choices.replaceChildren(
      ...(normal.length ? normal.flatMap(group) : [h("p", { class: "quiet" }, many ? "Nothing can happen without a fault." : "Nothing can happen any more.")]),
      ...(many ? [h("details", { open }, h("summary", null, `Inject a fault (${many})`), faults.flatMap(group))] : []));
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || !here) return;
    if (!options.global && !element.contains(event.target)) return;
    const order = ordered().flat();
    if (/^[1-9]$/.test(event.key) && order[event.key - 1]) step(order[event.key - 1].key);
    else if ((event.key === "ArrowLeft" || event.key === "Backspace") && !event.target.closest("svg")) back();
    else if (event.key === "ArrowRight" && !event.target.closest("svg")) forward();
    else if (event.key === "Home") go(trail.slice(0, 1));
    else if (event.key === "p") playing ? halt() : run();
    else return;
    event.preventDefault();
  });

  return { element, go, step, back, get trail() { return trail; }, get here() { return here; }, get entries() { return entries; }, reset: () => { trail = []; entries = []; ahead = []; here = null; } };
}

// How each property stands at a position: what is violated first; what has no case here stands in a list of its own.
// `verdicts` are those of a search, by name, under the faults that `under` names; `visit` goes along a trail.
function standingsTable(system, position, verdicts, under, visit) {
  const order = Object.keys(system.statuses);
  const declared = new Map(system.properties.map((p) => [p.name, p]));
  const standing = new Map(position.claims.map((claim) => [claim.name, claim]));
  const rest = [...new Set([...declared.keys(), ...verdicts.keys()])].filter((name) => !standing.has(name)).map((name) => ({ name, status: "no case" }));
  const first = [...position.claims, ...rest.filter(({ name }) => verdicts.get(name)?.verdict === "violated")];
  const silent = rest.filter((claim) => !first.includes(claim));
  const row = (claim) => {
    const p = declared.get(claim.name), verdict = verdicts.get(claim.name);
    const owed = claim.since === undefined ? "" : ` since ${claim.since ? `step ${claim.since}` : "the start"}${Number.isInteger(p?.within) ? `, ${claim.ticks} of ${count(p.within, "tick")} have passed` : ""}`;
    const says = p ? [p.doc ? prose(p.doc) : null, h("code", { class: "block" }, `${p.when ? `when ${p.when}: ` : ""}${p.claim}`)] : claim.reason ?? verdict?.doc ?? null;
    return h("tr", { "data-property": claim.name },
      h("td", null, h("span", { class: `standing ${claim.status.replace(" ", "-")}`, title: system.statuses[claim.status] }, SIGNS[claim.status]), owed ? h("span", { class: "quiet block small" }, owed) : null),
      h("td", null, whole(claim.name), p ? h("span", { class: "quiet block small" }, p.kind.replaceAll("_", " ")) : null),
      h("td", null, says),
      h("td", null, verdictCell(verdict, visit)));
  };
  const table = (claims, label) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, h("table", { class: "list standings" },
    h("thead", null, h("tr", null, ["here", "property", "what it says", under ? `of all states, faults: ${under}` : "of all states"].map((word) => h("th", { scope: "col" }, word)))),
    h("tbody", null, claims.map(row))));
  return [
    table(first.sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status)), "How properties stand here"),
    silent.length ? h("details", { class: "more", id: "silent" }, h("summary", null, `${count(silent.length, "property", "properties")} more without a case here`), table(silent, "Properties without a case here")) : null];
}

function verdictCell(verdict, visit) {
  if (!verdict) return null;
  const words = verdict.verdict === "violated" ? "counterexample" : verdict.kind === "sometimes" ? "witness" : "path";
  return [badge(shownVerdict(verdict)), verdict.path && visit ? h("button", { type: "button", class: "visit", "data-visit": verdict.name, onclick: () => visit(verdict.path) }, `go to its ${words}`) : null];
}
