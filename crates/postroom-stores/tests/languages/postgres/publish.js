// Publish from Node.js with pg: the message commits or rolls back with the business row.
'use strict';

const { Client } = require('pg');

const schema = process.env.POSTROOM_SCHEMA; // usually postroom
const key = '267deaec-5c4f-87f2-a67a-544ae997a64d';

const placeOrder = (client, order) =>
  client.query(`insert into ${schema}.business values ($1)`, [order]);

// Answers with the id of the message, or of the first one with the same key.
async function orderPlaced(client, order) {
  const { rows } = await client.query(
    `select ${schema}.outbox_enqueue($1, $2::jsonb, headers => $3, ordering_key => $4,
         tenant_id => $5, correlation_id => $6, idempotency_key => $7) as id`,
    [
      'order.placed',
      { order, note: 'Grüße' },
      { source: 'shop', umlaut: 'ä' },
      `order-${order}`,
      'acme',
      'request-7',
      key,
    ],
  );
  return rows[0].id;
}

async function main() {
  const client = new Client({ connectionString: process.env.POSTROOM_URL });
  await client.connect();

  // Commit: the order is there, and its message is delivered.
  await client.query('begin');
  await placeOrder(client, 1);
  const first = await orderPlaced(client, 1);
  await client.query('commit');

  // Rollback: neither was ever there.
  await client.query('begin');
  await placeOrder(client, 2);
  await client.query(`select ${schema}.outbox_enqueue('order.lost', '{}')`);
  await client.query('rollback');

  // The same key again is a success that writes nothing, and the transaction goes on.
  await client.query('begin');
  const again = await orderPlaced(client, 3);
  await placeOrder(client, 3);
  await client.query('commit');

  // A broken limit names its field. A savepoint saves the rest of the transaction.
  let refused;
  await client.query('begin');
  await placeOrder(client, 4);
  await client.query('savepoint before_event');
  try {
    await client.query(`select ${schema}.outbox_enqueue($1, $2)`, ['', '{}']);
  } catch (error) {
    refused = { state: error.code, message: error.message };
    await client.query('rollback to before_event');
  }
  // Text is stored as it is. Bytes need the cast: without it the server takes them for text.
  await client.query(
    `select ${schema}.outbox_enqueue('note.text', $1, content_type => 'text/plain')`,
    ['plain'],
  );
  await client.query(
    `select ${schema}.outbox_enqueue('note.bytes', $1::bytea, content_type => 'image/png')`,
    [Buffer.from([0x00, 0xff])],
  );
  await client.query('commit');

  await client.end();
  console.log(JSON.stringify({ first, again, refused }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
