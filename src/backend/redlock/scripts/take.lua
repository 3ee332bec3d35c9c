-- Takes the lock, if nobody has it. KEYS: the TTLs of all clients, the lock, its counter.
-- ARGV: the value, for how many milliseconds. Answers: the time, the longest TTL, whether it was
-- taken, the counter, how long another one's value is kept.
local time = redis.call('TIME')
local now, longest = time[1] * 1000 + math.floor(time[2] / 1000), 0
for _, ttl in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')) do
  longest = math.max(longest, tonumber(ttl))
end
local taken = redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
local left = taken and 0 or redis.call('PTTL', KEYS[2])
local counter = redis.call('GET', KEYS[3]) or '0'
return {time[1], time[2], tostring(longest), taken and '1' or '0', counter, tostring(left)}
