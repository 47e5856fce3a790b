-- Deletes one chunk of idempotency keys whose message was settled long enough ago: now and the age,
-- thrice, then the limit. The key of a live message, or of a dead one that can be replayed, stays
-- whatever its age.
delete from postroom_outbox_key
where created_at <= coalesce(
        ?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
    ) - ?
    and case
        when settled_at is not null then settled_at <= coalesce(
            ?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
        ) - ?
        else not exists (
            select 1
            from postroom_outbox_message as message
            left join postroom_outbox_settled as settled
                on settled.seq = message.seq
                and settled.state = 1
                and settled.settled_at <= coalesce(
                    ?, timestampdiff(microsecond, timestamp'1970-01-01 00:00:00', utc_timestamp(6))
                ) - ?
            where message.id = postroom_outbox_key.message_id
                and settled.seq is null
        )
    end
order by created_at
limit ?
