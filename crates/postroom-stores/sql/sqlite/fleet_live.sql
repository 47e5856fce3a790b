-- A process says that it lives. ?1 fleet, ?2 node, ?3 until when.
insert into postroom_fleet_node (fleet, node, live_until)
values (?1, ?2, ?3)
on conflict (fleet, node) do update set live_until = excluded.live_until
