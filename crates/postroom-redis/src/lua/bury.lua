#!lua flags=allow-oom
-- Keeps a dead letter, also with the memory full: a group must be able to give up what it cannot work.
--
-- KEYS: the dead stream. ARGV: fields and values.

return redis.call('XADD', KEYS[1], 'MAXLEN', '~', '100000', '*', unpack(ARGV))
