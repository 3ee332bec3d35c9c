-- Joins all of these queues or none. ARGV: 3 whether only if all are empty, 4 value (see
-- `keep_value`), 5 the layout of their gates, or nothing; then directory, ticket, label and gate,
-- or nothing, of each. Outcomes: for each queue what `ahead` finds. With 3, another outcome has
-- whether there are entries, all of sessions that seem expired; and whether the quarantine blocks
-- grants, and no session in the queues seems live.
local refused, life = enter(true)
if refused then return refused end
local if_free, value = ARGV[3] == '1', ARGV[4]
local quarantined = known[4]
keep_owner(value)
-- The number of entries that a try checks for a live session.
local CHECKED = 64

-- Returns whether a queue has an entry, and whether one of its sessions is live. It stops at the
-- first live session, because queues may be long.
local function find(dir)
    local there, resumed = false, nil
    for _, member in ipairs(call('ZRANGEBYLEX', QUEUE, '[' .. dir .. ' 0', '(' .. dir .. ' :',
        'LIMIT', 0, CHECKED)) do
        there, resumed = true, resumed or resumption()
        local owner = read_entry(member).session
        local other = owner ~= NOBODY and life_of(owner)
        if other and ending(other, expiry_of(owner), resumed) >= now then return true, true end
    end
    return there, false
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
    local entry = own(session, dir, ticket)
    if not entry and not (if_free and (there or quarantined or shut)) then
        last = math.max(last + 1, math.floor(now / 1000) - EPOCH)
        if quarantined then
            add_entry(dir, last, NOBODY, ticket, 'nobody',
                'vdistlock: the database has failed over, or was restarted or restored')
            last = last + 1
        end
        entry = add_entry(dir, last, session, ticket, label, value)
        call('HSET', META, 'last', text(last))
        notify_queue(dir)
        added[#added + 1] = entry
    end
    local found = {}
    if entry then
        local wrong
        found, wrong = ahead(dir, entry.number, gate, life)
        if wrong then
            -- All or none.
            for _, each in ipairs(added) do remove(each) end
            return shut_out(gate, wrong)
        end
    end
    if found[1] then
        local others = call('ZLEXCOUNT', QUEUE, '[' .. dir .. ' /', '(' .. dir .. ' :')
        found[1][5] = others > 1 and 1 or 0
    end
    outcomes[#outcomes + 1] = rows(found)
end
if if_free then
    outcomes[#outcomes + 1] = rows({
        { there and not alive and 1 or 0, quarantined and not alive and 1 or 0 },
    })
end
return answer(unpack(outcomes))
