-- Counts from when the request came: the client counts from when it was sent. A session that is
-- still there holds what it held, whatever the clock shows; but for the gates, which end by that
-- clock, and with a gate what is held by it. ARGV: 3 and on: sessions that are asked after on the
-- way. One that seems to live for longer than it may says nothing: the clock was set back, and it
-- may be dead. Tells of those; of the entries whose gates were lost, as often as it is asked until
-- their holders have given them up; and how many sessions it renewed.
local refused, life = enter(true)
if refused then return refused end
renew(session, life)
for _, told in ipairs(starting(OWN, session .. ' g ')) do
    local entry = entry_at(string.match(told, '^%x+ g (%S+ %d+) '))
    local gate = entry and gate_of(entry)
    if gate and has(gate, entry) then
        redis.call('PEXPIRE', gate.key, gate_ttl(life))
    elseif gate then
        lose(entry, gate, life)
    end
end
local lost = {}
for _, told in ipairs(starting(OWN, session .. ' l ')) do
    lost[#lost + 1] = { string.match(told, '^%x+ l %S+ (.*)$') }
end
return answer('ok', rows(left_of(3, true)), rows(lost), { 1 })
