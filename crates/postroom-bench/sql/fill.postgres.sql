-- $2 entries that look as if $1 others came before them. Their ids rise, as those of real events do.
insert into postroom.outbox (event_id, event_type, aggregate_type, aggregate_id, payload)
select
    ('00000000-0000-7000-8000-' || lpad(to_hex($1::bigint + n), 12, '0'))::uuid,
    'postroom.bench.backlog',
    'bench',
    (n % 1000)::text,
    jsonb_build_object('n', n, 'note', repeat('x', 150))
from generate_series(1, $2::bigint) as n
