// graphile-worker (the one for Node.js), with a local queue and batched completion.

import { Logger, makeWorkerUtils, run } from "graphile-worker";

import {
  beforeDrain,
  chunks,
  count,
  database,
  drained,
  payload,
  publishSteadily,
  report,
  wanted,
} from "./shared.mjs";

// Those of https://worker.graphile.org/docs/performance for one process, but a drain has a larger
// local queue, with which it was 20 % faster. Tried as well, and not faster: one of 5,000, and
// concurrency 100.
const worker = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  localQueue: { size: wanted.job === "drain" ? 2000 : 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const settings =
  `concurrency ${worker.concurrentJobs}, pool ${worker.maxPoolSize}, ` +
  `local queue ${worker.localQueue.size}, completion batched`;

let seen = 0;
const begun = [];
const taskList = {
  drain: async () => {
    seen += 1;
  },
  latency: async ({ n }) => {
    begun[Number(n)] = performance.now();
  },
};

const logger = new Logger(() => () => {});
const preset = { worker: { ...worker, connectionString: wanted.url } };
await database.query("drop schema if exists graphile_worker cascade");
const utils = await makeWorkerUtils({ connectionString: wanted.url, logger });
await utils.migrate();

if (wanted.job === "drain") {
  for (const numbers of chunks()) {
    await utils.addJobs(numbers.map((n) => ({ identifier: "drain", payload: payload(n) })));
  }
  await beforeDrain();
  const began = performance.now();
  await run({ preset, taskList, logger, noHandleSignals: true });
  const left = () => count("graphile_worker._private_jobs");
  report("graphile-worker", settings, await drained(began, () => seen, left));
} else {
  await run({ preset, taskList, logger, noHandleSignals: true });
  const publish = (n) => utils.addJob("latency", payload(n));
  report("graphile-worker", settings, await publishSteadily(begun, publish));
}
