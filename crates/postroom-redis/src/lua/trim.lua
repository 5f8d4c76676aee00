#!lua flags=allow-oom
-- Removes old entries that every group has acknowledged, in whole nodes of the stream.
--
-- KEYS: the streams of a topic. ARGV: minimum age of removed entries in ms, maximum length (0: none), maximum number of
-- removed entries per stream. For a stream without groups only the length counts. Returns the number of removed entries.

local function is_less(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  -- Compares text, because a double cannot hold every sequence number.
  if a_ms ~= b_ms then return #a_ms < #b_ms or (#a_ms == #b_ms and a_ms < b_ms) end
  return #a_seq < #b_seq or (#a_seq == #b_seq and a_seq < b_seq)
end

-- Every group has acknowledged all entries below the returned id.
local function edge_of(stream)
  local edge
  for _, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local group = {}
    for i = 1, #row, 2 do group[row[i]] = row[i + 1] end
    local id = group['last-delivered-id']
    if group['pending'] > 0 then id = redis.call('XPENDING', stream, group['name'])[2] end
    if not edge or is_less(id, edge) then edge = id end
  end
  return edge
end

local time = redis.call('TIME')
local young = string.format('%.0f-0', time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[1]))
local removed = 0
for _, stream in ipairs(KEYS) do
  if redis.call('TYPE', stream).ok == 'stream' then
    local edge = edge_of(stream)
    if edge and is_less(young, edge) then edge = young end
    if edge then removed = removed + redis.call('XTRIM', stream, 'MINID', '~', edge, 'LIMIT', ARGV[3]) end
    if ARGV[2] ~= '0' then removed = removed + redis.call('XTRIM', stream, 'MAXLEN', '~', ARGV[2], 'LIMIT', ARGV[3]) end
  end
end
return removed
