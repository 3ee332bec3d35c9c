-- Joins all of these queues or none. ARGV: 3 whether only if nobody is in any of them, 4 value, 5
-- the layout of their gates, or nothing; then directory, ticket, label and gate, or nothing, of each.
-- Tells of each; and if 3, whether somebody is there and all of them are over by the clock, and
-- whether nothing is granted and nobody is known to be there.
local refused, life = enter(true)
if refused then return refused end
local if_free, value = ARGV[3] == '1', ARGV[4]
local quarantined = redis.call('HEXISTS', LIVES, NOBODY) == 1

-- Whether anybody is in a queue, and whether one of them lives. It ends at the first one who does:
-- queues may be long.
local function find(dir)
    local offset, there = 0, false
    while true do
        local found = redis.call('ZRANGEBYLEX', QUEUE, '[' .. dir .. ' ', '(' .. dir .. '!',
            'LIMIT', offset, 16)
        for _, member in ipairs(found) do
            there = true
            local owner = entry_at(member).session
            local expires = tonumber(redis.call('ZSCORE', SESSIONS, owner) or 0)
            if owner ~= NOBODY and expires >= now then return true, true end
        end
        if #found < 16 then return there, false end
        offset = offset + 16
    end
end

local there, alive, shut = false, false, false
if if_free then
    for at = 6, #ARGV, 4 do
        local is_there, is_alive = find(ARGV[at])
        there, alive = there or is_there, alive or is_alive
        local gate = gate_in(ARGV[5], ARGV[at + 3])
        if gate and not own(session, ARGV[at], ARGV[at + 1]) then
            local is_taken, wrong = is_shut(gate)
            if wrong then return shut_out(gate, wrong) end
            shut = shut or is_taken
        end
    end
end
local outcomes, added = {}, {}
for at = 6, #ARGV, 4 do
    local dir, ticket, label = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local gate = gate_in(ARGV[5], ARGV[at + 3])
    local member = own(session, dir, ticket)
    if not member and not (if_free and (there or quarantined or shut)) then
        last = math.max(last + 1, math.floor(now / 1000) - EPOCH)
        if quarantined then
            add_entry(dir, last, NOBODY, ticket, 'nobody',
                'distlock: the database has failed over, or was restored')
            last = last + 1
        end
        add_entry(dir, last, session, ticket, label, value)
        redis.call('HSET', META, 'last', text(last))
        tell_queue(dir)
        member = place(dir, last)
        added[#added + 1] = member
    end
    local found = {}
    if member then
        local wrong
        found, wrong = ahead(dir, member, gate, life)
        if wrong then
            -- All or none.
            for _, each in ipairs(added) do remove(entry_at(each)) end
            return shut_out(gate, wrong)
        end
    end
    if found[1] then
        local others = redis.call('ZLEXCOUNT', QUEUE, '[' .. dir .. ' ', '(' .. dir .. '!') > 1
            or redis.call('ZLEXCOUNT', NAMES, '[' .. dir .. '/', '(' .. dir .. '0') > 0
        found[1][5] = others and 1 or 0
    end
    outcomes[#outcomes + 1] = rows(found)
end
if if_free then
    outcomes[#outcomes + 1] = rows({
        { there and not alive and 1 or 0, quarantined and not alive and 1 or 0 },
    })
end
return answer('ok', unpack(outcomes))
