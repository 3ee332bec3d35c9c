-- The common beginning of all scripts except adopt.lua and former.lua. ARGV: 1 the session in
-- hexadecimal digits, 2 the client's trust in the server's clock, or nothing, for scripts that end
-- sessions.
--
-- META, hash:      version; last: the highest number; beat: see `clock_readings.rs`;
--                  server, keeps, replicated, doubted, since, assured, kept: see server.lua;
--                  resumed: the time and the beat of the last resumption;
--                  {session}: TTL in microseconds, beat, number of writes; 0: the quarantine's;
--                  @{session}: the owner of its entries; ?{session}: see `was_seen_silent`;
--                  t{TTL}: how many sessions have that TTL
-- QUEUE, sorted:   {dir} {number} {session} {ticket} {since} {label}: an entry; a `v` before
--                  `since` says that its value is in DATA
--                  {dir} /{name}: a field of DATA, which is the key {dir}/{name}
--                  {dir} :{number}: an entry that readers must not pass
--                  {dir} ;{number} {session}: a watch of an entry, or with zeros of the queue
--                  ! {dir} {number} {payload}: a change whose watchers are still to be notified
--                  ~{session} e {ticket} {dir} {number}: the entries of a session
--                  ~{session} w {dir} {number}: its watches
--                  ~{session} g {dir} {number} {layout} {gate}: see gates.lua
--                  ~{session} l {ticket} {key}: see gates.lua
-- SESSIONS, sorted: {session}, by the microsecond at which it expires; 0: it has ended, and its
--                  entries are still to be removed; t{TTL}, by the negative TTL
-- DATA, hash:      {key}: data that belongs to no session; ={dir} {number}: version and value
local META, QUEUE, SESSIONS, DATA = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local VERSION = '2'
-- The number of a watch on the whole queue.
local WHOLE = '0000000000000000'
-- The session of the quarantine. While it exists, it has an entry just ahead of each new entry.
local NOBODY = '0'
-- Numbers start from the milliseconds since 2025.
local EPOCH = 1735689600000

local call = redis.call
local session = ARGV[1]
local at = call('TIME')
local now = at[1] * 1000000 + at[2]
local known = call('HMGET', META, 'version', 'beat', 'last', NOBODY, session)
local beat, last = tonumber(known[2] or 0), tonumber(known[3] or 0)
local writes, written = 0, 0
-- There is more work of the same kind for another request.
local unfinished = false

local function text(number) return string.format('%.0f', number) end

local function padded(number) return string.format('%016.0f', number) end

local function read_life(found)
    local ttl, drawn, count = string.match(found, '^(%d+) (%d+) (%d+)$')
    return { ttl = tonumber(ttl), beat = tonumber(drawn), writes = tonumber(count) }
end

local function keep_life(id, life)
    call('HSET', META, id, text(life.ttl) .. ' ' .. text(life.beat) .. ' ' .. text(life.writes))
end

-- Returns the reply: the time, the beat, the session's number of writes, whether it has written
-- now, and the highest number; the status; and an outcome for each statement. An outcome begins
-- with the number of rows that the statement wrote or read.
local function reply(status, ...)
    return { { now, beat, writes, written, last }, status, ... }
end

local function answer(...) return reply(unfinished and 'more' or 'ok', ...) end

local function rows(found)
    local outcome = { #found }
    for index, row in ipairs(found) do outcome[index + 1] = row end
    return outcome
end

-- Counts a write of the session.
local function count(life)
    life.writes, written = life.writes + 1, 1
    keep_life(session, life)
    writes = life.writes
end

-- Returns the reply if the keys are of another version.
local function check()
    if known[1] and known[1] ~= VERSION then return reply('version ' .. known[1]) end
end

-- Returns the reply if the keys are of another version or the session has ended; else the session.
local function enter(changes)
    local refused = check()
    if refused then return refused end
    if not known[5] then return reply('gone') end
    local life = read_life(known[5])
    writes = life.writes
    if changes then count(life) end
    return nil, life
end
