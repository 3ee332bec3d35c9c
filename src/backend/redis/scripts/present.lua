-- What there is of two entries of a queue. ARGV: 3 directory, 4 and 5 their numbers.
local refused = enter(false)
if refused then return refused end
local found = {}
for at = 4, 5 do
    local entry = entry_at(place(ARGV[3], ARGV[at]))
    if entry then found[#found + 1] = row(entry) end
end
return answer('ok', rows(found))
