-- Ends the session. The client repeats it until none of the session's entries are left.
local refused = check()
if refused then return refused end
if known[5] then
    local life = read_life(known[5])
    count(life)
    end_session(session, life)
elseif not call('ZSCORE', SESSIONS, session) then
    return reply('gone')
end
clear_ended(MOST, { session })
expire_if_unused()
return answer({ 1 })
