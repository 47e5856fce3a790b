"""Publish from Python with PyMySQL: the message commits or rolls back with the business row."""

import json
import os
from urllib.parse import urlsplit

import pymysql

SCHEMA = os.environ["POSTROOM_SCHEMA"]  # usually postroom
KEY = "267deaec-5c4f-87f2-a67a-544ae997a64d"


def connect():
    url = urlsplit(os.environ["POSTROOM_URL"])
    return pymysql.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=url.password or "",
        database=url.path.strip("/"),
        charset="utf8mb4",
        autocommit=True,
    )


def enqueue(conn, topic, payload, **options):
    """Answers with the id of the message, or of the first one with the same key."""
    # Leaving the block reads the answer of the call to its end.
    with conn.cursor() as cursor:
        call = f"call {SCHEMA}_outbox_enqueue(%s, %s, %s)"
        cursor.execute(call, [topic, payload, json.dumps(options)])
        (message_id, _already_existed) = cursor.fetchone()
        return message_id


def place_order(conn, order):
    with conn.cursor() as cursor:
        cursor.execute("insert into business values (%s)", [order])


def order_placed(conn, order):
    return enqueue(
        conn,
        "order.placed",
        json.dumps({"order": order, "note": "Grüße"}, ensure_ascii=False),
        headers={"source": "shop", "umlaut": "ä"},
        ordering_key=f"order-{order}",
        tenant_id="acme",
        correlation_id="request-7",
        idempotency_key=KEY,
    )


with connect() as conn:
    # Commit: the order is there, and its message is delivered.
    conn.begin()
    place_order(conn, 1)
    first = order_placed(conn, 1)
    conn.commit()

    # Rollback: neither was ever there.
    conn.begin()
    place_order(conn, 2)
    enqueue(conn, "order.lost", "{}")
    conn.rollback()

    # The same key again is a success that writes nothing, and the transaction goes on.
    conn.begin()
    again = order_placed(conn, 3)
    place_order(conn, 3)
    conn.commit()

    # A broken limit names its field, and the transaction goes on.
    conn.begin()
    place_order(conn, 4)
    try:
        enqueue(conn, "", "{}")
    except pymysql.Error as error:
        (code, message) = error.args
        refused = {"state": str(code), "message": message}
    # Text is stored as it is, and bytes are bytes.
    enqueue(conn, "note.text", "plain", content_type="text/plain")
    enqueue(conn, "note.bytes", b"\x00\xff", content_type="image/png")
    conn.commit()

    # Without a transaction nothing is published: it could not roll back with anything.
    try:
        enqueue(conn, "order.alone", "{}")
    except pymysql.Error as error:
        assert "no transaction is open" in error.args[1], error
    else:
        raise AssertionError("published without a transaction")

print(json.dumps({"first": first, "again": again, "refused": refused}))
