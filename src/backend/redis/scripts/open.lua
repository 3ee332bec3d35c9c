-- Begins a session on this server. ARGV: 3 TTL, 4 to 9 as for `meet`, 10 the highest number of
-- version 1, 11 the microseconds that a session of version 1 may still live. Outcome: 1 if the
-- server is not known to have saved that there are sessions with a TTL this long, 0 otherwise.
local refused = check()
if refused then return refused end
local ttl = tonumber(ARGV[3])
-- A full server may have evicted META, as both keys had a time to live.
call('PERSIST', SESSIONS)
if known[1] then
    call('PERSIST', META)
else
    last = math.max(last, tonumber(ARGV[10]))
    call('HSET', META, 'version', VERSION, 'last', text(last))
    if tonumber(ARGV[11]) > 0 then grant_nothing(tonumber(ARGV[11])) end
end
meet(4)
doubt(ARGV[4], ttl, tonumber(ARGV[7]))
begin(session, ttl)
local kept = tonumber(call('HGET', META, 'kept') or 0)
return answer({ kept < ttl and 1 or 0 })
