-- Entries of queues, and watches on them.

-- Returns at most `most` members that begin with the prefix. No member contains the byte 255.
local function starting(key, prefix, most)
    return call('ZRANGEBYLEX', key, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, most or -1)
end

local function read_entry(member)
    local entry = { member = member }
    entry.dir, entry.number, entry.session, entry.ticket, entry.since, entry.label =
        string.match(member, '^(%S+) (%d+) (%x+) (%S+) v?(%d+) (.*)$')
    return entry.dir and entry
end

local function entry_at(dir, number)
    local found = starting(QUEUE, dir .. ' ' .. number .. ' ', 1)[1]
    return found and read_entry(found)
end

-- The field for an entry's value and version, if they are not the usual ones.
local function record_of(entry) return '=' .. entry.dir .. ' ' .. entry.number end

local function has_record(entry)
    return string.find(entry.member, ' v' .. entry.since .. ' ', 1, true)
end

local function index_of(entry)
    return table.concat({ '~' .. entry.session, 'e', entry.ticket, entry.dir, entry.number }, ' ')
end

-- The member by which readers find an entry that they must not pass; else nothing.
local function barrier_of(entry)
    if entry.label ~= 'w' and entry.label ~= 'nobody' then return nil end
    return entry.dir .. ' :' .. entry.number
end

local function keep_entry(entry, has_value)
    entry.member = table.concat({ entry.dir, entry.number, entry.session, entry.ticket,
        (has_value and 'v' or '') .. entry.since, entry.label }, ' ')
    call('ZADD', QUEUE, 0, entry.member, 0, index_of(entry))
    local barrier = barrier_of(entry)
    if barrier then call('ZADD', QUEUE, 0, barrier) end
end

local function forget_entry(entry)
    local index = index_of(entry)
    call('ZREM', QUEUE, entry.member, index, barrier_of(entry) or index)
end

-- The value of an entry is one of these texts: nothing for the session's owner, which the session
-- has sent before; `o` and that owner; or `v` and another value.
local function keep_owner(given)
    if string.sub(given, 1, 1) ~= 'o' then return end
    call('HSET', META, '@' .. session, string.sub(given, 2))
end

local function keep_value(entry, given)
    if string.sub(given, 1, 1) ~= 'v' then return false end
    call('HSET', DATA, record_of(entry), '1 ' .. string.sub(given, 2))
    return true
end

local function add_entry(dir, number, owner, ticket, label, given)
    local entry = { dir = dir, number = padded(number), session = owner, ticket = ticket,
        since = text(math.floor(now / 1000)), label = label }
    keep_entry(entry, keep_value(entry, given))
    return entry
end

-- Returns the version of an entry and its value.
local function value_of(entry, owner)
    local record = has_record(entry) and call('HGET', DATA, record_of(entry))
    if not record then return '1', owner .. '\n' .. entry.since end
    return string.match(record, '^(%d+) (.*)$')
end

-- Returns the session's entry with this ticket in this queue.
local function own(id, dir, ticket)
    local prefix = table.concat({ '~' .. id, 'e', ticket, dir, '' }, ' ')
    local index = starting(QUEUE, prefix, 1)[1]
    return index and entry_at(dir, string.sub(index, #prefix + 1))
end

-- The parts of an entry's key, with which its row begins.
local function row(entry)
    return { text(tonumber(entry.number)), entry.session, entry.ticket, entry.label }
end

local function key_of(entry)
    local dot = entry.label == '' and '' or '.'
    return entry.dir .. '/' .. entry.session .. '-' .. entry.ticket .. dot .. entry.label
end

local function first_in(dir)
    local found = call('ZRANGEBYLEX', QUEUE, '[' .. dir .. ' 0', '(' .. dir .. ' :', 'LIMIT', 0, 1)
    return found[1] and read_entry(found[1])
end

local function channel(id) return string.sub(META, 1, -5) .. id end

local function watch(dir, number)
    call('ZADD', QUEUE, 0, dir .. ' ;' .. number .. ' ' .. session,
        0, '~' .. session .. ' w ' .. dir .. ' ' .. number)
end

local function unwatch(dir, number, id)
    call('ZREM', QUEUE, dir .. ' ;' .. number .. ' ' .. id,
        '~' .. id .. ' w ' .. dir .. ' ' .. number)
end

-- The number of sessions that this script may still notify.
local notifications = 50

-- Notifies the sessions that watch one of these numbers of a queue, each session once. If there are
-- too many, `notify_rest` of a later script notifies the others.
local function notify(dir, payload, ...)
    local notified = {}
    for _, number in ipairs({ ... }) do
        local prefix = dir .. ' ;' .. number .. ' '
        local watches = starting(QUEUE, prefix, notifications + 1)
        for index, member in ipairs(watches) do
            if index > notifications then
                call('ZADD', QUEUE, 0, table.concat({ '!', dir, number, payload }, ' '))
                unfinished = true
                break
            end
            local id = string.sub(member, #prefix + 1)
            unwatch(dir, number, id)
            if not notified[id] then call('PUBLISH', channel(id), payload) end
            notified[id] = true
        end
        notifications = math.max(notifications - #watches, 0)
    end
end

-- Notifies the sessions of one entry or queue that another script has left.
local function notify_rest()
    local rest, another = unpack(starting(QUEUE, '! ', 2))
    if not rest then return end
    call('ZREM', QUEUE, rest)
    unfinished = unfinished or another ~= nil
    local dir, number, payload = string.match(rest, '^! (%S+) (%d+) (.*)$')
    notify(dir, payload, number)
end

local function notify_queue(dir) notify(dir, dir .. '/ 0', WHOLE) end

-- Notifies the sessions that watch an entry or its queue. The entry was removed, or has another
-- key.
local function notify_entry(entry)
    notify(entry.dir, key_of(entry) .. ' ' .. entry.number, entry.number, WHOLE)
end

-- Returns the member for a field of DATA that a listing of a queue shows, and the queue's
-- directory, which has no blank.
local function note_of(key)
    local dir, name = string.match(key, '^(/%S*)/([^/]*)$')
    return dir and dir .. ' /' .. name, dir
end
