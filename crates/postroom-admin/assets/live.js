// Keeps the marked parts of a page up to date: fetches the page again and exchanges them.

import { anySelected } from "./selection.js";

const POLL_MS = 5000;
const LEAST_MS = 1500;

/** A part that somebody works in is left alone. */
function isBusy(part) {
  const active = document.activeElement;
  if (part.id === "list" && anySelected()) return true;
  if (part.querySelector("details.pop[open]")) return true;
  return part.contains(active) && /^(INPUT|TEXTAREA|SELECT|BUTTON)$/.test(active.tagName);
}

function exchange(part, fresh) {
  if (part.isEqualNode(fresh)) return;
  for (const details of part.querySelectorAll("details[id]")) {
    const twin = fresh.querySelector(`#${CSS.escape(details.id)}`);
    if (twin) twin.open = details.open;
  }
  const here = [...part.querySelectorAll("tbody tr")].findIndex((row) => row.matches(".here"));
  const focused = part.contains(document.activeElement) ? document.activeElement.href : null;
  const scrolled = [...part.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
  part.replaceChildren(...fresh.childNodes);
  part.className = fresh.className;
  part.querySelectorAll("tbody tr")[here]?.classList.add("here");
  if (focused) [...part.querySelectorAll("a")].find((link) => link.href === focused)?.focus();
  part.querySelectorAll(".scroll").forEach((box, at) => {
    if (scrolled[at]) [box.scrollLeft, box.scrollTop] = scrolled[at];
  });
}

async function refresh(refreshed) {
  const response = await fetch(location.href, {
    headers: { accept: "text/html", "x-refresh": "1" },
    credentials: "same-origin",
    redirect: "error",
  });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live][id]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && !isBusy(part)) exchange(part, fresh);
  }
  const now = page.querySelectorAll(".side .nav a");
  document.querySelectorAll(".side .nav a").forEach((link, at) => {
    const [old, fresh] = [link.querySelector(".badge"), now[at]?.querySelector(".badge")];
    if (old && fresh) old.replaceWith(fresh);
    else if (fresh) link.append(fresh);
    else old?.remove();
  });
  refreshed();
}

export function startLive(refreshed) {
  const light = document.getElementById("live");
  if (!document.querySelector("[data-live]") || !light) return;
  light.hidden = false;
  let last = Date.now();
  let running = false;
  const attempt = async () => {
    if (document.hidden || running || Date.now() - last < LEAST_MS) return;
    [running, last] = [true, Date.now()];
    try {
      await refresh(refreshed);
      light.dataset.on = "yes";
      light.title = "This page keeps itself up to date";
    } catch (error) {
      light.dataset.on = "no";
      light.title = `The server does not answer (${error.message})`;
    } finally {
      running = false;
    }
  };
  light.dataset.on = "yes";
  light.title = "This page keeps itself up to date";
  setInterval(attempt, POLL_MS);
  document.addEventListener("visibilitychange", attempt);
  listen(attempt);
}

/** The server says when there is something new; without that there is the timer. */
function listen(attempt) {
  const url = document.body.dataset.events;
  if (!url) return;
  let events = null;
  const open = () => {
    if (document.hidden || events) return;
    events = new EventSource(url);
    events.addEventListener("message", attempt);
    events.addEventListener("sample", attempt);
    events.addEventListener("error", () => {
      if (events?.readyState === EventSource.CLOSED) events = null;
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      events?.close();
      events = null;
    } else {
      open();
    }
  });
  open();
}
