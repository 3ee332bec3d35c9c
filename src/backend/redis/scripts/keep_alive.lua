-- Counts from when the request came: the client counts from when it was sent. A session that is
-- still there holds what it held, whatever the clock shows; but for the gates, which end by that
-- clock, and with a gate what is held by it. ARGV: 3 and on: sessions that are asked after on the
-- way. One that seems to live for longer than it may says nothing: the clock was set back, and it
-- may be dead. Its outcomes: those sessions; the entries whose gates were lost, as often as it is
-- asked until their holders have given them up; and how many sessions it renewed.
local refused, life = enter(true)
if refused then return refused end
renew(session, life)
sweep(read_trust(ARGV[2]), {})
for _, member in ipairs(starting(QUEUE, '~' .. session .. ' g ')) do
    local dir, number = string.match(member, '^~%x+ g (%S+) (%d+) ')
    local entry = entry_at(dir, number)
    local gate = entry and gate_of(entry)
    if gate and has(gate, entry) then
        redis.pcall('PEXPIRE', gate.key, gate_ttl(life))
    elseif gate then
        lose(entry, gate, life)
    end
end
local lost = {}
for _, member in ipairs(starting(QUEUE, '~' .. session .. ' l ')) do
    lost[#lost + 1] = { string.match(member, '^~%x+ l %S+ (.*)$') }
end
return answer(rows(left_of_all(3, true)), rows(lost), { 1 })
