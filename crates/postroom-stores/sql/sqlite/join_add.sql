-- New members. ?1 an element per member, ?2 whether they are in the inbox.
insert into postroom_join_message (join_id, message_id, in_inbox, outcome)
select unhex(value ->> 'join'), unhex(value ->> 'message'), ?2, value ->> 'outcome'
from json_each(?1)
