// A worker in Node.js with mysql2: claim, commit, work, settle.
'use strict';

const assert = require('node:assert');
const { randomUUID } = require('node:crypto');
const mysql = require('mysql2/promise');

const schema = process.env.POSTROOM_SCHEMA; // usually postroom
const owner = randomUUID(); // one per process, for as long as it lives

async function main() {
  // Each call commits by itself, so a lease holds before the work begins.
  const connection = await mysql.createConnection(process.env.POSTROOM_URL);

  // A call answers with a list of result sets; the first one has our rows.
  const call = async (procedure, ...arguments_) => {
    const marks = arguments_.map(() => '?').join(', ');
    const [[rows]] = await connection.query(`call ${schema}_${procedure}(${marks})`, arguments_);
    return rows;
  };
  // Answers whether the item was still ours.
  const settle = async (procedure, item, options = {}) => {
    const items = JSON.stringify([[item.seq, item.token]]);
    const applied = await call(procedure, owner, items, JSON.stringify(options));
    return applied.length > 0;
  };

  const seen = [];
  for (const item of await call('outbox_claim', owner, 30, 10, null)) {
    seen.push({
      id: item.id,
      topic: item.topic,
      payload: JSON.parse(item.payload.toString('utf8')),
      headers: JSON.parse(item.headers),
      tenant: item.tenant_id,
    });
    switch (item.topic) {
      case 'job.good':
        assert(await settle('outbox_ack', item));
        assert(!(await settle('outbox_ack', item)), 'it is settled, and ours no more');
        break;
      case 'job.shaky':
        assert(
          await settle('outbox_abandon', item, { error: 'try me again', delay_seconds: 0.001 }),
        );
        break;
      case 'job.hopeless':
        assert(await settle('outbox_fail', item, { error: 'no such customer' }));
        break;
    }
  }
  // Another worker may have our share of the ordered messages.
  await connection.query(`call ${schema}_outbox_leave(?)`, [owner]);

  await connection.end();
  console.log(JSON.stringify({ owner, seen }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
