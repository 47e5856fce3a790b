-- Which migrations ran, and the oldest build that may work here.
select schema_version, min_client
from postroom.meta
