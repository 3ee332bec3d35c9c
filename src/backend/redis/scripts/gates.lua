-- Gates. Where a client bridges to other libraries, who is first in a mutex' queue has to have
-- the key, too, that those take for the lock: the gate. `QUEUE` has which entry has which gate (g);
-- and which one had it and lost it (l), until its holder has given it up. A gate is an entry's only
-- while its key says so, and has the times to live that all of its kind have. The user may not have
-- a right to it, any more: errors are looked at, as nothing is undone when a script ends by one.
local KINDS = { plain = 'string', redisson = 'hash' }

-- What is in the key of a gate that an entry has; no other entry ever has the same ticket.
local function mark(gate, entry)
    if gate.layout == 'redisson' then return entry.ticket .. ':' .. entry.session end
    return entry.session .. '-' .. entry.ticket
end

local function gate_of(entry)
    local prefix = table.concat({ '~' .. entry.session, 'g', entry.dir, entry.number, '' }, ' ')
    local member = starting(QUEUE, prefix, 1)[1]
    if not member then return nil end
    local layout, key = string.match(string.sub(member, #prefix + 1), '^(%S+) (.*)$')
    return { layout = layout, key = key, member = member }
end

-- Whether somebody has it, be it ours or another's; or what is wrong.
local function is_shut(gate)
    local kind = redis.pcall('TYPE', gate.key)
    if kind.err then return nil, kind.err end
    if kind.ok == 'none' then return false end
    if kind.ok ~= KINDS[gate.layout] then return nil, 'WRONGTYPE its key is a ' .. kind.ok end
    return true
end

-- Whether its key says that this entry has it.
local function has(gate, entry)
    if not is_shut(gate) then return false end
    if gate.layout == 'redisson' then
        return redis.pcall('HEXISTS', gate.key, mark(gate, entry)) == 1
    end
    return redis.pcall('GET', gate.key) == mark(gate, entry)
end

-- Those of Redisson's who wait listen there.
local function wake(gate)
    if gate.layout ~= 'redisson' then return end
    local braced = string.find(gate.key, '{', 1, true) and gate.key or '{' .. gate.key .. '}'
    redis.pcall('PUBLISH', 'redisson_lock__channel:' .. braced, '0')
end

-- Gives up the gate that an entry has. What is another's by now stays.
give_up = function(entry)
    local gate = gate_of(entry)
    if not gate then return end
    call('ZREM', QUEUE, gate.member)
    if has(gate, entry) then
        redis.pcall('DEL', gate.key)
        wake(gate)
    end
end

-- The holder's time to live, in the milliseconds that others count in.
local function gate_ttl(life) return text(math.floor(life.ttl / 1000)) end

-- Takes a gate for an entry of this session's, if nobody has it. Tells whether, or what is wrong.
local function take(gate, entry, life)
    local shut, wrong = is_shut(gate)
    if shut or wrong then return false, wrong end
    if written == 0 then count(life) end
    local value, done = mark(gate, entry)
    if gate.layout == 'redisson' then
        done = redis.pcall('HSET', gate.key, value, 1)
        if done == 1 then call('PEXPIRE', gate.key, gate_ttl(life)) end
    else
        done = redis.pcall('SET', gate.key, value, 'NX', 'PX', gate_ttl(life))
    end
    if type(done) == 'table' and done.err then return false, done.err end
    call('ZADD', QUEUE, 0, table.concat(
        { '~' .. entry.session, 'g', entry.dir, entry.number, gate.layout, gate.key }, ' '))
    return true
end

-- The gate is gone, or another's: somebody else may have had the lock since. So the entry ends, and
-- with it what is held by it, and nothing else.
local function lose(entry, gate, life)
    if written == 0 then count(life) end
    call('ZREM', QUEUE, gate.member)
    call('ZADD', QUEUE, 0, table.concat({ '~' .. session, 'l', entry.ticket, key_of(entry) }, ' '))
    remove(entry)
end

-- Who has a gate stands before all of ours who don't.
local function keeper(gate) return { '0', 'gate', gate.layout, '' } end

-- What is in a gate's key if none of ours has it, but somebody does.
local function others_mark(dir, gate)
    if not is_shut(gate) then return nil end
    local entry = first_in(dir)
    local had = entry and gate_of(entry)
    if had and has(had, entry) then return nil end
    local hash = gate.layout == 'redisson'
    local told = redis.pcall(hash and 'HRANDFIELD' or 'GET', gate.key)
    return type(told) == 'string' and string.sub(told, 1, 1024) or ''
end

-- An entry and the two in front of it, the nearest first: of which the gate is one, if the entry
-- has to have that. The first one takes it, if it is free; nobody else touches it.
local function ahead(dir, number, gate, life)
    local rows, first = {}, nil
    for _, found in ipairs(call('ZREVRANGEBYLEX', QUEUE, '(' .. dir .. ' ' .. number .. '!',
        '[' .. dir .. ' 0', 'LIMIT', 0, 3)) do
        first = read_entry(found)
        rows[#rows + 1] = row(first)
    end
    if not gate or not first or #rows == 3 then return rows end
    if #rows == 1 and first.number == number then
        local had = gate_of(first)
        if had and not has(had, first) then
            lose(first, had, life)
            return {}
        end
        local taken, wrong = had, nil
        if not had then taken, wrong = take(gate, first, life) end
        if taken or wrong then return rows, wrong end
    end
    rows[#rows + 1] = keeper(gate)
    return rows
end

-- A gate is named by its layout and its key, or nothing.
local function gate_in(layout, key)
    return layout and layout ~= '' and key ~= '' and { layout = layout, key = key } or nil
end

-- Something is wrong with a gate.
local function shut_out(gate, wrong) return reply('gate', rows({ { gate.key, wrong } })) end
