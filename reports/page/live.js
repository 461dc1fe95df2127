// The live page: a walk through a system whose files may change meanwhile, with a search beside it.

let data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("content");
main.classList.add("live");
const source = {
  get system() { return data; },
  async at(trail, since) {
    const answer = await fetch(`/at?since=${since}&trail=${trail.join(".")}`);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  },
};

// Where one is stands in the address, so that it can be sent to somebody, and Back goes a step back.
const addressed = () => (new URLSearchParams(location.hash.slice(1)).get("at") || "").split(".").filter(Boolean);
let found = null, walk = null, diagrams = [];
const verdicts = () => new Map((found?.properties ?? []).map((p) => [p.name, p]));

const bar = h("p", { class: "bar-line", role: "status", id: "progress" });
const findings = h("div", { class: "findings", id: "findings" });
const lost = h("div", { id: "lost" });
const standing = h("div", { id: "standing" });
const product = h("div", { id: "product-place" });

function moved(position, trail, quiet) {
  const hash = `#at=${trail.join(".")}`;
  if (!quiet && location.hash !== hash) history.pushState(null, "", hash);
  lost.replaceChildren(...(position.lost === null ? [] : [h("p", { class: "notice warned" }, position.lost === 0
    ? "The first state of this address is none of the system any more; this is where it begins now."
    : `Step ${position.lost} of this address is not possible any more: the specification has changed, or its faults or constants are others. This is the position before it.`)]));
  const open = document.getElementById("silent")?.open;
  standing.replaceChildren(...standingsTable(data, position, verdicts(), found?.faults, visit).filter(Boolean));
  document.getElementById("silent")?.toggleAttribute("open", Boolean(open));
  mark(position);
}

const visit = (trail) => walk.go(trail).then(() => document.getElementById("step").scrollIntoView());

function mark(position) {
  const control = statesOf(walk.entries).at(-1)?.control ?? {};
  for (const { role, graph } of diagrams) {
    const at = new Set(Object.entries(control).filter(([machine]) => machine === role.name || machine.startsWith(`${role.name}[`)).map(([, where]) => where));
    graph.mark(role.states.flatMap((state, i) => (at.has(state.title ?? state.name) || at.has(state.name) ? [i] : [])));
  }
  const key = position.cell.join("/");
  for (const [other, element] of cells) element.classList.toggle("here", other === key);
}

// The sections, made anew when the system is read again.
let cells = new Map();
function build() {
  document.title = `${data.name}: Leasehold`;
  diagrams = [];
  cells = new Map();
  searched.length = 0;
  showFindings();
  if (!data.system) {
    main.replaceChildren(h("p", { class: "eyebrow" }, "Leasehold"), h("h1", null, data.name), findings);
    return;
  }
  const roles = data.roles.map((role) => roleSection(role, (graph) => diagrams.push({ role, graph })));
  main.replaceChildren(
    h("section", { id: "step" }, h("h1", null, data.system.name),
      data.system.doc ? h("details", { class: "more" }, h("summary", null, "About this system"), h("p", { class: "doc" }, prose(data.system.doc))) : null,
      bar, findings, lost, walk.element),
    h("section", { id: "properties" }, h("h2", null, "Properties here"), standing),
    h("section", { id: "roles" }, h("h2", null, "Roles"), roles),
    h("section", { id: "product" }, h("h2", null, "Product"), product));
  document.getElementById("navigation").replaceChildren(h("span", { class: "brand" }, data.system.name),
    h("span", { class: "links" }, [["step", "Step"], ["properties", "Properties"], ["roles", "Roles"], ["product", "Product"]].map(([id, words]) =>
      h("a", { href: `#${id}`, onclick: (event) => { event.preventDefault(); document.getElementById(id).scrollIntoView(); } }, words))),
    h("span", { class: "status" }, `faults: ${data.faults}`));
  showFound();
}

function showFindings() {
  const errors = data.diagnostics.filter((d) => d.severity === "error");
  findings.replaceChildren(
    ...(errors.length ? [h("p", { class: "notice" }, data.system ? "The files cannot be loaded as they are; below is the last specification that could." : "The specification cannot be loaded:")] : []),
    ...(data.trouble ? [h("p", { class: "notice" }, `${data.trouble}. Below is the last specification that could have these faults.`)] : []),
    ...data.diagnostics.filter((d) => errors.length === 0 || d.severity === "error").map((d) => h("pre", { class: d.severity }, d.text)));
}

function showProgress(p) {
  data.progress = p;
  const under = p.faults && p.faults !== "none" ? ` under ${p.faults}` : "";
  bar.replaceChildren(...(p.phase === "off" ? [] : p.phase === "done" ? [found ? `explored${found.faults === "none" ? "" : ` under ${found.faults}`}: ${number(found.run.distinct)} states${found.run.complete ? "" : `, ${found.run.why_incomplete}`}. ${found.headline.words}` : "explored"]
    : p.phase === "failed" ? [`exploring has failed: ${p.reason}`]
    : [`exploring${under}: ${p.phase}${p.states === undefined ? "" : `, ${number(p.states)} states`}`, p.violated?.length ? h("span", { class: "bad" }, ` · violated: ${p.violated.join(", ")}`) : null].filter(Boolean)));
}

function showFound() {
  showProgress(data.progress);
  cells = new Map();
  if (!found) {
    product.replaceChildren(h("p", { class: "quiet" }, data.progress.phase === "off" ? "Nothing is explored beside the walk." : "It is drawn once the system has been explored."));
  } else if (found.product.roles.length) {
    const shape = { ...found, roles: data.roles };
    const go = (node) => node.path && visit(node.path);
    product.replaceChildren(h("p", { class: "doc" }, productWords(shape), " Press a control state to go to it by a shortest path."),
      ...[found.product.table ? productTable(shape, cells, go) : productList(found.product, go)]);
  } else product.replaceChildren(h("p", { class: "quiet" }, "The system names no product."));
  if (walk.here) moved(walk.here, walk.trail, true);
}

async function fetchFound() {
  const next = await (await fetch("/found")).json();
  if (next) {
    found = next;
    showFound();
  }
}

async function reread() {
  data = await (await fetch("/system")).json();
  found = null;
  const trail = walk.trail.length ? walk.trail : addressed();
  walk.reset();
  build();
  if (data.system) await walk.go(trail, true);
}

walk = stepper(source, { onmove: moved, global: true });
build();
window.addEventListener("popstate", () => walk.go(addressed(), true));
if (data.system) walk.go(addressed(), true);
const changes = new EventSource("/changes");
changes.onmessage = ({ data: text }) => {
  const told = JSON.parse(text);
  if (told.version !== undefined && told.version !== data.version) reread();
  else if (told.changed === "found" || told.changed === "hello") fetchFound();
  else if (told.changed === "progress") showProgress(told.progress);
};
changes.onerror = () => bar.replaceChildren(h("span", { class: "bad" }, "The server has gone: start `leasehold serve` again, and this page goes on."));
