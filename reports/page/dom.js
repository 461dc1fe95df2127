// Small words for building the document. Text always becomes a text node: nothing of a spec is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const number = (value) => value.toLocaleString("en-US");
const count = (value, one, many) => `${number(value)} ${value === 1 ? one : many || one + "s"}`;
const round = (value) => Math.round(value * 10) / 10;

// Words of a spec, in which `words` between backticks are code.
const prose = (text) => text.split("`").map((part, i, parts) =>
  (i % 2 && i < parts.length - 1 ? h("code", null, part) : (i % 2 ? "`" : "") + part));

// The width of text as the diagrams draw it, in pixels.
const measure = (() => {
  const context = document.createElement("canvas").getContext("2d");
  const family = "ui-sans-serif, system-ui, 'Helvetica Neue', Arial, sans-serif";
  return (text, size = 12, weight = 400) => {
    context.font = `${weight} ${size}px ${family}`;
    return context.measureText(text).width;
  };
})();

const cut = (text, limit) => (text.length > limit ? text.slice(0, limit - 1).trimEnd() + "…" : text);

// An element that works like a button, for the inside of an SVG.
function pressable(element, label, press) {
  fill(element, {
    tabindex: "0",
    role: "button",
    "aria-label": label,
    onclick: press,
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        press();
      }
    },
  }, []);
  return element;
}

// Where a box scrolls sideways, it says so: on a phone no scroll bar shows it.
const sideways = new ResizeObserver((entries) => entries.forEach(({ target }) =>
  target.classList.toggle("more-beside", target.scrollWidth > target.clientWidth + 4)));
new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((node) => {
  if (!(node instanceof Element)) return;
  for (const box of [node, ...node.querySelectorAll(".scroll, .sequence-scroll")]) if (box.matches(".scroll, .sequence-scroll")) sideways.observe(box);
}))).observe(document.documentElement, { childList: true, subtree: true });
