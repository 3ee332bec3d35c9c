-- Joins one queue that has no gate, no entry and no watch. That takes five calls, or six if the
-- value is not the owner. The script that follows does everything else. It also joins writers,
-- because readers search for these.
if #ARGV == 9 and ARGV[9] == '' and ARGV[8] ~= 'w' then
    local call, session, dir, value = redis.call, ARGV[1], ARGV[6], ARGV[4]
    local at = call('TIME')
    local known = call('HMGET', KEYS[1], 'version', 'beat', 'last', '0', session)
    local is_free = known[1] == '2' and known[5] and not known[4]
        and not call('ZRANGEBYLEX', KEYS[2], '[' .. dir .. ' ', '(' .. dir .. '!', 'LIMIT', 0, 1)[1]
    if is_free then
        local since = at[1] * 1000 + math.floor(at[2] / 1000)
        local last = math.max((known[3] or 0) + 1, since - 1735689600000)
        local number, kind = string.format('%016.0f', last), string.sub(value, 1, 1)
        local others, writes = string.match(known[5], '^(%d+ %d+) (%d+)$')
        local life = others .. ' ' .. string.format('%.0f', writes + 1)
        local place, ticket = dir .. ' ' .. number, ARGV[7]
        local stamp = (kind == 'v' and 'v' or '') .. string.format('%.0f', since)
        call('ZADD', KEYS[2],
            0, place .. ' ' .. session .. ' ' .. ticket .. ' ' .. stamp .. ' ' .. ARGV[8],
            0, '~' .. session .. ' e ' .. ticket .. ' ' .. place)
        if kind == 'o' then
            call('HSET', KEYS[1], 'last', number, session, life,
                '@' .. session, string.sub(value, 2))
        else
            call('HSET', KEYS[1], 'last', number, session, life)
        end
        if kind == 'v' then call('HSET', KEYS[4], '=' .. place, '1 ' .. string.sub(value, 2)) end
        return { { at[1] * 1000000 + at[2], tonumber(known[2] or 0), writes + 1, 1, last }, 'ok',
            { 1, { last, session, ticket, ARGV[8], 0 } },
            ARGV[3] == '1' and { 1, { 0, 0 } } or nil }
    end
end
