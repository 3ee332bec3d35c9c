-- A session is here again, on a new connection. ARGV: 3 the server, 4 whether it has lost nothing,
-- 5 the server it was with before; then the tickets of what it has released, which another server
-- may not know.
local refused = check()
if refused then return refused end
if redis.call('HEXISTS', META, 'version') == 1 then recognize(ARGV[3], ARGV[4] == '1') end
for at = 6, #ARGV do
    if ARGV[3] == ARGV[5] then break end
    for _, member in ipairs(starting(OWN, session .. ' e ' .. ARGV[at] .. ' ')) do
        local entry = entry_at(string.match(member, '^%x+ e %S+ (.*)$'))
        if entry then remove(entry) end
    end
end
return answer('ok')
