#!lua flags=allow-oom
-- Hands out entries of the streams a member holds: first what is pending, in order of ids, then what is new.
--
-- KEYS: leases, dead stream, streams. ARGV: member, group, topic, how many at most, deliveries_max (0: no limit); then
-- per stream: partition, token, cursor. A cursor is `claim` (everything others left pending is taken over first), an id
-- (what is pending after it comes first) or empty (only what is new).
-- Answers per stream: partition, state, entries, cursor to go on with, last id in the stream or empty if there may be
-- more, ids that were buried. The state is `ok`, `lost` (another member's) or the words of an error.
--
-- An entry that was delivered often without being acknowledged may be what kills its members. Half way to the limit it
-- is handed out alone, so that what it came with is acknowledged and only its own count goes on.

local leases, dead = KEYS[1], KEYS[2]
local member, group, topic = ARGV[1], ARGV[2], ARGV[3]
local left, deliveries_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local suspect_from = math.max(math.floor(deliveries_max / 2), 1)
local given = 0

local function claim(stream)
  local from = '0-0'
  repeat
    from = redis.call('XAUTOCLAIM', stream, group, member, 0, from, 'COUNT', 1000, 'JUSTID')[1]
  until from == '0-0'
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
    if consumer[2] ~= member and consumer[4] == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer[2])
    end
  end
end

local function bury(stream, partition, id, count)
  local entry = redis.call('XRANGE', stream, id, id)[1]
  if entry then
    local fields = #entry[2] <= 6000 and entry[2] or {} -- more cannot be passed on
    for _, text in ipairs({
      'postroom-origin-topic', topic,
      'postroom-origin-place', 'partition ' .. partition .. ', id ' .. id,
      'postroom-group', group,
      'postroom-error', 'delivered ' .. count .. ' times and never acknowledged',
      'postroom-attempts', tostring(count),
    }) do
      fields[#fields + 1] = text
    end
    redis.call('XADD', dead, 'MAXLEN', '~', '100000', '*', unpack(fields))
  end
  redis.call('XACK', stream, group, id)
end

local function read(stream, count, after)
  local answer = redis.call('XREADGROUP', 'GROUP', group, member, 'COUNT', count, 'STREAMS', stream, after)
  return answer and answer[1][2] or {}
end

local function hand_out(found, entries)
  for _, entry in ipairs(found) do
    entries[#entries + 1] = entry
    given, left = given + 1, left - 1
  end
end

-- Hands out what is pending after the cursor; answers the cursor to go on with.
local function pending(stream, partition, cursor, entries, buried)
  local rows = redis.call('XPENDING', stream, group, '(' .. cursor, '+', left, member)
  local is_all, count = #rows < left, 0
  for _, row in ipairs(rows) do
    local id, deliveries = row[1], row[4]
    if deliveries_max > 0 and deliveries >= deliveries_max and count == 0 then
      bury(stream, partition, id, deliveries)
      buried[#buried + 1] = id
    elseif deliveries_max > 0 and deliveries >= suspect_from then
      if count == 0 and given == 0 then
        hand_out(read(stream, 1, cursor), entries)
        cursor = id
      elseif count > 0 then
        hand_out(read(stream, count, cursor), entries)
        cursor = entries[#entries][1]
      end
      left = 0 -- alone: nothing else in this answer
      return cursor
    else
      count = count + 1
    end
  end
  if count > 0 then
    hand_out(read(stream, count, cursor), entries)
    cursor = entries[#entries][1]
  end
  return is_all and '' or cursor
end

local function serve(stream, partition, cursor)
  local entries, buried, last = {}, {}, ''
  if cursor == 'claim' then
    claim(stream)
    cursor = '0-0'
  end
  if cursor ~= '' then cursor = pending(stream, partition, cursor, entries, buried) end
  if cursor == '' and left > 0 then
    hand_out(read(stream, left, '>'), entries)
    if left > 0 then
      local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
      last = newest and newest[1] or '0-0'
    end
  end
  -- Entries that somebody deleted are pending without fields: there is nothing left to work on.
  local whole = {}
  for _, entry in ipairs(entries) do
    if entry[2] then whole[#whole + 1] = entry else redis.call('XACK', stream, group, entry[1]) end
  end
  return { partition, 'ok', whole, cursor, last, buried }
end

local answers = {}
for i = 3, #KEYS do
  local at = 6 + (i - 3) * 3
  local partition, token, cursor = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if left > 0 then
    if redis.call('HGET', leases, partition) ~= token then
      answers[#answers + 1] = { partition, 'lost', {}, cursor, '', {} }
    else
      local is_served, answer = pcall(serve, KEYS[i], partition, cursor)
      if not is_served then
        local words = type(answer) == 'table' and answer.err or tostring(answer)
        answer = { partition, words, {}, cursor, '', {} }
      end
      answers[#answers + 1] = answer
    end
  end
end
return answers
