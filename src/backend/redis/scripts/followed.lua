-- Whether anybody stands behind an entry. ARGV: 3 directory, 4 number.
local refused = enter(false)
if refused then return refused end
local behind = redis.call('ZRANGEBYLEX', QUEUE, '(' .. place(ARGV[3], ARGV[4]),
    '(' .. ARGV[3] .. '!', 'LIMIT', 0, 1)
return answer('ok', rows({ { #behind } }))
