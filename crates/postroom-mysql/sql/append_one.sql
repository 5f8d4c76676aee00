-- A simple insert: under innodb_autoinc_lock_mode 1 it takes no table lock for its number, an insert … select does.
insert into postroom_incoming (
  event_id,
  event_type,
  source,
  aggregate_type,
  aggregate_id,
  payload,
  headers,
  occurred_at
)
values (?, ?, ?, ?, ?, ?, ?, ?)
