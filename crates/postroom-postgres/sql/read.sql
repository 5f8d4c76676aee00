-- One page of window ($3, $4]: what snapshot $3 does not see and snapshot $4 does, in order of id. Why no row can be
-- missed or come twice is argued in pulse.sql. This statement starts after tick $4 was seen, so it sees all that $4
-- sees.
--   $1 = the last id taken, or the window's lower bound: never read without one, dead rows would be walked through.
--   $2 = hi of $4: no number above it is visible there.
--   $5 = floor of $4: what lies at or below it is visible there whatever its tx says, also from before a restore.
-- By primary key: the snapshots only filter. A sub-select reads a snapshot once per page, not once per row; as text and
-- back it is also unpacked once.
select
    id,
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload::text as payload,
    headers::text as headers,
    occurred_at,
    created_at
from postroom.outbox
where id > $1
    and id <= $2
    and not pg_visible_in_snapshot(
        tx,
        (select snapshot::text::pg_snapshot from postroom.outbox_tick where n = $3)
    )
    and (
        id <= $5
        or pg_visible_in_snapshot(
            tx,
            (select snapshot::text::pg_snapshot from postroom.outbox_tick where n = $4)
        )
    )
order by id
limit $6
