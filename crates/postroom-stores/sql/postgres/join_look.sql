-- What there is to know about messages that are to be members, with everything locked that could
-- change it. $1 joins, $2 messages, $3 whether this transaction wrote the message; an element each.
select state, expected, attached, member_in_inbox, standing
from postroom.outbox_join_look($1::uuid[], $2::uuid[], $3::boolean[])
