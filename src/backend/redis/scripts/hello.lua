-- Reports a session on a new connection. ARGV: 3 to 8 as for `meet`. If the server has lost writes
-- of the session, the session's next request detects it. Releases that another server has stored
-- are not repeated here.
local refused = check()
if refused then return refused end
if known[1] then meet(3) end
return answer()
