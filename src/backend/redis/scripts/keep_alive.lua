-- Counts from when the request came: the client counts from when it was sent. A session that is
-- still there holds what it held, whatever the clock shows. ARGV: 3 and on: sessions that are asked
-- after on the way. One that seems to live for longer than it may says nothing: the clock was set
-- back, and it may be dead.
local refused, life = enter(true)
if refused then return refused end
renew(session, life)
return answer('ok', rows(left_of(3, true)), { 1 })
