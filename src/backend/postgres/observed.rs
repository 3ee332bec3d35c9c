//! What the processes of one host have seen of a server, one after the other.
//!
//! A process puts a dead session away once it has watched it for 1.1 TTL. A process that does not
//! live for so long, as a job of cron, would never come to it. So each client leaves in the tables
//! how far the server's log was, and when, by `CLOCK_BOOTTIME`, which is one clock for all
//! processes of a host from one boot to the next. A session whose beat is below that was not
//! renewed since.
//!
//! It is believed only of the same boot, of the same run of the same server, and if the server's
//! clock says that as much time has passed. A virtual machine may be resumed twice from one
//! snapshot: both have one boot id, and clocks that differ, by which the last rule rules them out.

use super::literal::text;
use crate::runtime::{boot, clock};

/// This boot of this host.
#[derive(Debug)]
pub(super) struct Host(Option<String>);

impl Host {
    /// One whose clock may not be that of other processes neither leaves nor finds anything.
    pub(super) fn this() -> Self {
        Self(boot::id().ok())
    }

    /// A condition on rows of `distlock.sessions`: what was seen shows that they are over. It goes
    /// by the time of this call: the later the server is asked, the less time it says has passed.
    pub(super) fn knows_dead(&self, server: &str) -> String {
        let Some(boot) = &self.0 else { return "FALSE".to_owned() };
        format!(
            "EXISTS (SELECT FROM distlock.observations AS o \
             WHERE o.boot = {} AND o.server = {} AND o.started = pg_postmaster_start_time() \
             AND sessions.beat < o.beat AND {now} - o.at > 1.1 * {ttl} \
             AND abs(({now} - o.at) - ({shows} - o.shows)) < ({now} - o.at) / 50 + 0.15 * {ttl})",
            text(boot),
            text(server),
            now = micros(clock::now()),
            ttl = "extract(epoch FROM sessions.ttl) * 1000000",
            shows = "extract(epoch FROM now()) * 1000000",
        )
    }

    /// Leaves for others what an answer has said that has come by now: what the clock shows, and
    /// how far the log was.
    pub(super) fn leave(&self, server: &str, shows: i64, beat: i64) -> Option<String> {
        let (boot, at) = (text(self.0.as_deref()?), micros(clock::now()));
        Some(format!("SELECT distlock.observe({boot}, {at}, {}, {shows}, {beat})", text(server)))
    }
}

fn micros(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_without_a_clock_for_all_its_processes_knows_nothing() {
        let host = Host(None);
        assert_eq!(host.knows_dead("s"), "FALSE");
        assert_eq!(host.leave("s", 1, 1), None);
        let host = Host(Some("b'".to_owned()));
        assert!(host.knows_dead("s").contains("o.boot = 'b'''"));
        assert!(host.leave("s", 1, 2).is_some_and(|sql| sql.ends_with("'s', 1, 2)")));
    }
}
