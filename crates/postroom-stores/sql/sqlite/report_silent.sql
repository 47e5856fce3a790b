-- Whoever was silent for a day is forgotten, but who reports now. ?1 a day ago, ?2 owner.
delete from postroom_outbox_dispatcher
where seen_at < ?1 and owner <> ?2
