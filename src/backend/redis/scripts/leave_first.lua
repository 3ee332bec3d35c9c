-- Deletes an entry whose number is known, in a queue without a gate. That takes five calls if no
-- other session waits. The script that follows does everything else, and documents the arguments.
-- It also deletes an entry with many watches on it and its queue, because it notifies in parts.
local WATCHED = 50
if ARGV[6] ~= '' and ARGV[8] == '' then
    local call, session, dir = redis.call, ARGV[1], ARGV[3]
    local at = call('TIME')
    local known = call('HMGET', KEYS[1], 'version', 'beat', 'last', session)
    if known[1] == '2' and known[4] then
        local number = string.format('%016.0f', ARGV[6])
        local place = dir .. ' ' .. number
        local found = call('ZRANGEBYLEX', KEYS[2], '[' .. place .. ' ', '(' .. dir .. '!',
            'LIMIT', 0, 2)
        local head = place .. ' ' .. session .. ' ' .. ARGV[4] .. ' '
        local stamp, label
        if found[1] and string.sub(found[1], 1, #head) == head then
            stamp, label = string.match(string.sub(found[1], #head + 1), '^(v?)%d+ (.*)$')
        end
        local watches, watched = {}, 0
        for _, which in ipairs(found[2] and { number, '0000000000000000' } or {}) do
            local prefix = dir .. ' ;' .. which .. ' '
            watches[which] = call('ZRANGEBYLEX', KEYS[2], '[' .. prefix, '(' .. prefix .. '\255',
                'LIMIT', 0, WATCHED)
            watched = watched + #watches[which]
        end
        if watched < WATCHED then
            local deleted, there = 0, 0
            if label == ARGV[5] then
                local gone = { found[1], '~' .. session .. ' e ' .. ARGV[4] .. ' ' .. place }
                if label == 'w' then gone[3] = dir .. ' :' .. number end
                local payload = dir .. '/' .. session .. '-' .. ARGV[4]
                    .. (label == '' and '' or '.') .. label .. ' ' .. number
                local notified = {}
                for which, members in pairs(watches) do
                    for _, member in ipairs(members) do
                        local id = string.sub(member, #dir + 20)
                        gone[#gone + 1] = member
                        gone[#gone + 1] = '~' .. id .. ' w ' .. dir .. ' ' .. which
                        -- A session is not notified of its own change to an entry.
                        if not notified[id] and (id ~= session or which ~= number) then
                            notified[id] = true
                            call('PUBLISH', string.sub(KEYS[1], 1, -5) .. id, payload)
                        end
                    end
                end
                call('ZREM', KEYS[2], unpack(gone))
                if stamp == 'v' then call('HDEL', KEYS[4], '=' .. place) end
                deleted = 1
            end
            local others, writes = string.match(known[4], '^(%d+ %d+) (%d+)$')
            call('HSET', KEYS[1], session, others .. ' ' .. string.format('%.0f', writes + 1))
            if ARGV[7] ~= '' then
                local next = dir .. ' ' .. string.format('%016.0f', ARGV[7]) .. ' '
                local member = call('ZRANGEBYLEX', KEYS[2], '[' .. next, '(' .. next .. '\255',
                    'LIMIT', 0, 1)[1]
                local owner = member and string.match(string.sub(member, #next + 1), '^(%x+) ')
                there = owner == session and 1 or 0
            end
            local last = tonumber(known[3] or 0)
            local shows, beat = at[1] * 1000000 + at[2], tonumber(known[2] or 0)
            return { { shows, beat, writes + 1, 1, last }, 'ok', { deleted },
                { 1, { last, there } } }
        end
    end
end
