// The product of the roles' control states: as a table of all of them, and as a graph of those that are reachable.

const MARKS = {
  legal: "legal: reachable without a fault",
  recovery: "reachable only with faults",
  reachable: "reachable",
};

function productSection(data) {
  const product = data.product;
  const path = h("div", { class: "path-box", id: "product-path" }, h("p", { class: "quiet hint" }, "Press a control state to see a shortest path to it."));
  const cells = new Map();
  const pick = (node) => {
    const key = node.control.join("/");
    for (const [other, element] of cells) element.classList.toggle("picked", other === key);
    const label = `Shortest path to ${node.control.join(", ")}`;
    path.replaceChildren(
      h("h4", null, "A shortest path to ", h("code", null, node.control.join(" / "))),
      h("p", { class: "quiet" }, `${count(node.depth, "step")}; ${count(node.states, "global state")} in this control state; ${MARKS[node.mark]}.`),
      node.path === null ? h("p", null, "The paths to all control states would make this page too large; this one is not in it.")
        : sequenceView(data, node.path, { label }));
  };

  const marks = [...new Set(product.nodes.map((node) => node.mark))];
  const full = product.table && product.table.full;
  const legend = h("ul", { class: "legend" },
    marks.map((mark) => h("li", null, h("span", { class: `swatch ${mark}` }), MARKS[mark])),
    full ? h("li", null, h("span", { class: "swatch none" }), data.run.complete ? "not reachable" : "not reached") : null);

  const chooser = h("select", { id: "projection", onchange: () => drawGraph(Number(chooser.value)) },
    product.graphs.map((graph, i) => h("option", { value: i },
      graph.roles.length === product.roles.length ? `all roles (${graph.nodes.length})` : `${graph.roles.join(" × ")} (${graph.nodes.length})`)));
  const place = h("div");
  const drawGraph = (i) => {
    const graph = product.graphs[i];
    place.replaceChildren(productGraph(graph, pick));
  };
  const first = Math.max(0, product.graphs.findIndex((g) => g.roles.join() === product.first_graph.join()));
  if (product.graphs.length) {
    chooser.value = first;
    drawGraph(first);
  }
  const large = product.first_graph.length < product.roles.length;
  return [
    h("p", { class: "doc" }, productWords(data)),
    legend,
    product.table ? productTable(data, cells, pick) : productList(product, pick),
    path,
    product.graphs.length ? [
      h("h3", { id: "product-graph" }, "As a graph"),
      h("p", { class: "doc" }, "An arrow is a step that some machine takes from one control state to another; point at a control state to see which. Lower means further from the start; where there are many arrows, those of one way to each control state stand out.",
        large ? " The whole has too many control states to be drawn; what follows is what someone sees who looks at some roles only." : ""),
      h("p", { class: "control" }, h("label", { for: "projection" }, "Show "), chooser),
      place] : null,
  ];
}

function productWords(data) {
  const { product, run } = data;
  const roles = product.roles.map((name) => {
    const role = data.roles.find((r) => r.name === name);
    return `${name} (${role.states.length}${role.count > 1 ? ` states, ${role.count} machines` : ""})`;
  });
  return `${roles.join(" × ")} gives ${count(product.size, "control state")}; ${number(product.reachable)} of them ${run.complete ? "are reachable" : "were reached"}.`
    + (product.nodes.some((n) => n.cells > 1) ? " Machines of one role are interchangeable: control states that differ only in which machine is where are one here." : "");
}

