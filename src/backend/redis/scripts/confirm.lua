-- Writes something, so that who has this has all that was there before.
local refused = enter(true)
if refused then return refused end
return answer()
