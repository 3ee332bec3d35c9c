-- What every script begins with. KEYS are all that there are, of one slot; ARGV[1] is the session,
-- and ARGV[2] what the client believes of the server's clock, if dead sessions are to be put away.
local META = KEYS[1]     -- hash: version, server, keeps, longest, kept, doubted, since, replicated,
                         -- beat, last
local SESSIONS = KEYS[2] -- sorted: session, by when it ends, in microseconds
local LIVES = KEYS[3]    -- hash: session -> TTL, beat, how often it has written
local QUEUE = KEYS[4]    -- sorted: `dir number` of each entry of each queue
local ENTRIES = KEYS[5]  -- hash: `dir number` -> session, ticket, version, since, label
local VALUES = KEYS[6]   -- hash: `dir number` -> value
local OWN = KEYS[7]      -- sorted: `session e ticket dir number` and `session w dir number`; and
                         -- `session g dir number layout gate` and `session l ticket key`: see below
local WATCHES = KEYS[8]  -- sorted: `dir number session`
local DATA = KEYS[9]     -- hash: what belongs to no session
local NAMES = KEYS[10]   -- sorted: the keys of that

-- The version of all that; another one is not touched.
local VERSION = '1'
-- What is watched of a queue as a whole.
local WHOLE = string.rep('0', 16)
-- The session that stands in front of all who join while nothing is granted.
local NOBODY = '0'
-- Numbers begin with the milliseconds since 2025.
local EPOCH = 1735689600000
-- How many sessions one script puts away.
local SWEPT = 100

local session = ARGV[1]
local at = redis.call('TIME')
local now = at[1] * 1000000 + at[2]
local beat, last, writes, written = 0, 0, 0, 0

local function text(number) return string.format('%.0f', number) end

local function padded(number) return string.format('%016.0f', number) end

local function place(dir, number) return dir .. ' ' .. padded(number) end

-- All members that begin so. No member has a byte 255.
local function starting(key, prefix)
    return redis.call('ZRANGEBYLEX', key, '[' .. prefix, '(' .. prefix .. '\255')
end

local function life_of(id)
    local told = redis.call('HGET', LIVES, id)
    if not told then return nil end
    local ttl, drawn, count = string.match(told, '^(%d+) (%d+) (%d+)$')
    return { ttl = tonumber(ttl), beat = tonumber(drawn), writes = tonumber(count) }
end

local function keep_life(id, life)
    redis.call('HSET', LIVES, id, text(life.ttl) .. ' ' .. text(life.beat) .. ' '
        .. text(life.writes))
end

-- Counts from now, with a beat of its own.
local function renew(id, life)
    beat = redis.call('HINCRBY', META, 'beat', 1)
    life.beat = beat
    keep_life(id, life)
    redis.call('ZADD', SESSIONS, text(now + life.ttl), id)
end

local function entry_at(member)
    local told = redis.call('HGET', ENTRIES, member)
    if not told then return nil end
    local entry = { member = member }
    entry.session, entry.ticket, entry.version, entry.since, entry.label =
        string.match(told, '^(%x+) (%S+) (%d+) (%d+) (.*)$')
    entry.dir, entry.number = string.match(member, '^(.*) (%d+)$')
    return entry
end

local function keep_entry(entry)
    redis.call('HSET', ENTRIES, entry.member, table.concat(
        { entry.session, entry.ticket, entry.version, entry.since, entry.label }, ' '))
end

local function add_entry(dir, number, owner, ticket, label, value)
    local entry = { member = place(dir, number), session = owner, ticket = ticket, version = '1',
        since = text(math.floor(now / 1000)), label = label }
    redis.call('ZADD', QUEUE, 0, entry.member)
    keep_entry(entry)
    redis.call('HSET', VALUES, entry.member, value)
    redis.call('ZADD', OWN, 0, owner .. ' e ' .. ticket .. ' ' .. entry.member)
end

