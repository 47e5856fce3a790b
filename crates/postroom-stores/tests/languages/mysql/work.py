"""A worker in Python with PyMySQL: claim, commit, work, settle."""

import json
import os
import uuid
from urllib.parse import urlsplit

import pymysql

SCHEMA = os.environ["POSTROOM_SCHEMA"]  # usually postroom
OWNER = str(uuid.uuid4())  # one per process, for as long as it lives


def connect():
    url = urlsplit(os.environ["POSTROOM_URL"])
    return pymysql.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=url.password or "",
        database=url.path.strip("/"),
        charset="utf8mb4",
        cursorclass=pymysql.cursors.DictCursor,
        # Each call commits by itself, so a lease holds before the work begins.
        autocommit=True,
    )


def call(conn, procedure, *arguments):
    marks = ", ".join(["%s"] * len(arguments))
    # Leaving the block reads the answer of the call to its end.
    with conn.cursor() as cursor:
        cursor.execute(f"call {SCHEMA}_{procedure}({marks})", arguments)
        return cursor.fetchall()


def settle(conn, procedure, item, **options):
    """Answers whether the item was still ours."""
    items = json.dumps([[item["seq"], item["token"]]])
    return len(call(conn, procedure, OWNER, items, json.dumps(options))) > 0


seen = []
with connect() as conn:
    for item in call(conn, "outbox_claim", OWNER, 30, 10, None):
        seen.append({
            "id": item["id"],
            "topic": item["topic"],
            "payload": json.loads(item["payload"]),
            "headers": json.loads(item["headers"]),
            "tenant": item["tenant_id"],
        })
        match item["topic"]:
            case "job.good":
                assert settle(conn, "outbox_ack", item)
                assert not settle(conn, "outbox_ack", item), "it is settled, and ours no more"
            case "job.shaky":
                again = {"error": "try me again", "delay_seconds": 0.001}
                assert settle(conn, "outbox_abandon", item, **again)
            case "job.hopeless":
                assert settle(conn, "outbox_fail", item, error="no such customer")
    # Another worker may have our share of the ordered messages.
    call(conn, "outbox_leave", OWNER)

print(json.dumps({"owner": OWNER, "seen": seen}))
