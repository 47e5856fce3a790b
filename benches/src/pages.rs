//! P12: pages of the dashboard and of the API on a table with millions of messages.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use postroom_admin::{Access, Admin, Database, Limits};
use postroom_stores::{PgStore, StoreConfig};
use sqlx::{Executor as _, PgConnection, PgPool};
use tower::ServiceExt as _;

use crate::bulk::settle_down;
use crate::progress::say;
use crate::report::numbers::{digits, percentile, seconds};
use crate::report::{Case, Figure, Series, Unit};

/// Written over thirty days, up to now. Of 1,000 messages 10 are dead and 10 are still to be
/// delivered. Every 10,000th has the topic `rare`; half have an aggregate, ten messages each.
const FILL: &str = "
    create temp table made as
    select
        number as seq,
        written,
        (
            lpad(to_hex((extract(epoch from written) * 1000)::bigint), 12, '0')
            || '7' || substr(md5(number::text), 1, 3)
            || '8' || substr(md5(number::text), 4, 15)
        )::uuid as id,
        case when number % 10000 = 0 then 'rare' else 'topic.' || number % 20 end as topic
    from (
        select
            number,
            now() - interval '30 days' * (1 - number / $1::double precision) as written
        from generate_series(1, $1) as number
    ) as each";

const MESSAGES: &str = "
    insert into postroom.outbox_message (
        id, seq, occurred_at, created_at, priority, topic, aggregate_type, aggregate_id,
        tenant_id, payload
    )
    select
        id, seq, written, written, 0, topic,
        case when seq % 2 = 0 then 'order' end,
        case when seq % 2 = 0 then (seq / 20)::text end,
        'tenant-' || seq % 100,
        decode(repeat('30', 200), 'hex')
    from made";

const SETTLED: &str = "
    insert into postroom.outbox_settled (
        seq, settled_at, id, settled_by, attempts, lost, state, reason
    )
    select
        seq, written + interval '1 s', id, null,
        case when seq % 100 = 1 then 10 else 0 end, 0,
        case when seq % 100 = 1 then 2 else 1 end,
        case when seq % 100 = 1 then 1 end
    from made
    where seq % 100 <> 2";

const ATTEMPTS: &str = "
    insert into postroom.outbox_attempt (id, n, at, by_owner, kind, error)
    select id, 1, written + interval '1 s', null, 1, 'gateway timeout after ' || seq % 30 || ' s'
    from made
    where seq % 100 = 1";

const QUEUE: &str = "
    insert into postroom.outbox_queue (seq, topic_hash, id, attempts, lost, priority)
    select seq, hashtext(topic), id, 0, 0, 0
    from made
    where seq % 100 = 2";

/// As when deliveries stood still for a while: a fifth of all is live. A few are held, by somebody
/// who began with the oldest ones, and a few wait for another try.
const BACKLOG: [&str; 4] = [
    "delete from postroom.outbox_settled where seq % 100 between 3 and 21",
    "insert into postroom.outbox_queue (seq, topic_hash, id, attempts, lost, priority)
    select seq, hashtext(topic), id, 0, 0, 0
    from made
    where seq % 100 between 4 and 21",
    "insert into postroom.outbox_parked (
        seq, topic_hash, id, wake_at, attempts, lost, priority
    )
    select seq, hashtext(topic), id, now() + interval '1 day', seq % 2, 0, 0
    from made
    where seq % 100 = 3",
    "update postroom.outbox_queue
    set token = gen_random_uuid(), owner = gen_random_uuid(), locked_until = now() + interval '1 d'
    where seq <= 10000",
];

/// Asked for again when a fifth is live, with the same bars.
const LIVE_PAGES: [(&str, &str, u64); 6] = [
    ("newest", "/messages", 50),
    ("pending", "/messages?status=pending", 50),
    ("retrying", "/messages?status=failed", 50),
    ("in flight (partial)", "/messages?status=leased", 50),
    ("pending of a topic", "/messages?status=pending&topic=topic.{n}", 50),
    ("pending of a rare topic", "/messages?status=pending&topic=rare", 200),
];

const CALLS: i64 = 100;

/// What people ask for, each with a part that differs from call to call, and the bar in
/// milliseconds for the slowest of a hundred calls.
const PAGES: [(&str, &str, u64); 11] = [
    ("newest", "/messages", 50),
    ("dead letters", "/messages?status=dead", 50),
    ("pending", "/messages?status=pending", 50),
    ("done", "/messages?status=done", 50),
    ("a day", "/messages?until={day}", 50),
    ("topic", "/messages?topic=topic.{n}", 50),
    ("rare topic", "/messages?topic=rare&until={day}", 50),
    ("aggregate", "/messages?aggregate_type=order&aggregate_id={aggregate}", 50),
    ("tenant", "/messages?tenant=tenant-{n}", 200),
    ("error text", "/messages?status=dead&error=no-such-text", 200),
    ("done of a topic, before", "/messages?status=done&topic=rare&until={day}", 200),
];

