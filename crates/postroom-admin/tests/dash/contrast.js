// Measures the contrast of everything that is visible, after WCAG 2.1 (1.4.3 and 1.4.11).
// Answers how many pairs were measured, and those that are too faint.

const canvas = document.createElement("canvas");
canvas.width = canvas.height = 1;
const pen = canvas.getContext("2d", { willReadFrequently: true });
const known = new Map();

/** Any colour of CSS as red, green, blue and alpha, 0 to 1. */
function rgba(colour) {
  if (!known.has(colour)) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    known.set(colour, [r / 255, g / 255, b / 255, a / 255]);
  }
  return known.get(colour);
}

function over([r, g, b, a], below) {
  return [r, g, b].map((part, at) => part * a + below[at] * (1 - a));
}

/** What lies behind the content of an element, or behind the element itself. */
function ground(element) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    layers.push(rgba(getComputedStyle(at).backgroundColor));
  }
  const page = rgba(getComputedStyle(document.body).backgroundColor);
  return layers.reverse().reduce((below, layer) => over(layer, below), page.slice(0, 3));
}

function opacity(element) {
  let all = 1;
  for (let at = element; at; at = at.parentElement) all *= getComputedStyle(at).opacity;
  return all;
}

function luminance(colour) {
  const [r, g, b] = colour.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function isSeen(element) {
  const box = element.getBoundingClientRect();
  return box.width > 1 && box.height > 1 && !element.closest(".unseen")
    && element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
}

const found = { measured: 0, faint: [] };

function judge(what, colour, faded, below, least) {
  const [r, g, b, a] = rgba(colour);
  const ratio = contrast(over([r, g, b, a * faded], below), below);
  found.measured += 1;
  if (ratio < least) found.faint.push(`${what}: ${ratio.toFixed(2)} of ${least}`);
}

function name(element) {
  const classes = [...element.classList].map((part) => `.${part}`).join("");
  return `${element.tagName.toLowerCase()}${classes}`;
}

function leastOf(style) {
  const size = parseFloat(style.fontSize);
  return size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
}

function texts() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.data.trim();
    const element = node.parentElement;
    if (!text || ["SCRIPT", "STYLE", "OPTION", "TITLE"].includes(element.tagName)) continue;
    if (!isSeen(element)) continue;
    const style = getComputedStyle(element);
    const what = `${name(element)} "${text.slice(0, 30)}"`;
    judge(what, style.color, opacity(element), ground(element), leastOf(style));
  }
}

/** Fields have an edge, a value and perhaps a placeholder, and show when they have the focus. */
function fields() {
  for (const field of document.querySelectorAll("input, select, textarea")) {
    if (!isSeen(field) || field.type === "checkbox") continue;
    const style = getComputedStyle(field);
    const outside = ground(field.parentElement);
    judge(`edge of ${name(field)}`, style.borderTopColor, opacity(field), outside, 3);
    judge(`value of ${name(field)}`, style.color, opacity(field), ground(field), 4.5);
    if (field.placeholder) {
      const faint = getComputedStyle(field, "::placeholder");
      const faded = opacity(field) * faint.opacity;
      judge(`placeholder of ${name(field)}`, faint.color, faded, ground(field), 4.5);
    }
  }
}

/** One of each kind: they share their rule. */
function focus() {
  const before = document.activeElement;
  // What is behind a dialog can not have it.
  const kinds = document.querySelector("dialog[open]") ? ["dialog button"]
    : ["main input", "main a", "main button", "main summary", ".nav a"];
  for (const kind of kinds) {
    const element = [...document.querySelectorAll(kind)].find(isSeen);
    if (!element) continue;
    element.focus({ focusVisible: true, preventScroll: true });
    const style = getComputedStyle(element);
    const width = style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth);
    if (width < 2) found.faint.push(`${kind} does not show that it has the focus`);
    judge(`ring of ${kind}`, style.outlineColor, 1, ground(element.parentElement), 3);
  }
  document.activeElement.blur();
  before?.focus?.({ preventScroll: true });
}

/** Lines of charts, dots and bars that say something. */
function parts() {
  for (const line of document.querySelectorAll(".plot .line")) {
    if (isSeen(line)) judge(name(line), getComputedStyle(line).stroke, 1, ground(line.closest(".card")), 3);
  }
  for (const dot of document.querySelectorAll(".dot")) {
    const colour = getComputedStyle(dot).backgroundColor;
    if (isSeen(dot)) judge(name(dot), colour, 1, ground(dot.parentElement), 3);
  }
  for (const bar of document.querySelectorAll("progress[value]")) {
    // What is full has the colour of text; its own style can not be asked for.
    if (isSeen(bar)) judge("progress", getComputedStyle(bar).color, 1, ground(bar), 3);
  }
}

const opened = [...document.querySelectorAll("details:not([open])")];
for (const details of opened) details.open = true;
texts();
fields();
focus();
parts();
// Rows under the pointer or the keyboard have another ground.
const rows = [...document.querySelectorAll("tbody tr:not(.here)")];
for (const row of rows) row.classList.add("here");
texts();
for (const row of rows) row.classList.remove("here");
for (const details of opened) details.open = false;
return found;
