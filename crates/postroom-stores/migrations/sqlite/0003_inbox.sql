-- What an inbox adds to a box: where a message came from, and what a key's message said.
alter table postroom_outbox_message add column source text;
alter table postroom_outbox_message add column source_id text;
alter table postroom_outbox_message add column consumer text;
alter table postroom_outbox_key add column content_hash blob;
