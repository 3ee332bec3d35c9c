-- Returns an entry and the two ahead of it. ARGV: 3 directory, 4 number, 5 and 6 its gate, or
-- nothing.
local refused, life = enter(false)
if refused then return refused end
local gate, number = gate_in(ARGV[5], ARGV[6]), padded(ARGV[4])
if not entry_at(ARGV[3], number) then return answer({ 0 }) end
local found, wrong = ahead(ARGV[3], number, gate, life)
if wrong then return shut_out(gate, wrong) end
return answer(rows(found))
