-- Which database this is, however one got here: through another name of the server, or a pooler.
select system_identifier::text || '/' || d.oid as identity
from pg_control_system(), pg_database d
where d.datname = current_database()
