// The bar below a list: how many are selected, and what can be done with them.

function boxes() {
  return [...document.querySelectorAll('#batch input[name="id"]')];
}

export function anySelected() {
  return boxes().some((box) => box.checked);
}

function show() {
  const bar = document.getElementById("bar");
  const all = document.getElementById("all");
  if (!bar) return;
  const selected = boxes().filter((box) => box.checked).length;
  bar.hidden = selected === 0;
  document.getElementById("selected").textContent = `${selected} selected`;
  if (all) {
    all.checked = selected > 0 && selected === boxes().length;
    all.indeterminate = selected > 0 && !all.checked;
  }
}

let last = null;

/** With the shift key everything between two clicks. */
function toggleRange(event) {
  const list = boxes();
  const at = list.indexOf(event.target);
  if (event.shiftKey && last !== null && at >= 0) {
    const [from, to] = [Math.min(last, at), Math.max(last, at)];
    for (const box of list.slice(from, to + 1)) box.checked = event.target.checked;
  }
  last = at;
  show();
}

export function startSelection() {
  const batch = document.getElementById("batch");
  if (!batch || batch.dataset.started) return;
  batch.dataset.started = "yes";
  const all = document.getElementById("all");
  if (all) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of boxes()) box.checked = all.checked;
      show();
    });
  }
  batch.addEventListener("click", (event) => {
    if (event.target.name === "id") toggleRange(event);
  });
  batch.addEventListener("change", show);
  show();
}
