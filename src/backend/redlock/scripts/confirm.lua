-- Raises the counter to the token of the lock's holder. KEYS: as in take.lua. ARGV: the value, the
-- token, the milliseconds to keep the counter. Reply: the time, the longest TTL, whether the lock
-- has that value, whether the counter was lower and was raised, the counter before that.
local time = redis.call('TIME')
local now, longest = time[1] * 1000 + math.floor(time[2] / 1000), 0
for _, ttl in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')) do
  longest = math.max(longest, tonumber(ttl))
end
local own = redis.pcall('GET', KEYS[2]) == ARGV[1]
local counter = redis.call('GET', KEYS[3]) or '0'
local raised = own and tonumber(counter) < tonumber(ARGV[2])
if raised then
  redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
end
return {time[1], time[2], tostring(longest), own and '1' or '0', raised and '1' or '0', counter}
