-- What there is to know about messages that are to be members, in the order given.
select
  g.state, g.expected, g.attached, known.in_inbox as member_in_inbox,
  case when m.seq is not null then coalesce(s.state, 0) end as standing
from json_each(?1) item
left join postroom_join_tally g on g.id = unhex(item.value ->> 'join')
left join postroom_join_message known
  on known.join_id = unhex(item.value ->> 'join')
  and known.message_id = unhex(item.value ->> 'message')
left join postroom_outbox_message m on m.id = unhex(item.value ->> 'message')
left join postroom_outbox_settled s on s.seq = m.seq
order by item.key
