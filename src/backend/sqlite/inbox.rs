//! The requests that the file's thread has not run yet.

use std::{
    collections::VecDeque,
    sync::mpsc::{Receiver, RecvError, RecvTimeoutError},
    time::Duration,
};

use super::{job::Job, requests::Kind};

/// The largest number of requests in one transaction. Other processes wait for its end.
const TOGETHER: usize = 64;

/// The requests in the order in which they arrived, keepalives first. Otherwise, a keepalive that
/// waits behind tens of thousands of requests could be too late.
pub(super) struct Inbox {
    jobs: Receiver<Box<dyn Job>>,
    keepalives: VecDeque<Box<dyn Job>>,
    others: VecDeque<Box<dyn Job>>,
}

impl Inbox {
    pub(super) fn new(jobs: Receiver<Box<dyn Job>>) -> Self {
        Self { jobs, keepalives: VecDeque::new(), others: VecDeque::new() }
    }

    /// Returns the requests of the next transaction. If there are none, waits for one, for at most
    /// this time. Fails once no handle is left.
    pub(super) fn next(
        &mut self,
        patience: Option<Duration>,
    ) -> Result<Vec<Box<dyn Job>>, RecvError> {
        if self.keepalives.is_empty() && self.others.is_empty() {
            let first = match patience {
                None => self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => self.jobs.recv_timeout(patience),
            };
            match first {
                Ok(job) => self.add(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(RecvError),
            }
        }
        while let Ok(job) = self.jobs.try_recv() {
            self.add(job);
        }
        let keepalives = self.keepalives.len().min(TOGETHER);
        let mut next: Vec<_> = self.keepalives.drain(..keepalives).collect();
        let others = self.others.len().min(TOGETHER - keepalives);
        next.extend(self.others.drain(..others));
        Ok(next)
    }

    fn add(&mut self, job: Box<dyn Job>) {
        match job.kind() {
            Kind::Keepalive => self.keepalives.push_back(job),
            _ => self.others.push_back(job),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::backend::sqlite::job::Request;

    fn job(kind: Kind) -> Box<dyn Job> {
        let (request, _) = Request::new("test", kind, Duration::from_secs(9), |_| Ok(()));
        Box::new(request)
    }

    #[test]
    fn keepalives_overtake_other_requests() {
        let (jobs, inbox) = mpsc::channel();
        let mut inbox = Inbox::new(inbox);
        for kind in [Kind::Read; 2 * TOGETHER] {
            jobs.send(job(kind)).unwrap();
        }
        jobs.send(job(Kind::Keepalive)).unwrap();
        jobs.send(job(Kind::Look)).unwrap();
        drop(jobs);
        let mut kinds = || {
            let next = inbox.next(Some(Duration::ZERO)).ok()?;
            Some(next.iter().map(|job| job.kind()).collect::<Vec<_>>())
        };
        let first = kinds().unwrap();
        assert_eq!((first.len(), first[0], first[1]), (TOGETHER, Kind::Keepalive, Kind::Read));
        assert_eq!(kinds().unwrap(), [Kind::Read; TOGETHER]);
        assert_eq!(kinds().unwrap(), [Kind::Read, Kind::Look]);
        assert_eq!(kinds(), None, "no handle is left");
    }
}
