"""A worker in Python with psycopg: claim, commit, work, settle."""

import json
import os
import uuid

import psycopg

SCHEMA = os.environ["POSTROOM_SCHEMA"]  # usually postroom
OWNER = uuid.uuid4()  # one per process, for as long as it lives


def settle(conn, call, item, *more):
    """Answers whether the item was still ours."""
    arguments = [OWNER, [item["seq"]], [item["token"]], *more]
    return conn.execute(call.format(schema=SCHEMA), arguments).fetchall() != []


ACK = "select {schema}.outbox_ack(%s, %s, %s)"
ABANDON = "select {schema}.outbox_abandon(%s, %s, %s, error => %s, delay => '1 millisecond')"
FAIL = "select {schema}.outbox_fail(%s, %s, %s, error => %s)"

seen = []
# Each statement commits by itself, so a lease holds before the work begins.
with psycopg.connect(
    os.environ["POSTROOM_URL"], autocommit=True, row_factory=psycopg.rows.dict_row
) as conn:
    claim = f"select * from {SCHEMA}.outbox_claim(%s, lease => '30 seconds', batch => 10)"
    for item in conn.execute(claim, [OWNER]).fetchall():
        seen.append({
            "id": str(item["id"]),
            "topic": item["topic"],
            "payload": json.loads(item["payload"]),
            "headers": item["headers"],
            "tenant": item["tenant_id"],
        })
        match item["topic"]:
            case "job.good":
                assert settle(conn, ACK, item)
                assert not settle(conn, ACK, item), "it is settled, and ours no more"
            case "job.shaky":
                assert settle(conn, ABANDON, item, "try me again")
            case "job.hopeless":
                assert settle(conn, FAIL, item, "no such customer")
    # Another worker may have our share of the ordered messages.
    conn.execute(f"select {SCHEMA}.outbox_leave(%s)", [OWNER])

print(json.dumps({"owner": str(OWNER), "seen": seen}))
