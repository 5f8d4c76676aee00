#!lua flags=no-writes
-- The connections of a member that have a place, the oldest first. Times are in ms by Redis's clock.
--
-- KEYS: places (connection -> since when), leases (connection -> end).
-- Returns pairs of a connection and its since. A place without a lease was made by another program, and counts.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local places = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
local found = {}
for at = 1, #places, 2 do
  local lease = redis.call('ZSCORE', KEYS[2], places[at])
  if not lease or tonumber(lease) > now then
    found[#found + 1] = { places[at], string.format('%.0f', tonumber(places[at + 1])) }
  end
end
return found