function productTable(data, cells, pick) {
  const { table, nodes } = data.product;
  const at = new Map(table.nodes.map(([row, column, node]) => [`${row}/${column}`, nodes[node]]));
  const narrow = table.columns.length > 8;
  const most = Math.max(...nodes.map((n) => n.states));
  const head = table.column_roles.map((role, level) => {
    const spans = [];
    table.columns.forEach((column, i) => {
      const key = column.slice(0, level + 1).join("/");
      if (spans.length && spans.at(-1).key === key) spans.at(-1).span++;
      else spans.push({ key, span: 1, name: column[level], first: i });
    });
    const last = level === table.column_roles.length - 1;
    return h("tr", null, h("th", { class: "corner", scope: "row" }, role, last ? h("span", { class: "quiet block" }, table.row_role, " ↓") : null),
      spans.map((span) => h("th", { scope: span.span > 1 ? "colgroup" : "col", colspan: span.span, class: `${last ? "column" : "group"}${last && narrow ? " turned" : ""}${edgeOf(table, span.first)}` },
        h("span", null, span.name))));
  });
  const body = table.rows.map((name, row) => h("tr", null, h("th", { scope: "row" }, name), table.columns.map((column, i) => {
    const node = at.get(`${row}/${i}`);
    if (!node) return h("td", { class: `empty${edgeOf(table, i)}` });
    const words = `${table.row_role} ${name}, ${column.map((state, k) => `${table.column_roles[k]} ${state}`).join(", ")}: `
      + `${MARKS[node.mark]}, ${count(node.depth, "step")} from the start, ${count(node.states, "global state")}`;
    const button = h("button", { type: "button", class: `cell ${node.mark}`, title: words, "aria-label": words, onclick: () => pick(node),
      style: `--weight: ${(0.25 + 0.75 * Math.log(1 + node.states) / Math.log(1 + most)).toFixed(2)}` }, String(node.depth));
    cells.set(node.control.join("/"), searchable(button, "control state", [words]));
    return h("td", { class: edgeOf(table, i).trim() || null }, button);
  })));
  return h("figure", { class: "heat" },
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of control states" },
      h("table", { class: `product${narrow ? " narrow" : ""}` }, h("thead", null, head), h("tbody", null, body))),
    h("figcaption", null, "The number is the length of a shortest path; the more global states lie in a control state, the fuller its colour."));
}

// A rule before a column where the outermost role changes its state.
function edgeOf(table, i) {
  return table.column_roles.length > 1 && (i === 0 || table.columns[i][0] !== table.columns[i - 1][0]) ? " first" : "";
}

function productList(product, pick) {
  const rows = [...product.nodes].sort((a, b) => a.depth - b.depth).slice(0, 400);
  return h("details", { class: "more", open: rows.length <= 30 },
    h("summary", null, `The ${rows.length < product.nodes.length ? "nearest " : ""}${rows.length} reachable control states, by their distance from the start`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Reachable control states" }, h("table", { class: "list" },
      h("thead", null, h("tr", null, [...product.roles, "steps", "global states", ""].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", null, rows.map((node) => h("tr", null, node.control.map((where) => h("td", null, h("code", null, where))),
        h("td", { class: "amount" }, number(node.depth)), h("td", { class: "amount" }, number(node.states)),
        h("td", null, node.path === null ? null : h("button", { type: "button", onclick: () => pick(node) }, "path"))))))));
}

function productGraph(graph, pick) {
  const depths = [...new Set(graph.nodes.map((n) => n.depth))].sort((a, b) => a - b);
  // The arrows of one shortest way to each control state stand out; the others are faint until they are pointed at.
  const reached = new Set();
  const strong = new Set();
  for (const i of [...graph.links.keys()].sort((a, b) => graph.nodes[graph.links[b][0]].depth - graph.nodes[graph.links[a][0]].depth)) {
    const [a, b] = graph.links[i];
    if (graph.nodes[a].depth < graph.nodes[b].depth && !reached.has(b)) {
      reached.add(b);
      strong.add(i);
    }
  }
  const several = graph.nodes.some((node) => node.control.some((where) => where.includes(", ")));
  const nodes = graph.nodes.map((node) => ({
    // One line for each control state; where a role has several, a rule sets the roles apart.
    lines: node.control.flatMap((where, role) => where.split(", ").map((text, k) => ({ text, rule: several && role > 0 && k === 0 }))),
    label: `${node.control.join(", ")}: ${MARKS[node.mark]}, ${count(node.depth, "step")} from the start, ${count(node.states, "global state")}`,
    mark: node.mark,
    initial: node.initial,
    layer: depths.indexOf(node.depth),
  }));
  const many = graph.links.length > 40;
  const edges = graph.links.map(([a, b, labels], i) => ({
    s: a, t: b, quiet: many && !strong.has(i), lines: labels.length > 2 ? [labels[0], `and ${labels.length - 1} more`] : labels, label: labels.join("\n"),
  }));
  return graphView(nodes, edges, {
    label: `Graph of ${graph.nodes.length} control states of ${graph.roles.join(", ")}`,
    roots: graph.nodes.flatMap((n, i) => (n.initial ? [i] : [])), quietEdges: many, gap: 18, height: 1600, onpick: (i) => {
      pick(graph.nodes[i]);
      document.getElementById("product-path").scrollIntoView({ block: "start" });
    },
  }).element;
}
