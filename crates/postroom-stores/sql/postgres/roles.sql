-- Four roles, each with the rights that it needs and no others. Run this as the owner of the schema
-- after each migration: it begins by taking away what an older version gave. Roles that are missing
-- are made without a login; give them to accounts: grant postroom_producer to shop;

do $body$
declare
    role text;
begin
    foreach role in array array[
        'postroom_producer', 'postroom_worker', 'postroom_admin', 'postroom_reader'
    ] loop
        if to_regrole(role) is null then
            begin
                execute format('create role %s nologin', role);
            exception
                -- Somebody else made it at the same time.
                when duplicate_object or unique_violation then
                    null;
            end;
        end if;
    end loop;
end
$body$;

revoke all on
    postroom.outbox, postroom.outbox_message, postroom.outbox_queue, postroom.outbox_queue_plain,
    postroom.outbox_queue_ordered, postroom.outbox_parked, postroom.outbox_settled,
    postroom.outbox_attempt, postroom.outbox_key, postroom.outbox_slot, postroom.outbox_node,
    postroom.outbox_halt, postroom.outbox_control, postroom.outbox_dispatcher, postroom.outbox_seq,
    postroom.inbox, postroom.inbox_message, postroom.inbox_queue, postroom.inbox_queue_plain,
    postroom.inbox_queue_ordered, postroom.inbox_parked, postroom.inbox_settled,
    postroom.inbox_attempt, postroom.inbox_key, postroom.inbox_slot, postroom.inbox_node,
    postroom.inbox_halt, postroom.inbox_control, postroom.inbox_dispatcher, postroom.inbox_seq,
    postroom.join_tally, postroom.join_message, postroom.join_follow_up, postroom.audit,
    postroom.fleet_node, postroom.fleet_share, postroom.meta
from postroom_producer, postroom_worker, postroom_admin, postroom_reader;

grant usage on schema postroom
to postroom_producer, postroom_worker, postroom_admin, postroom_reader;

-- Producers publish, in any language. The function does with the rights of its owner what they may
-- not do: they can not read, change or claim what is there.
grant execute on function
    postroom.outbox_enqueue(
        text, bytea, text, jsonb, text, text, text, text, text, text, uuid,
        timestamptz, timestamptz, timestamptz, integer, uuid, integer
    ),
    postroom.outbox_enqueue(
        text, text, text, jsonb, text, text, text, text, text, text, uuid,
        timestamptz, timestamptz, timestamptz, integer, uuid, integer
    ),
    postroom.outbox_enqueue(
        text, jsonb, text, jsonb, text, text, text, text, text, text, uuid,
        timestamptz, timestamptz, timestamptz, integer, uuid, integer
    )
to postroom_producer, postroom_worker, postroom_admin;

-- Everybody else looks.
grant select on
    postroom.outbox, postroom.outbox_message, postroom.outbox_queue, postroom.outbox_queue_plain,
    postroom.outbox_queue_ordered, postroom.outbox_parked, postroom.outbox_settled,
    postroom.outbox_attempt, postroom.outbox_key, postroom.outbox_slot, postroom.outbox_node,
    postroom.outbox_halt, postroom.outbox_control, postroom.outbox_dispatcher,
    postroom.inbox, postroom.inbox_message, postroom.inbox_queue, postroom.inbox_queue_plain,
    postroom.inbox_queue_ordered, postroom.inbox_parked, postroom.inbox_settled,
    postroom.inbox_attempt, postroom.inbox_key, postroom.inbox_slot, postroom.inbox_node,
    postroom.inbox_halt, postroom.inbox_control, postroom.inbox_dispatcher,
    postroom.join_tally, postroom.join_message, postroom.join_follow_up, postroom.audit,
    postroom.fleet_node, postroom.fleet_share, postroom.meta
to postroom_worker, postroom_admin, postroom_reader;

grant execute on function postroom.payload_text
to postroom_worker, postroom_admin, postroom_reader;

