// The page: a summary, the roles, the product, the properties and what was never exercised.

const VERDICTS = {
  violated: ["✗", "violated", "a path shows the contrary"],
  bounded: ["◐", "bounded", "not contradicted, but the exploration was cut short"],
  unasked: ["–", "not asked", "it speaks of somebody who may do anything"],
  exhausted: ["✓", "holds", "in every state within the explored bounds"],
  witnessed: ["✓", "witnessed", "a state that shows it was reached"],
};

const data = JSON.parse(document.getElementById("data").textContent);

function badge(verdict, meant = false) {
  const [sign, word, meaning] = VERDICTS[verdict] || ["?", verdict, ""];
  return h("span", { class: `badge ${meant ? "meant" : verdict}`, title: meaning }, h("span", { "aria-hidden": "true" }, sign + " "), word, meant ? ", as expected" : "");
}

function headline() {
  const { verdict, words, failures } = data.headline;
  return [badge(verdict), words, failures.slice(0, 12).map((name) => h("a", { href: `#property-${name}` }, h("code", null, name))),
    failures.length > 12 ? `and ${failures.length - 12} more` : null];
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
    data.crashes ? h("p", null, h("a", { href: data.crashes }, "What crashes do to it")) : null,
    verdicts(),
    h("details", { class: "more" }, h("summary", null, "How it was explored"), h("table", { class: "facts wide" },
      h("tbody", null,
        [...(data.setting.name ? [["setting", data.setting.doc ? `${data.setting.name}: ${data.setting.doc}` : data.setting.name]] : []), ["engine", run.engine], ["complete", run.complete ? "yes: every reachable state within the bounds was visited" : `no: ${run.why_incomplete}`],
          ["initial states", number(run.initial)], ["generated", number(run.generated)], ["cut off by the bounds", number(run.cut)], ["digest of the spec", data.system.digest]]
          .map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name), h("td", null, value))),
        data.constants.map((c) => h("tr", null, h("th", { scope: "row" }, h("code", null, c.name)),
          h("td", null, h("code", null, String(c.value)), c.doc ? h("span", { class: "quiet" }, ` ${c.doc}`) : null)))))));
}

function verdicts() {
  if (!data.properties.length) return h("p", null, "The system declares no properties.");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Verdicts" }, h("table", { class: "list verdicts" },
    h("thead", null, h("tr", null, ["verdict", "property", "kind", "says", "path"].map((word) => h("th", { scope: "col" }, word)))),
    h("tbody", null, data.properties.map((p) => h("tr", null,
      h("td", null, badge(p.verdict, p.meant)),
      h("td", null, h("a", { href: `#property-${p.name}` }, h("code", null, p.name))),
      h("td", { class: "quiet" }, p.kind),
      h("td", null, p.doc ? prose(p.doc) : h("code", null, p.claim), p.vacuous ? h("span", { class: "warn block" }, "vacuous: no case of it exists") : null),
      h("td", { class: "amount" }, p.path === null ? "" : count(entriesTo(data, p.path).length - 1, "step")))))));
}

function propertySection(p) {
  const words = p.verdict === "violated" ? "Counterexample" : p.kind === "sometimes" ? "Witness" : "Path";
  const place = h("div", { class: "path-box" });
  const draw = () => {
    if (!place.childElementCount) place.append(sequenceView(data, p.path, { loop: p.loop, label: `${words} for ${p.name}` }));
  };
  const steps = p.path === null ? 0 : entriesTo(data, p.path).length - 1;
  const box = p.path === null ? null : h("details", { class: "more", ontoggle: draw },
    h("summary", null, `${words}: ${count(steps, "step")}${p.loop === null ? "" : p.loop < steps ? ", ending in a loop" : ", then nothing more"}`), place);
  if (box && p.verdict === "violated" && !p.meant) {
    box.open = true;
    draw();
  }
  const claim = `${p.when ? `when ${p.when}\n` : ""}${p.kind} ${p.claim}${p.within === null ? "" : `\nwithin ${p.within} ticks`}`;
  return h("article", { class: "property", id: `property-${p.name}` },
    h("h3", null, h("code", null, p.name), badge(p.verdict, p.meant)),
    p.doc ? h("p", { class: "doc" }, prose(p.doc)) : null,
    p.claim ? h("pre", null, h("code", null, claim)) : null,
    p.reason ? h("p", { class: p.verdict === "violated" && !p.meant ? "notice" : "quiet" }, prose(p.reason)) : null,
    p.meant ? h("p", null, "As expected: ", prose(p.meant)) : null,
    p.vacuous ? h("p", { class: "warn" }, "Vacuous: no case of it exists, so that it says nothing.") : null,
    p.source || p.place ? h("p", { class: "quiet small" }, [p.source, p.place].filter(Boolean).join(" · ")) : null,
    box);
}

function gaps() {
  const list = (title, words, found) => found.length ? [h("h3", null, title), h("p", { class: "doc" }, words),
    h("ul", { class: "names" }, found.map(([name, why]) => h("li", null, h("code", null, name), why ? h("span", { class: "quiet" }, ": ", prose(why)) : h("span", { class: "warn" }, ": not explained"))))] : null;
  if (!data.unvisited.length && !data.vacuous.length) return h("p", { class: "doc" }, "Every transition was taken, and every property had a case.");
  return [
    list("Transitions never taken", "No path within the explored bounds takes them.", data.unvisited),
    list("Properties without a case", "What they ask about never came to pass, so that they hold for want of cases.", data.vacuous)];
}

const sections = [
  ["summary", "Summary", null],
  ["roles", "Roles", () => data.roles.map(roleSection)],
  ["product", "Product", () => (data.product.roles.length ? productSection(data) : null)],
  ["properties", "Properties", () => data.properties.map(propertySection)],
  ["gaps", "Never exercised", gaps],
];
const main = document.getElementById("content");
const links = [];
for (const [id, title, make] of sections) {
  const content = make === null ? null : make();
  if (make !== null && content === null) continue;
  links.push(h("a", { href: `#${id}` }, title));
  main.append(make === null ? summary() : h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...[content].flat(Infinity).filter(Boolean)));
}
document.getElementById("navigation").append(h("span", { class: "brand" }, data.system.name), ...links);
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => (d.open = true)));
if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
