-- Which database this is, however one got here: through another name of the server, or a pooler.
select concat(@@hostname, ':', @@port, ':', @@datadir, '/', database()) as identity
