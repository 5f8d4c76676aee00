#!lua flags=allow-oom
-- Stores a copy of a dead letter, also with full memory: a group must always be able to give up a failing entry.
--
-- KEYS: the dead-letter stream. ARGV: fields and values.

return redis.call('XADD', KEYS[1], 'MAXLEN', '~', '100000', '*', unpack(ARGV))
