-- Returns those of two entries of a queue that exist. ARGV: 3 directory, 4 and 5 their numbers, the
-- second of which may be 0 for the gate in 6 and 7, if another library holds it.
local refused = enter(false)
if refused then return refused end
local found = {}
for at = 4, 5 do
    local entry = entry_at(ARGV[3], padded(ARGV[at]))
    if entry then found[#found + 1] = row(entry) end
end
local gate = ARGV[5] == '0' and gate_in(ARGV[6], ARGV[7])
if gate then
    local own = entry_at(ARGV[3], padded(ARGV[4]))
    if is_shut(gate) and not (own and gate_of(own)) then found[#found + 1] = keeper(gate) end
end
return answer(rows(found))
