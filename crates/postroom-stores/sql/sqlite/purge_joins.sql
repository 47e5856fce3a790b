-- Joins that ended long enough ago and whose members are gone.
delete from postroom_join_tally
where id in (
  select g.id
  from postroom_join_tally g
  where g.state <> 0 and g.ended_at <= ?1
    and not exists (select 1 from postroom_join_message m where m.join_id = g.id)
  order by g.ended_at
  limit ?2
)
