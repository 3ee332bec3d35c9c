-- A session is here again, on a new connection. ARGV: 3 the server, 4 whether it has lost nothing, 5
-- whether it was a replica, 6 for how long it has been running, 7 whether there are replicas. What
-- that has lost of the session is told by the session's next request: nothing is repeated that was
-- done by another server.
local refused = check()
if refused then return refused end
if redis.call('HEXISTS', META, 'version') == 1 then
    recognize(ARGV[3], ARGV[4] == '1', ARGV[5] == '1', tonumber(ARGV[6]), ARGV[7] == '1')
end
return answer('ok')
