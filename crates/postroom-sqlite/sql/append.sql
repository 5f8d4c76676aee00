-- One row; `append.rs` adds rows to the list for longer batches. No lock is taken here: the caller's transaction has the
-- write lock already (BEGIN IMMEDIATE) or takes it with this statement.
insert into postroom_outbox (
    event_id,
    event_type,
    source,
    aggregate_type,
    aggregate_id,
    payload,
    headers,
    occurred_at
)
values
(?, ?, ?, ?, ?, ?, ?, ?)
