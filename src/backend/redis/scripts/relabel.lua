-- Gives an entry another label; it keeps its number. ARGV: 3 directory, 4 number, 5 label, 6 value.
-- Tells how many there were.
local refused = enter(true)
if refused then return refused end
local entry = entry_at(place(ARGV[3], ARGV[4]))
if not entry or entry.session ~= session then return answer('ok', { 0 }) end
if entry.label == ARGV[5] then
    tell_queue(entry.dir)
else
    -- For those who wait for it, the old key is gone.
    tell_entry(entry)
    entry.label = ARGV[5]
    keep_entry(entry)
end
redis.call('HSET', VALUES, entry.member, ARGV[6])
return answer('ok', { 1 })
