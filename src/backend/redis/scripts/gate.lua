-- For how many milliseconds more others have a gate, unless they keep it: -1 for ever. If it is
-- free and an entry of this session's is the first one, that has it from now on: or else who asks
-- again and again would be quicker than one who has looked first. ARGV: 3 directory, 4 and 5 the
-- gate.
local refused, life = enter(false)
if refused then return refused end
local gate, entry = gate_in(ARGV[4], ARGV[5]), first_in(ARGV[3])
local own = entry and entry.session == session and entry or nil
-- What is wrong with it is told to the one that wants to take it, as it looks.
if own and not gate_of(own) then take(gate, own, life) end
if own and gate_of(own) or not is_shut(gate) then return answer({ 0 }) end
return answer(rows({ { text(call('PTTL', gate.key)) } }))
