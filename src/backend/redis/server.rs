//! What a server is, by its own word.

use std::collections::HashMap;

use crate::backend::{
    durability::{AfterLoss, Durability},
    error::{Result, StoreError},
};

pub(super) const CONNECTING: &str = "connecting";

/// What a server tells of itself: `INFO`, and how it brings to the disk what it confirms, if this
/// user may know that.
#[derive(Debug, Default)]
pub(super) struct Server {
    info: HashMap<String, String>,
    fsync: Option<String>,
}

impl Server {
    pub(super) fn new(info: &str, fsync: Option<String>) -> Self {
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        let info = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        Self { info, fsync }
    }

    fn field(&self, name: &str) -> &str {
        self.info.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Which one it is: another process or another history is another server.
    pub(super) fn identity(&self) -> String {
        format!("{}/{}", self.field("run_id"), self.field("master_replid"))
    }

    /// It has everything that was ever confirmed here, though it was started again.
    pub(super) fn keeps(&self) -> bool {
        let promoted = self.field("master_replid2").bytes().any(|byte| byte != b'0');
        self.writes_at_once() && !promoted
    }

    fn writes_at_once(&self) -> bool {
        self.field("aof_enabled") == "1" && self.fsync.as_deref() == Some("always")
    }

    /// What it puts away when it is full: any key.
    fn evicts(&self) -> bool {
        self.field("maxmemory_policy").starts_with("allkeys-")
    }

    /// Whether locks can be kept here.
    pub(super) fn check(&self, endpoint: &str, allow_eviction: bool) -> Result<()> {
        let (name, version, oldest) = match self.field("valkey_version") {
            "" => ("Redis", self.field("redis_version"), 7),
            version => ("Valkey", version, 8),
        };
        let fatal = |reason: String| {
            let source = format!("{endpoint} {reason}").into();
            Err(StoreError::Fatal { operation: CONNECTING, source })
        };
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < oldest) {
            return fatal(format!(
                "is {name} {version}: locks need Redis 7 or later, or Valkey 8 or later"
            ));
        }
        if self.evicts() && !allow_eviction {
            return fatal(format!(
                "puts away any key when it is full (maxmemory-policy = {}), a held lock's too: \
                 let it be noeviction or one of volatile-*, or allow that by ?allow_eviction=true",
                self.field("maxmemory_policy")
            ));
        }
        match self.field("role") {
            "master" => Ok(()),
            role => Err(StoreError::Unavailable(
                format!(
                    "{endpoint} is a replica ({role}): locks are kept by the primary, name that"
                )
                .into(),
            )),
        }
    }

    /// What its settings and its replicas come to.
    pub(super) fn durability(&self) -> Durability {
        let mut reasons = Vec::new();
        let replicas = self.field("connected_slaves");
        let mut exclusive = true;
        if self.evicts() {
            exclusive = false;
            reasons.push(format!(
                "maxmemory-policy = {}: a full server may put away locks that are held",
                self.field("maxmemory_policy")
            ));
        }
        if !matches!(replicas, "" | "0") {
            exclusive = false;
            reasons.push(format!(
                "{replicas} replicas get what is confirmed later: one that is promoted may lack \
                 locks that are held"
            ));
        }
        let kept = self.writes_at_once();
        if !kept {
            let now = match (self.field("aof_enabled"), self.fsync.as_deref()) {
                ("1", None) => "appendonly = yes, appendfsync is not told to this user".to_owned(),
                ("1", Some(fsync)) => format!("appendfsync = {fsync}"),
                _ => "appendonly = no".to_owned(),
            };
            reasons.push(format!(
                "{now}: a crash may undo what was confirmed last; nothing is granted for the \
                 longest TTL afterwards (appendonly yes and appendfsync always keep all of it)"
            ));
        }
        let after_loss = match exclusive && kept {
            true => AfterLoss::Waits,
            false => AfterLoss::Forgets,
        };
        Durability { exclusive, after_loss, reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(changes: &[(&str, &str)], fsync: Option<&str>) -> Server {
        let usual = "# Server\r\nredis_version:8.0.2\r\nrun_id:ab\r\nrole:master\r\n\
                     connected_slaves:0\r\nmaster_replid:cd\r\nmaster_replid2:000\r\n\
                     aof_enabled:1\r\nmaxmemory_policy:noeviction\r\n";
        let mut server = Server::new(usual, fsync.map(str::to_owned));
        for (name, value) in changes {
            server.info.insert((*name).to_owned(), (*value).to_owned());
        }
        server
    }

    #[test]
    fn old_servers_and_replicas_are_refused_by_name() {
        let check = |changes: &[_]| server(changes, None).check("h:1", false);
        check(&[]).unwrap();
        check(&[("redis_version", "7.2.4"), ("valkey_version", "8.1.1")]).unwrap();
        check(&[("maxmemory_policy", "volatile-lru")]).unwrap();
        for (changes, words) in [
            (&[("redis_version", "6.2.1")][..], "is Redis 6.2.1"),
            (&[("redis_version", "")], "is Redis "),
            (&[("redis_version", "7.2.4"), ("valkey_version", "7.2.5")], "is Valkey 7.2.5"),
            (&[("maxmemory_policy", "allkeys-lfu")], "maxmemory-policy = allkeys-lfu"),
            (&[("role", "slave")], "is a replica"),
        ] {
            let told = check(changes).unwrap_err().reason();
            assert!(told.starts_with("h:1 ") && told.contains(words), "{told}");
        }
        server(&[("maxmemory_policy", "allkeys-lfu")], None).check("h:1", true).unwrap();
    }

    #[test]
    fn settings_and_replicas_decide() {
        for (changes, fsync, exclusive, after_loss, reasons) in [
            (&[][..], Some("always"), true, AfterLoss::Waits, 0),
            (&[], Some("everysec"), true, AfterLoss::Forgets, 1),
            (&[], None, true, AfterLoss::Forgets, 1),
            (&[("aof_enabled", "0")], Some("always"), true, AfterLoss::Forgets, 1),
            (&[("connected_slaves", "2")], Some("always"), false, AfterLoss::Forgets, 1),
            (&[("maxmemory_policy", "allkeys-lru")], None, false, AfterLoss::Forgets, 2),
        ] {
            let told = server(changes, fsync).durability();
            assert_eq!((told.exclusive, told.after_loss), (exclusive, after_loss), "{changes:?}");
            assert_eq!(told.reasons.len(), reasons, "{:?}", told.reasons);
        }
    }

    #[test]
    fn a_restart_is_told_from_a_promotion() {
        let keeps = |changes: &[_], fsync| server(changes, fsync).keeps();
        assert!(keeps(&[], Some("always")));
        assert!(!keeps(&[], Some("everysec")) && !keeps(&[], None));
        assert!(!keeps(&[("master_replid2", "0a0")], Some("always")));
        assert_eq!(server(&[], None).identity(), "ab/cd");
    }
}
