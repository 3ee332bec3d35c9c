//! What a session has released of late, in case the server is followed by one that does not know.

use std::{collections::VecDeque, sync::Arc};

use crate::{backend::Ticket, runtime::mutex::Mutex};

/// How many releases are remembered: more than a standby lags behind.
const REMEMBERED: usize = 4096;

/// The entries that were deleted, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Released(Mutex<VecDeque<Release>>);

#[derive(Debug)]
struct Release {
    /// Only PostgreSQL asks for it.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    dir: Arc<str>,
    ticket: Ticket,
}

impl Released {
    /// The server has confirmed that the ticket's entry in this queue was deleted.
    pub(crate) fn add(&self, dir: &str, ticket: Ticket) {
        let mut releases = self.0.lock();
        if releases.len() == REMEMBERED {
            releases.pop_front();
        }
        releases.push_back(Release { dir: dir.into(), ticket });
    }

    /// The tickets as a list for SQL, if there are any.
    #[cfg(feature = "mysql")]
    pub(crate) fn list(&self) -> Option<String> {
        let releases = self.0.lock();
        let quoted: Vec<_> =
            releases.iter().map(|release| format!("'{}'", release.ticket)).collect();
        (!quoted.is_empty()).then(|| quoted.join(", "))
    }

    /// The queues and tickets.
    #[cfg(feature = "postgres")]
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Ticket)> {
        let releases = self.0.lock();
        releases.iter().map(|release| (Arc::clone(&release.dir), release.ticket)).collect()
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
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
