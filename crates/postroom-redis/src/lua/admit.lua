#!lua
-- Gives connections of a member their places, new ones and renewed ones, and takes those of the oldest above the limit. Times are in
-- ms by Redis's clock.
--
-- KEYS: places (connection -> since when), leases (connection -> end), evicted (connection -> until when it is remembered).
-- ARGV: limit, lease, number of evicted connections to remember, time to keep unused keys, channel of evictions, member; then for
-- each connection its id, and its since or '' if it is new.
-- Returns for each connection: its since and the connections that gave way to it, or nothing if it gave way itself.

local limit, lease, evicted_max, keep = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function ms(number) -- tostring() rounds large numbers
  return string.format('%.0f', number)
end

for _, key in ipairs(KEYS) do -- a key of another type would refuse its member for ever
  if type(redis.pcall('ZCARD', key)) == 'table' then
    redis.call('DEL', key)
  end
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms(now))) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ms(now))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '9007199254740991', '+inf') -- no times, and no number is above them

-- Younger than all others, also if they came in the same ms or the clock went back.
local function next_since()
  local youngest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
  return math.max(now, math.floor(tonumber(youngest or '0')) + 1)
end

-- Takes the places above the limit. Returns their connections.
local function evict()
  local surplus = redis.call('ZCARD', KEYS[1]) - limit
  if surplus <= 0 then
    return {}
  end
  local oldest = redis.call('ZRANGE', KEYS[1], 0, surplus - 1)
  for _, id in ipairs(oldest) do
    redis.call('ZREM', KEYS[1], id)
    redis.call('ZREM', KEYS[2], id)
    redis.call('ZADD', KEYS[3], ms(now + 2 * lease), id)
  end
  return oldest
end

local answers = {}
for at = 7, #ARGV, 2 do
  local id, since = ARGV[at], ARGV[at + 1]
  local answer = {}
  if not redis.call('ZSCORE', KEYS[3], id) then
    local known = redis.call('ZSCORE', KEYS[1], id)
    if known then
      since = ms(math.floor(tonumber(known)))
    else
      if since == '' then
        since = ms(next_since())
      end
      redis.call('ZADD', KEYS[1], since, id)
    end
    redis.call('ZADD', KEYS[2], ms(now + lease), id)
    answer[1] = since
    local is_evicted = false
    for _, oldest in ipairs(evict()) do
      if oldest == id then
        is_evicted = true
      else
        answer[#answer + 1] = oldest
        redis.call('PUBLISH', ARGV[5], cjson.encode({memberId = ARGV[6], connectionId = oldest}))
      end
    end
    if is_evicted then
      answer = {}
    end
  end
  answers[#answers + 1] = answer
end
redis.call('ZREMRANGEBYRANK', KEYS[3], 0, -(evicted_max + 1))
redis.call('PEXPIRE', KEYS[1], keep)
redis.call('PEXPIRE', KEYS[2], keep)
redis.call('PEXPIRE', KEYS[3], ms(2 * lease))
return answers
