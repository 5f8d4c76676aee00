#!lua flags=allow-oom
-- Renews what a member holds of a topic, and takes what is free up to its share. Members are ranked by name; the shares
-- of all together are the partitions, so that nobody takes what another one is entitled to.
--
-- KEYS: the leases of the group. ARGV: member, lease in ms, number of partitions.
-- Fields: `m:<member>` and `u:<partition>` are times in ms; `<partition>` is the token of who holds it. A token is made
-- anew whenever a partition is taken: work that was begun under an older one is refused.
-- Answers the share, then per partition held: its number, its token.

local leases, member, lease, partitions = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = string.format('%.0f', now + lease)

redis.call('HSET', leases, 'm:' .. member, ends)
redis.call('PEXPIRE', leases, lease * 10)
local field = {}
local rows = redis.call('HGETALL', leases)
for i = 1, #rows, 2 do field[rows[i]] = rows[i + 1] end

local members, before = 0, 0
for name, value in pairs(field) do
  if string.sub(name, 1, 2) == 'm:' then
    if tonumber(value) <= now then
      redis.call('HDEL', leases, name)
    else
      members = members + 1
      if string.sub(name, 3) < member then before = before + 1 end
    end
  end
end
local share = math.floor(partitions / members)
if before < partitions % members then share = share + 1 end

local answer, held = { share }, 0
local function hold(partition, token)
  redis.call('HSET', leases, partition, token, 'u:' .. partition, ends)
  held = held + 1
  answer[#answer + 1] = partition
  answer[#answer + 1] = token
end
-- A lease that ran out and that nobody took is still the member's own.
local function is_own(partition)
  local token = field[tostring(partition)]
  return token and string.sub(token, -#member) == member
end
for partition = 0, partitions - 1 do
  if is_own(partition) then hold(partition, field[tostring(partition)]) end
end
for partition = 0, partitions - 1 do
  local ended = tonumber(field['u:' .. partition] or 0) <= now
  if ended and not is_own(partition) and held < share then
    hold(partition, time[1] .. '.' .. time[2] .. ' ' .. member)
  end
end
return answer
