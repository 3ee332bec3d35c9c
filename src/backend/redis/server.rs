//! What a server is, by its own word.

use std::{collections::HashMap, time::Duration};

use crate::backend::{
    Durability, FailoverBehavior, Result, StoreError, resp::Info, sql::endpoints::not_primary,
};

pub(super) const CONNECTING: &str = "connecting";

/// What a server reports of itself: `INFO`, and the settings of how it brings to the disk what it
/// confirms, if this user may know them.
#[derive(Debug, Default)]
pub(super) struct Server {
    info: Info,
    settings: HashMap<String, String>,
}

/// The settings that say when what is confirmed is on the disk.
pub(super) const SETTINGS: [&str; 2] = ["appendfsync", "no-appendfsync-on-rewrite"];

/// The fields that say which process it is, and which history and part it has.
const NAMES: [&str; 3] = ["run_id", "master_replid", "role"];

/// The fields without which it is not known whether locks that are held may vanish.
const RISKS: [(&str, &str); 2] = [
    ("maxmemory_policy", "a full server may put away locks that are held"),
    ("connected_slaves", "a replica that is promoted may lack locks that are held"),
];

/// Which server it is, and what may have become of what it had, as scripts are told.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    /// Another process or another history has another name.
    pub(super) name: String,
    /// It has everything that was ever confirmed here, though it was started again. Or it was a
    /// replica then.
    pub(super) keeps: bool,
    /// It was a replica, for how long is not told.
    pub(super) promoted: bool,
    /// For how long it has been running, in whole seconds and by its own clock.
    pub(super) runs: Duration,
    /// Other servers have what it has, or are to have it.
    pub(super) replicated: bool,
}

fn unfit(endpoint: &str, reason: String) -> Result<()> {
    let source = format!("{endpoint} {reason}").into();
    Err(StoreError::Fatal { operation: CONNECTING, source })
}

impl Server {
    pub(super) fn new(info: &str, settings: HashMap<String, String>) -> Self {
        Self { info: Info::read(info), settings }
    }

    fn fsync(&self) -> Option<&str> {
        self.settings.get(SETTINGS[0]).map(String::as_str)
    }

    /// While it writes its file again, it confirms what is not on its disk.
    fn rewrites_unsynced(&self) -> bool {
        self.settings.get(SETTINGS[1]).is_none_or(|pauses| pauses != "no")
    }

    fn field(&self, name: &str) -> &str {
        self.info.field(name)
    }

    /// Which one it is.
    pub(super) fn identity(&self) -> Identity {
        let former = self.field("master_replid2");
        // One that does not report it may have been a replica, too.
        let promoted = former.is_empty() || former.bytes().any(|byte| byte != b'0');
        Identity {
            name: format!("{}/{}", self.field("run_id"), self.field("master_replid")),
            keeps: self.writes_at_once() && !promoted,
            promoted,
            // One that does not tell has just been started.
            runs: Duration::from_secs(self.field("uptime_in_seconds").parse().unwrap_or(0)),
            replicated: !matches!(self.field("connected_slaves"), "" | "0"),
        }
    }

    fn writes_at_once(&self) -> bool {
        let always = self.fsync() == Some("always") && !self.rewrites_unsynced();
        self.field("aof_enabled") == "1" && always
    }

    /// It loses the last second or two in a crash, and tells once something is on its disk
    /// (`WAITAOF`, of Redis 7.2 and Valkey 8).
    pub(super) fn writes_soon(&self) -> bool {
        let tells = !self.field("valkey_version").is_empty() || self.version() >= (7, 2);
        let everysec = self.fsync() == Some("everysec");
        self.field("aof_enabled") == "1" && everysec && tells
    }

    fn version(&self) -> (u32, u32) {
        let mut parts = self.field("redis_version").split('.').map(|part| part.parse().ok());
        let mut part = || parts.next().flatten().unwrap_or(0);
        (part(), part())
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.field("cluster_enabled") == "1"
    }

