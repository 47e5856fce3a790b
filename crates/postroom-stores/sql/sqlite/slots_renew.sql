-- What has grown old of an owner's share. ?1 owner, ?2 now, ?3 until when, ?4 the last slot of the
-- share, ?5 what ends before this is old.
update postroom_outbox_slot
set locked_until = ?3
where owner = ?1
  and locked_until > ?2
  and locked_until < ?5
  and slot <= ?4
