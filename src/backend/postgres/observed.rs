//! What the processes of one host have successively seen of a server.
//!
//! A process removes a dead session after it has watched the clock for 1.1 TTL. A process that
//! lives for a shorter time, such as a cron job, would never do so. Each client therefore records
//! in the tables the position of the server's log, and when it read this position. The time is that
//! of `CLOCK_BOOTTIME`, which all processes of a host share from one boot to the next. A session
//! whose beat is below that position was not renewed since.
//!
//! A record counts only for the same boot of the host and the same run of the server. The server's
//! clock also has to show that as much time has passed. A virtual machine may be resumed twice from
//! one snapshot. Both copies then have the same boot id and different clocks, and this last rule
//! excludes them.

use super::literal::text;
use crate::runtime::{boot, clock};

/// The current boot of this host.
#[derive(Debug)]
pub(super) struct Host(Option<String>);

impl Host {
    /// Returns a host that records and finds nothing if its clock may differ between processes.
    pub(super) fn this() -> Self {
        Self(boot::id().ok())
    }

    /// Returns the condition that the session in a row of `distlock.sessions` has expired by the
    /// records. It uses the time of this call, so a query that runs later assumes that less time
    /// has passed than really has.
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

    /// Records the clock and the log position of a reply that has arrived by now, for later
    /// processes.
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
    fn host_without_shared_clock_has_no_observations() {
        let host = Host(None);
        assert_eq!(host.knows_dead("s"), "FALSE");
        assert_eq!(host.leave("s", 1, 1), None);
        let host = Host(Some("b'".to_owned()));
        assert!(host.knows_dead("s").contains("o.boot = 'b'''"));
        assert!(host.leave("s", 1, 2).is_some_and(|sql| sql.ends_with("'s', 1, 2)")));
    }
}
