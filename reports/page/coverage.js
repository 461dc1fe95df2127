// The coverage of a specification by logs: how much, the product, the roles, and what was not exercised.

const data = JSON.parse(document.getElementById("data").textContent);
const percent = (part) => (part.of ? (100 * part.covered) / part.of : 100);
const weight = (times, most) => `--weight: ${(0.3 + (0.7 * Math.log(1 + times)) / Math.log(1 + most)).toFixed(2)}`;
const short = (times) => (times < 1000 ? String(times) : times < 1e6 ? `${Math.round(times / 100) / 10}k` : `${Math.round(times / 1e5) / 10}M`);

function amount(part) {
  return h("div", { class: "part" },
    h("div", { class: "amount" }, `${percent(part).toFixed(percent(part) % 1 ? 1 : 0)}`, h("small", null, " %")),
    h("div", { class: "bar", role: "img", "aria-label": `${part.covered} of ${part.of}` }, h("span", { style: `width: ${percent(part)}%` })),
    h("div", { class: "words" }, `${number(part.covered)} of ${number(part.of)} ${part.words}`));
}

function summary() {
  const sum = (name) => data.logs.reduce((all, log) => all + log[name], 0);
  const product = { covered: data.product.covered, of: data.product.reachable, words: "explored control states of the product" };
  const rows = data.logs.map((log) => h("tr", null, h("td", null, h("code", null, log.actor)), h("td", { class: "amount" }, `${number(log.first)} to ${number(log.last)}`),
    [log.steps - log.not_judged, log.messages, log.refusals, log.incarnations].map((value) => h("td", { class: "amount" }, number(value))),
    h("td", null, log.pruned ? `events up to ${number(log.pruned)} were dropped; ${count(log.not_judged, "step")} not judged` : "whole",
      log.sealed === null ? ", signatures not checked" : "")));
  return h("section", { id: "summary", "aria-labelledby": "name" },
    h("p", { class: "eyebrow" }, "Coverage by logs"),
    h("h1", { id: "name" }, data.system.name),
    data.system.doc ? h("p", { class: "lead" }, prose(data.system.doc)) : null,
    h("p", { class: "headline" }, h("span", { class: data.conforms ? "good" : "bad" }, data.conforms ? "✓ conforms" : "✗ does not conform"),
      data.logs.length ? `${count(sum("steps") - sum("not_judged"), "step")} of ${count(data.runs, "run")} in ${count(data.logs.length, "log")} judged` : "no log could be judged"),
    data.findings.length ? h("ul", { class: "findings" }, data.findings.map((words) => h("li", null, words)),
      data.found > data.findings.length ? h("li", null, `and ${data.found - data.findings.length} more`) : null) : null,
    h("div", { class: "parts" }, data.parts.slice(0, 2).map(amount), amount(product), data.parts.slice(2).map(amount)),
    data.partial ? h("p", { class: "notice" }, `Of ${count(data.partial, "group")} of logs those of some actors are missing, so the control states of the product are not known there.`) : null,
    h("details", { class: "more" }, h("summary", null, `What was judged of ${count(data.logs.length, "log")}`), h("div", { class: "scroll" }, h("table", { class: "list" },
      h("thead", null, h("tr", null, ["actor", "events", "steps", "messages", "refusals", "incarnations", ""].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", null, rows)), h("p", { class: "quiet" }, `Digest of the specification: ${data.system.digest}`))));
}

// The product

function productSection() {
  const { product } = data;
  const legend = h("ul", { class: "legend" }, [["seen", "a run was there"], ["unseen", "explored, and no run was there"],
    product.beyond.length ? ["beyond", "a run was there, and the exploration was not"] : null, product.table ? ["apart", "nobody was there"] : null]
    .filter(Boolean).map(([mark, words]) => h("li", null, h("span", { class: `swatch ${mark}` }), words)));
  const place = h("div");
  const chooser = h("select", { id: "projection", onchange: () => draw(Number(chooser.value)) }, product.graphs.map((graph, i) =>
    h("option", { value: i }, `${graph.roles.length === product.roles.length ? "all roles" : graph.roles.join(" × ")} (${graph.nodes.length})`)));
  const draw = (i) => place.replaceChildren(productGraph(product.graphs[i]));
  if (product.graphs.length) {
    chooser.value = Math.max(0, product.graphs.findIndex((graph) => graph.roles.join() === product.first_graph.join()));
    draw(Number(chooser.value));
  }
  return [
    h("p", { class: "doc" }, `${product.roles.join(" × ")} has ${count(product.size, "control state")}, of which the exploration without crashes ${product.complete ? "reaches" : "has reached"} ${number(product.reachable)} (machines of one role are interchangeable). `
      + `Runs were in ${number(product.covered)} of these${product.beyond.length ? `, and in ${number(product.beyond.length)} others: a crash, or other constants, may lead there` : ""}.`),
    legend,
    product.table ? productTable(product.table) : null,
    product.graphs.length ? [h("h3", null, "As a graph"),
      h("p", { class: "doc" }, "Steps that runs have taken stand out; the others are faint. Point at a control state to see its steps, and how often each was taken."),
      h("p", { class: "control" }, h("label", { for: "projection" }, "Show "), chooser), place] : null,
  ];
}

function productTable(table) {
  const at = new Map(table.places.map(([row, column, seen, explored]) => [`${row}/${column}`, { seen, explored }]));
  const most = Math.max(1, ...table.places.map((place) => place[2]));
  const narrow = table.columns.length > 8;
  const edge = (i) => (table.column_roles.length > 1 && (i === 0 || table.columns[i][0] !== table.columns[i - 1][0]) ? " first" : "");
  const head = table.column_roles.map((role, level) => {
    const spans = [];
    table.columns.forEach((column, i) => {
      const key = column.slice(0, level + 1).join("/");
      if (spans.length && spans.at(-1).key === key) spans.at(-1).span++;
      else spans.push({ key, span: 1, name: column[level], first: i });
    });
    const last = level === table.column_roles.length - 1;
    return h("tr", null, h("th", { class: "corner", scope: "row" }, role, last ? h("span", { class: "quiet block" }, table.row_role, " ↓") : null),
      spans.map((span) => h("th", { scope: span.span > 1 ? "colgroup" : "col", colspan: span.span, class: `${last ? "column" : "group"}${last && narrow ? " turned" : ""}${edge(span.first)}` }, h("span", null, span.name))));
  });
  const body = table.rows.map((name, row) => h("tr", null, h("th", { scope: "row" }, name), table.columns.map((column, i) => {
    const place = at.get(`${row}/${i}`);
    if (!place) return h("td", { class: `empty${edge(i)}` });
    const mark = place.seen ? (place.explored ? "seen" : "beyond") : "unseen";
    const words = `${[name, ...column].join(", ")}: ${place.seen ? `${count(place.seen, "step")} led there` : "no run was there"}`;
    return h("td", { class: edge(i).trim() || null }, h("span", { class: `hit ${mark}`, title: words, "aria-label": words, style: weight(place.seen, most) }, place.seen ? short(place.seen) : "·"));
  })));
  return h("figure", { class: "heat" },
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of control states" },
      h("table", { class: `product${narrow ? " narrow" : ""}` }, h("thead", null, head), h("tbody", null, body))),
    h("figcaption", null, "The number says how many steps led there."));
}

function productGraph(graph) {
  const depths = [...new Set(graph.nodes.map((n) => n.depth))].sort((a, b) => a - b);
  const several = graph.nodes.some((node) => node.control.some((where) => where.includes(", ")));
  const nodes = graph.nodes.map((node) => ({
    lines: [...node.control.flatMap((where, role) => where.split(", ").map((words, k) => ({ text: words, rule: several && role > 0 && k === 0 }))),
      ...(node.seen ? [{ text: `× ${number(node.seen)}`, quiet: true }] : [])],
    label: `${node.control.join(", ")}: ${node.seen ? `${count(node.seen, "step")} led there` : "no run was there"}`,
    mark: node.beyond ? "beyond" : node.seen ? "seen" : "unseen",
    initial: node.initial,
    layer: depths.indexOf(node.depth),
  }));
  const edges = graph.links.map(([a, b, labels]) => ({
    s: a, t: b, quiet: !labels.some(([, times]) => times), lines: labels.slice(0, 2).map(([label, times]) => (times ? `${label} × ${number(times)}` : label)).concat(labels.length > 2 ? [`and ${labels.length - 2} more`] : []),
    label: labels.map(([label, times]) => `${label}: ${times ? count(times, "time") : "never"}`).join("\n"),
  }));
  return graphView(nodes, edges, { label: `Graph of ${graph.nodes.length} control states of ${graph.roles.join(", ")}`,
    roots: graph.nodes.flatMap((n, i) => (n.initial ? [i] : [])), quietEdges: graph.links.length > 24, gap: 18, height: 1600 }).element;
}

// Roles

function roleSection(role) {
  const index = new Map(role.states.map((state, i) => [state.name, i]));
  const entered = (name) => role.transitions.filter((t) => t.target === name).reduce((all, t) => all + t.taken, 0);
  const left = (name) => role.transitions.filter((t) => t.source === name).reduce((all, t) => all + t.taken, 0);
  const nodes = role.states.map((state) => ({
    lines: [{ text: state.title, strong: true }, ...(state.crashed ? [{ text: `ended here × ${number(state.crashed)}`, quiet: true }] : [])],
    label: `${state.title}: entered ${count(entered(state.name), "time")}`,
    mark: entered(state.name) || left(state.name) ? "seen" : "unseen", initial: state.initial, terminal: state.terminal,
  }));
  const arcs = new Map();
  for (const t of role.transitions) {
    if (t.source === t.target) continue;
    const key = `${index.get(t.source)} ${index.get(t.target)}`;
    if (!arcs.has(key)) arcs.set(key, []);
    arcs.get(key).push(t);
  }
  const edges = [...arcs].map(([key, transitions]) => {
    const [from, to] = key.split(" ").map(Number);
    const times = new Map();
    for (const t of transitions) times.set(t.event, (times.get(t.event) || 0) + t.taken);
    return { s: from, t: to, quiet: !transitions.some((t) => t.taken), lines: [...times].map(([event, n]) => (n ? `${event} × ${number(n)}` : event)),
      label: transitions.map((t) => `${t.name}: ${t.taken ? `taken ${count(t.taken, "time")}` : "never taken"}`).join("\n") };
  });
  const graph = graphView(nodes, edges, { label: `State diagram of ${role.name}`, roots: role.states.flatMap((state, i) => (state.initial ? [i] : [])) });
  return h("section", { class: "role", id: `role-${role.name}` },
    h("h3", null, role.name, role.count > 1 ? h("span", { class: "quiet" }, ` × ${role.count}`) : null, role.parent ? h("span", { class: "quiet" }, ` subsidiary to ${role.parent}`) : null),
    h("p", { class: "doc" }, `${number(role.transitions.filter((t) => t.taken).length)} of ${count(role.transitions.length, "transition")} taken, ${number(role.states.filter((state) => state.crashed).length)} of ${number(role.states.filter((state) => state.crashed !== null).length)} states in which its actor ended.`),
    graph.element,
    h("h4", null, "States and events"), matrix(role));
}

function matrix(role) {
  const most = Math.max(1, ...role.cells.flat().filter((cell) => cell && cell[1]).map((cell) => cell[1]));
  const crashes = Math.max(1, ...role.states.map((state) => state.crashed || 0));
  const hit = (times, words, top) => h("span", { class: `hit ${times ? "seen" : "unseen"}`, title: words, "aria-label": words, style: weight(times, top) }, times ? short(times) : "·");
  const kinds = { on: "a transition", ignore: "ignored", refuse: "refused" };
  return h("figure", { class: "heat" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `States and events of ${role.name}` },
    h("table", { class: "matrix" }, h("thead", null, h("tr", null, h("th", null), role.events.map((event) => h("th", { scope: "col" }, h("span", null, event))), h("th", { class: "crash", scope: "col" }, h("span", null, "actor ended")))),
      h("tbody", null, role.states.map((state, row) => h("tr", null, h("th", { scope: "row" }, state.name),
        role.cells[row].map((cell, i) => {
          if (!cell) return h("td", { class: "none" });
          const [kind, times] = cell;
          const words = `${role.events[i]} in ${state.name} (${kinds[kind]}): ${times === null ? "no event tells of it" : times ? count(times, "time") : "never"}`;
          return times === null ? h("td", { class: "apart", title: words, "aria-label": words }, "–") : h("td", null, hit(times, words, most));
        }),
        h("td", { class: `crash${state.crashed === null ? " none" : ""}` }, state.crashed === null ? null : hit(state.crashed, `its actor ended in ${state.name}: ${state.crashed ? count(state.crashed, "time") : "never"}`, crashes))))))),
    h("figcaption", null, "How often each event was met in each state; · never, – leaves no event."));
}

function gaps() {
  const { product } = data;
  const list = (title, names, more) => names.length ? h("details", { class: "more", open: names.length <= 30 }, h("summary", null, `${title} (${number(names.length + more)})`),
    h("ul", { class: "columns" }, names.map((name) => h("li", null, h("code", null, name)))), more ? h("p", { class: "quiet" }, `and ${number(more)} more`) : null) : null;
  const titles = { transitions: "Transitions that no run has taken", cells: "States and events that no run has met", crashed_in: "States in which no actor has ended", crash_points: "Transitions after which no actor has ended" };
  return [
    ...data.parts.slice(0, 1).map((part) => list(titles[part.name], part.missing, 0)),
    list("Explored control states of the product that no run was in", product.missing.map((where) => where.join(" / ")), product.missing_count - product.missing.length),
    list("Control states that runs were in, and the exploration was not", product.beyond.map((where) => where.join(" / ")), 0),
    ...data.parts.slice(1).map((part) => list(titles[part.name], part.missing, 0)),
  ];
}

const main = document.getElementById("content");
main.append(summary());
const links = [h("a", { href: "#summary" }, "Summary")];
for (const [id, title, make] of [["product", "Product", () => (data.product.roles.length ? productSection() : null)], ["roles", "Roles", () => data.roles.map(roleSection)], ["gaps", "Not exercised", gaps]]) {
  const content = make();
  if (content === null) continue;
  links.push(h("a", { href: `#${id}` }, title));
  main.append(h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...[content].flat(Infinity).filter(Boolean)));
}
document.getElementById("navigation").append(h("span", { class: "brand" }, data.system.name), h("span", { class: "links" }, links));
