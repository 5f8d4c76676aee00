#!lua
-- Counts one request in the window of a key. The window begins with the first request and ends by Redis's clock.
--
-- KEYS: counter. ARGV: window in ms. Returns the number of the request in the window, and the ms until the window ends.

local number = redis.call('INCR', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then -- a new counter
  left = tonumber(ARGV[1])
  redis.call('PEXPIRE', KEYS[1], left)
end
return {number, left}
