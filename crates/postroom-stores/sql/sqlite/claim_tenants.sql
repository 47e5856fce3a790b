-- The next tenants that have something to take in the queue, by the hash of their name: below ?2 to
-- the lowest, then from the highest down to ?2. ?1 now, ?2 tenant to begin behind, ?3 suspects, ?4
-- hashes of excluded topics, or null, ?5 limit. Each step is a search for the next tenant. From
-- above, because the newest row of a tenant with a backlog is ready, and its oldest are leased.
with recursive walk (tenant, place) as (
  select ?2, 0
  union all
  select
    coalesce(
      (select coalesce(tenant_hash, -9223372036854775808)
       from postroom_outbox_queue indexed by postroom_outbox_queue_tenants
       where slot is null and coalesce(tenant_hash, -9223372036854775808) < w.tenant
         and coalesce(tenant_hash, -9223372036854775808) >= iif(
           w.place > 0 and w.tenant >= ?2, ?2, -9223372036854775808)
         and (token is null and lost = 0 or ?3 > 0 and (token is null or locked_until <= ?1))
         and (?4 is null or topic_hash not in (select value from json_each(?4)))
       order by coalesce(tenant_hash, -9223372036854775808) desc, priority, seq desc limit 1),
      iif(w.place = 0 or w.tenant < ?2,
        (select coalesce(tenant_hash, -9223372036854775808)
         from postroom_outbox_queue indexed by postroom_outbox_queue_tenants
         where slot is null and coalesce(tenant_hash, -9223372036854775808) >= ?2
           and (token is null and lost = 0 or ?3 > 0 and (token is null or locked_until <= ?1))
           and (?4 is null or topic_hash not in (select value from json_each(?4)))
         order by coalesce(tenant_hash, -9223372036854775808) desc, priority, seq desc limit 1),
        null)),
    w.place + 1
  from walk w
  where w.tenant is not null
  -- The first row is where the search began.
  limit ?5 + 1
)
select tenant
from walk
where place > 0 and tenant is not null
