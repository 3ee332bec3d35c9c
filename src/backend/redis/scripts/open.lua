-- Begins a session on this server. ARGV: 3 TTL, 4 the server, 5 whether it has lost nothing, 6 whether
-- it was a replica, 7 for how long it has been running, 8 whether there are replicas, 9 the
-- highest number that the client has seen: one that has lost it goes on from there. Tells whether that
-- anybody is to live for so long is not known to be kept.
local refused = check()
if refused then return refused end
redis.call('HSETNX', META, 'version', VERSION)
recognize(ARGV[4], ARGV[5] == '1', ARGV[6] == '1', tonumber(ARGV[7]), ARGV[8] == '1')
local seen = tonumber(ARGV[9])
if seen > last then
    last = seen
    redis.call('HSET', META, 'last', text(last))
end
local life = { ttl = tonumber(ARGV[3]), writes = 0 }
local told = redis.call('HMGET', META, 'longest', 'kept')
if tonumber(told[1] or 0) < life.ttl then
    redis.call('HSET', META, 'longest', text(life.ttl))
    doubt(ARGV[4], life.ttl, tonumber(ARGV[7]))
end
renew(session, life)
return answer('ok', { tonumber(told[2] or 0) < life.ttl and 1 or 0 })
