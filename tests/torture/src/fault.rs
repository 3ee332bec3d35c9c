//! The kinds of faults.

use std::{fmt, time::Duration};

/// A part of the servers by what it is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    Follower,
}

/// What is done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Frozen, and goes on later as if nothing had been.
    Pause,
    /// Killed and started again.
    Kill,
    /// Stopped in good order and started again.
    Stop,
    /// Cut off from the other servers, not from its clients.
    Cut,
    /// Three in ten packets that come to it are lost.
    Loss,
    /// Its links are slow.
    Slow,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    // Of one worker's ways to the servers.
    Blackhole,
    ToServer,
    ToClient,
    Swallow,
    Drop,
    Delay,
    Refuse,
    Flap,
    // Of one worker.
    Sigstop,
    SigstopIdle,
    SigstopBeforeLock,
    Sigkill,
    Block,
    // Of the servers.
    Server(Deed, Role),
    PauseQuorum,
    /// All of them.
    Servers(Deed),
    // Of the queues.
    Operator,
    Strangers,
}

impl Kind {
    pub(crate) const ALL: [(Self, &'static str, &'static str); 26] = [
        (Self::Blackhole, "blackhole", "nothing passes between a worker and the servers"),
        (Self::ToServer, "to-server", "the servers do not hear a worker"),
        (Self::ToClient, "to-client", "a worker does not hear the servers"),
        (Self::Swallow, "swallow", "a reply is lost and its connection with it"),
        (Self::Drop, "drop", "one packet with a lock's key in it is lost, an event perhaps"),
        (Self::Delay, "delay", "packets take long"),
        (Self::Refuse, "refuse", "connections are cut and new ones refused"),
        (Self::Flap, "flap", "a link goes up and down"),
        (Self::Sigstop, "sigstop", "a worker is stopped and goes on later"),
        (Self::SigstopIdle, "sigstop-idle", "a worker that has nothing is stopped for about a TTL"),
        (Self::SigstopBeforeLock, "sigstop-before-lock", "the same just before it asks for a lock"),
        (Self::Sigkill, "sigkill", "a worker is killed"),
        (Self::Block, "block", "a worker's own runtime is blocked"),
        (Self::Server(Deed::Pause, Role::Leader), "pause-leader", "the leader is frozen"),
        (Self::Server(Deed::Pause, Role::Follower), "pause-follower", "a follower is frozen"),
        (Self::Server(Deed::Kill, Role::Leader), "kill-leader", "the leader is killed"),
        (Self::Server(Deed::Kill, Role::Follower), "kill-follower", "a follower is killed"),
        (
            Self::Server(Deed::Stop, Role::Leader),
            "stop-leader",
            "the leader is stopped in good order",
        ),
        (
            Self::Server(Deed::Stop, Role::Follower),
            "stop-follower",
            "a follower is stopped in good order",
        ),
        (
            Self::Server(Deed::Cut, Role::Leader),
            "cut-leader",
            "the leader is cut off from the other servers",
        ),
        (
            Self::Server(Deed::Cut, Role::Follower),
            "cut-follower",
            "a follower is cut off from the other servers",
        ),
        (Self::PauseQuorum, "pause-quorum", "two of three servers are frozen"),
        (Self::Servers(Deed::Loss), "loss", "three in ten packets to the servers are lost"),
        (Self::Servers(Deed::Slow), "slow", "the servers' links carry 200 kbit/s"),
        (
            Self::Operator,
            "operator",
            "somebody writes to keys of the queues, deletes and adds some",
        ),
        (Self::Strangers, "strangers", "waiters of other libraries' kinds stand in the queues"),
    ];

    /// Whether it strikes the servers, not a worker.
    pub(crate) fn is_of_servers(self) -> bool {
        matches!(self, Self::Server(..) | Self::PauseQuorum | Self::Servers(_))
    }

    /// Whether it strikes the queues.
    pub(crate) fn is_of_queues(self) -> bool {
        matches!(self, Self::Operator | Self::Strangers)
    }

    /// How long it lasts: around the TTL, so that sessions now and then survive and now and then do
    /// not.
    pub(crate) fn duration(self, ttl: Duration) -> Duration {
        match self {
            Self::Swallow | Self::Drop => ttl.mul_f64(0.5),
            // It depends on the server's ticks which of these are too long.
            Self::SigstopIdle | Self::SigstopBeforeLock => ttl.mul_f64(0.9 + fastrand::f64() * 0.6),
            Self::Delay | Self::Flap => ttl.mul_f64(1.0 + fastrand::f64() * 1.5),
            _ => ttl.mul_f64(0.2 + fastrand::f64() * 2.2),
        }
    }

    /// Those of a list with commas in between: whole names, what stands before the hyphen for
    /// several, `all` or `none`; with a hyphen in front, without those.
    pub(crate) fn parse(list: &str) -> Result<Vec<Self>, String> {
        let mut kinds = Vec::new();
        for word in
            list.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "none")
        {
            let (without, word) = word.strip_prefix('-').map_or((false, word), |word| (true, word));
            let meant = |name: &str| {
                word == "all" || name == word || name.split_once('-').is_some_and(|it| it.0 == word)
            };
            let named: Vec<_> = Self::ALL
                .iter()
                .filter(|(_, name, _)| meant(name))
                .map(|(kind, ..)| *kind)
                .collect();
            if without {
                kinds.retain(|kind| !named.contains(kind));
            } else {
                kinds.extend(&named);
            }
            if named.is_empty() {
                let names = Self::ALL.map(|(_, name, _)| name).join(", ");
                return Err(format!("no fault is named {word:?}; there are {names}, all and none"));
            }
        }
        Ok(kinds)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            Self::ALL.iter().find(|(kind, ..)| kind == self).map_or("?", |(_, name, _)| name);
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_workers_are_stopped_for_about_a_ttl() {
        let ttl = Duration::from_secs(10);
        for _ in 0..100 {
            let time = Kind::SigstopBeforeLock.duration(ttl);
            assert!((ttl * 9 / 10..=ttl * 3 / 2).contains(&time), "{time:?}");
        }
    }

    #[test]
    fn lists_name_kinds() {
        assert_eq!(Kind::parse("none"), Ok(Vec::new()));
        assert_eq!(Kind::parse("all").map(|kinds| kinds.len()), Ok(Kind::ALL.len()));
        assert_eq!(Kind::parse("delay, sigkill"), Ok(vec![Kind::Delay, Kind::Sigkill]));
        let paused =
            [Kind::Server(Deed::Pause, Role::Leader), Kind::Server(Deed::Pause, Role::Follower)];
        assert_eq!(Kind::parse("pause"), Ok([&paused[..], &[Kind::PauseQuorum]].concat()));
        assert_eq!(Kind::parse("pause,-pause-quorum"), Ok(paused.to_vec()));
        let stopped = vec![Kind::Sigstop, Kind::SigstopIdle, Kind::SigstopBeforeLock];
        assert_eq!(Kind::parse("sigstop"), Ok(stopped));
        assert_eq!(
            Kind::parse("loss,slow"),
            Ok([Deed::Loss, Deed::Slow].map(Kind::Servers).to_vec())
        );
        assert_eq!(Kind::parse("to"), Ok(vec![Kind::ToServer, Kind::ToClient]));
        assert!(
            Kind::parse("delay,fire")
                .is_err_and(|error| error.contains("fire") && error.contains("blackhole"))
        );
    }
}
