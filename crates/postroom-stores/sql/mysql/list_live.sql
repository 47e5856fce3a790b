-- The ids of one page of live messages, the last place in the queue first.
-- First what is wanted, as in list. Then three times lowest place, highest place, how many rows to
-- look at. At last the limit.
select live.id, live.seq
from (
    select
        cast(? as signed) as status,
        cast(? as binary) as topic,
        cast(? as binary) as topic_prefix,
        cast(? as binary) as tenant_id,
        cast(? as binary) as aggregate_type,
        cast(? as binary) as aggregate_id,
        cast(? as binary) as ordering_key,
        cast(? as signed) as since,
        cast(? as signed) as until,
        cast(? as binary) as error,
        cast(? as signed) as min_attempts,
        cast(? as signed) as reason
) as wanted
straight_join (
    (
        select id, seq, attempts, leased
        from postroom_outbox_queue force index (seq)
        where seq between ? and ?
        order by seq desc
        limit ?
    )
    union all
    (
        select id, seq, attempts, leased
        from postroom_outbox_ordered force index (seq)
        where seq between ? and ?
        order by seq desc
        limit ?
    )
    union all
    (
        select id, seq, attempts, 0
        from postroom_outbox_parked force index (primary)
        where seq between ? and ?
        order by seq desc
        limit ?
    )
) as live
straight_join postroom_outbox_message as message on message.id = live.id
where live.leased = (wanted.status = 2)
    and (wanted.status <> 3 or live.attempts > 0)
    and (wanted.topic is null or message.topic = wanted.topic)
    and (wanted.topic_prefix is null
        or left(message.topic, length(wanted.topic_prefix)) = wanted.topic_prefix)
    and (wanted.tenant_id is null or message.tenant_id = wanted.tenant_id)
    and (wanted.aggregate_type is null or message.aggregate_type = wanted.aggregate_type)
    and (wanted.aggregate_id is null or message.aggregate_id = wanted.aggregate_id)
    and (wanted.ordering_key is null or message.ordering_key = wanted.ordering_key)
    and (wanted.since is null or message.created_at >= wanted.since)
    and (wanted.until is null or message.created_at < wanted.until)
    and (wanted.error is null or instr((
        select attempt.error
        from postroom_outbox_attempt as attempt
        where attempt.id = message.id
        order by attempt.n desc
        limit 1
    ), wanted.error) > 0)
    and (wanted.min_attempts is null or live.attempts >= wanted.min_attempts)
    -- Nothing that lives has a reason.
    and wanted.reason is null
order by live.seq desc
limit ?
