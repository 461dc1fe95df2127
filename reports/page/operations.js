// The operations page: running actors, as they are now, and what can be done with them.

const given = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("content");
main.classList.add("operations");
let state = given.state, over = false, range = 0, gone = false;
const SECTIONS = ["actors", "leases", "units", "calendar", "waits", "violations", "metrics"];
const title = (word) => word[0].toUpperCase() + word.slice(1);
const word = () => (state.leased ? "lease" : "run");

// Makes one element like another and keeps it: what has the focus, is selected or was opened stays so.
function renew(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return undefined;
  }
  for (const { name } of [...old.attributes]) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const children = [...fresh.childNodes];
  children.forEach((child, i) => (old.childNodes[i] ? renew(old.childNodes[i], child) : old.append(child)));
  while (old.childNodes.length > children.length) old.lastChild.remove();
  return undefined;
}

function ago(seconds) {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
const when = (time) => new Date(time * 1000).toLocaleTimeString();
const table = (heads, rows, empty) => (rows.length
  ? h("div", { class: "scroll" }, h("table", { class: "list" }, h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", null, rows)))
  : h("p", { class: "quiet" }, empty));
const row = (attributes, ...cells) => h("tr", attributes, cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : h("td", null, cell))));
const buttons = (target, ...actions) => h("td", { class: "act" }, actions.map((action) => h("button", { type: "button", "data-action": action, "data-target": target }, title(action))));

// Sections

function standingOf(actor) {
  if (actor.answers === null) return [h("span", { class: "quiet" }, "asked")];
  if (!actor.answers) return [h("span", { class: "down" }, "not answering"), ` since ${when(actor.silent)}, ${ago(state.time - actor.silent)}`];
  return [h("span", { class: actor.running ? "up" : "down" }, actor.running ? "up" : "takes no steps")];
}

const actorsView = () => [table(["actor", "roles", "state", "incarnation", "clock", "last event", "not heard yet", "followers behind", "trouble"], state.actors.map((a) =>
  row({ "data-actor": a.name }, a.name, (a.roles ?? []).join(", "), h("td", null, standingOf(a)), a.epoch ?? "", a.now ?? "",
    a.last ? [`${number(a.last)}`, a.last_at ? h("span", { class: "quiet" }, `, ${ago(state.time - a.last_at)} ago`) : ""] : "",
    a.waiting === undefined ? "" : count(a.waiting, "message"),
    Object.entries(a.followers ?? {}).map(([name, behind]) => `${name}: ${number(behind)}`).join(", "), a.why ?? "")), "no actors")];

function leasesView() {
  const names = state.actors.map((a) => a.name).filter((name) => state.leases.some((l) => name in l.cells));
  const rows = state.leases.map((lease) => row({ "data-lease": lease.lease, class: lease.over ? "over" : null }, h("td", { class: "tight" }, lease.lease),
    ...names.map((name) => lease.cells[name] ?? ""),
    lease.over ? buttons(lease.lease) : state.leased ? buttons(lease.lease, "recover", "close") : buttons(lease.lease, "recover")));
  return [
    h("p", { class: "small" }, h("label", null, h("input", { type: "checkbox", id: "over", checked: over }), ` those that are over, too (${number(state.over_count)})`),
      state.lease_count > state.leases.length ? ` · the last ${number(state.leases.length)} of ${number(state.lease_count)} are shown` : ""),
    table([word(), ...names, ""], rows, `no ${word()}s that last`)];
}

function unitsView() {
  const having = new Set(state.actors.filter((a) => a.unit_recovery).map((a) => a.name));
  const all = state.actors.reduce((sum, a) => sum + (a.unit_count ?? 0), 0);
  return [all > state.units.length ? h("p", { class: "small" }, `${number(state.units.length)} of ${number(all)} units are shown`) : null,
    table(["unit", "actor", "state", "for", word(), "record", "last", ""], state.units.map((unit) =>
      row({ "data-unit": unit.unit }, h("td", { class: "tight" }, unit.unit), unit.actor, unit.state, h("td", { class: "tight" }, unit.lasted), unit.lease, unit.record, unit.past, having.has(unit.actor) ? buttons(unit.unit, "recover") : "")), "no actor here has units")].filter(Boolean);
}

function calendarView() {
  const drawn = calendar(state.actors, range || calendarRange(state.actors), Math.max(640, main.clientWidth - 64));
  if (!drawn) return [h("p", { class: "quiet" }, "no actor here has units, or knows amounts that are promised")];
  const swatch = (kind, words) => h("li", null, h("span", { class: `swatch ${kind}` }), words);
  return [
    h("p", { class: "small" }, h("label", null, "Shown: ", h("select", { id: "range" }, h("option", { value: 0, selected: range === 0 }, "all that lies ahead"),
      RANGES.map(([words, seconds]) => h("option", { value: seconds, selected: range === seconds }, words))))),
    drawn,
    h("ul", { class: "legend" }, swatch("used", "used"), swatch("working", "a handler, a policy or time leads on"), swatch("ahead", "promised: a term, a reservation"), swatch("held", "held back: somebody has to see to it"))];
}

// A small graph: what waits on the left, for whom on the right.
function waitsGraph(waits) {
  const left = [...new Set(waits.map((w) => w.lease))].slice(0, 24), right = [...new Set(waits.filter((w) => left.includes(w.lease)).flatMap((w) => w.whom))].slice(0, 24);
  const height = Math.max(left.length, right.length) * 24 + 8;
  const y = (list, name) => (list.indexOf(name) + 0.5) * height / list.length;
  const links = [...new Set(waits.filter((w) => left.includes(w.lease)).flatMap((w) => w.whom.map((whom) => JSON.stringify([w.lease, whom]))))].map((link) => JSON.parse(link)).filter(([, whom]) => right.includes(whom));
  return s("svg", { class: "waits", viewBox: `0 0 400 ${height}`, role: "img", "aria-label": "What waits for whom" },
    links.map(([lease, whom]) => s("path", { d: `M132 ${round(y(left, lease))} C200 ${round(y(left, lease))} 200 ${round(y(right, whom))} 268 ${round(y(right, whom))}` })),
    left.map((lease) => s("text", { x: 126, y: round(y(left, lease)) + 4, "text-anchor": "end" }, cut(lease, 18))),
    right.map((whom) => s("text", { x: 274, y: round(y(right, whom)) + 4, class: "quiet" }, cut(whom, 20))));
}

function waitsView() {
  const unexplained = state.actors.filter((a) => a.unexplained).map((a) => h("p", { class: "notice" }, `The specification of ${a.name} is not known here: ${a.unexplained}`));
  if (!state.waits.length) return [...unexplained, h("p", { class: "quiet" }, "nothing waits")];
  return [...unexplained, h("div", { class: "waiting-for" }, waitsGraph(state.waits), table([word(), "at", "state", "waits for", "since, and until when", "what ends it"], state.waits.map((w) =>
    row({ "data-wait": w.lease }, h("td", { class: "tight" }, w.lease), `${w.actor} (${w.machine})`, w.state, w.whom.join(", "), w.when, w.events.map((line) => h("span", { class: "block small" }, line)))), ""))];
}

function violationsView() {
  const v = state.verified;
  const head = v.state === "follows"
    ? `${count(v.events, "event")}, ${count(v.runs, "run")}, ${count(v.cuts, "cut")} judged, ${count(v.asked, "query", "queries")}: ${count(v.violation_count, "violation")}, ${count(v.fault_count, "fault")} of the events; ${count(v.behind, "event")} behind. No signature is checked here.`
    : v.state === "begins" ? "The events are read." : `The actors cannot be followed: ${v.why}`;
  return [h("p", { class: v.state === "cannot follow" ? "notice" : "small" }, head),
    ...Object.entries(v.unreachable).map(([actor, why]) => h("p", { class: "notice warned" }, `The events of ${actor} cannot be read, and what has happened since elsewhere waits for them: ${why}`)),
    ...v.faults.map((fault) => h("p", { class: "notice fault" }, fault)),
    ...v.violations.map((one) => h("div", { class: "violation", "data-property": one.property },
      h("h3", null, h("code", null, one.property), ` is violated in ${one.run}`),
      one.doc ? h("p", { class: "doc" }, one.doc) : null, one.blame ? h("p", { class: "blame" }, one.blame) : null,
      h("p", null, "Step through it: ", h("code", { class: "command" }, one.command)),
      h("details", { class: "more" }, h("summary", null, "What led to it"), h("pre", null, one.text))))];
}

function sparkline(points) {
  if (points.length < 2) return s("svg", { viewBox: "0 0 100 24" });
  const most = Math.max(...points) || 1;
  return s("svg", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("polyline", { points: points.map((value, i) => `${round(i / (points.length - 1) * 100)},${round(22 - value / most * 20)}`).join(" ") }));
}

const metricsView = () => state.actors.filter((a) => a.metrics).flatMap((a) => [h("h3", null, a.name), h("div", { class: "measured" }, a.metrics.map((m) =>
  h("div", { title: m.help, "data-metric": m.name }, h("span", null, m.name.replaceAll("_", " "), m.rate && m.points.length ? h("span", { class: "quiet" }, ` ${m.points.at(-1)}/s`) : null), h("strong", null, number(m.value)), sparkline(m.points))))]);

const VIEWS = { actors: actorsView, leases: leasesView, units: unitsView, calendar: calendarView, waits: waitsView, violations: violationsView, metrics: metricsView };
const outcomes = h("div", { id: "outcomes", role: "status" });
const lost = h("div", { id: "lost" });
const bodies = Object.fromEntries(SECTIONS.map((id) => [id, h("div", null)]));
const heads = Object.fromEntries(SECTIONS.map((id) => [id, h("h2", null, title(id))]));
main.replaceChildren(...SECTIONS.map((id, i) => h("section", { id }, i === 0 ? [lost, outcomes] : null, heads[id], bodies[id])));
const violationsLink = h("a", { href: "#violations" }, "Violations");
const status = h("span", { class: "status" });
document.getElementById("navigation").replaceChildren(h("span", { class: "brand" }, "Operations"),
  h("span", { class: "links" }, SECTIONS.map((id) => (id === "violations" ? violationsLink : h("a", { href: `#${id}` }, title(id))))), status);

function draw() {
  for (const id of SECTIONS) {
    const fresh = h("div", null, VIEWS[id]());
    renew(bodies[id], fresh);
  }
  heads.leases.textContent = state.leased ? "Leases" : "Runs";
  const found = (state.verified.violation_count ?? 0) + (state.verified.fault_count ?? 0);
  violationsLink.className = found ? "down" : "";
  violationsLink.textContent = found ? `Violations (${number(found)})` : "Violations";
  status.textContent = `${state.at.join(", ")} · ${given.user}, session ${given.session} · ${when(state.time)}`;
  lost.replaceChildren(...(gone ? [h("p", { class: "notice" }, "The server does not answer. What is below is what it said last; a server that was started again needs the address that it has printed.")] : []));
}

// What has changed is fetched, once at a time.
let fetching = false, again = false;
async function refresh() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  try {
    do {
      again = false;
      const answer = await fetch(over ? "/state?over=1" : "/state");
      if (!answer.ok) throw new Error(await answer.text());
      state = await answer.json();
      gone = false;
      draw();
    } while (again);
  } catch (error) {
    gone = true;
    draw();
  } finally {
    fetching = false;
  }
}

