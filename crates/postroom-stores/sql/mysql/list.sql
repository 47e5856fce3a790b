-- The ids of one page of messages, newest first; list_live has those of live rows.
-- First what is wanted, in the order below; null filters nothing. Then four times, for each place
-- to look at: which one is meant (1 all messages, 2 dead letters, 3 those of the aggregate, 4 those
-- of the ordering key), that aggregate or key, oldest id, newest id, how many messages to look at.
-- At last the limit.
select message.id
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
    -- One of the four is run.
    (
        select id
        from postroom_outbox_message force index (id)
        where ? = 1
            and id between ? and ?
        order by id desc
        limit ?
    )
    union all
    (
        select id
        from postroom_outbox_settled
        where ? = 2
            and state = 2
            and id between ? and ?
        order by id desc
        limit ?
    )
    union all
    (
        select id
        from postroom_outbox_message force index (aggregate)
        where ? = 3
            and aggregate_type = ?
            and aggregate_id = ?
            and id between ? and ?
        order by id desc
        limit ?
    )
    union all
    (
        select id
        from postroom_outbox_message force index (ordering)
        where ? = 4
            and ordering_key = ?
            and id between ? and ?
        order by id desc
        limit ?
    )
) as candidate
straight_join postroom_outbox_message as message on message.id = candidate.id
left join postroom_outbox_queue as queue on queue.seq = message.seq
left join postroom_outbox_ordered as ordered on ordered.seq = message.seq
left join postroom_outbox_parked as parked on parked.seq = message.seq
left join postroom_outbox_settled as settled on settled.seq = message.seq
where (wanted.topic is null or message.topic = wanted.topic)
    and (wanted.topic_prefix is null
        or left(message.topic, length(wanted.topic_prefix)) = wanted.topic_prefix)
    and (wanted.tenant_id is null or message.tenant_id = wanted.tenant_id)
    and (wanted.aggregate_type is null or message.aggregate_type = wanted.aggregate_type)
    and (wanted.aggregate_id is null or message.aggregate_id = wanted.aggregate_id)
    and (wanted.ordering_key is null or message.ordering_key = wanted.ordering_key)
    and (wanted.since is null or message.created_at >= wanted.since)
    and (wanted.until is null or message.created_at < wanted.until)
    and (wanted.min_attempts is null
        or coalesce(settled.attempts, queue.attempts, ordered.attempts, parked.attempts, 0)
            >= wanted.min_attempts)
    and (wanted.reason is null or settled.reason = wanted.reason)
    and case wanted.status
        when 1 then settled.seq is null
            and coalesce(queue.leased, ordered.leased, 0) = 0
        when 2 then settled.seq is null
            and coalesce(queue.leased, ordered.leased, 0) = 1
        when 3 then settled.seq is null
            and coalesce(queue.leased, ordered.leased, 0) = 0
            and coalesce(queue.attempts, ordered.attempts, parked.attempts) > 0
        when 4 then settled.state = 1
        when 5 then settled.state = 2
        else true
    end
    -- The error of a done message is history, not its last one.
    and (wanted.error is null or coalesce(settled.state, 0) <> 1 and instr((
        select attempt.error
        from postroom_outbox_attempt as attempt
        where attempt.id = message.id
        order by attempt.n desc
        limit 1
    ), wanted.error) > 0)
order by message.id desc
limit ?
