-- Writes data if all guards exist. ARGV: 3 the number of guards; then the directory and the number
-- of each; then `put`, key and value; or `del`, key and nothing; or `gate`, a gate's key, and its
-- layout and queue, to free the gate if another library holds it. The second outcome is the number
-- of guards, at least 1, if all exist.
local refused, life = enter(true)
if refused then return refused end
local guards = tonumber(ARGV[3])
for at = 4, 2 + 2 * guards, 2 do
    local guard = entry_at(ARGV[at], padded(ARGV[at + 1]))
    if not guard or guard.session ~= session then return answer({ 0 }, { 0 }) end
    local gate = gate_of(guard)
    if gate and not has(gate, guard) then
        lose(guard, gate, life)
        return answer({ 0 }, { 0 })
    end
end

-- Removes an entry that an operator evicts by its key.
local function evict(key)
    local dir, id, ticket = string.match(key, '^(%S+)/(%x+)%-([%x-]+)')
    local entry = dir and own(id, dir, ticket)
    if entry and key_of(entry) == key then remove(entry) end
end

for at = 4 + 2 * guards, #ARGV, 3 do
    local key = ARGV[at + 1]
    local note, dir = note_of(key)
    if ARGV[at] == 'gate' then
        local layout, whose = string.match(ARGV[at + 2], '^(%S+) (.*)$')
        local gate = gate_in(layout, key)
        if others_mark(whose, gate) then
            call('DEL', key)
            wake(gate)
        end
    elseif ARGV[at] == 'put' then
        call('HSET', DATA, key, ARGV[at + 2])
        if note then call('ZADD', QUEUE, 0, note) end
    else
        call('HDEL', DATA, key)
        if note then call('ZREM', QUEUE, note) end
        evict(key)
    end
    if dir and ARGV[at] ~= 'gate' then notify_queue(dir) end
end
return answer({ 0 }, { math.max(1, guards) })
