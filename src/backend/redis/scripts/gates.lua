-- Gates. With a bridge, the first entry in the queue of a mutex must also hold the key that other
-- libraries use as the lock: the gate. QUEUE stores which entry holds which gate (g), and which
-- entry has lost its gate (l), until its holder has released it. An entry holds a gate only while
-- the gate's key says so. Gates expire like other libraries' locks. The user may have lost the
-- right to the key, so errors are checked: Redis does not undo what a script wrote before it
-- failed.
local KINDS = { plain = 'string', redisson = 'hash' }

-- The content of a gate's key that an entry holds. No other entry ever has the same ticket.
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

-- Returns whether the gate is held, by an entry or another library; or what is wrong.
local function is_shut(gate)
    local kind = redis.pcall('TYPE', gate.key)
    if kind.err then return nil, kind.err end
    if kind.ok == 'none' then return false end
    if kind.ok ~= KINDS[gate.layout] then return nil, 'WRONGTYPE it is a ' .. kind.ok end
    return true
end

-- Returns whether the gate's key says that this entry holds it.
local function has(gate, entry)
    if not is_shut(gate) then return false end
    if gate.layout == 'redisson' then
        return redis.pcall('HEXISTS', gate.key, mark(gate, entry)) == 1
    end
    return redis.pcall('GET', gate.key) == mark(gate, entry)
end

-- Notifies the waiters of Redisson, which subscribe to this channel.
local function wake(gate)
    if gate.layout ~= 'redisson' then return end
    local braced = string.find(gate.key, '{', 1, true) and gate.key or '{' .. gate.key .. '}'
    redis.pcall('PUBLISH', 'redisson_lock__channel:' .. braced, '0')
end

-- Releases the gate of an entry, unless another holder has it by now.
give_up = function(entry)
    local gate = gate_of(entry)
    if not gate then return end
    call('ZREM', QUEUE, gate.member)
    if has(gate, entry) then
        redis.pcall('DEL', gate.key)
        wake(gate)
    end
end

-- The TTL of the holder's session in milliseconds, the unit of other libraries.
local function gate_ttl(life) return text(math.floor(life.ttl / 1000)) end

-- Takes a free gate for an entry of this session. Returns whether it did, or what is wrong.
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

-- Removes an entry whose gate is gone or has another holder: the lock may have been granted
-- elsewhere. The session's other entries stay.
local function lose(entry, gate, life)
    if written == 0 then count(life) end
    call('ZREM', QUEUE, gate.member)
    call('ZADD', QUEUE, 0, table.concat({ '~' .. session, 'l', entry.ticket, key_of(entry) }, ' '))
    remove(entry)
end

-- The row for the holder of a gate, which is ahead of all entries that do not hold it.
local function keeper(gate) return { '0', 'gate', gate.layout, '' } end

-- The content of the gate's key if another library holds it, else nothing.
local function others_mark(dir, gate)
    if not is_shut(gate) then return nil end
    local entry = first_in(dir)
    local had = entry and gate_of(entry)
    if had and has(had, entry) then return nil end
    local hash = gate.layout == 'redisson'
    local value = redis.pcall(hash and 'HRANDFIELD' or 'GET', gate.key)
    return type(value) == 'string' and string.sub(value, 1, 1024) or ''
end

-- Returns an entry and the two ahead of it, the nearest first. One of the two is the gate, if the
-- entry must hold it. Only the first entry takes a free gate.
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

-- A gate is named by its layout and its key, or not at all.
local function gate_in(layout, key)
    return layout and layout ~= '' and key ~= '' and { layout = layout, key = key } or nil
end

-- Returns the reply for an error of a gate.
local function shut_out(gate, wrong) return reply('gate', rows({ { gate.key, wrong } })) end
