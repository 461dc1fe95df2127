// The section of a role: its state diagram, and what a state does with every event.

// `drawn` is given the graph, once it is.
function roleSection(role, drawn = () => {}) {
  const index = new Map(role.states.map((state, i) => [state.name, i]));
  const stays = (name) => [...new Set(role.transitions.filter((t) => t.source === name && t.target === name).map((t) => t.event))];
  const arcs = new Map();
  for (const t of role.transitions) {
    if (t.source === t.target) continue;
    const key = `${index.get(t.source)} ${index.get(t.target)}`;
    if (!arcs.has(key)) arcs.set(key, []);
    arcs.get(key).push(t);
  }
  const nodes = role.states.map((state) => ({
    lines: [
      { text: state.title ?? state.name, strong: true },
      ...state.tasks.map((task) => ({ text: task, quiet: true })),
      ...(stays(state.name).length ? [{ text: `↻ ${cut(stays(state.name).join(", "), 34)}`, quiet: true }] : []),
    ],
    initial: state.initial,
    terminal: state.terminal,
    label: `${state.title ?? state.name}${state.initial ? ", initial" : ""}${state.terminal ? ", terminal" : ""}`,
  }));
  const edges = (guards) => [...arcs].map(([key, transitions]) => {
    const [from, to] = key.split(" ").map(Number);
    const label = (t) => (!t.guard ? t.event : `${t.event} [${guards ? cut(t.guard, 22) : "…"}]`);
    return {
      s: from, t: to,
      lines: [...new Set(transitions.map(label))],
      label: transitions.map((t) => `${t.event}${t.guard ? ` [${t.guard}]` : ""}`).join("\n"),
    };
  });

  const panel = h("aside", { class: "panel", "aria-live": "polite", "aria-label": `Details of ${role.name}` }, aboutRole(role));
  const draw = (guards) => graphView(nodes, edges(guards), {
    label: `State diagram of ${role.name}`,
    roots: role.states.flatMap((state, i) => (state.initial ? [i] : [])),
    onpick: (i) => panel.replaceChildren(...aboutState(role, role.states[i])),
  });
  // Guards stand on the arrows while there is room for them; they always stand in the details.
  let graph = draw(true);
  if (graph.width > 900) graph = draw(false);
  drawn(graph);
  return h("section", { class: "role", id: `role-${role.name}`, "data-group": "" },
    h("h3", null, whole(role.name), role.count > 1 ? h("span", { class: "quiet" }, ` × ${role.count}`) : null,
      role.parent ? h("span", { class: "quiet" }, ` subsidiary to ${role.parent}`) : null),
    role.doc ? h("p", { class: "doc" }, prose(role.doc)) : null,
    h("div", { class: graph.width > 900 ? "below" : "beside" }, graph.element, panel),
    h("details", { class: "more", "data-opens": "" }, h("summary", null, `All ${role.transitions.length} transitions as a table`), transitionTable(role)));
}

function dataTable(caption, data) {
  return h("table", { class: "facts" }, h("caption", null, caption),
    h("tbody", null, data.map((d) => h("tr", null, h("th", { scope: "row" }, d.name),
      h("td", null, h("code", null, d.type), d.doc ? h("span", { class: "quiet block" }, prose(d.doc)) : null)))));
}

function aboutRole(role) {
  return [
    h("p", { class: "quiet hint" }, "Point at a state to follow its transitions; press it for its tasks and what it ignores."),
    role.data.length ? dataTable("Data of the record", role.data) : null,
  ].filter(Boolean);
}

function aboutState(role, state) {
  const parts = [h("h4", null, h("code", null, state.name), state.initial ? h("span", { class: "quiet" }, " initial") : null,
    state.terminal ? h("span", { class: "quiet" }, " terminal") : null)];
  if (state.doc) parts.push(h("p", null, prose(state.doc)));
  const list = (title, items) => items.length && parts.push(h("div", null, h("h5", null, title), h("dl", null, items)));
  list("Tasks on entry", state.tasks.map((name) => [
    h("dt", null, name), h("dd", null, role.tasks[name]?.does ?? "", role.tasks[name]?.doc ? h("span", { class: "quiet block" }, prose(role.tasks[name].doc)) : null)]));
  list("Transitions", role.transitions.filter((t) => t.source === state.name).map((t) => [
    h("dt", null, t.event, " → ", t.target), h("dd", null, transitionWords(t))]));
  list("Ignored", Object.entries(state.ignore).map(([event, why]) => [h("dt", null, event), h("dd", null, prose(why))]));
  list("Refused", Object.entries(state.refuse).map(([event, why]) => [h("dt", null, event), h("dd", null, prose(why))]));
  return parts;
}

function transitionWords(t) {
  const lines = [];
  if (t.guard) lines.push(h("code", { class: "block" }, `when ${t.guard}`));
  for (const update of t.updates) lines.push(h("code", { class: "block" }, `set ${update}`));
  for (const task of t.also) lines.push(h("code", { class: "block" }, `also ${task}`));
  if (t.internal) lines.push(h("span", { class: "quiet block" }, "internal: starts no task of the state"));
  if (t.doc) lines.push(h("span", { class: "block" }, prose(t.doc)));
  if (t.taken !== null) lines.push(h("span", { class: `block ${t.taken ? "quiet" : "warn"}` }, t.taken ? `taken ${count(t.taken, "time")}` : "never taken"));
  return lines;
}

function transitionTable(role) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Transitions of ${role.name}` }, h("table", { class: "list" },
    h("thead", null, h("tr", null, ["from", "on", "when", "to", "sets", "taken"].map((word) => h("th", { scope: "col" }, word)))),
    h("tbody", null, role.transitions.map((t) => searchable(h("tr", null,
      h("td", null, h("code", null, t.source)), h("td", null, h("code", null, t.event)), h("td", { class: t.guard ? "guard" : null }, t.guard ? h("code", null, t.guard) : null),
      h("td", null, h("code", null, t.target)), h("td", null, t.updates.map((u) => h("code", { class: "block" }, u))),
      h("td", { class: "amount" }, t.taken === null ? null : t.taken ? number(t.taken) : h("span", { class: "warn" }, "never"))),
    "transition", [role.name, t.name, t.event, t.guard, t.target, t.updates, t.also, role.states.find((state) => state.name === t.target)?.tasks, t.doc])))));
}
