-- The next tenants that wait for something, as in claim_tenants.sql, and whether it came due.
-- Nobody when nothing did. ?1 now, ?2 tenant to begin behind, ?3 suspects, ?4 hashes of excluded
-- topics, or null, ?5 limit.
with recursive walk (tenant, place) as (
  select ?2, 0
  where exists (
      select 1 from postroom_outbox_parked where priority > 0 and slot is null and wake_at <= ?1)
    or exists (
      select 1 from postroom_outbox_parked where priority = 0 and slot is null and wake_at <= ?1)
    or exists (
      select 1 from postroom_outbox_parked where priority < 0 and slot is null and wake_at <= ?1)
  union all
  select
    coalesce(
      (select coalesce(tenant_hash, -9223372036854775808)
       from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
       where slot is null and coalesce(tenant_hash, -9223372036854775808) < w.tenant
         and coalesce(tenant_hash, -9223372036854775808) >= iif(
           w.place > 0 and w.tenant >= ?2, ?2, -9223372036854775808)
       order by coalesce(tenant_hash, -9223372036854775808) desc limit 1),
      iif(w.place = 0 or w.tenant < ?2,
        (select coalesce(tenant_hash, -9223372036854775808)
         from postroom_outbox_parked indexed by postroom_outbox_parked_tenants
         where slot is null and coalesce(tenant_hash, -9223372036854775808) >= ?2
         order by coalesce(tenant_hash, -9223372036854775808) desc limit 1),
        null)),
    w.place + 1
  from walk w
  where w.tenant is not null
  limit ?5 + 1
)
select
  tenant,
  exists (
    select 1 from postroom_outbox_parked p indexed by postroom_outbox_parked_tenants
    where p.slot is null and coalesce(p.tenant_hash, -9223372036854775808) = walk.tenant
      and ((p.priority > 0) - (p.priority < 0)) = 1
      and p.wake_at <= ?1 and (p.lost = 0 or ?3 > 0)
      and (?4 is null or p.topic_hash not in (select value from json_each(?4))))
  or exists (
    select 1 from postroom_outbox_parked p indexed by postroom_outbox_parked_tenants
    where p.slot is null and coalesce(p.tenant_hash, -9223372036854775808) = walk.tenant
      and ((p.priority > 0) - (p.priority < 0)) = 0
      and p.wake_at <= ?1 and (p.lost = 0 or ?3 > 0)
      and (?4 is null or p.topic_hash not in (select value from json_each(?4))))
  or exists (
    select 1 from postroom_outbox_parked p indexed by postroom_outbox_parked_tenants
    where p.slot is null and coalesce(p.tenant_hash, -9223372036854775808) = walk.tenant
      and ((p.priority > 0) - (p.priority < 0)) = -1
      and p.wake_at <= ?1 and (p.lost = 0 or ?3 > 0)
      and (?4 is null or p.topic_hash not in (select value from json_each(?4)))) as due
from walk
where place > 0 and tenant is not null
