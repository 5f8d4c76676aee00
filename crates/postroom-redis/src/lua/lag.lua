#!lua flags=no-writes
-- How far a group is behind on the streams of a topic.
--
-- KEYS: the streams. ARGV: group. Answers per stream what is unread and what is pending; -1 where that is not known.

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
