-- A function belongs to everybody when it is made. Ours belong to their owner, and to the roles
-- that roles.sql names; replacing a function leaves it what it was. Each migration runs this.
do $body$
declare
    routine regprocedure;
begin
    for routine in
        select pg_proc.oid
        from pg_proc
        join pg_namespace
            on pg_namespace.oid = pronamespace
        where format('"%s".%s', nspname, proname) = any(array[{{functions}}])
    loop
        execute format('revoke execute on function %s from public', routine);
    end loop;
end
$body$;
