// pg-boss, with batches and without waiting between full ones.

import { PgBoss } from "pg-boss";

import {
  beforeDrain,
  chunks,
  count,
  database,
  drained,
  payload,
  report,
  wanted,
} from "./shared.mjs";

const QUEUE = "drain";
// The shortest poll that it allows, and no pause after a full batch. Tried as well, and slower:
// batches of 500, 2,500 and 5,000, concurrency 2 and 8.
const worker = {
  batchSize: 1000,
  localConcurrency: 4,
  burstWhenBatchFull: true,
  pollingIntervalSeconds: 0.5,
};
const settings =
  `batch ${worker.batchSize}, local concurrency ${worker.localConcurrency}, ` +
  `burst when batch full, poll ${worker.pollingIntervalSeconds} s`;

await database.query("drop schema if exists pgboss cascade");
const boss = new PgBoss({ connectionString: wanted.url, supervise: false, schedule: false });
boss.on("error", console.error);
await boss.start();
await boss.createQueue(QUEUE);
for (const numbers of chunks()) {
  await boss.insert(QUEUE, numbers.map((n) => ({ data: payload(n) })));
}
await beforeDrain();

let seen = 0;
const began = performance.now();
await boss.work(QUEUE, worker, async (jobs) => {
  seen += jobs.length;
});
const left = () => count("pgboss.job where state < 'completed'");
report("pg-boss", settings, await drained(began, () => seen, left));
