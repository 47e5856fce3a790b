-- Gives back the slots of an owner, but those in which it holds rows.
-- $1 owner.
select postroom.outbox_leave($1)
