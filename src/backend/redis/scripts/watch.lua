-- Begins to watch an entry, and tells what it is and how long its session has left. ARGV: 3
-- directory, 4 number.
local refused = enter(true)
if refused then return refused end
local entry = entry_at(place(ARGV[3], ARGV[4]))
if not entry then return answer('ok', { 0 }) end
watch(entry.dir, entry.number)
local told = row(entry)
told[5] = left(entry.session)
return answer('ok', rows({ told }))
