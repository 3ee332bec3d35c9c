-- The queues whose directories begin with the namespace and a slash. ARGV: 3 the namespace.
local refused = enter(false)
if refused then return refused end
local outcome, from = { 0 }, '[' .. ARGV[3] .. '/'
while true do
    -- `0` is the character after `/`.
    local next = redis.call('ZRANGEBYLEX', QUEUE, from, '(' .. ARGV[3] .. '0', 'LIMIT', 0, 1)
    if #next == 0 then return answer('ok', outcome) end
    local dir = string.match(next[1], '^(.*) %d+$')
    outcome[#outcome + 1] = { dir }
    -- And `!` the one after the blank.
    from = '[' .. dir .. '!'
end
