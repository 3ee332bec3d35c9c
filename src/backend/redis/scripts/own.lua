-- Returns all entries of the session with their queues.
local refused = enter(false)
if refused then return refused end
local found = {}
for _, index in ipairs(starting(QUEUE, '~' .. session .. ' e ')) do
    local dir, number = string.match(index, '^~%x+ e %S+ (%S+) (%d+)$')
    local entry = entry_at(dir, number)
    if entry then
        local cells = row(entry)
        cells[5] = entry.dir
        found[#found + 1] = cells
    end
end
return answer(rows(found))
