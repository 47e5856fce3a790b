-- Which process has which store. ?1 fleet.
select store, node
from postroom_fleet_share
where fleet = ?1
