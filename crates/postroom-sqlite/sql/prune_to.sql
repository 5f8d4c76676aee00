-- The last id to remove: of the ?3 oldest entries up to ?1, the one before the first that is younger than ?2. Only those
-- rows are looked at, so a table full of young entries costs nothing, and no emit pays for an index on created_at.
-- Without a cutoff (a ?2 beyond the calendar) the comparison is null and everything counts as young.
select coalesce(
    min(case when created_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2) then null else id end) - 1,
    max(id)
)
from (
    select
        id,
        created_at
    from postroom_outbox
    where id <= ?1
    order by id
    limit ?3
)
