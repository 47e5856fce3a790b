-- Why a row could not be taken in.
insert into postroom_outbox_attempt (id, n, at, by_owner, kind, error)
values (?1, 1, ?2, ?3, 1, ?4)