-- Workers publish and deliver: services that run a dispatcher, with outbox, inbox and joins.
grant insert, delete on
    postroom.outbox_message, postroom.outbox_queue, postroom.outbox_queue_plain,
    postroom.outbox_queue_ordered, postroom.outbox_parked, postroom.outbox_settled,
    postroom.outbox_attempt, postroom.outbox_key, postroom.outbox_node, postroom.outbox_halt,
    postroom.outbox_dispatcher,
    postroom.inbox_message, postroom.inbox_queue, postroom.inbox_queue_plain,
    postroom.inbox_queue_ordered, postroom.inbox_parked, postroom.inbox_settled,
    postroom.inbox_attempt, postroom.inbox_key, postroom.inbox_node, postroom.inbox_halt,
    postroom.inbox_dispatcher,
    postroom.join_tally, postroom.join_message, postroom.join_follow_up,
    postroom.fleet_node, postroom.fleet_share
to postroom_worker, postroom_admin;

grant update on
    postroom.outbox_queue, postroom.outbox_queue_plain, postroom.outbox_queue_ordered,
    postroom.outbox_parked, postroom.outbox_key, postroom.outbox_slot, postroom.outbox_node,
    postroom.outbox_dispatcher,
    postroom.inbox_queue, postroom.inbox_queue_plain, postroom.inbox_queue_ordered,
    postroom.inbox_parked, postroom.inbox_key, postroom.inbox_slot, postroom.inbox_node,
    postroom.inbox_dispatcher,
    postroom.join_tally, postroom.join_message, postroom.fleet_node
to postroom_worker, postroom_admin;

-- Who may update no column at all may not lock a row either.
grant update (settled_by) on postroom.outbox_settled, postroom.inbox_settled
to postroom_worker;

grant usage on sequence postroom.outbox_seq, postroom.inbox_seq
to postroom_worker, postroom_admin;

grant execute on function
    postroom.length_prefixed(bytea), postroom.length_prefixed(text), postroom.hash64,
    postroom.content_hash, postroom.check_chars, postroom.check_headers, postroom.check_bounds,
    postroom.micros, postroom.join_end, postroom.join_settle, postroom.join_reopen,
    postroom.join_add,
    postroom.outbox_run_append, postroom.outbox_run_claim, postroom.outbox_run_settle,
    postroom.outbox_run_renew, postroom.outbox_run_reap, postroom.outbox_claim,
    postroom.outbox_claim_ordered, postroom.outbox_settle_all, postroom.outbox_ack,
    postroom.outbox_abandon, postroom.outbox_fail, postroom.outbox_release, postroom.outbox_renew,
    postroom.outbox_reap, postroom.outbox_free_slots, postroom.outbox_leave, postroom.outbox_join,
    postroom.outbox_join_look, postroom.outbox_count_done,
    postroom.inbox_run_append, postroom.inbox_run_claim, postroom.inbox_run_settle,
    postroom.inbox_run_renew, postroom.inbox_run_reap, postroom.inbox_claim,
    postroom.inbox_claim_ordered, postroom.inbox_settle_all, postroom.inbox_ack,
    postroom.inbox_abandon, postroom.inbox_fail, postroom.inbox_release, postroom.inbox_renew,
    postroom.inbox_reap, postroom.inbox_free_slots, postroom.inbox_leave, postroom.inbox_join,
    postroom.inbox_join_look, postroom.inbox_count_done,
    postroom.inbox_enqueue(
        text, bytea, text, jsonb, text, text, text, text, text, text, uuid,
        timestamptz, timestamptz, timestamptz, integer, uuid, integer
    ),
    postroom.inbox_enqueue(
        text, text, text, jsonb, text, text, text, text, text, text, uuid,
        timestamptz, timestamptz, timestamptz, integer, uuid, integer
    ),
    postroom.inbox_enqueue(
        text, jsonb, text, jsonb, text, text, text, text, text, text, uuid,
        timestamptz, timestamptz, timestamptz, integer, uuid, integer
    )
to postroom_worker, postroom_admin;

-- Admins do all that workers do, and pause, resume, discard and say what they did.
grant insert, delete on postroom.outbox_control, postroom.inbox_control
to postroom_admin;

grant update on postroom.outbox_settled, postroom.inbox_settled
to postroom_admin;

grant insert on postroom.audit
to postroom_admin;