    /// What it puts away when it is full: any key.
    fn evicts(&self) -> bool {
        self.field("maxmemory_policy").starts_with("allkeys-")
    }

    /// Whether locks can be kept here, by the primary at least.
    pub(super) fn check(&self, endpoint: &str, allow_eviction: bool) -> Result<()> {
        let fatal = |reason| unfit(endpoint, reason);
        // Meanwhile it tells that there is no `appendonly`, and so that it may have lost something:
        // https://github.com/redis/redis/blob/8.0/src/aof.c (loadSingleAppendOnlyFile).
        if self.field("loading") == "1" {
            let told = format!("{endpoint} is reading what is on its disk");
            return Err(StoreError::Unavailable(told.into()));
        }
        if let Some(version) = self.info.unsupported() {
            return fatal(format!(
                "is {version}: locks need Redis 7 or later, or Valkey 7.2 or later"
            ));
        }
        if let Some(missing) = NAMES.iter().find(|name| self.field(name).is_empty()) {
            return fatal(format!(
                "does not report {missing} (INFO), by which a server that was started again or \
                 promoted is told from the one that had the locks: use a server of Redis or Valkey \
                 itself"
            ));
        }
        if self.evicts() && !allow_eviction {
            return fatal(format!(
                "puts away any key when it is full (maxmemory-policy = {}), a held lock's too: \
                 let it be noeviction or one of volatile-*, or allow that by ?allow_eviction=true",
                self.field("maxmemory_policy")
            ));
        }
        Ok(())
    }

    pub(super) fn is_primary(&self, endpoint: &str) -> Result<()> {
        match self.field("role") {
            "master" => Ok(()),
            role => Err(not_primary(endpoint, &format!("is a replica ({role})"))),
        }
    }

    /// Whether the keys that other libraries take for locks can be ours, too.
    pub(super) fn check_for_bridge(&self, endpoint: &str, allow_eviction: bool) -> Result<()> {
        let fatal = |reason| unfit(endpoint, reason);
        if self.field("cluster_enabled") == "1" {
            return fatal(
                "is of a cluster: others' keys lie in other slots than distlock's queue, and no \
                 script sees both; a bridge needs a server, or a primary with replicas"
                    .into(),
            );
        }
        // Their keys, unlike ours, have times to live.
        match self.field("maxmemory_policy") {
            "noeviction" | "" => Ok(()),
            _ if allow_eviction => Ok(()),
            policy => fatal(format!(
                "puts away keys that have a time to live when it is full (maxmemory-policy = \
                 {policy}), as others' locks have: let it be noeviction, or allow that by \
                 ?allow_eviction=true"
            )),
        }
    }

