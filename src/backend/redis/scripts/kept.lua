-- What this session began with is on the disk: that anybody is to live for so long, too.
local refused, life = enter(true)
if refused then return refused end
local kept = tonumber(call('HGET', META, 'kept') or 0)
if kept < life.ttl then call('HSET', META, 'kept', text(life.ttl)) end
return answer()
