-- Writes something: a replica that has this write has everything before it.
local refused = enter(true)
if refused then return refused end
return answer()
