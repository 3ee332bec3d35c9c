-- Counts the labels ahead of an entry, and returns the entry and the notes; or counts the labels of
-- a whole queue, and returns the notes. ARGV: 3 directory, 4 number or nothing, 5 whether to watch
-- the queue, 6 the number after which to continue, or nothing. Outcome: rows as in `list`. Those of
-- labels have no session, and the count in place of the time left. A watch adds a row for each
-- session ahead, without an entry. If there is more to count, the last row has the number after
-- which to continue.
local refused = enter(ARGV[5] == '1')
if refused then return refused end
local COUNTED = 1000
local dir, after, found = ARGV[3], ARGV[6], {}
if ARGV[5] == '1' and after == '' then watch(dir, WHOLE) end
local number = ARGV[4] ~= '' and padded(ARGV[4])
local from = '[' .. dir .. ' ' .. (after == '' and '0' or padded(after + 1))
local members = call('ZRANGEBYLEX', QUEUE, from, '(' .. dir .. ' ' .. (number or ':'),
    'LIMIT', 0, COUNTED)
local counts, sessions = {}, {}
for _, member in ipairs(members) do
    local id, label = string.match(member, '^%S+ %d+ (%x+) %S+ v?%d+ ([^@]*)')
    counts[label] = (counts[label] or 0) + 1
    if ARGV[5] == '1' and not sessions[id] then
        sessions[id] = true
        found[#found + 1] = { false, id, false, false, left(id) }
    end
end
for label, count in pairs(counts) do
    found[#found + 1] = { false, false, false, label, text(count) }
end
unfinished = #members == COUNTED
if unfinished then
    found[#found][1] = string.match(members[COUNTED], '^%S+ 0*(%d+)')
    return answer(rows(found))
end
local own = number and entry_at(dir, number)
if own then found[#found + 1] = row(own) end
for _, note in ipairs(starting(QUEUE, dir .. ' /')) do
    local name = string.sub(note, #dir + 3)
    found[#found + 1] = { false, false, false, false, false, false, false, false, name }
end
return answer(rows(found))
