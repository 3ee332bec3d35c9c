-- Takes the lock, if nobody has it. KEYS: the longest TTL of any client, the lock, its counter.
-- ARGV: the value, for how many milliseconds. Answers: the time, the longest TTL, whether it was
-- taken, the counter, how long another one's value is kept.
local time = redis.call('TIME')
local longest = redis.call('GET', KEYS[1]) or '0'
local taken = redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
local left = taken and 0 or redis.call('PTTL', KEYS[2])
local counter = redis.call('GET', KEYS[3]) or '0'
return {time[1], time[2], longest, taken and '1' or '0', counter, tostring(left)}
