-- Adds entries to the streams of one topic, in order. Does not add entries behind a failed one of their lane.
--
-- KEYS: the topic's number of partitions; its streams, by partition.
-- ARGV: the number of partitions that the caller expects; then per entry: partition, lane, count of fields and values,
-- fields and values. If the topic has another number of partitions, adds nothing and returns that number. Otherwise
-- returns per entry 1 (added), 0 (held) or an error message.
--
-- No `allow-oom` here: with full memory XADD fails, and the error is the result of the entry.

local known = redis.call('GET', KEYS[1])
if not known then
  redis.call('SET', KEYS[1], ARGV[1])
elseif known ~= ARGV[1] then
  return tonumber(known)
end

local answers, stopped = {}, {}
local at = 2
while at <= #ARGV do
  local stream, lane = KEYS[tonumber(ARGV[at]) + 2], ARGV[at + 1]
  local first = at + 3
  at = first + tonumber(ARGV[at + 2])
  local answer = 0
  if not stopped[lane] then
    local added = redis.pcall('XADD', stream, '*', unpack(ARGV, first, at - 1))
    answer = 1
    if added.err then
      stopped[lane] = true
      answer = added.err
    end
  end
  answers[#answers + 1] = answer
end
return answers
