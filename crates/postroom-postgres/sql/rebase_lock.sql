-- Waits for every writer and holds new ones off until the ticks stand: then no number up to the sequence's is in
-- flight. Not for long, because a lock that is waited for holds writers off too; the next pulse tries again.
set local lock_timeout = '5s';
lock table postroom.outbox in exclusive mode;
