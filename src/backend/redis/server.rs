//! The state of a server, as the server reports it.

use std::{collections::HashMap, time::Duration};

use crate::backend::{
    Durability, FailoverBehavior, Result, StoreError, resp::Info, sql::endpoints::not_primary,
};

pub(super) const CONNECTING: &str = "connecting";

/// A server's report: `INFO`, and its settings for writing to the disk. A user who may not read the
/// settings gets none.
#[derive(Debug, Default)]
pub(super) struct Server {
    info: Info,
    settings: HashMap<String, String>,
}

/// The settings that decide when confirmed writes are on the disk.
pub(super) const SETTINGS: [&str; 2] = ["appendfsync", "no-appendfsync-on-rewrite"];

/// The fields that name the process, its history and its role.
const NAMES: [&str; 3] = ["run_id", "master_replid", "role"];

/// The fields without which the risk of losing held locks is unknown.
const RISKS: [(&str, &str); 2] = [
    ("maxmemory_policy", "a full server may evict held locks"),
    ("connected_slaves", "a promoted replica may lack held locks"),
];

/// The server's identity, and what may have happened to its data, for the scripts.
#[derive(Clone, Debug, Default)]
pub(super) struct Identity {
    /// A name that differs for each process and each history.
    pub(super) name: String,
    /// The server keeps all confirmed writes across its restarts, unless it was a replica.
    pub(super) keeps: bool,
    /// The server was a replica once. It does not report for how long it has been a primary.
    pub(super) promoted: bool,
    /// The uptime, in whole seconds by the server's own clock.
    pub(super) runs: Duration,
    /// The server has replicas.
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

    /// Returns `true` if the server confirms unsynced writes while it rewrites its file.
    fn rewrites_unsynced(&self) -> bool {
        self.settings.get(SETTINGS[1]).is_none_or(|pauses| pauses != "no")
    }

    fn field(&self, name: &str) -> &str {
        self.info.field(name)
    }

    /// Returns the server's identity.
    pub(super) fn identity(&self) -> Identity {
        let former = self.field("master_replid2");
        // A server that does not report this may have been a replica, too.
        let promoted = former.is_empty() || former.bytes().any(|byte| byte != b'0');
        Identity {
            name: format!("{}/{}", self.field("run_id"), self.field("master_replid")),
            keeps: self.writes_at_once() && !promoted,
            promoted,
            // A server that does not report its uptime counts as just started.
            runs: Duration::from_secs(self.field("uptime_in_seconds").parse().unwrap_or(0)),
            replicated: !matches!(self.field("connected_slaves"), "" | "0"),
        }
    }

    fn writes_at_once(&self) -> bool {
        let always = self.fsync() == Some("always") && !self.rewrites_unsynced();
        self.field("aof_enabled") == "1" && always
    }

    /// Returns `true` if a crash loses at most the last second or two of writes. The server must
    /// also be able to report when a write is on its disk (`WAITAOF`, of Redis 7.2 and any Valkey).
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

    /// Returns `true` if a full server may evict any key.
    fn evicts(&self) -> bool {
        self.field("maxmemory_policy").starts_with("allkeys-")
    }

