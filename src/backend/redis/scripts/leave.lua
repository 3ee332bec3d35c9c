-- Deletes an entry. ARGV: 3 directory, 4 ticket, 5 label, 6 number or nothing, 7 the successor's
-- number or nothing, 8 the layout of gates or nothing. Outcomes: the number of entries deleted; and
-- the highest number, which is below that of any later entry, and whether the successor exists. The
-- second is empty for an entry that held a gate: another library may take the gate now, so the next
-- entry has to check.
local refused = enter(true)
if refused then return refused end
local dir, deleted = ARGV[3], 0
local entry = own(session, dir, ARGV[4])
local gated = entry and gate_of(entry)
for _, lost in ipairs(starting(QUEUE, '~' .. session .. ' l ' .. ARGV[4] .. ' ')) do
    call('ZREM', QUEUE, lost)
end
if entry and entry.label == ARGV[5]
    and (ARGV[6] == '' or tonumber(entry.number) == tonumber(ARGV[6])) then
    -- A session is not notified of its own changes.
    if ARGV[6] ~= '' then unwatch(dir, entry.number, session) end
    remove(entry)
    deleted = 1
end
local successor = ARGV[7] ~= '' and entry_at(dir, padded(ARGV[7]))
local there = successor and successor.session == session and not gated and 1 or 0
return answer({ deleted }, rows({ { not gated and text(last), there } }))
