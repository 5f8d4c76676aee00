#!lua flags=allow-oom
-- Releases a partition. Decrements the delivery count of the member's unacknowledged entries, so that this delivery does
-- not count.
--
-- KEYS: leases, stream. ARGV: member, group, partition, token. Returns 1, or 0 if the lease was lost.

local leases, stream = KEYS[1], KEYS[2]
local member, group, partition = ARGV[1], ARGV[2], ARGV[3]
if redis.call('HGET', leases, partition) ~= ARGV[4] then return 0 end
local from, rows = '-', nil
repeat
  rows = redis.pcall('XPENDING', stream, group, from, '+', 100, member)
  if rows.err then rows = {} end -- no such group: nothing to return
  for _, row in ipairs(rows) do
    redis.call('XCLAIM', stream, group, member, 0, row[1], 'RETRYCOUNT', math.max(row[4] - 1, 0), 'JUSTID')
    from = '(' .. row[1]
  end
until #rows < 100
redis.call('HDEL', leases, partition, 'u:' .. partition)
return 1
