//! Requests that wait for a connection of the user's pool.
//!
//! On one connection a session's requests are served in order. On several connections of a pool, a
//! join could overtake the release that it follows, and a release the join that it undoes.
//! Therefore **only one request for a queue is pending at a time**, and the others wait for their
//! turn.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use super::alone;
use crate::{
    backend::sql::step::{Kind, Step},
    runtime::clock::Instant,
};

/// A waiting request.
#[derive(Debug)]
pub(super) struct Waits<T> {
    pub(super) request: T,
    /// The queues of the request.
    pub(super) queues: Vec<String>,
    /// When the request arrived.
    pub(super) since: Instant,
    /// How long a repeated request had waited before. It is sent by itself.
    pub(super) again: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Waiting<T> {
    all: VecDeque<Waits<T>>,
    /// The queues of pending requests.
    busy: HashSet<String>,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self { all: VecDeque::new(), busy: HashSet::new() }
    }
}

impl<T> Waiting<T> {
    pub(super) fn push(&mut self, request: T, queues: Vec<String>) {
        self.all.push_back(Waits { request, queues, since: Instant::now(), again: None });
    }

    /// Adds a repeated request before those that wait for its queues.
    pub(super) fn push_again(&mut self, request: T, queues: Vec<String>, waited: Duration) {
        let again = Some(waited);
        self.all.push_front(Waits { request, queues, since: Instant::now(), again });
    }

    /// Returns the maximum number of texts that could be sent now. Requests with the same `kind_of`
    /// are sent together.
    pub(super) fn texts(&self, kind_of: impl Fn(&T) -> Option<Kind>) -> usize {
        let (mut alone, mut kinds) = (0, HashSet::new());
        for waits in self.first_of_their_queues() {
            match kind_of(&waits.request).filter(|_| waits.again.is_none()) {
                Some(kind) => {
                    kinds.insert(kind);
                }
                None => alone += 1,
            }
        }
        alone + kinds.len()
    }

    /// Returns the requests whose queues no earlier request uses.
    fn first_of_their_queues(&self) -> impl Iterator<Item = &Waits<T>> {
        self.places().map(|at| &self.all[at])
    }

    /// Returns the positions of the requests whose queues no earlier request uses.
    fn places(&self) -> impl Iterator<Item = usize> {
        let mut before: HashSet<&str> = self.busy.iter().map(String::as_str).collect();
        let all = self.all.iter().enumerate();
        let first = all.filter(move |(_, waits)| {
            let is_first = !waits.queues.iter().any(|queue| before.contains(queue.as_str()));
            before.extend(waits.queues.iter().map(String::as_str));
            is_first
        });
        first.map(|(at, _)| at)
    }

    /// Takes the first request whose queues no earlier request uses.
    pub(super) fn next(&mut self) -> Option<Waits<T>> {
        let at = self.places().next()?;
        let next = self.all.remove(at)?;
        self.busy.extend(next.queues.iter().cloned());
        Some(next)
    }

    /// Takes the requests that can be sent with the one that was taken last.
    pub(super) fn together(
        &mut self,
        first: &Step,
        step_of: impl Fn(&T) -> Option<&Step>,
        fits: impl Fn(&Step) -> bool,
    ) -> Vec<Waits<T>> {
        let Self { all, busy } = self;
        let taken = alone::together(
            first,
            all,
            |waits| step_of(&waits.request),
            |waits, step| waits.again.is_none() && !busy.contains(step.dir()) && fits(step),
        );
        busy.extend(taken.iter().flat_map(|waits| waits.queues.iter().cloned()));
        taken
    }

    /// Records that a request for these queues has ended.
    pub(super) fn ended<'q>(&mut self, queues: impl IntoIterator<Item = &'q String>) {
        for queue in queues {
            self.busy.remove(queue);
        }
    }

    /// Takes the requests that arrived until then.
    pub(super) fn until(&mut self, then: Instant) -> Vec<Waits<T>> {
        let (until, later) =
            std::mem::take(&mut self.all).into_iter().partition(|waits| waits.since <= then);
        self.all = later;
        Vec::from_iter::<VecDeque<_>>(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave(dir: &str) -> Step {
        let [dir, ticket, label] = [dir, "t", ""].map(str::to_owned);
        Step::Leave { dir, ticket, label, number: Some(8), successor: None }
    }

    fn waiting(requests: &[(&'static str, &[&str])]) -> Waiting<&'static str> {
        let mut waiting = Waiting::default();
        for (request, queues) in requests {
            waiting.push(*request, queues.iter().map(|queue| (*queue).to_owned()).collect());
        }
        waiting
    }

    fn next(waiting: &mut Waiting<&'static str>) -> Option<&'static str> {
        waiting.next().map(|waits| waits.request)
    }

    #[test]
    fn requests_about_a_queue_keep_their_order() {
        let mut waiting = waiting(&[
            ("leave a", &["/a"]),
            ("join a and b", &["/a", "/b"]),
            ("join b", &["/b"]),
            ("read", &[]),
            ("join c", &["/c"]),
            ("join d", &["/d"]),
        ]);
        assert_eq!(waiting.texts(|_| None), 4, "two wait for the release");
        let kind_of = |request: &&str| request.starts_with("join").then_some(Kind::Join);
        assert_eq!(waiting.texts(kind_of), 3, "joins are asked together");
        let mut taken = || next(&mut waiting);
        let first = [Some("leave a"), Some("read"), Some("join c"), Some("join d"), None];
        assert_eq!([(); 5].map(|()| taken()), first);
        assert_eq!(waiting.texts(|_| None), 0);
        waiting.push_again("leave a again", vec!["/a".to_owned()], Duration::ZERO);
        waiting.ended(&["/a".to_owned()]);
        assert_eq!(next(&mut waiting), Some("leave a again"));
        assert_eq!(next(&mut waiting), None);
        waiting.ended(&["/a".to_owned()]);
        assert_eq!(next(&mut waiting), Some("join a and b"));
        assert_eq!(next(&mut waiting), None);
        waiting.ended(&["/a".to_owned(), "/b".to_owned()]);
        assert_eq!(next(&mut waiting), Some("join b"));
    }

    #[test]
    fn queues_that_are_busy_are_left_out_of_a_batch() {
        let mut waiting = Waiting::default();
        for dir in ["/a", "/b", "/c", "/d"] {
            waiting.push(leave(dir), vec![dir.to_owned()]);
        }
        waiting.push_again(leave("/b"), vec!["/b".to_owned()], Duration::ZERO);
        let first = waiting.next().unwrap();
        assert_eq!((first.request.dir(), first.again), ("/b", Some(Duration::ZERO)));
        let first = waiting.next().unwrap();
        assert_eq!(first.request.dir(), "/a");
        let dirs = |all: Vec<Waits<Step>>| -> Vec<_> {
            all.iter().map(|waits| waits.request.dir().to_owned()).collect()
        };
        let mut taken = || dirs(waiting.together(&first.request, |step| Some(step), |_| true));
        assert_eq!(taken(), ["/c", "/d"]);
        assert_eq!(taken(), [""; 0]);
        assert_eq!(dirs(waiting.until(Instant::now())), ["/b"]);
    }
}
