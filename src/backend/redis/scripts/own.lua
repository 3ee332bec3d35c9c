-- All entries of the session, and the queues that they are in.
local refused = enter(false)
if refused then return refused end
local found = {}
for _, member in ipairs(starting(OWN, session .. ' e ')) do
    local entry = entry_at(string.match(member, '^%x+ e %S+ (.*)$'))
    if entry then
        local told = row(entry)
        told[5] = entry.dir
        found[#found + 1] = told
    end
end
return answer('ok', rows(found))
