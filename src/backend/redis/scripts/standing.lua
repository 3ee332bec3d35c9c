-- An entry and the two in front of it. ARGV: 3 directory, 4 number.
local refused = enter(false)
if refused then return refused end
return answer('ok', rows(ahead(ARGV[3], place(ARGV[3], ARGV[4]))))
