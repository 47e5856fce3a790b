-- What the procedures of both boxes share. In all of them what is only looked at is read by a SELECT
-- or by the SELECT of an INSERT: these take no locks at READ COMMITTED, while a query in an IF, and
-- the other tables of an UPDATE or a DELETE, are locked.
--
-- Each migration replaces procedures that have changed.
-- Only procedures: functions and triggers need rights that services seldom have where the binary
-- log is on. A procedure for work keeps its rows in temporary tables of the session, each named at
-- most once in a statement, as MySQL demands.

-- Begins a transaction unless one is open, and says so. Outside a transaction SAVEPOINT leaves
-- nothing behind, so its release fails: there is no other portable way to ask.
create procedure postroom_begin(out p_began tinyint)
sql security definer
begin
    declare continue handler for 1305 set p_began = 1;
    set p_began = 0;
    savepoint postroom_probe;
    release savepoint postroom_probe;
    if p_began = 1 then
        set transaction isolation level read committed;
        start transaction;
    end if;
end;
