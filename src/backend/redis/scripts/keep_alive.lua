-- Renews the session. The TTL starts when the server runs this, while the client counts from the
-- time of sending. A session that still exists keeps its locks, whatever the clock shows. Gates are
-- an exception: they end by that clock, and an entry is lost with its gate. ARGV: 3 and on: other
-- sessions to query. A session that seems to live longer than its TTL is left out: the clock was
-- set back, and the session may be dead. Outcomes: those sessions; the entries whose gates were
-- lost, repeated until their holders have released them; and the number of sessions renewed.
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
