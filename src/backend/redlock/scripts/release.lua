-- Deletes locks that have these values. KEYS: the TTLs of all clients, the locks. ARGV: the values.
-- Reply: the time, the longest TTL, and for each lock whether it had its value.
local time = redis.call('TIME')
local now, longest = time[1] * 1000 + math.floor(time[2] / 1000), 0
for _, ttl in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf')) do
  longest = math.max(longest, tonumber(ttl))
end
local reply = {time[1], time[2], tostring(longest)}
for i = 2, #KEYS do
  local own = redis.pcall('GET', KEYS[i]) == ARGV[i - 1]
  if own then
    redis.call('DEL', KEYS[i])
  end
  reply[#reply + 1] = own and '1' or '0'
end
return reply
