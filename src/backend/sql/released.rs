//! The session's recent releases, in case a server takes over that does not know of them.

use std::{collections::VecDeque, sync::Arc};

use crate::{backend::Ticket, runtime::mutex::Mutex};

/// The number of releases that are remembered, which exceeds the lag of a standby.
const REMEMBERED: usize = 4096;

/// The deleted entries, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Released(Mutex<VecDeque<Release>>);

#[derive(Debug)]
struct Release {
    dir: Arc<str>,
    ticket: Ticket,
}

impl Released {
    /// Records that the server has deleted the ticket's entry in this queue.
    pub(crate) fn add(&self, dir: &str, ticket: Ticket) {
        let mut releases = self.0.lock();
        if releases.len() == REMEMBERED {
            releases.pop_front();
        }
        releases.push_back(Release { dir: dir.into(), ticket });
    }

    /// Returns the tickets as an SQL list, or `None` if there are none.
    #[cfg(feature = "mysql")]
    pub(crate) fn list(&self) -> Option<String> {
        let releases = self.0.lock();
        let quoted: Vec<_> =
            releases.iter().map(|release| format!("'{}'", release.ticket)).collect();
        (!quoted.is_empty()).then(|| quoted.join(", "))
    }

    /// Returns the queues and tickets.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Ticket)> {
        let releases = self.0.lock();
        releases.iter().map(|release| (Arc::clone(&release.dir), release.ticket)).collect()
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn latest_releases_are_remembered() {
        let released = Released::default();
        assert_eq!(released.list(), None);
        let tickets: Vec<_> = (0..=REMEMBERED).map(|_| Ticket::random()).collect();
        released.add("/ns/a", tickets[0]);
        assert_eq!(released.list().unwrap(), format!("'{}'", tickets[0]));
        for ticket in &tickets[1..] {
            released.add("/ns/a", *ticket);
        }
        let list = released.list().unwrap();
        assert!(!list.contains(&tickets[0].to_string()));
        assert!(tickets[1..].iter().all(|ticket| list.contains(&ticket.to_string())));
        let last = Ticket::random();
        released.add("/ns/b", last);
        let all = released.all();
        assert_eq!((all.len(), all.last()), (REMEMBERED, Some(&("/ns/b".into(), last))));
    }
}
