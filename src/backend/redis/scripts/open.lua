-- Begins a session on this server. ARGV: 3 TTL, 4 the server, 5 whether it has lost nothing.
local refused = check()
if refused then return refused end
redis.call('HSETNX', META, 'version', VERSION)
recognize(ARGV[4], ARGV[5] == '1')
local life = { ttl = tonumber(ARGV[3]), writes = 0 }
local longest = tonumber(redis.call('HGET', META, 'longest') or 0)
if longest < life.ttl then redis.call('HSET', META, 'longest', text(life.ttl)) end
renew(session, life)
return answer('ok')
