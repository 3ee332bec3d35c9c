-- Writes something, so that who has this has all that was there before. ARGV: 3 the server that
-- this connection was made to: it may have been a replica since, and lack what others have
-- confirmed meanwhile.
local refused = enter(true)
if refused then return refused end
local history = string.match(call('INFO', 'replication'), 'master_replid:(%x+)')
if history ~= string.match(ARGV[3], '/(.*)$') then return reply('another') end
return answer()
