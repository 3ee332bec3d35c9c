-- Records that the session's start is on the disk, and with it the TTL that a session may have.
local refused, life = enter(true)
if refused then return refused end
local kept = tonumber(call('HGET', META, 'kept') or 0)
if kept < life.ttl then call('HSET', META, 'kept', text(life.ttl)) end
return answer()
