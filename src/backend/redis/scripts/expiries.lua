-- Ends expired sessions, and returns how long the given ones have left. ARGV: 3 and on: sessions.
local refused = check()
if refused then return refused end
local asked = {}
for at = 3, #ARGV do asked[#asked + 1] = ARGV[at] end
sweep(read_trust(ARGV[2]), asked)
return answer(rows(left_of_all(3)))
