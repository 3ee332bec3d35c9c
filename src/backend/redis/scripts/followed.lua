-- Whether anybody stands behind an entry: of one that has a gate, nobody knows. ARGV: 3 directory, 4
-- number.
local refused = enter(false)
if refused then return refused end
local entry = entry_at(place(ARGV[3], ARGV[4]))
if entry and gate_of(entry) then return answer('ok', rows({ { 1 } })) end
local behind = redis.call('ZRANGEBYLEX', QUEUE, '(' .. place(ARGV[3], ARGV[4]),
    '(' .. ARGV[3] .. '!', 'LIMIT', 0, 1)
return answer('ok', rows({ { #behind } }))
