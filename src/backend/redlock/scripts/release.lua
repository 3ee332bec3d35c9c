-- Gives locks back that have their values. KEYS: the longest TTL of any client, the locks. ARGV:
-- the values. Answers: the time, the longest TTL, and of each lock whether it had.
local time = redis.call('TIME')
local told = {time[1], time[2], redis.call('GET', KEYS[1]) or '0'}
for i = 2, #KEYS do
  local own = redis.pcall('GET', KEYS[i]) == ARGV[i - 1]
  if own then
    redis.call('DEL', KEYS[i])
  end
  told[#told + 1] = own and '1' or '0'
end
return told
