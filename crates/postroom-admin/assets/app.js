// What pages do by themselves. Everything here is an addition: pages work without it.

import { startCopying } from "./copy.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startSelection } from "./selection.js";
import { startTimes } from "./times.js";

/** What is left to the system, light or dark, until somebody chooses. */
export function toggleTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const next = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  try {
    localStorage.setItem("postroom-theme", next);
  } catch {
    // It lasts for this page then.
  }
}

function startTheme() {
  const button = document.getElementById("theme");
  if (!button) return;
  button.hidden = false;
  button.addEventListener("click", toggleTheme);
}

/** What has to be done again when parts of the page were exchanged. */
function refreshed() {
  startSelection();
  startCopying();
}

startTheme();
startTimes();
startKeys(toggleTheme);
refreshed();
startLive(refreshed);
