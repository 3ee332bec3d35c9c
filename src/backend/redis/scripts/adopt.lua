-- Copies data of version 1, unless a session of version 2 has begun here. ARGV: keys and values.
if redis.call('HEXISTS', KEYS[1], 'version') == 1 then return 0 end
for at = 1, #ARGV, 2 do
    redis.call('HSETNX', KEYS[4], ARGV[at], ARGV[at + 1])
    local dir, name = string.match(ARGV[at], '^(/%S*)/([^/]*)$')
    if dir then redis.call('ZADD', KEYS[2], 0, dir .. ' /' .. name) end
end
return 1
