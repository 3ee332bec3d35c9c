-- All that is in a queue, in its order, and the notes. ARGV: 3 directory, 4 whether with values, 5
-- whether it is watched from now on, 6 and 7 its gate, or nothing.
local refused = enter(ARGV[5] == '1')
if refused then return refused end
local dir, found = ARGV[3], {}
if ARGV[5] == '1' then watch(dir, WHOLE) end
local gate = gate_in(ARGV[6], ARGV[7])
local whose = gate and others_mark(dir, gate)
if whose then
    found[1] = keeper(gate)
    found[1][5], found[1][6], found[1][7], found[1][8] = false, { whose }, '0', false
end
for _, member in ipairs(starting(QUEUE, dir .. ' ')) do
    local entry = entry_at(member)
    local told = row(entry)
    told[5] = left(entry.session)
    told[6], told[7], told[8], told[9] = false, false, false, false
    local expires = tonumber(redis.call('ZSCORE', SESSIONS, entry.session) or 0)
    told[10] = expires < now and '1' or '0'
    if ARGV[4] == '1' then
        -- What is in an array of its own may be of any bytes.
        told[6] = { redis.call('HGET', VALUES, member) or '' }
        told[7], told[8] = entry.version, entry.since
    end
    found[#found + 1] = told
end
for _, key in ipairs(starting(NAMES, dir .. '/')) do
    local name = string.sub(key, #dir + 2)
    if not string.find(name, '/', 1, true) then
        found[#found + 1] = { false, false, false, false, false, false, false, false, name }
    end
end
return answer('ok', rows(found))
