//! The position up to which a server's log is known to be on its disk.
//!
//! No crash undoes that. A server of the same name with an earlier position is a copy of an earlier
//! state, such as a snapshot of its disk. It may lack later confirmed writes.

use crate::runtime::mutex::Mutex;

#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Option<Seen>>);

#[derive(Clone, Debug)]
struct Seen {
    server: String,
    /// The highest position that was read.
    flushed: i64,
}

impl Log {
    /// Begins a connection to this server, which has shown this position. Earlier positions no
    /// longer count: if the server was set back, its tables record that by now.
    pub(super) fn begin(&self, server: &str, flushed: i64) {
        *self.0.lock() = Some(Seen { server: server.to_owned(), flushed });
    }

    /// Records a position of this server. Only the server of the last connection counts: another
    /// session may still be connected to the former primary, whose log may end later.
    pub(super) fn saw(&self, server: &str, flushed: i64) {
        if let Some(seen) = &mut *self.0.lock()
            && seen.server == server
        {
            seen.flushed = seen.flushed.max(flushed);
        }
    }

    /// Returns the positions until now. Another session's connection to the same server may show
    /// later ones while a request is pending.
    pub(super) fn so_far(&self) -> SoFar {
        SoFar(self.0.lock().clone())
    }
}

/// The positions that were seen before a request was sent.
#[derive(Debug)]
pub(super) struct SoFar(Option<Seen>);

impl SoFar {
    /// Returns `true` if a server of this name has shown a later position than in the reply.
    pub(super) fn is_set_back(&self, server: &str, flushed: i64) -> bool {
        let seen = &self.0;
        seen.as_ref().is_some_and(|seen| seen.server == server && seen.flushed > flushed)
    }

    /// Returns the position that a server of this name has shown.
    pub(super) fn shown_by(&self, server: &str) -> i64 {
        self.0.as_ref().filter(|seen| seen.server == server).map_or(0, |seen| seen.flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_with_smaller_log_position_was_restored() {
        let log = Log::default();
        assert!(!log.so_far().is_set_back("a/1", 0), "nothing was seen");
        log.begin("a/1", 100);
        let before = log.so_far();
        log.saw("a/1", 300);
        log.saw("a/1", 200);
        for (server, flushed, set_back) in
            [("a/1", 299, true), ("a/1", 300, false), ("a/1", 400, false), ("a/2", 1, false)]
        {
            assert_eq!(log.so_far().is_set_back(server, flushed), set_back, "{server} {flushed}");
        }
        assert!(!before.is_set_back("a/1", 299), "what others have seen since does not count");
        log.begin("a/1", 250);
        assert!(!log.so_far().is_set_back("a/1", 250), "the tables know it by now");
    }

    /// Another session of the client is still connected to the former primary.
    #[test]
    fn positions_of_the_former_server_do_not_count() {
        let log = Log::default();
        log.begin("a/2", 100);
        log.saw("a/1", 900);
        assert!(!log.so_far().is_set_back("a/2", 100));
        assert_eq!(log.so_far().shown_by("a/2"), 100);
    }
}
