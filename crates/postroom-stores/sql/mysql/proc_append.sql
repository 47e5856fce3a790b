-- Takes back what one append wrote in this transaction, so that a refused list leaves nothing:
-- ids of messages and hashes of keys.
create procedure postroom_outbox_run_undo(p_ids json, p_keys json)
sql security definer
begin
    call postroom_outbox_tables();
    delete from postroom_outbox_given;
    insert ignore into postroom_outbox_given (place, seq, token, kind, delay, counted)
    select given.place, message.seq, message.id, 0, 0, 0
    from json_table(p_ids, '$[*]' columns (
        place for ordinality,
        id varchar(32) path '$'
    )) as given
    straight_join postroom_outbox_message as message force index (id)
        on message.id = unhex(given.id);
    delete queue
    from postroom_outbox_given as given
    straight_join postroom_outbox_queue as queue force index (seq) on queue.seq = given.seq;
    delete queue
    from postroom_outbox_given as given
    straight_join postroom_outbox_ordered as queue force index (seq) on queue.seq = given.seq;
    delete parked
    from postroom_outbox_given as given
    straight_join postroom_outbox_parked as parked force index (primary) on parked.seq = given.seq;
    delete message
    from postroom_outbox_given as given
    straight_join postroom_outbox_message as message force index (primary)
        on message.seq = given.seq;
    delete taken
    from json_table(p_keys, '$[*]' columns (hash varchar(64) path '$')) as given
    straight_join postroom_outbox_key as taken force index (primary)
        on taken.hash = unhex(given.hash);
end;