// Actions: each is confirmed here before it is sent.
const EFFECTS = {
  close: (target) => [`Close ${target}?`, "It ends now, in any state, and its units come free. This cannot be taken back."],
  recover: (target) => [`Recover ${target}?`, "Its machines begin the work of their states anew: calls of handlers and policies, and messages, are begun again."],
};

function confirmed(action, target) {
  const [question, effect] = EFFECTS[action](target);
  return new Promise((done) => {
    const end = (answer) => () => {
      dialog.close();
      dialog.remove();
      done(answer);
    };
    const dialog = h("dialog", { oncancel: end(false) }, h("h3", null, question), h("p", null, effect), h("p", { class: "small quiet" }, `It is written to the audit as done by ${given.user}, session ${given.session}.`),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "keep", onclick: end(false) }, "Cancel"), h("button", { type: "button", class: "sure", onclick: end(true) }, `${title(action)} ${cut(target, 30)}`)));
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector(".keep").focus();
  });
}

async function act(action, target) {
  if (!await confirmed(action, target)) return;
  let outcome = "refused", words;
  try {
    const answer = await fetch("/act", { method: "POST", headers: { "Content-Type": "application/json", "X-Leasehold-Page": given.key }, body: JSON.stringify({ action, target }) });
    if (answer.ok) {
      const told = await answer.json();
      outcome = told.outcome;
      words = [told.words, told.unwritten].filter(Boolean).join("; ");
    } else words = await answer.text();
  } catch (error) {
    outcome = "unknown";
    words = "the server does not answer, and may have done it";
  }
  outcomes.prepend(h("p", { class: `outcome ${outcome}` }, `${action} ${target}: ${outcome}: ${words}`));
  while (outcomes.childElementCount > 5) outcomes.lastChild.remove();
  refresh();
}

main.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button) act(button.dataset.action, button.dataset.target);
});
main.addEventListener("change", (event) => {
  if (event.target.id === "over") over = event.target.checked;
  else if (event.target.id === "range") range = Number(event.target.value);
  refresh();
});

draw();
const changes = new EventSource("/changes");
changes.onmessage = refresh;
changes.onerror = refresh;
