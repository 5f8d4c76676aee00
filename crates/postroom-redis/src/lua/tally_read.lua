#!lua flags=no-writes
-- The sum of a counter, without changes that are forgotten now.
--
-- KEYS: counter, changes, ends, as in tally.lua. Returns the sum.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local sum = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now))) do
  sum = sum - (tonumber(redis.call('HGET', KEYS[2], id)) or 0)
end
return string.format('%.0f', sum)
