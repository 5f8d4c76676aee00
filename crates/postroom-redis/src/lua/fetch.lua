#!lua flags=allow-oom
-- Fetches entries of the streams that a member has leased: first pending ones in order of their ids, then new ones.
--
-- KEYS: leases, streams. ARGV: member, group, maximum number of entries, deliveries_max (0: no limit); then per stream:
-- partition, token, cursor. A cursor is an id (pending entries after it come first) or empty (only new entries).
-- Returns per stream: partition, state, entries, next cursor, last id of the stream (empty if there may be more entries),
-- and the number of failed deliveries if its only entry is given up, otherwise empty. The state is `ok`, `lost` (another
-- member has the lease) or an error message.
--
-- The group's delivery count of an entry increases when another member claims it, and decreases when a member releases
-- it in order. So it counts crashes. From half of the limit on, an entry is fetched alone: entries next to it can then be
-- acknowledged, and only its own count grows. At the limit it is fetched alone and marked as given up.

local leases = KEYS[1]
local member, group = ARGV[1], ARGV[2]
local left, deliveries_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local suspect_from = math.max(math.floor(deliveries_max / 2), 1)
-- Limits the size of a response: entries are read in slices until this many bytes are reached.
local SLICE, BYTES_MAX = 25, 4000000
local fetched, bytes = 0, 0

-- Deletes consumers without pending entries.
local function delete_idle_consumers(stream)
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
    if consumer[2] ~= member and consumer[4] == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, consumer[2])
    end
  end
end

-- Claims a pending entry for this member and returns it; empty if the entry was deleted.
local function claim(stream, id, owner)
  local found
  if owner == member then
    found = redis.call('XRANGE', stream, id, id)
  else
    found = redis.call('XCLAIM', stream, group, member, 0, id)
  end
  if not found[1] then redis.call('XACK', stream, group, id) end
  return found
end

local function add(found, entries)
  for _, entry in ipairs(found) do
    entries[#entries + 1] = entry
    fetched, left = fetched + 1, left - 1
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
  end
  if bytes >= BYTES_MAX then left = 0 end
end

-- Adds pending entries after the cursor. Returns the next cursor, and the number of failed deliveries if the only entry
-- is given up.
local function add_pending(stream, cursor, entries)
  local slice = math.min(left, SLICE)
  local rows = redis.call('XPENDING', stream, group, '(' .. cursor, '+', slice)
  for _, row in ipairs(rows) do
    local id, owner, crashes = row[1], row[2], row[4]
    if owner == member then crashes = crashes - 1 end
    local is_suspect = deliveries_max > 0 and crashes >= suspect_from
    if is_suspect and fetched > 0 then
      left = 0 -- the next response contains it alone
      return cursor, ''
    end
    add(claim(stream, id, owner), entries)
    cursor = id
    if is_suspect and fetched > 0 then
      left = 0
      return cursor, crashes >= deliveries_max and tostring(crashes) or ''
    end
    if left == 0 then return cursor, '' end
  end
  if #rows == slice then return cursor, '' end
  delete_idle_consumers(stream)
  return '', ''
end

-- Adds new entries. Returns the last id of the stream if there are no more.
local function add_new(stream, entries)
  while left > 0 do
    local slice = math.min(left, SLICE)
    local answer = redis.call('XREADGROUP', 'GROUP', group, member, 'COUNT', slice, 'STREAMS', stream, '>')
    local found = answer and answer[1][2] or {}
    add(found, entries)
    if #found < slice then
      local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
      return newest and newest[1] or '0-0'
    end
  end
  return ''
end

local function fetch(stream, partition, cursor)
  local entries, last, crashes = {}, '', ''
  if cursor ~= '' then cursor, crashes = add_pending(stream, cursor, entries) end
  if cursor == '' then last = add_new(stream, entries) end
  return { partition, 'ok', entries, cursor, last, crashes }
end

local answers = {}
for i = 2, #KEYS do
  local at = 5 + (i - 2) * 3
  local partition, token, cursor = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if left > 0 then
    if redis.call('HGET', leases, partition) ~= token then
      answers[#answers + 1] = { partition, 'lost', {}, cursor, '', '' }
    else
      local is_fetched, answer = pcall(fetch, KEYS[i], partition, cursor)
      if not is_fetched then
        local message = type(answer) == 'table' and answer.err or tostring(answer)
        answer = { partition, message, {}, cursor, '', '' }
      end
      answers[#answers + 1] = answer
    end
  end
end
return answers
