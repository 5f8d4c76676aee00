#!lua flags=allow-oom
-- Gives entries back that were not worked, so that this delivery does not count; then lets the partition go if asked to.
--
-- KEYS: leases, stream. ARGV: member, group, partition, token, 1 to let the partition go, ids.
-- Answers 1, or 0 if the partition was lost.

local leases, stream = KEYS[1], KEYS[2]
local member, group, partition = ARGV[1], ARGV[2], ARGV[3]
if redis.call('HGET', leases, partition) ~= ARGV[4] then return 0 end
for i = 6, #ARGV do
  local row = redis.call('XPENDING', stream, group, ARGV[i], ARGV[i], 1, member)[1]
  if row then
    local deliveries = math.max(row[4] - 1, 0)
    redis.call('XCLAIM', stream, group, member, 0, ARGV[i], 'RETRYCOUNT', deliveries, 'JUSTID')
  end
end
if ARGV[5] == '1' then redis.call('HDEL', leases, partition, 'u:' .. partition) end
return 1
