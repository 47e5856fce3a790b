// What all peers in Node.js have in common: the arguments, the clock, and the one line of answer.

import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import pg from "pg";

const { values } = parseArgs({
  options: {
    peer: { type: "string" },
    job: { type: "string" },
    url: { type: "string" },
    messages: { type: "string", default: "20000" },
    payload: { type: "string", default: "200" },
    patience: { type: "string", default: "60" },
    "per-second": { type: "string", default: "1000" },
  },
});

export const wanted = {
  peer: values.peer,
  job: values.job,
  url: values.url,
  messages: Number(values.messages),
  payload: Number(values.payload),
  patience: Number(values.patience),
  perSecond: Number(values["per-second"]),
};

// A connection for what is not measured.
export const database = new pg.Client({ connectionString: wanted.url });
await database.connect();
await database.query("set client_min_messages = warning");

// Numbers below the wanted number of messages, in lists that one statement can carry.
export function* chunks() {
  for (let first = 0; first < wanted.messages; first += 10_000) {
    const length = Math.min(10_000, wanted.messages - first);
    yield Array.from({ length }, (_, n) => first + n);
  }
}

// JSON that is as long as was asked for and begins with a number.
export function payload(number) {
  const json = { n: String(number).padStart(8, "0"), text: "" };
  const missing = Math.max(0, wanted.payload - JSON.stringify(json).length);
  json.text = "0123456789abcdef".repeat(Math.ceil(missing / 16)).slice(0, missing);
  return json;
}

export async function beforeDrain() {
  await database.query("vacuum analyze");
  await database.query("checkpoint");
}

// Waits until the peer's own tables say that nothing is left, or until patience is over. They are
// not asked before the handler has seen every message, so that the question costs the peer
// nothing. The time ends before the question that finds nothing left.
export async function drained(began, seen, left) {
  const seconds = () => (performance.now() - began) / 1000;
  while (seen() < wanted.messages && seconds() < wanted.patience) {
    await sleep(1);
  }
  for (;;) {
    const took = seconds();
    const rest = await left();
    if (rest === 0 || took >= wanted.patience) {
      return { handled: wanted.messages - rest, seconds: took };
    }
    await sleep(1);
  }
}

export async function count(sql) {
  const { rows } = await database.query(`select count(*)::int as n from ${sql}`);
  return rows[0].n;
}

// Publishes at a rate that does not depend on how long each takes, and waits for the handlers. The
// peer has a second before it, to connect and to listen.
// `begun` is filled by the handler with the time at which each number began.
export async function publishSteadily(begun, publish) {
  await sleep(1000);
  const committed = [];
  const publishing = [];
  const start = performance.now();
  for (let n = 0; n < wanted.messages; n += 1) {
    while (performance.now() < start + (n * 1000) / wanted.perSecond) {
      await sleep(0);
    }
    publishing.push(publish(n).then(() => (committed[n] = performance.now())));
  }
  await Promise.all(publishing);
  const ended = performance.now();
  const all = () => committed.every((_, n) => begun[n] !== undefined);
  while (!all() && performance.now() - ended < wanted.patience * 1000) {
    await sleep(1);
  }
  const waits = committed
    .map((at, n) => (begun[n] === undefined ? undefined : Math.max(0, begun[n] - at)))
    .filter((wait) => wait !== undefined)
    .sort((a, b) => a - b);
  const at = (share) => Math.round((waits[Math.floor(waits.length * share)] ?? 0) * 1000);
  return { handled: waits.length, p50_us: at(0.5), p99_us: at(0.99) };
}

// The last line. The process ends with it: what the peer still has open does not matter.
export function report(name, settings, result) {
  const manifest = new URL(`node_modules/${name}/package.json`, import.meta.url);
  const { version } = JSON.parse(readFileSync(manifest, "utf8"));
  console.log(JSON.stringify({ peer: wanted.peer, version, settings, ...result }));
  process.exit(0);
}
