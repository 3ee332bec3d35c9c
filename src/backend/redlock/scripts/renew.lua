-- Renews locks. KEYS: the TTLs of all clients, the locks. ARGV: the TTL in milliseconds, whether to
-- set missing locks again, the values. Reply: the time, the longest TTL, and for each lock whether
-- it has its value, was set again (2), or does not have it.
local time = redis.call('TIME')
local now, longest = time[1] * 1000 + math.floor(time[2] / 1000), 0
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[1])
for _, ttl in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  longest = math.max(longest, tonumber(ttl))
end
local reply = {time[1], time[2], tostring(longest)}
for i = 2, #KEYS do
  local has, state = redis.pcall('GET', KEYS[i]), '0'
  if has == ARGV[i + 1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    state = '1'
  elseif not has and ARGV[2] == '1' then
    redis.call('SET', KEYS[i], ARGV[i + 1], 'PX', ARGV[1])
    state = '2'
  end
  reply[#reply + 1] = state
end
return reply
