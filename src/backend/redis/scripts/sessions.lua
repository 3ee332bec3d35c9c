-- Sessions, and how they end.

-- The number of entries and watches of ended sessions that one script removes, and of sessions that
-- seem expired that it checks.
local MOST = 50
-- In microseconds: see `forget_ttl`.
local SHORT = 60000000
-- The number of hosts that may record what their processes have observed of one session.
local HOSTS = 8

local function renew(id, life)
    beat = call('HINCRBY', META, 'beat', 1)
    life.beat = beat
    keep_life(id, life)
    call('ZADD', SESSIONS, text(now + life.ttl), id)
end

local function life_of(id)
    local found = call('HGET', META, id)
    return found and read_life(found)
end

-- Returns the longest TTL of a session.
local function longest()
    local found = call('ZRANGEBYSCORE', SESSIONS, '-inf', '(0', 'LIMIT', 0, 1)[1]
    return found and tonumber(string.sub(found, 2)) or 0
end

local function begin(id, ttl)
    local counted = 't' .. text(ttl)
    call('HINCRBY', META, counted, 1)
    call('ZADD', SESSIONS, text(-ttl), counted)
    renew(id, { ttl = ttl, writes = 0 })
end

-- Forgets a TTL with its last session, unless it is so short that a crash may make all clients wait
-- for that long. A session with a TTL above all on record waits for the disk as it begins, and that
-- takes an hour once the clock was set back by an hour: `aof_last_fsync` in
-- https://github.com/redis/redis/blob/8.0/src/aof.c.
local function forget_ttl(ttl)
    local counted = 't' .. text(ttl)
    if ttl <= SHORT or tonumber(call('HGET', META, counted) or 0) > 1 then
        call('HINCRBY', META, counted, -1)
        return
    end
    -- The record on the disk does not cover a later session with that TTL.
    call('HDEL', META, counted)
    call('ZREM', SESSIONS, counted)
    local kept, most = tonumber(call('HGET', META, 'kept') or 0), longest()
    if kept > most then call('HSET', META, 'kept', text(most)) end
end

-- Ends a session, whose life may have been lost. Its entries keep their places and their owner
-- until `clear` removes them.
local function end_session(id, life)
    call('HDEL', META, id, '?' .. id)
    call('ZADD', SESSIONS, 0, id)
    if life and id ~= NOBODY then forget_ttl(life.ttl) end
end

-- Releases the gate of an entry that is removed: see gates.lua.
local give_up

local function remove(entry)
    give_up(entry)
    forget_entry(entry)
    if has_record(entry) then call('HDEL', DATA, record_of(entry)) end
    notify_entry(entry)
end

-- Removes at most `most` items of an ended session. Returns how many more it may remove.
local function clear(id, most)
    for _, member in ipairs(starting(QUEUE, '~' .. id .. ' ', most)) do
        most = most - 1
        local kind, what = string.match(member, '^~%x+ (%a) (.*)$')
        local dir, number, entry
        if kind == 'e' then
            dir, number = string.match(what, '^%S+ (%S+) (%d+)$')
            entry = entry_at(dir, number)
            if entry then remove(entry) end
        elseif kind == 'w' then
            dir, number = string.match(what, '^(%S+) (%d+)$')
            unwatch(dir, number, id)
        end
        if not entry then call('ZREM', QUEUE, member) end
    end
    if most > 0 then
        call('ZREM', SESSIONS, id)
        call('HDEL', META, '@' .. id)
    end
    return most
end

-- Removes items of ended sessions, these first, up to the limit of one script. Also sends the
-- notifications that other scripts have left.
local function clear_ended(most, first)
    notify_rest()
    for _, id in ipairs(first) do
        if most > 0 then most = clear(id, most) end
    end
    while most > 0 do
        local id = call('ZRANGEBYSCORE', SESSIONS, 0, 0, 'LIMIT', 0, 1)[1]
        if not id then return end
        most = clear(id, most)
    end
    unfinished = true
end

-- Returns the last resumption, from which on each session lives for another TTL: see server.lua.
local function resumption()
    local time, drawn = string.match(call('HGET', META, 'resumed') or '0 0', '^(%d+) (%d+)$')
    return { time = tonumber(time), beat = tonumber(drawn) }
