-- Writes a value, if the entry has this version. ARGV: 3 directory, 4 number, 5 value, 6 version.
-- Outcomes: the number of entries written, and the entry's version.
local refused = enter(true)
if refused then return refused end
local entry = entry_at(ARGV[3], padded(ARGV[4]))
if not entry or entry.session ~= session then return answer({ 0 }, { 0 }) end
local version, changed = value_of(entry, ''), 0
if version == ARGV[6] then
    version, changed = text(tonumber(version) + 1), 1
    call('HSET', DATA, record_of(entry), version .. ' ' .. ARGV[5])
    if not has_record(entry) then
        forget_entry(entry)
        keep_entry(entry, true)
    end
    notify_queue(entry.dir)
end
return answer({ changed }, rows({ { version } }))
