// Keyboard shortcuts. The help dialog lists them.

const WAIT_MS = 1200;

function isTyping(target) {
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
    && target.type !== "checkbox";
}

function rows() {
  return [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a.open"));
}

function move(by) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.findIndex((row) => row.classList.contains("here"));
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  all[at]?.classList.remove("here");
  next.classList.add("here");
  next.querySelector("a.open").focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

function select() {
  document.querySelector("tr.here input[name=id]")?.click();
}

function go(key) {
  const link = document.querySelector(`a[data-key="${CSS.escape(key)}"]`);
  if (link) location.assign(link.href);
}

export function startKeys(toggleTheme) {
  const help = document.getElementById("help");
  const open = () => {
    if (!help.open) help.showModal();
  };
  const button = document.getElementById("help-open");
  button.hidden = false;
  button.addEventListener("click", open);
  const actions = {
    "/": () => document.getElementById("jump").focus(),
    "?": open,
    s: () => document.getElementById("switch")?.focus(),
    j: () => move(1),
    k: () => move(-1),
    x: select,
    t: toggleTheme,
  };
  let going = 0;
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
    if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      document.getElementById("jump").focus();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (Date.now() - going < WAIT_MS) {
      going = 0;
      go(event.key);
    } else if (event.key === "g") {
      going = Date.now();
    } else if (actions[event.key] && !help.open) {
      event.preventDefault();
      actions[event.key]();
    }
  });
}
