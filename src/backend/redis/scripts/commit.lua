-- Writes data if all guards are there. ARGV: 3 how many they are; then the directory and the number
-- of each; then `put`, key and value, or `del`, key and nothing, or `gate`, a gate and its layout, to
-- free that. The second outcome counts the guards if all were there, without any it counts one.
local refused, life = enter(true)
if refused then return refused end
local guards = tonumber(ARGV[3])
for at = 4, 2 + 2 * guards, 2 do
    local guard = entry_at(place(ARGV[at], ARGV[at + 1]))
    if not guard or guard.session ~= session then return answer('ok', { 0 }, { 0 }) end
    local gate = gate_of(guard)
    if gate and not has(gate, guard) then
        lose(guard, gate, life)
        return answer('ok', { 0 }, { 0 })
    end
end

-- An operator deletes somebody's entry by its key.
local function evict(key)
    local dir, id, ticket = string.match(key, '^(.*)/(%x+)%-([%x-]+)')
    local member = dir and own(id, dir, ticket)
    local entry = member and entry_at(member)
    if entry and key_of(entry) == key then remove(entry) end
end

for at = 4 + 2 * guards, #ARGV, 3 do
    local key = ARGV[at + 1]
    if ARGV[at] == 'gate' then
        redis.call('DEL', key)
        wake(gate_in(ARGV[at + 2], key))
    elseif ARGV[at] == 'put' then
        redis.call('HSET', DATA, key, ARGV[at + 2])
        redis.call('ZADD', NAMES, 0, key)
    else
        redis.call('HDEL', DATA, key)
        redis.call('ZREM', NAMES, key)
        evict(key)
    end
    local dir = ARGV[at] ~= 'gate' and string.match(key, '^(.*)/')
    if dir then tell_queue(dir) end
end
return answer('ok', { 0 }, { math.max(1, guards) })
