-- Keeps locks for longer. KEYS: the longest TTL of any client, the locks. ARGV: the TTL in
-- milliseconds, whether to take again what is gone, the values. Answers: the time, the longest TTL,
-- and of each lock whether it has its value, has it again (2), or has not.
local time = redis.call('TIME')
local longest = redis.call('GET', KEYS[1]) or '0'
if tonumber(longest) < tonumber(ARGV[1]) then
  longest = ARGV[1]
  redis.call('SET', KEYS[1], longest)
end
local told = {time[1], time[2], longest}
for i = 2, #KEYS do
  local has, state = redis.pcall('GET', KEYS[i]), '0'
  if has == ARGV[i + 1] then
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    state = '1'
  elseif not has and ARGV[2] == '1' then
    redis.call('SET', KEYS[i], ARGV[i + 1], 'PX', ARGV[1])
    state = '2'
  end
  told[#told + 1] = state
end
return told
