-- Returns the nearest entry ahead of an entry that it does not pass, and the entry itself; or the
-- last such entries of a whole queue. ARGV: 3 directory, 4 number or nothing, 5 whether the entry
-- passes readers. Outcome: rows as in `list`, without values.
local refused = enter(false)
if refused then return refused end
local dir, is_reader, found = ARGV[3], ARGV[5] == '1', {}
local number = ARGV[4] ~= '' and padded(ARGV[4])
-- The number of entries of a whole queue. The very last ones may be of sessions that seem expired.
local LAST = 64
local kind = is_reader and ' :' or ' '
local before = '(' .. dir .. (number and kind .. number or is_reader and ' ;' or ' :')
local from = '[' .. dir .. (is_reader and ' :' or ' 0')
local members = call('ZREVRANGEBYLEX', QUEUE, before, from, 'LIMIT', 0, number and 1 or LAST)

local resumed = resumption()
local function add(entry)
    if not entry then return end
    local cells, life = row(entry), life_of(entry.session)
    local expires = life and ending(life, expiry_of(entry.session), resumed)
    cells[5], cells[6], cells[7] = life and left_of(life, expires) or '0', false, false
    cells[8], cells[9] = false, false
    cells[10] = (not life or expires < now) and '1' or '0'
    found[#found + 1] = cells
end

for index = #members, 1, -1 do
    local barrier = is_reader and string.sub(members[index], #dir + 3)
    add(barrier and entry_at(dir, barrier) or not barrier and read_entry(members[index]))
end
if number then add(entry_at(dir, number)) end
return answer(rows(found))
