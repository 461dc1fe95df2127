// All readings of the specification: a row for each property, a column for each reading, and where its evidence is.

function readingsSection(data) {
  const { columns, rows } = data.readings;
  const verdicts = new Map(data.properties.map((p) => [p.name, p]));
  const made = columns.map((column, i) => ({ ...column, i })).filter((column) => column.made);
  const mark = (words) => (words === "violated" || words.includes("fail") ? "violated" : words === "bounded" || words === "undecided" ? "owed" : words ? "holds" : "");
  const cell = (column, words) => h("td", { class: column.current ? null : "older" }, words ? h("a", { href: `#reading-${column.verb.replace(" ", "-")}`, class: `standing ${mark(words)}` }, words) : null);
  const open = columns.filter((column) => !column.made);
  return [
    h("p", { class: "doc" }, "Each property as every reading of the specification has it. A word leads to its evidence; grey is a verdict on an older text."),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Readings" }, h("table", { class: "list readings" },
      h("thead", null, h("tr", null, ["property", "explored", ...made.map((column) => column.title)].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", null, rows.map(([name, ...words]) => searchable(h("tr", null,
        h("th", { scope: "row" }, whole(name)),
        h("td", null, h("a", { href: `#property-${name}` }, badge(shownVerdict(verdicts.get(name))))),
        made.map((column) => cell(column, words[column.i]))), "reading", [name, words]))))),
    h("h3", null, "Evidence"),
    h("dl", { class: "evidence" }, made.map((column) => [
      h("dt", { id: `reading-${column.verb.replace(" ", "-")}` }, column.title, column.all ? h("span", { class: "quiet" }, `: ${column.all}`) : null),
      h("dd", null, h("code", null, column.command), h("span", { class: "quiet block" }, `${column.made}${column.setting ? `, ${column.setting}` : ""}${column.current ? "" : `, of an older text (${column.digest.slice(0, 12)})`}`))])),
    open.length ? h("p", { class: "quiet" }, "Not read yet: ", open.flatMap((column, i) => [i ? ", " : "", `${column.title} (`, h("code", null, column.command), ")"])) : null];
}
