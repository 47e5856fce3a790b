"""Publish from Python's own sqlite3: the message commits or rolls back with the business row."""

import json
import os
import sqlite3
import time

KEY = "267deaec-5c4f-87f2-a67a-544ae997a64d"

ENQUEUE = """
    insert into postroom_outbox_incoming
        (topic, payload, headers, ordering_key, tenant_id, correlation_id, idempotency_key)
    values (:topic, :payload, :headers, :ordering_key, :tenant, :correlation, :key)
"""


def place_order(conn, order):
    conn.execute("insert into business values (?)", [order])


def order_placed(conn, order):
    arguments = {
        "topic": "order.placed",
        "payload": json.dumps({"order": order, "note": "Grüße"}),
        "headers": json.dumps({"source": "shop", "umlaut": "ä"}),
        "ordering_key": f"order-{order}",
        "tenant": "acme",
        "correlation": "request-7",
        "key": KEY,
    }
    conn.execute(ENQUEUE, arguments)


conn = sqlite3.connect(os.environ["POSTROOM_FILE"], timeout=5)

# Commit: the order is there, and its message is delivered.
with conn:
    place_order(conn, 1)
    order_placed(conn, 1)

# Rollback: neither was ever there.
try:
    with conn:
        place_order(conn, 2)
        conn.execute(
            "insert into postroom_outbox_incoming (topic, payload) values ('order.lost', '{}')"
        )
        raise RuntimeError("changed my mind")
except RuntimeError:
    pass

# The same key again is a success, and not delivered again.
with conn:
    place_order(conn, 3)
    order_placed(conn, 3)

# A broken limit names its field, and the transaction goes on.
with conn:
    place_order(conn, 4)
    try:
        conn.execute("insert into postroom_outbox_incoming (topic, payload) values (?, ?)", ["", "{}"])
    except sqlite3.IntegrityError as error:
        refused = str(error)
    # Text is stored as it is, and bytes are bytes.
    conn.executemany(
        "insert into postroom_outbox_incoming (topic, payload, content_type) values (?, ?, ?)",
        [("note.text", "plain", "text/plain"), ("note.bytes", b"\x00\xff", "image/png")],
    )
    # Times are microseconds since 1970.
    in_an_hour = int((time.time() + 3600) * 1_000_000)
    conn.execute(
        "insert into postroom_outbox_incoming (topic, payload, due_at) values ('report.due', '{}', ?)",
        [in_an_hour],
    )

conn.close()
print(json.dumps({"refused": refused, "due_at": in_an_hour}))
