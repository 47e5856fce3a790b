select exists (select 1 from postroom_outbox_incoming)
