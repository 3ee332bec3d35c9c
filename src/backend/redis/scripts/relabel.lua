-- Gives an entry another label; it keeps its number. ARGV: 3 directory, 4 number, 5 label, 6 value.
-- Outcome: the number of entries changed.
local refused = enter(true)
if refused then return refused end
keep_owner(ARGV[6])
local entry = entry_at(ARGV[3], padded(ARGV[4]))
if not entry or entry.session ~= session then return answer({ 0 }) end
local has_value, is_new = has_record(entry), entry.label ~= ARGV[5]
-- A session that watches the former key is notified that this key no longer exists.
if is_new then notify_entry(entry) else notify_queue(entry.dir) end
forget_entry(entry)
entry.label = ARGV[5]
if has_value then call('HDEL', DATA, record_of(entry)) end
keep_entry(entry, keep_value(entry, ARGV[6]))
return answer({ 1 })
