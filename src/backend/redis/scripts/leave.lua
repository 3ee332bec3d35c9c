-- Deletes an entry. ARGV: 3 directory, 4 ticket, 5 label, 6 number or nothing, 7 the successor's
-- number or nothing. Tells how many it deleted; and the last number that was given, which no entry
-- has that joins later, and whether the successor's is there. Of one that had a gate neither: it is
-- anybody's now, so that who is next has to look.
local refused = enter(true)
if refused then return refused end
local dir, deleted = ARGV[3], 0
local member = own(session, dir, ARGV[4])
local entry = member and entry_at(member)
local gated = entry and gate_of(entry)
redis.call('ZREMRANGEBYLEX', OWN, '[' .. session .. ' l ' .. ARGV[4] .. ' ',
    '(' .. session .. ' l ' .. ARGV[4] .. ' \255')
if entry and entry.label == ARGV[5]
    and (ARGV[6] == '' or tonumber(entry.number) == tonumber(ARGV[6])) then
    -- Nobody is told of what they do themselves. Those of this client who wait are told there.
    if ARGV[6] ~= '' then unwatch(dir, entry.number, session) end
    remove(entry)
    deleted = 1
end
local successor = ARGV[7] ~= '' and entry_at(place(dir, ARGV[7]))
local there = successor and successor.session == session and not gated and 1 or 0
return answer('ok', { deleted }, rows({ { not gated and text(last), there } }))
