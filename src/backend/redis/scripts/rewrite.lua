-- Writes a value, if there is this version of it. ARGV: 3 directory, 4 number, 5 value, 6 version.
-- Tells how many it wrote, and which version there is.
local refused = enter(true)
if refused then return refused end
local entry = entry_at(place(ARGV[3], ARGV[4]))
if not entry or entry.session ~= session then return answer('ok', { 0 }, { 0 }) end
local written = 0
if entry.version == ARGV[6] then
    entry.version = text(tonumber(entry.version) + 1)
    keep_entry(entry)
    redis.call('HSET', VALUES, entry.member, ARGV[5])
    tell_queue(entry.dir)
    written = 1
end
return answer('ok', { written }, rows({ { entry.version } }))
