-- Returns the milliseconds until another library's hold of the gate ends, or -1 if it has no
-- expiry. If the gate is free and the first entry is the session's own, that entry takes it at
-- once. Otherwise another library that polls could take it first. ARGV: 3 directory, 4 and 5 the
-- gate.
local refused, life = enter(false)
if refused then return refused end
local gate, entry = gate_in(ARGV[4], ARGV[5]), first_in(ARGV[3])
local own = entry and entry.session == session and entry or nil
-- The session that takes the gate learns of an error when it checks its position.
if own and not gate_of(own) then take(gate, own, life) end
if own and gate_of(own) or not is_shut(gate) then return answer({ 0 }) end
return answer(rows({ { text(call('PTTL', gate.key)) } }))
