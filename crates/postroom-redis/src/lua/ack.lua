#!lua flags=allow-oom
-- Acknowledges entries of a stream, if the member still holds it.
--
-- KEYS: leases, stream. ARGV: group, partition, token, ids. Answers 1, or 0 if the partition was lost.

if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return 0 end
for from = 4, #ARGV, 1000 do
  redis.call('XACK', KEYS[2], ARGV[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
return 1
