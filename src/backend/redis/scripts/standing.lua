-- An entry and the two in front of it. ARGV: 3 directory, 4 number, 5 and 6 its gate, or nothing.
local refused, life = enter(false)
if refused then return refused end
local gate = gate_in(ARGV[5], ARGV[6])
local found, wrong = ahead(ARGV[3], place(ARGV[3], ARGV[4]), gate, life)
if wrong then return shut_out(gate, wrong) end
return answer('ok', rows(found))
