-- Which process has which store. Fleet.
select store, node
from postroom_fleet_share
where fleet = cast(? as binary)
