-- ?2 entries that look as if ?1 others came before them. Their ids rise, as those of real events do.
with recursive n (n) as (
    select 1
    union all
    select n + 1 from n where n < ?2
)
insert into postroom_outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
select
    printf('00000000-0000-7000-8000-%012x', ?1 + n),
    'postroom.bench.backlog',
    'bench',
    cast(n % 1000 as text),
    json_object('n', n, 'note', printf('%.150c', 'x'))
from n