    /// Checks that the server can store locks, at least as a primary.
    pub(super) fn check(&self, endpoint: &str, allow_eviction: bool) -> Result<()> {
        let fatal = |reason| unfit(endpoint, reason);
        // While it loads, the server reports no `appendonly`, as if it might have lost writes:
        // https://github.com/redis/redis/blob/8.0/src/aof.c (loadSingleAppendOnlyFile).
        if self.field("loading") == "1" {
            let reason = format!("{endpoint} is loading its data from disk");
            return Err(StoreError::Unavailable(reason.into()));
        }
        if let Some(reason) = self.info.unsupported() {
            return fatal(format!("{reason}: locks need Redis 7 or later, or Valkey 7.2 or later"));
        }
        if let Some(missing) = NAMES.iter().find(|name| self.field(name).is_empty()) {
            return fatal(format!(
                "does not report {missing} (INFO), without which a restart or a failover cannot be \
                 detected: use Redis or Valkey itself"
            ));
        }
        if self.evicts() && !allow_eviction {
            return fatal(format!(
                "may evict any key when it is full, even a held lock (maxmemory-policy = {}): set \
                 noeviction (without a bridge, a volatile-* policy works too), or accept the risk \
                 with ?allow_eviction=true",
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

    /// Checks that the server can share keys with other libraries.
    pub(super) fn check_for_bridge(&self, endpoint: &str, allow_eviction: bool) -> Result<()> {
        let fatal = |reason| unfit(endpoint, reason);
        if self.field("cluster_enabled") == "1" {
            return fatal(
                "is part of a cluster, where other libraries' keys and distlock's queue are in \
                 different slots: for a bridge, use a single server, or a primary with replicas"
                    .into(),
            );
        }
        // The keys of other libraries, unlike those of distlock, have a time to live.
        match self.field("maxmemory_policy") {
            "noeviction" | "" => Ok(()),
            _ if allow_eviction => Ok(()),
            policy => fatal(format!(
                "may evict keys that have a time to live when it is full, including other \
                 libraries' locks (maxmemory-policy = {policy}): set noeviction, or allow eviction \
                 with ?allow_eviction=true"
            )),
        }
    }

    /// Returns the durability that the settings and the replicas give. `acks`: the number of
    /// replicas that the client waits for, or `None` if it does not wait. `known`: the number of
    /// replicas that a sentinel reports, if there are sentinels.
    pub(super) fn durability(&self, acks: Option<u32>, known: Option<u32>) -> Durability {
        let mut reasons = Vec::new();
        if self.evicts() {
            reasons.push(format!(
                "maxmemory-policy = {}: a full server may evict held locks. Set noeviction",
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
                "writes are confirmed before all replicas have them ({replicas} known), so a \
                 promoted replica may lack held locks. To wait for all replicas, set \
                 ?replicas={replicas}"
            )),
            Some(acks) if acks < replicas => reasons.push(format!(
                "writes wait for only {acks} of {replicas} replicas, so a promoted replica may \
                 lack held locks. To wait for all replicas, set ?replicas={replicas}"
            )),
            _ => {}
        }
        let (at_once, soon) = (self.writes_at_once(), self.writes_soon());
        let now = match (self.field("aof_enabled"), self.fsync()) {
            ("", _) => "the server does not report aof_enabled (INFO)".to_owned(),
            ("1", None) => {
                "appendonly = yes, but this user cannot read appendfsync (CONFIG GET)".to_owned()
            }
            ("1", Some("always")) if !at_once => match self.settings.get(SETTINGS[1]) {
                Some(pauses) => format!("appendfsync = always, {} = {pauses}", SETTINGS[1]),
                None => format!(
                    "appendfsync = always, but the server does not report {} (CONFIG GET)",
                    SETTINGS[1]
                ),
            },
            ("1", Some(fsync)) => format!("appendfsync = {fsync}"),
            _ => "appendonly = no".to_owned(),
        };
        if !at_once && !soon {
            reasons.push(format!(
                "{now}: a crash may undo confirmed writes, and locks may then be granted before \
                 older ones have expired. To prevent this, set appendonly = yes and one of these: \
                 appendfsync = everysec (Redis 7.2 or later, or Valkey), or appendfsync = always \
                 with no-appendfsync-on-rewrite = no"
            ));
        }
        let exclusive = reasons.is_empty();
        if soon {
            reasons.push(format!(
                "{now}: a crash may undo the last confirmed writes, so the server then grants no \
                 lock for 1.1 times the longest TTL. To keep all writes, set appendfsync = always \
                 and no-appendfsync-on-rewrite = no"
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
            (&[("redis_version", "")], "does not report redis_version (INFO)"),
            (&[("redis_version", "7.2.4"), ("valkey_version", "6.9.9")], "is Valkey 6.9.9"),
            (&[("dragonfly_version", "df-v1.27.1")], "is Dragonfly df-v1.27.1"),
            (&[("run_id", "")], "does not report run_id"),
            (&[("master_replid", "")], "does not report master_replid"),
            (&[("role", "")], "does not report role"),
            (&[("maxmemory_policy", "allkeys-lfu")], "maxmemory-policy = allkeys-lfu"),
            (&[("aof_enabled", "0"), ("loading", "1")], "is loading its data from disk"),
        ] {
            let reason = check(changes).unwrap_err().reason();
            assert!(reason.starts_with("h:1 ") && reason.contains(words), "{reason}");
        }
        server(&[("maxmemory_policy", "allkeys-lfu")], None).check("h:1", true).unwrap();
        let reason = server(&[("role", "slave")], None).is_primary("h:1").unwrap_err().reason();
        assert!(reason.starts_with("h:1 is a replica"), "{reason}");
    }

    #[test]
    fn bridge_refuses_clusters_and_evicting_servers() {
        let check = |changes: &[_]| server(changes, None).check_for_bridge("h:1", false);
        check(&[]).unwrap();
        for (changes, words) in [
            (&[("cluster_enabled", "1")][..], "of a cluster"),
            (&[("maxmemory_policy", "volatile-ttl")], "maxmemory-policy = volatile-ttl"),
        ] {
            let reason = check(changes).unwrap_err().reason();
            assert!(reason.starts_with("h:1 ") && reason.contains(words), "{reason}");
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
            // One replica is down, or follows another replica.
            (one, Some("always"), Some(1), Some(2), false, forgets, 1),
            (&[("connected_slaves", "2")], Some("always"), Some(1), Some(1), false, forgets, 1),
            (one, None, Some(1), Some(1), false, forgets, 1),
            (full, Some("always"), None, None, false, forgets, 1),
            // Servers that only resemble Redis.
            (&[("maxmemory_policy", "")], Some("always"), None, None, false, forgets, 1),
            (&[("connected_slaves", "")], Some("always"), None, None, false, forgets, 1),
            (&[("aof_enabled", "")], Some("always"), None, None, false, forgets, 1),
        ] {
            let durability = server(changes, fsync).durability(acks, known);
            assert_eq!(
                (durability.exclusive, durability.failover),
                (exclusive, failover),
                "{changes:?}"
            );
            assert_eq!(durability.reasons.len(), reasons, "{:?}", durability.reasons);
        }
    }

    #[test]
    fn missing_fields_are_named() {
        for missing in ["maxmemory_policy", "connected_slaves", "aof_enabled"] {
            let durability = server(&[(missing, "")], Some("always")).durability(None, None);
            let named = format!("the server does not report {missing} (INFO)");
            assert!(durability.reasons[0].starts_with(&named), "{durability:?}");
        }
    }

    #[test]
    fn always_with_unsynced_rewrites_is_not_always() {
        let names = ["= yes", "the server does not report no-appendfsync-on-rewrite (CONFIG GET)"];
        for (unsynced, named) in [Some("yes"), None].into_iter().zip(names) {
            let mut server = server(&[], Some("always"));
            let pauses = unsynced.map(|setting| (SETTINGS[1].to_owned(), setting.to_owned()));
            server.settings.remove(SETTINGS[1]);
            server.settings.extend(pauses);
            let durability = server.durability(None, None);
            assert!(
                !durability.exclusive && durability.failover == FailoverBehavior::MayLoseGrants,
                "{durability:?}"
            );
            assert!(durability.reasons[0].contains(named), "{durability:?}");
            assert!(!server.identity().keeps);
        }
    }

    #[test]
    fn a_restart_differs_from_a_promotion() {
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
