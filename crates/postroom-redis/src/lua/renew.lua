#!lua flags=allow-oom
-- Renews a member's leases on a topic, and acquires free partitions up to its share. Members are ranked by name, and the
-- sum of all shares is the number of partitions, so no member acquires the share of another one.
--
-- KEYS: the leases of the group. ARGV: member, lease in ms, number of partitions.
-- Fields: `m:<member>` and `u:<partition>` are expiry times in ms; `<partition>` is the token of its lease. Acquiring a
-- partition creates a new token: scripts refuse requests with an older one.
-- Returns the share, then for each leased partition its number and its token.

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
-- An expired lease that no other member has acquired still belongs to this member.
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
