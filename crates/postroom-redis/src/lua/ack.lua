#!lua flags=allow-oom
-- Acknowledges entries of a stream, if the member's lease is still valid.
--
-- KEYS: leases, stream. ARGV: group, partition, token, ids. Returns 1, or 0 if the lease was lost.

if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return 0 end
for from = 4, #ARGV, 1000 do
  redis.call('XACK', KEYS[2], ARGV[1], unpack(ARGV, from, math.min(from + 999, #ARGV)))
end
return 1
