-- Returns the data of a key. ARGV: 3 the key.
local refused = check()
if refused then return refused end
local value = call('HGET', DATA, ARGV[3])
if not value then return answer({ 0 }) end
return answer(rows({ { { value } } }))
