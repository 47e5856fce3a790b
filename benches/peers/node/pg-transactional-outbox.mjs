// pg-transactional-outbox, its polling listener. The replication listener needs a server with
// `wal_level = logical`, which would be another server than that of all others.

import { setTimeout as sleep } from "node:timers/promises";

import {
  DatabaseSetup,
  getDisabledLogger,
  initializePollingMessageListener,
} from "pg-transactional-outbox";

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

// Tried as well: its default of 5, and 100, without the strategy below and with it; 50 connections.
const BATCH = 500;
const CONNECTIONS = 20;
const settings = `polling listener, batch ${BATCH}, ${CONNECTIONS} connections, parallel messages`;

const place = {
  outboxOrInbox: "outbox",
  database: "postgres",
  schema: "transactional_outbox",
  table: "outbox",
  listenerRole: "postgres",
  nextMessagesSchema: "transactional_outbox",
  nextMessagesName: "next_outbox_messages",
};
await database.query(`drop schema if exists ${place.schema} cascade`);
await database.query(DatabaseSetup.dropAndCreateTable(place));
await database.query(DatabaseSetup.createPollingFunction(place));
await database.query(DatabaseSetup.setupPollingIndexes(place));

const fill = `insert into ${place.schema}.${place.table}
  (id, aggregate_type, aggregate_id, message_type, concurrency, payload)
  select gen_random_uuid(), 'order', n::text, 'placed', 'parallel', payload
  from unnest($1::int[], $2::jsonb[]) as given (n, payload)`;
for (const numbers of chunks()) {
  await database.query(fill, [numbers, numbers.map((n) => JSON.stringify(payload(n)))]);
}
await beforeDrain();

// By itself the listener asks for one message whenever one is done. Asked for only when few are
// left, it fetches whole batches.
async function batchSize(busy) {
  if (busy > BATCH / 10) {
    await sleep(1);
    return 0;
  }
  return BATCH;
}

let seen = 0;
const connection = { connectionString: wanted.url, max: CONNECTIONS };
const began = performance.now();
initializePollingMessageListener(
  {
    outboxOrInbox: "outbox",
    dbListenerConfig: connection,
    settings: {
      dbSchema: place.schema,
      dbTable: place.table,
      enableMaxAttemptsProtection: false,
      enablePoisonousMessageProtection: false,
      messageCleanupIntervalInMs: 0,
      nextMessagesFunctionSchema: place.schema,
      nextMessagesFunctionName: place.nextMessagesName,
      nextMessagesBatchSize: BATCH,
      nextMessagesPollingIntervalInMs: 10,
    },
  },
  {
    handle: async () => {
      seen += 1;
    },
  },
  getDisabledLogger(),
  { batchSizeStrategy: batchSize },
);
const left = () => count(`${place.schema}.${place.table} where processed_at is null`);
report("pg-transactional-outbox", settings, await drained(began, () => seen, left));
