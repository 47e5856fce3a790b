-- Whether there is anything to count.
select exists (select 1 from postroom_join_tally where state = 0)
