-- Four roles, each with the rights that it needs and no others. Run this in the database of the
-- tables, as an account that may grant, after each migration: a procedure that was replaced has
-- lost its grants. Roles that are missing are made; give them to accounts:
-- grant postroom_producer to shop@'%'; set default role postroom_producer for shop@'%';
-- (MySQL: set default role postroom_producer to shop@'%').

create role if not exists postroom_producer;
create role if not exists postroom_worker;
create role if not exists postroom_admin;
create role if not exists postroom_reader;

-- Producers publish, in any language. The procedure does with the rights of its definer what they
-- may not do: they can not read, change or claim what is there.
grant execute on procedure postroom_outbox_enqueue
to postroom_producer, postroom_worker, postroom_admin;

-- Everybody else looks.
grant select on postroom_outbox to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_message to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_queue to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_ordered to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_parked to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_settled to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_attempt to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_key to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_slot to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_node to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_halt to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_control to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_outbox_dispatcher to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_message to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_queue to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_ordered to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_parked to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_settled to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_attempt to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_key to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_slot to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_node to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_halt to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_control to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_inbox_dispatcher to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_join_tally to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_join_message to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_join_follow_up to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_audit to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_fleet_node to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_fleet_share to postroom_worker, postroom_admin, postroom_reader;
grant select on postroom_meta to postroom_worker, postroom_admin, postroom_reader;

-- Workers publish and deliver: services that run a dispatcher, with outbox, inbox and joins.
grant insert on postroom_outbox_message to postroom_worker, postroom_admin;
grant insert on postroom_outbox_queue to postroom_worker, postroom_admin;
grant insert on postroom_outbox_ordered to postroom_worker, postroom_admin;
grant insert on postroom_outbox_parked to postroom_worker, postroom_admin;
grant insert, update, delete on postroom_outbox_key to postroom_worker, postroom_admin;
grant insert, update, delete on postroom_outbox_dispatcher to postroom_worker, postroom_admin;
grant insert on postroom_inbox_message to postroom_worker, postroom_admin;
grant insert on postroom_inbox_queue to postroom_worker, postroom_admin;
grant insert on postroom_inbox_ordered to postroom_worker, postroom_admin;
grant insert on postroom_inbox_parked to postroom_worker, postroom_admin;
grant insert, update, delete on postroom_inbox_key to postroom_worker, postroom_admin;
grant insert, update, delete on postroom_inbox_dispatcher to postroom_worker, postroom_admin;
grant insert, update, delete on postroom_fleet_node to postroom_worker, postroom_admin;
grant insert, delete on postroom_fleet_share to postroom_worker, postroom_admin;
grant insert on postroom_join_tally to postroom_worker, postroom_admin;
grant insert on postroom_join_follow_up to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_claim to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_claim_fair to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_claim_ordered to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_settle to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_renew to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_reap to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_leave to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_undo to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_purge to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_purge_joins to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_join_add to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_run_join_look to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_claim to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_ack to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_abandon to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_fail to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_release to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_renew to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_reap to postroom_worker, postroom_admin;
grant execute on procedure postroom_outbox_leave to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_claim to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_claim_fair to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_claim_ordered to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_settle to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_renew to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_reap to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_leave to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_undo to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_purge to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_purge_joins to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_join_add to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_run_join_look to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_claim to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_ack to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_abandon to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_fail to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_release to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_renew to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_reap to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_leave to postroom_worker, postroom_admin;
grant execute on procedure postroom_inbox_enqueue to postroom_worker, postroom_admin;

-- Admins do all that workers do, and replay, discard, pause, resume, cancel joins, and say what
-- they did.
grant insert, delete on postroom_outbox_control to postroom_admin;
grant execute on procedure postroom_outbox_run_replay to postroom_admin;
grant execute on procedure postroom_outbox_run_discard to postroom_admin;
grant insert, delete on postroom_inbox_control to postroom_admin;
grant execute on procedure postroom_inbox_run_replay to postroom_admin;
grant execute on procedure postroom_inbox_run_discard to postroom_admin;
grant update on postroom_join_tally to postroom_admin;
grant delete on postroom_join_follow_up to postroom_admin;
grant insert on postroom_audit to postroom_admin;
