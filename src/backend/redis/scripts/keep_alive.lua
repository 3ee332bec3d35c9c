-- Counts from when the request came: the client counts from when it was sent. A session that is
-- still there holds what it held, whatever the clock shows.
local refused, life = enter(true)
if refused then return refused end
renew(session, life)
return answer('ok', { 1 })
