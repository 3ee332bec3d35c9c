local refused = enter(true)
if refused then return refused end
put_away(session)
return answer('ok', { 1 })
