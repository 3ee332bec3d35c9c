-- How long these sessions have left; those that are over are put away first. ARGV: 3 and on.
local refused = check()
if refused then return refused end
local found = {}
for at = 3, #ARGV do
    if redis.call('HEXISTS', LIVES, ARGV[at]) == 1 then
        found[#found + 1] = { ARGV[at], left(ARGV[at]) }
    end
end
return answer('ok', rows(found))
