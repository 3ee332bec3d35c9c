-- Reads the keys of version 1, and marks them as those of version 2: all scripts of version 1
-- refuse them from then on. KEYS: meta, sessions, lives, data and names of version 1. ARGV: 1 the
-- namespace; 2 `look`, or `data` and 3 the key after which to continue, or `adopted`. `data`
-- returns some keys and values. Otherwise the reply is `alive`; `version` and the version; or `ok`,
-- the highest number, the microseconds that a session may still live, and whether the namespace has
-- to adopt data.
local call = redis.call
local META, SESSIONS, LIVES, DATA, NAMES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local MOST = 100
local adopted = 'adopted ' .. ARGV[1]
if ARGV[2] == 'adopted' then
    call('HSET', META, adopted, '1')
    return { 'ok' }
end
if ARGV[2] == 'data' then
    local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
    local found = {}
    for _, key in ipairs(call('ZRANGEBYLEX', NAMES, from, '+', 'LIMIT', 0, MOST)) do
        found[#found + 1] = key
        found[#found + 1] = call('HGET', DATA, key) or ''
    end
    return found
end

local at = call('TIME')
local now = at[1] * 1000000 + at[2]
local known = call('HMGET', META, 'version', 'last', 'until', 'most', adopted)
if known[1] and known[1] ~= '1' and known[1] ~= '2' then return { 'version', known[1] } end
local left = 0
if known[1] == '1' then
    local living = call('ZRANGEBYSCORE', SESSIONS, '(' .. string.format('%.0f', now), '+inf',
        'LIMIT', 0, 2)
    for _, id in ipairs(living) do
        if id ~= '0' then return { 'alive' } end
    end
    -- Sessions that are left have expired by this clock. Their holders may not have noticed it yet.
    for _, life in ipairs(call('HVALS', LIVES)) do
        left = math.max(left, tonumber(string.match(life, '^%d+')))
    end
    call('HSET', META, 'version', '2', 'until', string.format('%.0f', now + left),
        'most', string.format('%.0f', left))
elseif known[1] == '2' then
    local most = tonumber(known[4] or 0)
    left = math.min(math.max((tonumber(known[3] or 0)) - now, 0), most)
else
    call('HSET', META, 'version', '2')
end
local has_data = not known[5] and call('EXISTS', NAMES) == 1
return { 'ok', known[2] or '0', string.format('%.0f', left), has_data and '1' or '0' }
