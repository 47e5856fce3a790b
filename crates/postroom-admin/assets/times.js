// Relative times go on while a page is open.

const UNITS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** In the words of the server: `3 min ago`, `in 5 s`, `just now`. */
export function relative(at, now) {
  const seconds = Math.floor(Math.abs(now - at) / 1000);
  if (seconds < 1) return "just now";
  const [size, unit] = UNITS.find(([size]) => seconds >= size);
  const distance = `${Math.floor(seconds / size).toLocaleString("en-US")} ${unit}`;
  return at > now ? `in ${distance}` : `${distance} ago`;
}

/** Only times that were relative, and never what is too far away to come. */
function tick() {
  const now = Date.now();
  for (const time of document.querySelectorAll("time[title]")) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at) || time.textContent === "never") continue;
    const text = relative(at, now);
    if (time.textContent !== text) time.textContent = text;
  }
}

export function startTimes() {
  setInterval(() => {
    if (!document.hidden) tick();
  }, 5000);
}
