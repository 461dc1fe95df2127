// The properties: worst first, one line for each, which opens to the claim and to the path that shows it.

const VERDICTS = {
  violated: ["✗", "violated", "a path contradicts it"],
  expected: ["✗", "violated, as expected", "a path contradicts it, and expected.yaml says so"],
  bounded: ["◐", "bounded", "not contradicted, but the exploration was cut short"],
  unasked: ["–", "not checked", "it is about a role that may do anything"],
  exhausted: ["✓", "holds", "in every state within the explored bounds"],
  witnessed: ["✓", "witnessed", "a state that shows it was reached"],
};
const MOST_OPEN = 3; // counterexamples that are drawn at once

const badge = (verdict) => {
  const [sign, word, meaning] = VERDICTS[verdict] || ["?", verdict, ""];
  return h("span", { class: `badge ${verdict}`, title: meaning }, h("span", { "aria-hidden": "true" }, sign + " "), word);
};
const shownVerdict = (p) => (p.expected ? "expected" : p.verdict);

// A name that may be broken after each underscore, and is never cut.
const whole = (name) => h("code", { class: "name" }, name.split(/(?<=_)/).flatMap((part, i) => (i ? [h("wbr"), part] : [part])));

function propertiesSection(data, choose) {
  if (!data.properties.length) return h("p", null, "The system declares no properties.");
  let open = 0;
  const list = data.properties.map((p) => propertySection(data, p, p.verdict === "violated" && !p.expected && open++ < MOST_OPEN));
  return [verdictFilter(data.properties, choose), list, h("p", { id: "no-property", class: "quiet", hidden: true }, "No property matches.")];
}

// A button for each verdict that occurs, and one for all.
function verdictFilter(properties, choose) {
  const counts = new Map();
  for (const p of properties) counts.set(shownVerdict(p), (counts.get(shownVerdict(p)) || 0) + 1);
  if (counts.size < 2) return null;
  const buttons = [[null, "all", properties.length], ...[...counts].map(([verdict, n]) => [verdict, (VERDICTS[verdict] || ["", verdict])[1], n])]
    .map(([verdict, word, n]) => h("button", { type: "button", "aria-pressed": String(verdict === null), onclick: (event) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button === event.currentTarget));
      choose(verdict);
    } }, `${word} ${number(n)}`));
  return h("div", { class: "chips", role: "group", "aria-label": "Show properties by verdict" }, buttons);
}

function propertySection(data, p, open) {
  const words = p.verdict === "violated" ? "Counterexample" : p.kind === "sometimes" ? "Witness" : "Path";
  const steps = p.path === null ? 0 : entriesTo(data, p.path).length - 1;
  const place = h("div", { class: "path-box" });
  const draw = () => {
    if (details.open && p.path !== null && !place.childElementCount) place.append(sequenceView(data, p.path, { loop: p.loop, label: `${words} for ${p.name}` }));
  };
  const claim = `${p.when ? `when ${p.when}\n` : ""}${p.kind} ${p.claim}${p.within === null ? "" : `\nwithin ${p.within} ticks`}`;
  const details = h("details", { ontoggle: draw },
    h("summary", null,
      badge(shownVerdict(p)),
      h("h3", null, whole(p.name)),
      h("span", { class: "quiet kind" }, p.kind, p.path === null ? "" : ` · ${count(steps, "step")}`),
      h("div", { class: "says" }, p.doc ? prose(p.doc) : h("code", null, p.claim),
        p.vacuous ? h("span", { class: "warn block" }, "Vacuous: no case of it occurs, so it holds trivially.") : null)),
    h("div", { class: "inside" },
      p.claim ? h("pre", null, h("code", null, claim)) : null,
      p.reason ? h("p", { class: shownVerdict(p) === "violated" ? "notice" : "quiet" }, prose(p.reason)) : null,
      p.expected ? h("p", null, "As expected: ", prose(p.expected)) : null,
      p.source || p.place ? h("p", { class: "quiet small" }, [p.source, p.place].filter(Boolean).join(" · ")) : null,
      p.path === null ? null : h("h4", null, `${words}: ${count(steps, "step")}${p.loop === null ? "" : p.loop < steps ? ", ending in a loop" : ", then nothing more"}`),
      place));
  if (open) {
    details.open = true;
    draw();
  }
  const element = h("article", { class: "property", id: `property-${p.name}` }, details);
  return searchable(element, "property", [p.name, p.kind, VERDICTS[shownVerdict(p)]?.[1], p.vacuous && "vacuous", p.doc, p.claim, p.when, p.reason, p.source, p.place], shownVerdict(p));
}
