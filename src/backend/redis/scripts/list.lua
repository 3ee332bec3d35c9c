-- Returns some entries of a queue in order, and some notes after the last entry. ARGV: 3 directory,
-- 4 whether with values, 5 whether to watch the queue, 6 and 7 its gate, or nothing, 8 the number,
-- or `/` and the note, after which to continue, or nothing. The reply's status is `more` if there
-- may be more. Later pages lack entries that were removed in between; no entry joins ahead of a
-- page.
local refused = enter(ARGV[5] == '1')
if refused then return refused end
local LISTED, NOTED = 100, 1000
local dir, after, found = ARGV[3], ARGV[8], {}

local function answer_notes(from)
    local notes = call('ZRANGEBYLEX', QUEUE, from, '(' .. dir .. ' /\255', 'LIMIT', 0, NOTED)
    for _, note in ipairs(notes) do
        local name = string.sub(note, #dir + 3)
        found[#found + 1] = { false, false, false, false, false, false, false, false, name }
    end
    unfinished = #notes == NOTED
    return answer(rows(found))
end

if string.sub(after, 1, 1) == '/' then return answer_notes('(' .. dir .. ' ' .. after) end
if ARGV[5] == '1' and after == '' then watch(dir, WHOLE) end
local gate = gate_in(ARGV[6], ARGV[7])
local whose = gate and after == '' and others_mark(dir, gate)
if whose then
    found[1] = keeper(gate)
    found[1][5], found[1][6], found[1][7], found[1][8] = false, { whose }, '0', false
end

-- Returns how long a session has left, whether it seems expired, and its owner.
local seen, resumed = {}, resumption()
local function state_of(id)
    if not seen[id] then
        local life = life_of(id)
        local expires = life and ending(life, expiry_of(id), resumed)
        seen[id] = { left = life and left_of(life, expires) or '0',
            over = (not life or expires < now) and '1' or '0',
            owner = ARGV[4] == '1' and call('HGET', META, '@' .. id) or '' }
    end
    return seen[id]
end

local from = '[' .. dir .. ' ' .. (after == '' and '0' or padded(after + 1))
local members = call('ZRANGEBYLEX', QUEUE, from, '(' .. dir .. ' :', 'LIMIT', 0, LISTED)
for _, member in ipairs(members) do
    local entry = read_entry(member)
    local cells, state = row(entry), state_of(entry.session)
    cells[5], cells[6], cells[7], cells[8], cells[9] = state.left, false, false, false, false
    cells[10] = state.over
    if ARGV[4] == '1' then
        local version, value = value_of(entry, state.owner)
        -- A value in an array of its own may have any bytes.
        cells[6], cells[7], cells[8] = { value }, version, entry.since
    end
    found[#found + 1] = cells
end
unfinished = #members == LISTED
if unfinished then return answer(rows(found)) end
return answer_notes('[' .. dir .. ' /')
