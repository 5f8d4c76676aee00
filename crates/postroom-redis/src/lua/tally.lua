#!lua
-- Adds changes to a counter or settles them, each once. Times are in ms by Redis's clock.
--
-- KEYS: counter (a number), changes (a hash: 'sum', and '=' .. id -> its delta, or '' if it is settled), ends ('=' .. id -> when it is
-- forgotten). ARGV: 'add' or 'settle', time to remember a change, then id and delta of each change.

local keep = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local moved = 0

-- Both know the same changes, or one was lost; then the counter begins anew.
local known, ending = redis.pcall('HLEN', KEYS[2]), redis.pcall('ZCARD', KEYS[3])
if type(known) == 'table' or type(ending) == 'table' or (known > 0 and known ~= ending + 1) or (known == 0 and ending > 0) then
  redis.call('DEL', KEYS[2], KEYS[3])
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now))) do
  moved = moved - (tonumber(redis.call('HGET', KEYS[2], id)) or 0)
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
end

local ends = string.format('%.0f', now + keep)
for at = 3, #ARGV, 2 do
  local id, delta = '=' .. ARGV[at], ARGV[at + 1]
  local counted = redis.call('HGET', KEYS[2], id) -- false: unknown
  if counted ~= '' then
    if ARGV[1] == 'settle' then
      moved = moved - (tonumber(counted or 0))
      redis.call('HSET', KEYS[2], id, '')
    elseif not counted then
      moved = moved + tonumber(delta)
      redis.call('HSET', KEYS[2], id, delta)
    end
    redis.call('ZADD', KEYS[3], ends, id)
  end
end

local delta = string.format('%.0f', moved)
local sum = redis.call('HINCRBY', KEYS[2], 'sum', delta)
-- The counter may have been lost or changed by hand.
if redis.pcall('INCRBY', KEYS[1], delta) ~= sum then
  redis.call('SET', KEYS[1], string.format('%.0f', sum))
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, ARGV[2])
end
