-- Watches an entry. Outcome: the entry, and how long its session has left. ARGV: 3 directory, 4
-- number. It is not counted as a write, because the client begins it again on a new connection.
local refused = enter(false)
if refused then return refused end
local entry = entry_at(ARGV[3], padded(ARGV[4]))
if not entry then return answer({ 0 }) end
watch(entry.dir, entry.number)
local cells = row(entry)
cells[5] = left(entry.session)
return answer(rows({ cells }))
