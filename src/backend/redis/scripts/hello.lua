-- A session is here again, on a new connection. ARGV: 3 to 8 what `meet` takes. What the server has
-- lost of the session shows at the session's next request. What another server did is not repeated
-- here.
local refused = check()
if refused then return refused end
if known[1] then meet(3) end
return answer()
