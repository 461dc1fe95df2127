// The page: a summary, the properties, the roles, the product and what was never exercised.

const data = JSON.parse(document.getElementById("data").textContent);
const search = searchField();

function headline() {
  const { verdict, words, failures } = data.headline;
  return [badge(verdict), words, failures.slice(0, 12).map((name) => h("a", { href: `#property-${name}` }, whole(name))),
    failures.length > 12 ? h("a", { href: "#properties" }, `and ${failures.length - 12} more`) : null];
}

// The other readings of this very text that contradict something: the headline is of the exploration alone.
function elsewhere() {
  const broken = (data.readings?.columns ?? []).map((column, i) => [column, data.readings.rows.filter((row) => row[i + 1] === "violated").map(([name]) => name)])
    .filter(([column, names]) => column.current && names.length);
  return broken.length ? h("p", { class: "notice" }, broken.flatMap(([column, names]) => [h("span", { class: "block" }, `Violated where it is ${column.title}`, column.setting ? ` (${column.setting})` : "", ": ", names.flatMap((name, i) => [i ? ", " : "", h("a", { href: "#readings" }, whole(name))]))])) : null;
}

function summary() {
  const { run, product } = data;
  const facts = [
    ["control states", `${number(product.reachable)} of ${number(product.size)}`],
    ["global states", number(run.distinct)],
    ["steps between them", number(run.edges)],
    ["depth", number(run.depth)],
  ];
  if (run.seconds !== undefined) facts.push(["time", `${run.seconds < 10 ? run.seconds.toFixed(2) : Math.round(run.seconds)} s`], ["memory", `${number(Math.ceil(run.peak_memory_bytes / 1048576))} MiB`]);
  return h("section", { id: "summary", "aria-labelledby": "name" },
    h("p", { class: "eyebrow" }, "Leasehold report"),
    h("h1", { id: "name" }, data.system.name),
    data.system.doc ? h("p", { class: "lead" }, prose(data.system.doc)) : null,
    h("p", { class: "headline" }, headline()),
    run.complete ? null : h("p", { class: "notice" }, `The exploration is not complete: ${run.why_incomplete || "it was cut short"}.`),
    h("dl", { class: "numbers" }, facts.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))),
    elsewhere(),
    data.crashes ? h("p", null, h("a", { href: data.crashes }, "Results under crashes")) : null,
    h("details", { class: "more" }, h("summary", null, "Settings and bounds"), h("table", { class: "facts wide" },
      h("tbody", null,
        [...(data.setting.name ? [["setting", data.setting.doc ? `${data.setting.name}: ${data.setting.doc}` : data.setting.name]] : []), ...(run.engine ? [["engine", run.engine]] : []), ["complete", run.complete ? "yes: every reachable state within the bounds was visited" : `no: ${run.why_incomplete}`],
          ["initial states", number(run.initial)], ["generated", number(run.generated)], ["cut off by the bounds", number(run.cut)], ["digest of the spec", data.system.digest]]
          .map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name), h("td", null, value))),
        data.constants.map((c) => h("tr", null, h("th", { scope: "row" }, h("code", null, c.name)),
          h("td", null, h("code", null, String(c.value)), c.doc ? h("span", { class: "quiet" }, ` ${c.doc}`) : null)))))));
}

function gaps() {
  const list = (title, words, kind, found) => found.length ? h("div", { "data-group": "" }, h("h3", null, title), h("p", { class: "doc" }, words),
    h("ul", { class: "names" }, found.map(([name, why]) => searchable(
      h("li", null, whole(name), why ? h("span", { class: "quiet" }, ": ", prose(why)) : h("span", { class: "warn" }, ": not explained")), kind, [name, why])))) : null;
  const open = "The search was cut short: it is not known which properties have no case.";
  if (!data.unvisited.length && !data.vacuous.length) return h("p", { class: "doc" }, "Every transition was taken" + (data.run.complete ? ", and every property had a case." : `. ${open}`));
  return [
    data.run.complete ? null : h("p", { class: "doc" }, open),
    data.run.complete ? list("Transitions never taken", "No path within the explored bounds takes these transitions.", "unvisited transition", data.unvisited)
      : list("Transitions not taken so far", "No path that was explored takes these transitions.", "unvisited transition", data.unvisited),
    list("Vacuous properties", "The condition of these properties never occurs, so they hold trivially.", "vacuous property", data.vacuous)];
}

const sections = [
  ["properties", "Properties", () => propertiesSection(data, search.choose)],
  ["readings", "Readings", () => (data.readings?.rows.length ? readingsSection(data) : null)],
  ["stepping", "Step", () => (data.graph ? steppingSection(data, new Map(data.properties.map((p) => [p.name, p]))) : null)],
  ["roles", "Roles", () => data.roles.map((role) => roleSection(role))],
  ["shared", "Shared variables", () => (data.shared ? dataTable("All machines may read and write them", data.shared) : null)],
  ["product", "Product", () => (data.product.roles.length ? productSection(data) : null)],
  ["gaps", "Never exercised", gaps],
];
const main = document.getElementById("content");
main.append(summary());
const links = [h("a", { href: "#summary" }, "Summary")];
for (const [id, title, make] of sections) {
  const content = make();
  if (content === null) continue;
  links.push(h("a", { href: `#${id}` }, title));
  main.append(h("section", { id, "aria-labelledby": `${id}-title`, "data-group": "" }, h("h2", { id: `${id}-title` }, title), ...[content].flat(Infinity).filter(Boolean)));
}
document.getElementById("navigation").append(h("span", { class: "brand" }, data.system.name), h("span", { class: "links" }, links), search.field, search.status);
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));

// A link into the page shows what it points at, whatever was searched for.
function follow() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  search.clear();
  document.querySelector(".chips button")?.click();
  if (target.matches(".property")) target.querySelector("details").open = true;
  target.scrollIntoView();
}
window.addEventListener("hashchange", follow);
follow();
