-- Keys of done messages, or of messages that are gone, settled long enough ago. The key of a live
-- or dead message stays.
delete from postroom_outbox_key
where hash in (
  select k.hash
  from postroom_outbox_key k
  left join postroom_outbox_message m on m.id = k.message_id
  left join postroom_outbox_settled s on s.seq = m.seq
  where case
    when m.seq is null then coalesce(k.gone_at, k.created_at)
    when s.state = 1 then s.settled_at
  end <= ?1
  limit ?2
)
