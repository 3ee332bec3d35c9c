-- Writes data if all guards are there. ARGV: 3 how many they are; then the directory and the number
-- of each; then `put`, key and value, or `del`, key and nothing, or `gate`, a gate and its layout,
-- to free that. The second outcome counts the guards if all were there, without any it counts one.
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

-- An operator deletes somebody's entry by its key.
local function evict(key)
    local dir, id, ticket = string.match(key, '^(%S+)/(%x+)%-([%x-]+)')
    local entry = dir and own(id, dir, ticket)
    if entry and key_of(entry) == key then remove(entry) end
end

for at = 4 + 2 * guards, #ARGV, 3 do
    local key = ARGV[at + 1]
    local note, dir = note_of(key)
    if ARGV[at] == 'gate' then
        call('DEL', key)
        wake(gate_in(ARGV[at + 2], key))
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
