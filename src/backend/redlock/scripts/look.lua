-- Whether locks have their values. KEYS: the longest TTL of any client, the locks. ARGV: the
-- values. Answers: the time, the longest TTL, and of each lock whether it has.
local time = redis.call('TIME')
local told = {time[1], time[2], redis.call('GET', KEYS[1]) or '0'}
for i = 2, #KEYS do
  told[#told + 1] = redis.pcall('GET', KEYS[i]) == ARGV[i - 1] and '1' or '0'
end
return told
