-- The oldest entries and whether they are old enough. Locked, so that two processes that prune at once take turns.
-- Only the beginning of the log is looked at: `where created_at < …` would scan it to the end when nothing is old.
select
  id,
  coalesce(created_at < timestampadd(microsecond, ?, utc_timestamp(6)), false) as is_old
from postroom_outbox
where id <= ?
order by id
limit ?
for update
