-- Tick $1 and those after it that a window of about $2 numbers may reach: always the next, always $3 (where a window
-- that was begun ends), never more than 500 looked at. hi never falls, so this is a run without holes — except behind
-- tick 0, which stays when retention removes its neighbours.
select
    n,
    era,
    lo,
    hi,
    floor
from (
    select
        n,
        era,
        lo,
        hi,
        floor
    from postroom.outbox_tick
    where n >= $1
    order by n
    limit 500
) t
where hi <= (select hi from postroom.outbox_tick where n = $1) + $2
    or n <= $3
    or n = (select n from postroom.outbox_tick where n > $1 order by n limit 1)
order by n
