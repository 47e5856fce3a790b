// Buttons that copy a text.

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** For plain HTTP, where browsers offer no clipboard. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

export function startCopying() {
  for (const code of document.querySelectorAll("code")) {
    if (code.textContent.includes("{origin}")) {
      code.textContent = code.textContent.replace("{origin}", location.origin);
    }
  }
  for (const button of document.querySelectorAll("button[data-copy][hidden]")) {
    button.hidden = false;
    const label = button.textContent;
    button.addEventListener("click", async () => {
      const text = button.dataset.copy.replace("{origin}", location.origin);
      button.textContent = (await copy(text)) ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }
}
