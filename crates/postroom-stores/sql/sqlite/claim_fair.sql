-- What may be claimed now of one tenant, in claim order. As claim.sql: ?1 now, ?2 the tenant's part
-- of the batch, ?3 suspects, ?4 hashes of excluded topics, or null. ?5 tenant.
with
zero_rows as materialized (
  select * from (
    select * from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and ((priority > 0) - (priority < 0)) = 0 and wake_at <= ?1
      and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by wake_at, seq limit ?2)
),
parked_rows as (
  select * from zero_rows
  union all
  select * from (
    select * from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and ((priority > 0) - (priority < 0)) = 1 and wake_at <= ?1
      and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, wake_at, seq limit ?2)
  union all
  select * from (
    select * from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and ((priority > 0) - (priority < 0)) = -1 and wake_at <= ?1
      and lost = 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, wake_at, seq limit ?2)
  union all
  -- A suspect behind the last row of a full part can not be taken: it is not even looked at.
  select * from (
    select * from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and ((priority > 0) - (priority < 0)) = 0
      and wake_at <= coalesce(
        (select max(wake_at) from zero_rows having count(*) = ?2), ?1)
      and lost > 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by wake_at, seq limit ?3)
  union all
  select * from (
    select * from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and ((priority > 0) - (priority < 0)) = 1 and wake_at <= ?1
      and lost > 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, wake_at, seq limit ?3)
  union all
  select * from (
    select * from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and ((priority > 0) - (priority < 0)) = -1 and wake_at <= ?1
      and lost > 0
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, wake_at, seq limit ?3)
),
fresh_rows as materialized (
  select * from postroom_outbox_queue indexed by postroom_outbox_queue_tenants
  where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5 and token is null
    and lost = 0 and (?4 is null or topic_hash not in (select value from json_each(?4)))
  order by priority desc, seq limit ?2
),
-- The last row of a full part, or what lies behind everything.
edge as materialized (
  select
    coalesce((select min(priority) from fresh_rows having count(*) = ?2), -1000) as priority,
    (select max(seq) from fresh_rows
     where priority = (select min(priority) from fresh_rows)) as seq
),
suspect_rows as (
  select * from (
    select * from postroom_outbox_queue indexed by postroom_outbox_queue_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and priority > (select priority from edge)
      and (token is null and lost > 0 or token is not null and locked_until <= ?1)
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by priority desc, seq limit ?3)
  union all
  select * from (
    select * from postroom_outbox_queue indexed by postroom_outbox_queue_tenants
    where slot is null and coalesce(tenant_hash, -9223372036854775808) = ?5
      and priority = (select priority from edge) and seq < (select seq from edge)
      and (token is null and lost > 0 or token is not null and locked_until <= ?1)
      and (?4 is null or topic_hash not in (select value from json_each(?4)))
    order by seq limit ?3)
)
select
  seq, 1 as parked, lost > 0 as suspect, null as lost_by, priority, wake_at, attempts, lost,
  expires_at
from parked_rows
union all
select seq, 0, 0, null, priority, null, attempts, lost, expires_at
from fresh_rows
union all
select seq, 0, 1, owner, priority, null, attempts, lost, expires_at
from suspect_rows
order by 5 desc, 2 desc, 6, 1