end

-- Returns when a session expires by the server's clock, and the beat of its last renewal.
local function ending(life, expires, resumed)
    if resumed.time > 0 and expires < resumed.time + life.ttl then
        return resumed.time + life.ttl, math.max(life.beat, resumed.beat)
    end
    return expires, life.beat
end

-- Returns whether a session that seems expired was renewed while the clock was right: see
-- `clock_readings.rs`.
local function is_believable(life, expires, drawn, trust)
    if #trust.marks == 0 then return true end
    local renewed, since = expires - life.ttl * 0.95, nil
    for _, mark in ipairs(trust.marks) do
        if drawn > mark.beat then
            since = mark.shows
            break
        end
    end
    if not since or renewed >= since then return true end
    for _, mark in ipairs(trust.marks) do
        if drawn <= mark.beat and life.ttl <= mark.age * 0.95 then return true end
    end
    return false
end

-- Returns whether processes of this host have observed that a session was not renewed for 1.1 TTL,
-- so that no process has to run that long. The first process records the beat, the server, the
-- host's boot, and the time of the reply by the clock of that boot and by the server's. The record
-- counts for the same beat, server and boot, if both clocks agree on the time that has passed.
local function was_seen_silent(id, life, drawn, trust)
    if not trust.boot then return false end
    local head = text(drawn) .. ' ' .. (call('HGET', META, 'server') or '') .. ' '
    local seen = call('HGET', META, '?' .. id) or ''
    if string.sub(seen, 1, #head) ~= head then seen = head end
    local record = trust.boot .. ' (%d+) (%d+) '
    local at, shows = string.match(seen, record, #head)
    if at then
        local passed = trust.now - at
        if math.abs(passed - (now - shows)) < passed / 50 + life.ttl * 0.15 then
            return passed > life.ttl * 1.1
        end
        seen = string.gsub(seen, record, '')
    end
    local mark
    for _, each in ipairs(trust.marks) do
        if drawn > each.beat then break end
        mark = each
    end
    local _, hosts = string.gsub(string.sub(seen, #head), '%x+ %d+ %d+ ', '')
    if mark and hosts < HOSTS then
        call('HSET', META, '?' .. id, table.concat(
            { seen .. trust.boot, text(trust.now - mark.age), text(mark.shows), '' }, ' '))
    end
    return false
end

-- Returns whether a session that seems expired has ended.
--
-- A holder gives up 0.9 TTL after it has sent its last keepalive. Its session ends 1.1 TTL after
-- the server has counted that keepalive, by a clock that was not set since then, or for as long.
-- The difference of 0.2 TTL covers 0.15 TTL for this request's way and 0.02 TTL for two clocks that
-- differ.
local function is_over(id, life, expires, trust)
    local drawn
    expires, drawn = ending(life, expires, trust.resumed)
    if expires >= now - life.ttl * 0.1 or id == session
        or now - trust.shows >= life.ttl * 0.15 then
        return false
    end
    return now - trust.since > life.ttl * 1.1 and is_believable(life, expires, drawn, trust)
        or was_seen_silent(id, life, drawn, trust)
end

-- Reads the client's trust in the server's clock. Returns nothing if the client does not trust it.
local function read_trust(given)
    if given == '' then return nil end
    local parts = string.gmatch(given, '%S+')
    local trust = { since = tonumber(parts()), shows = tonumber(parts()), clips = parts() == '1',
        boot = parts(), now = tonumber(parts()), marks = {}, resumed = resumption() }
    if trust.boot == '-' then trust.boot = nil end
    for part in parts do
        local age, shows, drawn = string.match(part, '^(%-?%d+):(%-?%d+):(%-?%d+)$')
        trust.marks[#trust.marks + 1] =
            { age = tonumber(age), shows = tonumber(shows), beat = tonumber(drawn) }
    end
    return trust
end

-- Limits the ends of all sessions to what the clock allows. Only a clock that was set back makes a
-- session end later, so it reads few sessions, if any. A session with a TTL below the longest that
-- seems to live longer is removed that much later.
local function clip(trust)
    local late = call('ZRANGEBYSCORE', SESSIONS, '(' .. text(now + longest()), '+inf', 'LIMIT', 0,
        MOST)
    local changed = 0
    for _, id in ipairs(late) do
        local life = life_of(id)
        if life then
            changed = changed + call('ZADD', SESSIONS, 'LT', 'CH', text(now + life.ttl), id)
        end
    end
    if trust.resumed.time > now then
        trust.resumed.time = now
        call('HSET', META, 'resumed', text(now) .. ' ' .. text(trust.resumed.beat))
    end
    -- If nothing changed, a full server has evicted the TTLs, and another pass would find the same.
    if #late == MOST and changed > 0 then unfinished = true end
end

-- Ends the given sessions if they have expired, and some others that the clock shows as expired.
-- Removes the items of ended sessions.
local function sweep(trust, asked)
    local first = {}
    local function end_if_over(id, expires)
        expires = tonumber(expires)
        local life = expires ~= 0 and life_of(id)
        -- A full server may have evicted META or SESSIONS. A session without a life is not renewed.
        if life and not expires then
            call('ZADD', SESSIONS, text(now + life.ttl), id)
        elseif expires and expires > 0
            and is_over(id, life or { ttl = longest(), beat = 0 }, expires, trust) then
            end_session(id, life)
            expires = 0
        end
        if expires == 0 then first[#first + 1] = id end
    end
    if trust then
        if trust.clips then clip(trust) end
        for _, id in ipairs(asked) do end_if_over(id, call('ZSCORE', SESSIONS, id)) end
        local latest = '(' .. text(now)
        local seem = call('ZCOUNT', SESSIONS, '(0', latest)
        -- Some sessions may seem expired for long without being so, so each script checks others.
        local from = seem > MOST and now % (seem - MOST + 1) or 0
        local found = call('ZRANGEBYSCORE', SESSIONS, '(0', latest, 'WITHSCORES',
            'LIMIT', from, MOST)
        for at = 1, #found, 2 do end_if_over(found[at], found[at + 1]) end
    end
    clear_ended(MOST, first)
end

-- Returns the least number of milliseconds until a session without renewals ends. For a session
-- that should have ended, it is the time to wait: the client has not watched the clock long enough.
local function left_of(life, expires)
    local micros = math.max(math.min(expires - now, life.ttl) + life.ttl * 0.1, life.ttl * 0.02)
    return text(math.floor(micros / 1000))
end

local function expiry_of(id) return tonumber(call('ZSCORE', SESSIONS, id) or 0) end

local function left(id)
    local life = life_of(id)
    return life and left_of(life, ending(life, expiry_of(id), resumption())) or '0'
end

-- Returns the time left for each session from this argument on. `surely`: omits sessions that ended
-- or seem to live longer than their TTL, because the clock may have been set back.
local function left_of_all(from, surely)
    local found, resumed = {}, resumption()
    for at = from, #ARGV do
        local id, life = ARGV[at], life_of(ARGV[at])
        local expires = life and ending(life, expiry_of(id), resumed)
        if life and not (surely and expires > now + life.ttl) then
            found[#found + 1] = { id, left_of(life, expires) }
        elseif not life and not surely and call('ZSCORE', SESSIONS, id) then
            -- The session has ended, and the next request removes its items.
            found[#found + 1] = { id, '0' }
        end
    end
    return found
end

-- Blocks grants for 1.1 times this time or longer: NOBODY has an entry ahead of each new entry. It
-- ends like any other session that is not renewed.
local function grant_nothing(time)
    if expiry_of(NOBODY) >= now + time then return end
    local life = life_of(NOBODY) or { ttl = 1000000, writes = 0 }
    life.ttl = math.max(life.ttl, time)
    renew(NOBODY, life)
end

-- Lets the keys expire after the last session. Only the counter, the TTLs and DATA are left then.
-- Two days are enough, as no TTL is longer than a day.
local function expire_if_unused()
    if call('ZCOUNT', SESSIONS, 0, '+inf') == 0 then
        call('PEXPIRE', META, 172800000)
        call('PEXPIRE', SESSIONS, 172800000)
    end
end
