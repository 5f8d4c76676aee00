#!lua flags=allow-oom
-- Hands out entries of the streams a member holds: first what is pending, in order of ids, then what is new.
--
-- KEYS: leases, streams. ARGV: member, group, how many at most, deliveries_max (0: no limit); then per stream: partition,
-- token, cursor. A cursor is an id (what is pending after it comes first) or empty (only what is new).
-- Answers per stream: partition, state, entries, cursor to go on with, last id in the stream or empty if there may be
-- more, and how many members its one entry has killed if that is given up, else empty. The state is `ok`, `lost` (another
-- member's) or the words of an error.
--
-- The group's count of deliveries goes up when an entry passes from one member to the next, and down when a member
-- leaves in order: it counts deaths. Half way to the limit an entry is handed out alone, so that what it came with is
-- acknowledged and only its own count goes on. At the limit it is given up: handed out, alone, to be put aside.

local leases = KEYS[1]
local member, group = ARGV[1], ARGV[2]
local left, deliveries_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local suspect_from = math.max(math.floor(deliveries_max / 2), 1)
-- No answer is much larger than this, however large its entries are: they are read in slices until it is.
local SLICE, BYTES_MAX = 25, 4000000
local given, bytes = 0, 0

-- Forgets members that have left nothing behind.
local function tidy(stream)
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
    if consumer[2] ~= member and consumer[4] == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer[2])
    end
  end
end

-- An entry that is pending, the member's own from now on; none if somebody deleted it.
local function take(stream, id, owner)
  local found
  if owner == member then
    found = redis.call('XRANGE', stream, id, id)
  else
    found = redis.call('XCLAIM', stream, group, member, 0, id)
  end
  if not found[1] then redis.call('XACK', stream, group, id) end
  return found
end

local function hand_out(found, entries)
  for _, entry in ipairs(found) do
    entries[#entries + 1] = entry
    given, left = given + 1, left - 1
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
  end
  if bytes >= BYTES_MAX then left = 0 end
end

-- Hands out what is pending after the cursor; answers the cursor to go on with, and how many members the one entry has
-- killed if it is given up.
local function pending(stream, cursor, entries)
  local slice = math.min(left, SLICE)
  local rows = redis.call('XPENDING', stream, group, '(' .. cursor, '+', slice)
  for _, row in ipairs(rows) do
    local id, owner, deaths = row[1], row[2], row[4]
    if owner == member then deaths = deaths - 1 end
    local is_suspect = deliveries_max > 0 and deaths >= suspect_from
    if is_suspect and given > 0 then
      left = 0 -- it comes alone, in the next answer
      return cursor, ''
    end
    hand_out(take(stream, id, owner), entries)
    cursor = id
    if is_suspect and given > 0 then
      left = 0
      return cursor, deaths >= deliveries_max and tostring(deaths) or ''
    end
    if left == 0 then return cursor, '' end
  end
  if #rows == slice then return cursor, '' end
  tidy(stream)
  return '', ''
end

-- Hands out what is new; answers the last id in the stream if that was all.
local function new(stream, entries)
  while left > 0 do
    local slice = math.min(left, SLICE)
    local answer = redis.call('XREADGROUP', 'GROUP', group, member, 'COUNT', slice, 'STREAMS', stream, '>')
    local found = answer and answer[1][2] or {}
    hand_out(found, entries)
    if #found < slice then
      local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
      return newest and newest[1] or '0-0'
    end
  end
  return ''
end

local function serve(stream, partition, cursor)
  local entries, last, deaths = {}, '', ''
  if cursor ~= '' then cursor, deaths = pending(stream, cursor, entries) end
  if cursor == '' then last = new(stream, entries) end
  return { partition, 'ok', entries, cursor, last, deaths }
end

local answers = {}
for i = 2, #KEYS do
  local at = 5 + (i - 2) * 3
  local partition, token, cursor = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if left > 0 then
    if redis.call('HGET', leases, partition) ~= token then
      answers[#answers + 1] = { partition, 'lost', {}, cursor, '', '' }
    else
      local is_served, answer = pcall(serve, KEYS[i], partition, cursor)
      if not is_served then
        local words = type(answer) == 'table' and answer.err or tostring(answer)
        answer = { partition, words, {}, cursor, '', '' }
      end
      answers[#answers + 1] = answer
    end
  end
end
return answers
