-- Returns some queues of the namespace. ARGV: 3 the namespace, 4 the queue after which to continue,
-- or nothing. The reply's status is `more` if there may be more.
local refused = enter(false)
if refused then return refused end
local MOST = 200
local outcome, from = { 0 }, '[' .. ARGV[3] .. '/'
if ARGV[4] ~= '' then from = '[' .. ARGV[4] .. '!' end
while #outcome <= MOST do
    -- `0` is the character after `/`.
    local next = call('ZRANGEBYLEX', QUEUE, from, '(' .. ARGV[3] .. '0', 'LIMIT', 0, 1)
    if #next == 0 then return answer(outcome) end
    local dir, kind = string.match(next[1], '^(%S+) (.)')
    if string.find(kind, '%d') then outcome[#outcome + 1] = { dir } end
    -- Skip the notes, or the whole queue: `!` is the character after the blank.
    from = kind == '/' and '[' .. dir .. ' 0' or '[' .. dir .. '!'
end
unfinished = true
return answer(outcome)
