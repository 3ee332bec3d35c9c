-- The disk has the session's start, and so the record that a session may live for its TTL.
local refused, life = enter(true)
if refused then return refused end
local kept = tonumber(call('HGET', META, 'kept') or 0)
if kept < life.ttl then call('HSET', META, 'kept', text(life.ttl)) end
return answer()
