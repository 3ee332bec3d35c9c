//! What operators do to a server's keys, through the library's own scripts.

use crate::{redis::mirror::NAMES, server::Key, world::World};

/// The scripts that precede those of operators.
const LIBRARY: [&str; 4] = [
    include_str!("../../../../src/backend/redis/scripts/base.lua"),
    include_str!("../../../../src/backend/redis/scripts/entries.lua"),
    include_str!("../../../../src/backend/redis/scripts/sessions.lua"),
    include_str!("../../../../src/backend/redis/scripts/gates.lua"),
];

impl World {
    /// Returns `true` if a server can execute an operator's request.
    pub(crate) fn is_served(&self) -> bool {
        let now = self.now();
        self.redis.as_ref().is_none_or(|redis| redis.down <= now && redis.paused <= now)
    }

    /// Runs the given lines after the library's own.
    fn operate(&mut self, lines: &str, arguments: &[&str]) {
        let now = self.now();
        let redis = self.redis();
        redis.tick(now);
        let script = format!("{}\n{lines}", LIBRARY.join("\n"));
        let mut words = vec!["EVAL", &script, "4"];
        words.extend(NAMES);
        words.extend(["none", ""]);
        words.extend(arguments);
        redis.model.ask(&words);
        let pushes = redis.model.take_pushes();
        let written: Vec<_> = pushes
            .into_iter()
            .filter_map(|(to, push)| {
                let mut bytes = Vec::new();
                push.write(redis.model.is_newer(to), &mut bytes);
                Some((*redis.ends.get(&to)?, bytes))
            })
            .collect();
        self.mirror();
        written.into_iter().for_each(|(link, bytes)| self.deliver(link, bytes));
    }

    pub(crate) fn delete_in_redis(&mut self, key: &Key) {
        let (number, session) = (format!("{:016}", key.revision), format!("{:x}", key.session));
        let lines = "local entry = entry_at(ARGV[3], ARGV[4])
            if entry and entry.session == ARGV[5] then remove(entry) end
            return 1";
        self.operate(lines, &[&key.dir, &number, &session]);
    }

    pub(crate) fn end_in_redis(&mut self, session: u64) {
        let session = format!("{session:x}");
        let lines = "local life = life_of(ARGV[3])
            if life then end_session(ARGV[3], life) clear(ARGV[3], 1000000) end
            return 1";
        self.operate(lines, &[&session]);
    }
}