-- The session's entry with this ticket in this queue.
local function own(id, dir, ticket)
    for _, member in ipairs(starting(OWN, id .. ' e ' .. ticket .. ' ' .. dir .. ' ')) do
        return string.sub(member, #id + #ticket + 5)
    end
end

-- What makes an entry's key, with which its row begins.
local function row(entry)
    return { text(tonumber(entry.number)), entry.session, entry.ticket, entry.label }
end

local function key_of(entry)
    local dot = entry.label == '' and '' or '.'
    return entry.dir .. '/' .. entry.session .. '-' .. entry.ticket .. dot .. entry.label
end

local function channel(id) return string.sub(META, 1, -5) .. id end

local function watch(dir, number)
    redis.call('ZADD', WATCHES, 0, dir .. ' ' .. number .. ' ' .. session)
    redis.call('ZADD', OWN, 0, session .. ' w ' .. dir .. ' ' .. number)
end

local function unwatch(dir, number, id)
    redis.call('ZREM', WATCHES, dir .. ' ' .. number .. ' ' .. id)
    redis.call('ZREM', OWN, id .. ' w ' .. dir .. ' ' .. number)
end

-- Tells those who watch any of this of a queue, each session once.
local function tell(dir, what, ...)
    local told = {}
    for _, number in ipairs({ ... }) do
        for _, member in ipairs(starting(WATCHES, dir .. ' ' .. number .. ' ')) do
            local id = string.sub(member, #dir + #number + 3)
            unwatch(dir, number, id)
            if not told[id] then redis.call('PUBLISH', channel(id), what) end
            told[id] = true
        end
    end
end

local function tell_queue(dir) tell(dir, dir .. '/ 0', WHOLE) end

-- An entry is gone, or has another key from now on.
local function tell_entry(entry)
    tell(entry.dir, key_of(entry) .. ' ' .. entry.number, entry.number, WHOLE)
end

-- An entry that goes gives up its gate: see gates.lua.
local give_up

local function remove(entry)
    give_up(entry)
    redis.call('ZREM', QUEUE, entry.member)
    redis.call('HDEL', ENTRIES, entry.member)
    redis.call('HDEL', VALUES, entry.member)
    redis.call('ZREM', OWN, entry.session .. ' e ' .. entry.ticket .. ' ' .. entry.member)
    tell_entry(entry)
end

-- Ends a session, and its entries and watches by that.
local function put_away(id)
    for _, member in ipairs(starting(OWN, id .. ' w ')) do
        local dir, number = string.match(member, '^%x+ w (.*) (%d+)$')
        unwatch(dir, number, id)
    end
    for _, member in ipairs(starting(OWN, id .. ' e ')) do
        local entry = entry_at(string.match(member, '^%x+ e %S+ (.*)$'))
        if entry then remove(entry) end
    end
    redis.call('ZREMRANGEBYLEX', OWN, '[' .. id .. ' ', '(' .. id .. ' \255')
    redis.call('ZREM', SESSIONS, id)
    redis.call('HDEL', LIVES, id)
end

-- Whether a session that is over by the clock may be put away.
--
-- A holder gives up 0.9 TTL after it has sent a keepalive. It is put away 1.1 TTL after the server
-- has counted that one, by a clock that has not been set since then, or for as long: all but what
-- this request may take on its way, which is 0.15 TTL, and 0.02 TTL by which two clocks differ.
-- And it was not renewed while the clock was wrong: see `beats.rs`.
local function is_over(id, expires, life, belief)
    if expires >= now - life.ttl * 0.1 or id == session
        or now - belief.since <= life.ttl * 1.1 or now - belief.shows >= life.ttl * 0.15 then
        return false
    end
    if #belief.marks == 0 then return true end
    local renewed, since = expires - life.ttl * 0.95, nil
    for _, mark in ipairs(belief.marks) do
        if life.beat > mark.beat then
            since = mark.shows
            break
        end
    end
    if not since or renewed >= since then return true end
    for _, mark in ipairs(belief.marks) do
        if life.beat <= mark.beat and life.ttl <= mark.age * 0.95 then return true end
    end
    return false
end

local function read_belief(told)
    local words = string.gmatch(told, '%S+')
    local belief = { since = tonumber(words()), shows = tonumber(words()), clips = words() == '1' }
    belief.marks = {}
    for word in words do
        local age, shows, drawn = string.match(word, '^(%-?%d+):(%-?%d+):(%-?%d+)$')
        belief.marks[#belief.marks + 1] =
            { age = tonumber(age), shows = tonumber(shows), beat = tonumber(drawn) }
    end
    return belief
end

-- Puts away the sessions that are over, and their entries by that. `longest`: the longest TTL.
local function sweep(belief, longest)
    if belief.clips then
        -- No session ends later than that, unless the clock has been set back. So few are read, if
        -- any. A session with a shorter TTL that seems to live longer is removed that much later.
        local late = redis.call('ZRANGEBYSCORE', SESSIONS, '(' .. text(now + longest), '+inf',
            'WITHSCORES')
        for index = 1, #late, 2 do
            local life = life_of(late[index])
            if life and tonumber(late[index + 1]) > now + life.ttl then
                redis.call('ZADD', SESSIONS, text(now + life.ttl), late[index])
            end
        end
    end
    local count = 0
    local dead = redis.call('ZRANGEBYSCORE', SESSIONS, '-inf', '(' .. text(now), 'WITHSCORES')
    for index = 1, #dead, 2 do
        local id = dead[index]
        local life = life_of(id)
        if life and count < SWEPT and is_over(id, tonumber(dead[index + 1]), life, belief) then
            put_away(id)
            count = count + 1
        end
    end
end

-- The answer: what the clock shows, how far the beats are, and how often the session has written,
-- and whether it has now, and the last number that was given; a word; and an outcome for each
-- statement, which begins with how many rows it wrote or read.
local function answer(word, ...)
    return { { text(now), text(beat), text(writes), written, text(last) }, word, ... }
end

local function rows(found)
    local outcome = { #found }
    for index, told in ipairs(found) do outcome[index + 1] = told end
    return outcome
end

-- Whether this store is of this version, or empty; if not, the answer.
local function check()
    local told = redis.call('HMGET', META, 'version', 'beat', 'last', 'longest')
    if told[1] and told[1] ~= VERSION then return answer('version ' .. told[1]) end
    beat, last = tonumber(told[2] or 0), tonumber(told[3] or 0)
    if ARGV[2] ~= '' then sweep(read_belief(ARGV[2]), tonumber(told[4] or 0)) end
    return nil
end

-- The session writes once more.
local function count(life)
    life.writes, written = life.writes + 1, 1
    keep_life(session, life)
    writes = life.writes
end

-- The first word of each request of a session: an answer if that was put away. A session that is
-- over by the clock and still there may be renewed.
local function enter(changes)
    local refused = check()
    if refused then return refused end
    local life = life_of(session)
    if not life then return answer('gone') end
    writes = life.writes
    if changes then count(life) end
    return nil, life
end

-- How many milliseconds it takes, at least, until a session is put away that is not renewed. Or how
-- long to wait if it is not yet, because what is believed of the clock is too young.
local function left(id)
    local life, expires = life_of(id), tonumber(redis.call('ZSCORE', SESSIONS, id) or 0)
    if not life then return '0' end
    local micros = math.max(
        math.min(expires - now, life.ttl) + life.ttl * 0.1, life.ttl * 0.02)
    return text(math.floor(micros / 1000))
end

-- For so long at least NOBODY stands in front of all who join. It is put away as any other that is
-- not renewed, for which a request needs a part of its time.
local function grant_nothing(time)
    if tonumber(redis.call('ZSCORE', SESSIONS, NOBODY) or 0) >= now + time then return end
    local nobody = life_of(NOBODY) or { ttl = 1000000, writes = 0 }
    nobody.ttl = math.max(nobody.ttl, time)
    renew(NOBODY, nobody)
end

-- The same of each of the sessions that are in the arguments from there on. `surely`: by a clock that
-- was not set back.
local function left_of(from, surely)
    local found = {}
    for at = from, #ARGV do
        local life = life_of(ARGV[at])
        local expires = tonumber(redis.call('ZSCORE', SESSIONS, ARGV[at]) or 0)
        if life and not (surely and expires > now + life.ttl) then
            found[#found + 1] = { ARGV[at], left(ARGV[at]) }
        end
    end
    return found
end

-- Checks whether this is the server that wrote here last. A promoted replica, or this server after
-- a crash, may lack the last confirmed writes: renewals, holders, numbers. So each session gets a
-- whole TTL more, numbers continue far above all known ones, and nothing is granted for the longest
-- TTL of any session.
-- `keeps`: by its settings the server loses nothing. This counts only if each client of the
-- previous run found the same settings, because what a crash loses depends on the settings before
-- it. And it counts only if there was never a replica: a replica that is restarted as a primary
-- looks the same. `promoted`: the server was a replica, and does not report for how long it no
-- longer is. `runs`: its uptime in whole seconds, expressed in microseconds. `replicated`: there
-- are replicas.
local function recognize(server, keeps, promoted, runs, replicated)
    local known = redis.call('HMGET', META, 'server', 'longest', 'doubted', 'replicated', 'keeps')
    if replicated and not known[4] then redis.call('HSET', META, 'replicated', '1') end
    if known[1] == server then
        if not keeps then redis.call('HSET', META, 'keeps', '0') end
        return
    end
    redis.call('HSET', META, 'server', server, 'keeps', keeps and '1' or '0')
    if known[1] and keeps and known[5] == '1' and not replicated and not known[4] then
        if known[3] == known[1] then redis.call('HSET', META, 'doubted', server) end
        return
    end
    -- There may have been sessions that were to live for longer than any that is known: see `doubt`.
    redis.call('HSET', META, 'doubted', server, 'since', promoted and text(runs) or '0')
    if not known[1] then return end
    -- Above the numbers of the lost writes, which the last known one may be days older than.
    last = math.max(last, math.floor(now / 1000) - EPOCH) + 100000000
    redis.call('HSET', META, 'last', text(last))
    local longest = 0
    for _, id in ipairs(redis.call('ZRANGE', SESSIONS, 0, -1)) do
        local life = life_of(id)
        if life then
            renew(id, life)
            if id ~= NOBODY then longest = math.max(longest, life.ttl) end
        end
    end
    local before = tonumber(known[2] or 0)
    if before > 0 then grant_nothing(before) end
    -- Those that it does not know are over by then.
    redis.call('HSET', META, 'longest', text(longest))
    redis.call('HDEL', META, 'kept')
end

-- What a client reports of the server, in its arguments from there on: which server it is, whether
-- it keeps all writes, whether it was a replica, for how long it has been running, whether there are
-- replicas; and the highest number that the client has seen: a server that lost it continues there.
local function meet(from)
    recognize(ARGV[from], ARGV[from + 1] == '1', ARGV[from + 2] == '1', tonumber(ARGV[from + 3]),
        ARGV[from + 4] == '1')
    local seen = tonumber(ARGV[from + 5])
    if seen > last then
        last = seen
        redis.call('HSET', META, 'last', text(last))
    end
end

-- A session begins that is to live for longer than any that is known. On a server that is empty, or
-- has lost something, there may have been another one that was to live for as long: it is over when
-- that time has passed since the server was started, or since it was seen to be another one.
local function doubt(server, ttl, runs)
    local told = redis.call('HMGET', META, 'doubted', 'since')
    if told[1] ~= server then return end
    -- Both are cut off to whole seconds.
    local age = math.max(runs - tonumber(told[2]) - 1000000, 0)
    if age < ttl then grant_nothing(ttl - age) end
end
