#!lua flags=no-writes
-- The lag of a group on the streams of a topic.
--
-- KEYS: the streams. ARGV: group. Returns per stream the number of unread and of pending entries; -1 if unknown.

local answers = {}
for at, stream in ipairs(KEYS) do
  answers[at] = { -1, -1 }
  if redis.call('TYPE', stream).ok == 'stream' then
    for _, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
      local group = {}
      for i = 1, #row, 2 do group[row[i]] = row[i + 1] end
      if group['name'] == ARGV[1] then answers[at] = { group['lag'] or -1, group['pending'] } end
    end
  end
end
return answers