pub(crate) async fn measure(url: &str, messages: i64) -> anyhow::Result<Figure> {
    say("P12", "filling a table with messages");
    let pool = PgPool::connect(url).await?;
    let store = PgStore::connect(url, StoreConfig::default()).await?;
    crate::postgres::fresh(&pool, &store).await?;
    // Its session has the list of what was made.
    let mut conn = pool.acquire().await?;
    fill(&mut conn, messages).await.context("filling")?;
    let ids: Vec<uuid::Uuid> = sqlx::query_scalar(
        "select id from postroom.outbox_message where seq % $1 = 7 order by id limit 100",
    )
    .bind((messages / 100).max(1))
    .fetch_all(&mut *conn)
    .await?;
    let admin = Admin::new(vec![Database::new("main", store)], Access::local());
    let often = Limits { requests: NonZeroU32::MAX, ..Limits::default() };
    let router = admin.limits(often).router();
    let mut cases = pages(&router, &PAGES, "", messages).await?;
    let mut took = Vec::new();
    for id in ids {
        took.push(get(&router, &format!("/messages/{id}")).await?);
    }
    cases.push(judged("one message", 0.05, &[("page", took)]));
    for sql in BACKLOG {
        conn.execute(sql).await.context("a backlog")?;
    }
    settle_down(&mut conn).await?;
    cases.extend(pages(&router, &LIVE_PAGES, ", a fifth live", messages).await?);
    let figure = Figure::new("P12", "The dashboard at millions of messages")
        .note(format!("{} messages, each page {CALLS} times", digits(messages as f64)))
        .note("API: the answer of the API; page: the page of the dashboard around it");
    Ok(cases.into_iter().fold(figure, Figure::case))
}

/// Each page a hundred times, through the API and as a page of the dashboard.
async fn pages(
    router: &Router,
    pages: &[(&str, &str, u64)],
    when: &str,
    messages: i64,
) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (what, path, bar) in pages {
        let mut sides = Vec::new();
        for (side, prefix) in [("API", "/api/v1"), ("page", "")] {
            let mut took = Vec::new();
            for call in 0..CALLS {
                let path = path_of(path, call, messages);
                took.push(get(router, &format!("{prefix}{path}")).await?);
            }
            sides.push((side, took));
        }
        cases.push(judged(&format!("{what}{when}"), *bar as f64 / 1000.0, &sides));
    }
    Ok(cases)
}

/// The slowest of a hundred calls counts.
fn judged(what: &str, bar: f64, sides: &[(&str, Vec<Duration>)]) -> Case {
    let mut case = Case::new(what, Unit::Seconds, Vec::new());
    for (side, took) in sides {
        for share in [50, 99] {
            let series = Series::ours().which(&format!("{side} p{share}"));
            case.series.push(series.rounds(vec![percentile(&seconds(took), share)]));
        }
    }
    for (side, _) in sides {
        case = case.bar(&format!("Postroom, {side} p99"), bar);
    }
    case
}

async fn fill(conn: &mut PgConnection, messages: i64) -> anyhow::Result<()> {
    sqlx::query(FILL).bind(messages).execute(&mut *conn).await?;
    for sql in [MESSAGES, SETTLED, ATTEMPTS, QUEUE] {
        conn.execute(sql).await?;
    }
    let next = "select setval('postroom.outbox_seq', $1)";
    sqlx::query(next).bind(messages).execute(&mut *conn).await?;
    settle_down(conn).await
}

fn path_of(path: &str, call: i64, messages: i64) -> String {
    let day = format!("{}h", call * 7 + 1);
    let aggregate = (call * 7919) % (messages / 20).max(1);
    path.replace("{day}", &day)
        .replace("{n}", &(call % 20).to_string())
        .replace("{aggregate}", &aggregate.to_string())
}

async fn get(router: &Router, path: &str) -> anyhow::Result<Duration> {
    let request = Request::get(path).header("host", "localhost").body(Body::empty())?;
    let began = Instant::now();
    let answer = router.clone().oneshot(request).await?;
    let status = answer.status();
    axum::body::to_bytes(answer.into_body(), 16 << 20).await?;
    let took = began.elapsed();
    ensure!(status.is_success(), "{path}: {status}");
    Ok(took)
}