    /// What its settings and its replicas come to, for one who has to be told by so many of them
    /// (`None`: it does not ask them). `known`: how many there are by a sentinel's word, if that is
    /// asked.
    pub(super) fn durability(&self, acks: Option<u32>, known: Option<u32>) -> Durability {
        let mut reasons = Vec::new();
        if self.evicts() {
            reasons.push(format!(
                "maxmemory-policy = {}: a full server may put away locks that are held",
                self.field("maxmemory_policy")
            ));
        }
        for (name, risk) in RISKS {
            if self.field(name).is_empty() {
                reasons.push(format!("the server does not report {name} (INFO): {risk}"));
            }
        }
        let connected = self.field("connected_slaves").parse().unwrap_or(0);
        let replicas = known.unwrap_or(0).max(connected);
        match acks {
            None if replicas > 0 => reasons.push(format!(
                "efficiency only: {replicas} replicas get what is confirmed later, and one that is \
                 promoted may lack locks that are held (?replicas={replicas} asks them all)"
            )),
            Some(acks) if acks < replicas => reasons.push(format!(
                "efficiency only: there are {replicas} replicas, and {acks} have to have what is \
                 confirmed: another one that is promoted may lack locks that are held \
                 (?replicas={replicas} asks them all)"
            )),
            _ => {}
        }
        let (at_once, soon) = (self.writes_at_once(), self.writes_soon());
        let now = match (self.field("aof_enabled"), self.fsync()) {
            ("1", None) => "appendonly = yes, appendfsync is not told to this user".to_owned(),
            ("1", Some("always")) if !at_once => {
                "appendfsync = always, no-appendfsync-on-rewrite = yes".to_owned()
            }
            ("1", Some(fsync)) => format!("appendfsync = {fsync}"),
            _ => "appendonly = no".to_owned(),
        };
        if !at_once && !soon {
            reasons.push(format!(
                "{now}: a crash may undo what was confirmed, and how long sessions were to live; \
                 nothing is granted for as long as those who come then want theirs to live \
                 (appendonly yes, and appendfsync always or, as of Redis 7.2, everysec, keep that)"
            ));
        }
        let exclusive = reasons.is_empty();
        if soon {
            reasons.push(format!(
                "{now}: a crash may undo what was confirmed last; nothing is granted for the \
                 longest TTL afterwards (appendfsync always keeps all of it)"
            ));
        }
        let failover = match exclusive {
            true if replicas > 0 => FailoverBehavior::Continues,
            true if at_once => FailoverBehavior::Blocks,
            _ => FailoverBehavior::MayLoseGrants,
        };
        Durability { exclusive, failover, reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(changes: &[(&str, &str)], fsync: Option<&str>) -> Server {
        let usual = "# Server\r\nredis_version:8.0.2\r\nrun_id:ab\r\nrole:master\r\n\
                     connected_slaves:0\r\nmaster_replid:cd\r\nmaster_replid2:000\r\n\
                     aof_enabled:1\r\nmaxmemory_policy:noeviction\r\n";
        let fsync = fsync.map(|fsync| [(SETTINGS[0], fsync), (SETTINGS[1], "no")]);
        let settings = fsync.into_iter().flatten();
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut server = Server::new(usual, settings.collect());
        for (name, value) in changes {
            server.info.0.insert((*name).to_owned(), (*value).to_owned());
        }
        server
    }

    #[test]
    fn old_servers_and_replicas_are_refused_by_name() {
        let check = |changes: &[_]| server(changes, None).check("h:1", false);
        check(&[]).unwrap();
        check(&[("redis_version", "7.2.4"), ("valkey_version", "8.1.1")]).unwrap();
        check(&[("redis_version", "7.2.4"), ("valkey_version", "7.2.5")]).unwrap();
        check(&[("maxmemory_policy", "volatile-lru")]).unwrap();
        for (changes, words) in [
            (&[("redis_version", "6.2.1")][..], "is Redis 6.2.1"),
            (&[("redis_version", "")], "is Redis "),
            (&[("redis_version", "7.2.4"), ("valkey_version", "6.9.9")], "is Valkey 6.9.9"),
            (&[("dragonfly_version", "df-v1.27.1")], "is Dragonfly df-v1.27.1"),
            (&[("run_id", "")], "does not report run_id"),
            (&[("master_replid", "")], "does not report master_replid"),
            (&[("role", "")], "does not report role"),
            (&[("maxmemory_policy", "allkeys-lfu")], "maxmemory-policy = allkeys-lfu"),
            (&[("aof_enabled", "0"), ("loading", "1")], "is reading what is on its disk"),
        ] {
            let told = check(changes).unwrap_err().reason();
            assert!(told.starts_with("h:1 ") && told.contains(words), "{told}");
        }
        server(&[("maxmemory_policy", "allkeys-lfu")], None).check("h:1", true).unwrap();
        let told = server(&[("role", "slave")], None).is_primary("h:1").unwrap_err().reason();
        assert!(told.starts_with("h:1 is a replica"), "{told}");
    }

    #[test]
    fn a_bridge_needs_others_keys_in_reach_and_safe() {
        let check = |changes: &[_]| server(changes, None).check_for_bridge("h:1", false);
        check(&[]).unwrap();
        for (changes, words) in [
            (&[("cluster_enabled", "1")][..], "of a cluster"),
            (&[("maxmemory_policy", "volatile-ttl")], "maxmemory-policy = volatile-ttl"),
        ] {
            let told = check(changes).unwrap_err().reason();
            assert!(told.starts_with("h:1 ") && told.contains(words), "{told}");
        }
        let evicts = server(&[("maxmemory_policy", "volatile-ttl")], None);
        evicts.check_for_bridge("h:1", true).unwrap();
    }

    #[test]
    fn settings_and_replicas_decide() {
        let one = &[("connected_slaves", "1")][..];
        let full = &[("maxmemory_policy", "allkeys-lru")][..];
        let (waits, forgets) = (FailoverBehavior::Blocks, FailoverBehavior::MayLoseGrants);
        for (changes, fsync, acks, known, exclusive, failover, reasons) in [
            (&[][..], Some("always"), None, None, true, waits, 0),
            (&[], Some("everysec"), None, None, true, forgets, 1),
            (&[("redis_version", "7.0.15")], Some("everysec"), None, None, false, forgets, 1),
            (&[], Some("no"), None, None, false, forgets, 1),
            (&[], None, None, None, false, forgets, 1),
            (&[("aof_enabled", "0")], Some("always"), None, None, false, forgets, 1),
            (one, Some("always"), None, None, false, forgets, 1),
            (one, Some("always"), Some(1), None, true, FailoverBehavior::Continues, 0),
            (one, Some("always"), Some(2), None, true, FailoverBehavior::Continues, 0),
            // One of them is down, or follows another replica.
            (one, Some("always"), Some(1), Some(2), false, forgets, 1),
            (&[("connected_slaves", "2")], Some("always"), Some(1), Some(1), false, forgets, 1),
            (one, None, Some(1), Some(1), false, forgets, 1),
            (full, Some("always"), None, None, false, forgets, 1),
            // Servers that only look like Redis.
            (&[("maxmemory_policy", "")], Some("always"), None, None, false, forgets, 1),
            (&[("connected_slaves", "")], Some("always"), None, None, false, forgets, 1),
            (&[("aof_enabled", "")], Some("always"), None, None, false, forgets, 1),
        ] {
            let told = server(changes, fsync).durability(acks, known);
            assert_eq!((told.exclusive, told.failover), (exclusive, failover), "{changes:?}");
            assert_eq!(told.reasons.len(), reasons, "{:?}", told.reasons);
        }
    }

    #[test]
    fn always_with_unsynced_rewrites_is_not_always() {
        for unsynced in [Some("yes"), None] {
            let mut server = server(&[], Some("always"));
            let pauses = unsynced.map(|told| (SETTINGS[1].to_owned(), told.to_owned()));
            server.settings.remove(SETTINGS[1]);
            server.settings.extend(pauses);
            let told = server.durability(None, None);
            assert!(
                !told.exclusive && told.failover == FailoverBehavior::MayLoseGrants,
                "{told:?}"
            );
            assert!(told.reasons[0].contains("no-appendfsync-on-rewrite = yes"), "{told:?}");
            assert!(!server.identity().keeps);
        }
    }

    #[test]
    fn a_restart_is_told_from_a_promotion() {
        let keeps = |changes: &[_], fsync| server(changes, fsync).identity().keeps;
        assert!(keeps(&[], Some("always")));
        assert!(!keeps(&[], Some("everysec")) && !keeps(&[], None));
        let promoted = &[("master_replid2", "0a0"), ("uptime_in_seconds", "17")];
        assert!(!keeps(promoted, Some("always")));
        let Identity { name, promoted, runs, .. } = server(promoted, None).identity();
        assert_eq!((name.as_str(), promoted, runs), ("ab/cd", true, Duration::from_secs(17)));
        assert!(!server(&[], None).identity().promoted);
        assert!(server(&[("master_replid2", "")], None).identity().promoted, "it may be");
        assert!(!server(&[], None).identity().replicated);
        assert!(server(&[("connected_slaves", "1")], None).identity().replicated);
    }
}
