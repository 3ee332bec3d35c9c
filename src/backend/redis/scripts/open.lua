-- Begins a session on this server. ARGV: 3 TTL, 4 to 9 what `meet` takes. Returns 1 if the server
-- is not known to have saved that there are sessions with a TTL this long, 0 otherwise.
local refused = check()
if refused then return refused end
redis.call('HSETNX', META, 'version', VERSION)
meet(4)
local life = { ttl = tonumber(ARGV[3]), writes = 0 }
local told = redis.call('HMGET', META, 'longest', 'kept')
if tonumber(told[1] or 0) < life.ttl then
    redis.call('HSET', META, 'longest', text(life.ttl))
    doubt(ARGV[4], life.ttl, tonumber(ARGV[7]))
end
renew(session, life)
return answer('ok', { tonumber(told[2] or 0) < life.ttl and 1 or 0 })
