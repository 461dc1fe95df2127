// Search and filter. An element takes part when `searchable` has given it a kind and its words. Every word that is typed
// has to occur in them; case does not matter, and an underscore is a space. Choosing a verdict filters the properties.

const searched = []; // {element, kind, words, verdict}
const plain = (text) => text.toLowerCase().replaceAll("_", " ");

function searchable(element, kind, texts, verdict = null) {
  searched.push({ element, kind, words: plain(texts.flat().filter(Boolean).join(" ")), verdict });
  element.setAttribute("data-search", kind);
  return element;
}

function searchField() {
  let verdict = null;
  let opened = []; // what the search opened, and closes when it ends
  const field = h("input", { type: "search", id: "search", placeholder: "Search", "aria-label": "Search properties, transitions and control states", autocomplete: "off", spellcheck: "false", oninput: () => apply(true) });
  const status = h("span", { class: "status", role: "status" });

  const apply = (scroll) => {
    const typed = plain(field.value).split(/\s+/).filter(Boolean);
    const kinds = new Map();
    for (const { element, kind, words, verdict: own } of searched) {
      const fits = typed.every((word) => words.includes(word)) && (own === null || verdict === null || own === verdict);
      element.hidden = !fits;
      const [hits, all] = kinds.get(kind) || [0, 0];
      kinds.set(kind, [hits + fits, all + 1]);
    }
    document.body.classList.toggle("searching", typed.length > 0);
    opened.forEach((details) => (details.open = false));
    opened = [];
    for (const group of document.querySelectorAll("[data-group]")) {
      group.hidden = typed.length > 0 && !group.querySelector("[data-search]:not([hidden])");
      const details = group.querySelector("details[data-opens]");
      if (typed.length && !group.hidden && details && !details.open) {
        details.open = true;
        opened.push(details);
      }
    }
    const [hits, all] = kinds.get("property") || [0, 0];
    document.getElementById("no-property")?.toggleAttribute("hidden", hits > 0 || all === 0);
    status.textContent = typed.length ? [...kinds].filter(([, [n]]) => n).map(([kind, [n, of]]) => `${n} of ${count(of, kind, kind.replace(/y$/, "ie") + "s")}`).join(" · ") || "Nothing has all of these words." : "";
    if (scroll && typed.length) document.querySelector("section[data-group]:not([hidden])")?.scrollIntoView();
  };
  const choose = (chosen) => {
    verdict = chosen;
    apply(false);
  };
  const clear = () => {
    field.value = "";
    apply(false);
  };
  field.addEventListener("keydown", (event) => event.key === "Escape" && clear());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    field.focus();
  });
  return { field, status, choose, clear };
}
