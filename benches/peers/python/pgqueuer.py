"""pgqueuer, with large batches and a fast event loop."""

import argparse
import asyncio
import importlib.metadata
import json
import os
import sys
import time

# This script has the name of the package that it imports: its folder is not a place to look.
sys.path.pop(0)

import asyncpg  # noqa: E402
import uvloop  # noqa: E402
from pgqueuer import AsyncpgDriver, Queries, QueueManager  # noqa: E402

# Tried as well, and slower: 100, 1,000 and 2,000.
BATCH = 500
SETTINGS = f"batch {BATCH}, no limit of tasks, uvloop, one connection"
CHUNK = 10_000


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", required=True)
    parser.add_argument("--job", choices=["drain"], required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--payload", type=int, default=200)
    parser.add_argument("--patience", type=float, default=60)
    return parser.parse_args()


async def fill(queries, wanted):
    payload = (b"0123456789abcdef" * (wanted.payload // 16 + 1))[: wanted.payload]
    for first in range(0, wanted.messages, CHUNK):
        size = min(CHUNK, wanted.messages - first)
        await queries.enqueue(["drain"] * size, [payload] * size, [0] * size)


async def drain(wanted):
    outside = await asyncpg.connect(wanted.url)
    await outside.execute("set client_min_messages = warning")
    await outside.execute("drop schema if exists pgqueuer cascade")
    await outside.execute("create schema pgqueuer")
    inside = await asyncpg.connect(wanted.url, server_settings={"search_path": "pgqueuer"})
    queries = Queries(AsyncpgDriver(inside))
    await queries.install()
    await queries.optimize_autovacuum()
    await fill(queries, wanted)
    await outside.execute("vacuum analyze")
    await outside.execute("checkpoint")

    seen = 0
    manager = QueueManager(queries)

    @manager.entrypoint("drain")
    async def handle(job):
        nonlocal seen
        seen += 1

    began = time.perf_counter()
    running = asyncio.create_task(manager.run(batch_size=BATCH))
    # The table is asked when the handler has seen every message, so that the question costs the
    # peer nothing. The time ends before the question that finds nothing left.
    while seen < wanted.messages and time.perf_counter() - began < wanted.patience:
        await asyncio.sleep(0.001)
        if running.done():
            running.result()
    while True:
        took = time.perf_counter() - began
        left = await outside.fetchval("select count(*) from pgqueuer.pgqueuer")
        if left == 0 or took >= wanted.patience:
            break
        await asyncio.sleep(0.001)
    print(
        json.dumps(
            {
                "peer": wanted.peer,
                "version": importlib.metadata.version("pgqueuer"),
                "settings": SETTINGS,
                "handled": wanted.messages - left,
                "seconds": took,
            }
        ),
        flush=True,
    )
    running.cancel()
    os._exit(0)


uvloop.run(drain(arguments()))
