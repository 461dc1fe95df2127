// A graph on the page: laid out, drawn, panned and zoomed, with the edges of a node shown while it is pointed at.

const LINE = 15;
const READABLE = 0.6; // the least scale at which a graph is first shown
let graphs = 0;

// nodes: [{lines: [{text, quiet?, strong?, rule?}], label, mark?, initial?, terminal?, layer?}]
// edges: [{s, t, lines: [text], label, quiet?}]; options: {label, roots, quietEdges, gap, height, onpick(index)}
// Gives {element, select(index), mark(indices), width}: a node is picked, some are where machines are.
function graphView(nodes, edges, options) {
  const id = `tip-${++graphs}`;
  for (const node of nodes) {
    node.w = Math.max(56, ...node.lines.map((l) => measure(l.text, l.quiet ? 11 : 12.5, l.strong ? 600 : 400) + 22));
    node.h = node.lines.length * LINE + 12;
  }
  const labels = !options.quietEdges;
  const laid = layered(
    nodes,
    edges.map((e) => ({
      s: e.s, t: e.t, weight: e.quiet ? 1 : 3,
      w: labels && e.lines.length ? Math.max(...e.lines.map((l) => measure(l, 11))) + 10 : 0,
      h: labels && e.lines.length ? e.lines.length * 13 + 4 : 0,
    })),
    { roots: options.roots, rankGap: labels ? 15 : 32, gap: options.gap },
  );
  const pad = 26;
  const drawing = { x: -pad, y: -pad, w: laid.width + 2 * pad, h: laid.height + 2 * pad };

  const edgeGroups = edges.map((edge, i) => {
    const at = laid.edges[i];
    const text = edge.lines.map((line, k) =>
      s("text", { x: round(at.x), y: round(at.y + 4 + (k - (edge.lines.length - 1) / 2) * 13) }, line));
    return s("g", { class: `edge${edge.quiet ? " faint" : ""}` },
      s("title", null, edge.label),
      s("path", { class: "line", d: at.d, "marker-end": `url(#${id})` }),
      labels ? text : s("g", { class: "hidden-label" }, text));
  });
  const nodeGroups = nodes.map((node, i) => {
    const { x, y } = laid.nodes[i];
    const [left, top] = [round(x - node.w / 2), round(y - node.h / 2)];
    const group = s("g", { class: `node ${node.mark || ""}${node.initial ? " initial" : ""}`, "data-node": i },
      s("title", null, node.label),
      s("rect", { class: "box", x: left, y: top, width: round(node.w), height: node.h, rx: 6 }),
      node.terminal ? s("rect", { class: "inner", x: left + 3, y: top + 3, width: round(node.w - 6), height: node.h - 6, rx: 4 }) : null,
      node.initial ? s("circle", { class: "start", cx: round(x), cy: top - 14, r: 4 }) : null,
      node.initial ? s("path", { class: "line", d: `M${round(x)} ${top - 10}v9`, "marker-end": `url(#${id})` }) : null,
      node.lines.map((line, k) => line.rule ? s("path", { class: "rule", d: `M${left} ${round(top + 6 + LINE * k)}h${round(node.w)}` }) : null),
      node.lines.map((line, k) => s("text", {
        class: line.quiet ? "quiet" : line.strong ? "strong" : null,
        x: round(x), y: round(top + 6 + LINE * (k + 0.75)),
      }, line.text)));
    return pressable(group, node.label, () => pick(i));
  });

  const svg = s("svg", { role: "group", "aria-label": options.label, class: "graph", tabindex: "0" },
    s("defs", null, s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" },
      s("path", { class: "tip", d: "M0 0.5L8 4L0 7.5z" }))),
    edgeGroups, nodeGroups);

  const view = { ...drawing };
  let touched = false;
  const show = () => svg.setAttribute("viewBox", [view.x, view.y, view.w, view.h].map(round).join(" "));
  // Never larger than life: a small graph keeps its type size. At first a large one keeps a size that can be read, too:
  // then the view begins above the first root, and the rest of the graph is a drag away.
  const fit = (readable) => {
    const width = svg.clientWidth || 800;
    const w = Math.max(readable ? Math.min(drawing.w, width / READABLE) : drawing.w, width);
    const middle = w < drawing.w && options.roots?.length ? laid.nodes[options.roots[0]].x : drawing.x + drawing.w / 2;
    Object.assign(view, { x: middle - w / 2, y: drawing.y, w, h: drawing.h });
    element.classList.toggle("partly", w < drawing.w - 1);
    svg.style.height = `${Math.min(options.height || 1200, Math.ceil((drawing.h * width) / w))}px`;
    touched = false;
    show();
  };
  const zoom = (factor, cx = view.x + view.w / 2, cy = view.y + view.h / 2) => {
    const next = Math.min(Math.max(view.w * factor, 120), drawing.w * 4);
    const real = next / view.w;
    Object.assign(view, { x: cx - (cx - view.x) * real, y: cy - (cy - view.y) * real, w: next, h: view.h * real });
    touched = true;
    show();
  };
  const pan = (dx, dy) => {
    view.x += dx * view.w;
    view.y += dy * view.h;
    touched = true;
    show();
  };
  const point = (event) => {
    const place = svg.createSVGPoint();
    [place.x, place.y] = [event.clientX, event.clientY];
    return place.matrixTransform(svg.getScreenCTM().inverse());
  };

  let grip = null;
  fill(svg, {
    onpointerdown: (event) => {
      if (event.button === 0 && !event.target.closest(".node")) {
        grip = point(event);
        svg.setPointerCapture(event.pointerId);
        svg.classList.add("held");
      }
    },
    onpointermove: (event) => {
      if (!grip) return;
      const at = point(event);
      view.x += grip.x - at.x;
      view.y += grip.y - at.y;
      touched = true;
      show();
    },
    onpointerup: () => {
      grip = null;
      svg.classList.remove("held");
    },
    onkeydown: (event) => {
      if (event.target !== svg) return;
      const moves = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
      if (moves[event.key]) pan(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") zoom(0.8);
      else if (event.key === "-") zoom(1.25);
      else if (event.key === "0") fit(false);
      else return;
      event.preventDefault();
    },
  }, []);
  // Only with a key held: a page must scroll when the wheel turns.
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const { x, y } = point(event);
    zoom(event.deltaY > 0 ? 1.12 : 0.89, x, y);
  }, { passive: false });

  const near = (i) => {
    svg.classList.toggle("pointing", i !== null);
    edgeGroups.forEach((group, e) => group.classList.toggle("near", i !== null && (edges[e].s === i || edges[e].t === i)));
    nodeGroups.forEach((group, n) => group.classList.toggle("near",
      i !== null && (n === i || edges.some((e) => (e.s === i && e.t === n) || (e.t === i && e.s === n)))));
  };
  nodeGroups.forEach((group, i) => {
    for (const [event, at] of [["pointerenter", i], ["focus", i], ["pointerleave", null], ["blur", null]]) {
      group.addEventListener(event, () => near(at));
    }
  });
  const select = (i) => nodeGroups.forEach((group, n) => group.classList.toggle("picked", n === i));
  const pick = (i) => {
    select(i);
    if (options.onpick) options.onpick(i);
  };

  new ResizeObserver(() => requestAnimationFrame(() => { if (!touched) fit(true); })).observe(svg);
  window.addEventListener("beforeprint", () => fit(false));
  const button = (label, words, press) => h("button", { type: "button", "aria-label": label, title: label, onclick: press }, words);
  const element = h("div", { class: "graph-box" }, h("div", { class: "graph-tools" },
    button("Zoom in", "+", () => zoom(0.8)), button("Zoom out", "−", () => zoom(1.25)), button("Show all", "fit", () => fit(false))), svg);
  const mark = (some) => nodeGroups.forEach((group, n) => group.classList.toggle("here", some.includes(n)));
  return { element, select, mark, width: drawing.w };
}
