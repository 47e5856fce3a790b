// Publish from Node.js with mysql2: the message commits or rolls back with the business row.
'use strict';

const assert = require('node:assert');
const mysql = require('mysql2/promise');

const schema = process.env.POSTROOM_SCHEMA; // usually postroom
const key = '267deaec-5c4f-87f2-a67a-544ae997a64d';

// Answers with the id of the message, or of the first one with the same key.
async function enqueue(connection, topic, payload, options = {}) {
  // A call answers with a list of result sets; the first one has our row.
  const [[[row]]] = await connection.query(
    `call ${schema}_outbox_enqueue(?, ?, ?)`,
    [topic, payload, JSON.stringify(options)],
  );
  return row.id;
}

const placeOrder = (connection, order) =>
  connection.query('insert into business values (?)', [order]);

const orderPlaced = (connection, order) =>
  enqueue(connection, 'order.placed', JSON.stringify({ order, note: 'Grüße' }), {
    headers: { source: 'shop', umlaut: 'ä' },
    ordering_key: `order-${order}`,
    tenant_id: 'acme',
    correlation_id: 'request-7',
    idempotency_key: key,
  });

async function main() {
  const connection = await mysql.createConnection(process.env.POSTROOM_URL);

  // Commit: the order is there, and its message is delivered.
  await connection.beginTransaction();
  await placeOrder(connection, 1);
  const first = await orderPlaced(connection, 1);
  await connection.commit();

  // Rollback: neither was ever there.
  await connection.beginTransaction();
  await placeOrder(connection, 2);
  await enqueue(connection, 'order.lost', '{}');
  await connection.rollback();

  // The same key again is a success that writes nothing, and the transaction goes on.
  await connection.beginTransaction();
  const again = await orderPlaced(connection, 3);
  await placeOrder(connection, 3);
  await connection.commit();

  // A broken limit names its field, and the transaction goes on.
  let refused;
  await connection.beginTransaction();
  await placeOrder(connection, 4);
  try {
    await enqueue(connection, '', '{}');
  } catch (error) {
    refused = { state: error.sqlState, message: error.sqlMessage };
  }
  // Text is stored as it is, and bytes are bytes.
  await enqueue(connection, 'note.text', 'plain', { content_type: 'text/plain' });
  const bytes = Buffer.from([0x00, 0xff]);
  await enqueue(connection, 'note.bytes', bytes, { content_type: 'image/png' });
  await connection.commit();

  // Without a transaction nothing is published: it could not roll back with anything.
  await assert.rejects(enqueue(connection, 'order.alone', '{}'), /no transaction is open/);

  await connection.end();
  console.log(JSON.stringify({ first, again, refused }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
