#!lua
-- Removes the connections of a member that are too old, and those whose lease has ended.
--
-- KEYS: places (connection -> since when in ms), leases (connection -> end in ms). ARGV: lifetime in ms. Returns how many it removed.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if type(redis.pcall('ZCARD', KEYS[2])) == 'table' then -- a key of another type
  redis.call('DEL', KEYS[2])
end
local removed = 0

local function remove(ids)
  for _, id in ipairs(ids) do
    removed = removed + redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
  end
end

remove(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now)))
remove(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ARGV[1])))
return removed
