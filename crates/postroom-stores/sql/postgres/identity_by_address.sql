-- As good as it gets for whoever may not ask for the identifier of the server.
select coalesce(inet_server_addr()::text, 'local') || ':' || current_setting('port') || '/' || d.oid
    as identity
from pg_database d
where d.datname = current_database()
