"""Publish from Python with psycopg: the message commits or rolls back with the business row."""

import json
import os

import psycopg
from psycopg.types.json import Jsonb

SCHEMA = os.environ["POSTROOM_SCHEMA"]  # usually postroom
KEY = "267deaec-5c4f-87f2-a67a-544ae997a64d"

ENQUEUE = f"""
    select {SCHEMA}.outbox_enqueue(%(topic)s, %(payload)s,
        headers => %(headers)s, ordering_key => %(ordering_key)s, tenant_id => %(tenant)s,
        correlation_id => %(correlation)s, idempotency_key => %(key)s)
"""


def place_order(conn, order):
    conn.execute(f"insert into {SCHEMA}.business values (%s)", [order])


def order_placed(conn, order):
    """Answers with the id of the message, or of the first one with the same key."""
    arguments = {
        "topic": "order.placed",
        "payload": Jsonb({"order": order, "note": "Grüße"}),
        "headers": Jsonb({"source": "shop", "umlaut": "ä"}),
        "ordering_key": f"order-{order}",
        "tenant": "acme",
        "correlation": "request-7",
        "key": KEY,
    }
    return str(conn.execute(ENQUEUE, arguments).fetchone()[0])


with psycopg.connect(os.environ["POSTROOM_URL"], autocommit=True) as conn:
    # Commit: the order is there, and its message is delivered.
    with conn.transaction():
        place_order(conn, 1)
        first = order_placed(conn, 1)

    # Rollback: neither was ever there.
    with conn.transaction() as transaction:
        place_order(conn, 2)
        conn.execute(f"select {SCHEMA}.outbox_enqueue('order.lost', '{{}}')")
        raise psycopg.Rollback(transaction)

    # The same key again is a success that writes nothing, and the transaction goes on.
    with conn.transaction():
        again = order_placed(conn, 3)
        place_order(conn, 3)

    # A broken limit names its field. A savepoint saves the rest of the transaction.
    with conn.transaction():
        place_order(conn, 4)
        try:
            with conn.transaction():
                conn.execute(f"select {SCHEMA}.outbox_enqueue(%s, %s)", ["", "{}"])
        except psycopg.errors.InvalidParameterValue as error:
            refused = {"state": error.sqlstate, "message": error.diag.message_primary}
        # Text is stored as it is, and bytes are bytes.
        conn.execute(
            f"select {SCHEMA}.outbox_enqueue('note.text', %s, content_type => 'text/plain')",
            ["plain"],
        )
        conn.execute(
            f"select {SCHEMA}.outbox_enqueue('note.bytes', %s, content_type => 'image/png')",
            [b"\x00\xff"],
        )

print(json.dumps({"first": first, "again": again, "refused": refused}))
