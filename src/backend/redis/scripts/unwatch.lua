-- Ends the watch of an entry, or with the number 0 of a queue. ARGV: 3 directory, 4 number.
local refused = enter(false)
if refused then return refused end
unwatch(ARGV[3], padded(ARGV[4]), session)
return answer()
