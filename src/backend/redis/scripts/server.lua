-- The server: whether it wrote here last, and what it may have lost.

-- Returns whether the server is the same process as before, and was no replica since. Its history
-- has another name after a backup, after its first replica has connected, and an hour after the
-- last replica has disconnected.
local function is_same(known, server, promoted)
    if known == server then return true end
    local process = string.match(server, '^(%x+)/')
    return known and not promoted and process and process == string.match(known, '^(%x+)/')
end

-- A promoted replica, or this server after a crash, may lack the last confirmed writes: renewals,
-- grants and numbers. Each session therefore lives for another TTL, and numbers continue far above
-- all known ones. No lock is granted for 1.1 times the longest TTL of any session. `keeps`: by its
-- settings the server loses nothing. This counts only if each client of the previous run found the
-- same settings, because what a crash loses depends on the settings before it. It also counts only
-- if there was never a replica: a replica that is restarted as a primary looks the same.
-- `promoted`: the server was a replica, and does not report how long it has been a primary. `runs`:
-- its uptime, in whole seconds, as microseconds. `replicated`: there are replicas.
local function recognize(server, keeps, promoted, runs, replicated)
    local found = call('HMGET', META, 'server', 'doubted', 'replicated', 'keeps')
    local former, kept_all = found[1], found[4] == '1'
    if replicated and not found[3] then call('HSET', META, 'replicated', '1') end
    if is_same(former, server, promoted) then
        if not keeps then call('HSET', META, 'keeps', '0') end
        if former ~= server then
            call('HSET', META, 'server', server)
            if found[2] == former then call('HSET', META, 'doubted', server) end
        end
        return
    end
    call('HSET', META, 'server', server, 'keeps', keeps and '1' or '0')
    if former and keeps and kept_all and not replicated and not found[3] then
        if found[2] == former then call('HSET', META, 'doubted', server) end
        return
    end
    -- There may have been sessions with a longer TTL than any on record: see `doubt`.
    call('HSET', META, 'doubted', server, 'since', promoted and text(runs) or '0', 'assured', '0')
    if not former then return end
    -- Above the numbers of lost writes: the last number on record may be days older than those.
    last = math.max(last, math.floor(now / 1000) - EPOCH) + 100000000
    beat = call('HINCRBY', META, 'beat', 1)
    local before = longest()
    call('HSET', META, 'last', text(last), 'resumed', text(now) .. ' ' .. text(beat),
        'assured', text(before))
    if before > 0 then grant_nothing(before) end
    call('HDEL', META, 'kept')
end

-- Processes a client's report of the server, in the arguments from there on: the server's name,
-- whether it keeps all writes, whether it was a replica, its uptime, whether it has replicas; and
-- the highest number that the client has seen. A server that has lost that number continues above
-- it.
local function meet(from)
    recognize(ARGV[from], ARGV[from + 1] == '1', ARGV[from + 2] == '1', tonumber(ARGV[from + 3]),
        ARGV[from + 4] == '1')
    local seen = tonumber(ARGV[from + 5])
    if seen > last then
        last = seen
        call('HSET', META, 'last', text(last))
    end
end

-- Handles a session with a longer TTL than any on record. A server that is empty, or has lost data,
-- may have had another session with this TTL. The holders of that session have given up once the
-- TTL has passed since the server started, or since clients first saw the change.
local function doubt(server, ttl, runs)
    local found = call('HMGET', META, 'doubted', 'since', 'assured')
    if found[1] ~= server or tonumber(found[3] or 0) >= ttl then return end
    call('HSET', META, 'assured', text(ttl))
    -- Both are rounded down to whole seconds.
    local age = math.max(runs - tonumber(found[2]) - 1000000, 0)
    if age < ttl then grant_nothing(ttl - age) end
end
