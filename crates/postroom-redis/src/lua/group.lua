#!lua flags=allow-oom
-- Creates a group on every stream of a topic that does not have it.
--
-- KEYS: the streams. ARGV: group, start id.
-- Returns the number of created groups and the number of missing streams.

local groups, missing = 0, 0
for _, stream in ipairs(KEYS) do
  missing = missing + 1 - redis.call('EXISTS', stream)
  local created = redis.pcall('XGROUP', 'CREATE', stream, ARGV[1], ARGV[2], 'MKSTREAM')
  if not created.err then
    groups = groups + 1
  elseif string.sub(created.err, 1, 9) ~= 'BUSYGROUP' then
    return created
  end
end
return { groups, missing }
