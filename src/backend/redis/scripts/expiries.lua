-- How long these sessions have left; those that are over are put away first. ARGV: 3 and on.
local refused = check()
if refused then return refused end
return answer('ok', rows(left_of(3)))
