-- Numbers between the position and the newest tick; those of transactions that rolled back are counted too. From the
-- start only what retention has left; nobody else asks for the lowest number, which may lie behind many dead rows. No
-- row: the position's tick is gone.
select greatest(
    0,
    (select hi from postroom.outbox_tick order by n desc limit 1)
    - greatest(
        a.hi,
        $2,
        case when a.n = 0 then (select id - 1 from postroom.outbox order by id limit 1) end
    )
)
from postroom.outbox_tick a
where a.n = $1
