// A worker in Node.js with pg: claim, commit, work, settle.
'use strict';

const assert = require('node:assert');
const { randomUUID } = require('node:crypto');
const { Client } = require('pg');

const schema = process.env.POSTROOM_SCHEMA; // usually postroom
const owner = randomUUID(); // one per process, for as long as it lives

async function main() {
  const client = new Client({ connectionString: process.env.POSTROOM_URL });
  await client.connect();

  // Answers whether the item was still ours.
  const settle = async (call, item, ...more) => {
    const arguments_ = [owner, [item.seq], [item.token], ...more];
    const { rowCount } = await client.query(`select ${schema}.${call}`, arguments_);
    return rowCount > 0;
  };
  const ack = 'outbox_ack($1, $2, $3)';
  const abandon = "outbox_abandon($1, $2, $3, error => $4, delay => '1 millisecond')";
  const fail = 'outbox_fail($1, $2, $3, error => $4)';

  // Each statement commits by itself, so a lease holds before the work begins.
  const claimed = await client.query(
    `select * from ${schema}.outbox_claim($1, lease => '30 seconds', batch => 10)`,
    [owner],
  );
  const seen = [];
  for (const item of claimed.rows) {
    seen.push({
      id: item.id,
      topic: item.topic,
      payload: JSON.parse(item.payload.toString('utf8')),
      headers: item.headers,
      tenant: item.tenant_id,
    });
    switch (item.topic) {
      case 'job.good':
        assert(await settle(ack, item));
        assert(!(await settle(ack, item)), 'it is settled, and ours no more');
        break;
      case 'job.shaky':
        assert(await settle(abandon, item, 'try me again'));
        break;
      case 'job.hopeless':
        assert(await settle(fail, item, 'no such customer'));
        break;
    }
  }
  // Another worker may have our share of the ordered messages.
  await client.query(`select ${schema}.outbox_leave($1)`, [owner]);

  await client.end();
  console.log(JSON.stringify({ owner, seen }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
