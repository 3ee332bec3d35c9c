-- Acquires the lock if it is free, and raises its counter to a proposed token. KEYS: the TTLs of
-- all clients, the lock, its counter. ARGV: the value, its milliseconds to live, the token or 0,
-- the milliseconds to keep the counter. Reply: the time, the longest TTL, whether the lock was
-- taken, the counter before that, how long another client's value is kept, whether the counter was
-- raised.
local time = redis.call('TIME')
local now, longest = time[1] * 1000 + math.floor(time[2] / 1000), 0
for _, ttl in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')) do
  longest = math.max(longest, tonumber(ttl))
end
local taken = redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
local left = taken and 0 or redis.call('PTTL', KEYS[2])
local counter = redis.call('GET', KEYS[3]) or '0'
local raised = taken and tonumber(counter) < tonumber(ARGV[3])
if raised then
  redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])
end
return {time[1], time[2], tostring(longest), taken and '1' or '0', counter, tostring(left),
  raised and '1' or '0'}
