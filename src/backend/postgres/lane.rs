//! Calls of one kind that wait until the connection is free for them.

use std::collections::{HashSet, VecDeque};

use super::{batch::MOST, message::Message};
use crate::backend::sql::{asking::Request, step::Step};

/// While fewer calls than this are pending, each call is sent at once, so that a few callers do not
/// wait for each other's round trips. The calls of many callers are soon sent together.
const FEW: usize = 4;

/// A call in a lane.
pub(super) trait Call {
    /// Returns the queue of the call.
    fn dir(&self) -> &str;
}

impl Call for Request<Message> {
    fn dir(&self) -> &str {
        self.message.step().map_or("", Step::dir)
    }
}

#[derive(Debug)]
pub(super) struct Lane<C> {
    waiting: VecDeque<C>,
    under_way: usize,
}

impl<C> Default for Lane<C> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), under_way: 0 }
    }
}

impl<C: Call> Lane<C> {
    pub(super) fn push(&mut self, call: C) {
        self.waiting.push_back(call);
    }

    /// Records that this many calls have ended.
    pub(super) fn ended(&mut self, calls: usize) {
        self.under_way -= calls;
    }

    /// Returns the calls to send together: the oldest one of each queue. It does not wait for
    /// further calls. `None`: no call is to be sent now.
    pub(super) fn next(&mut self) -> Option<Vec<C>> {
        if self.under_way >= FEW || self.waiting.is_empty() {
            return None;
        }
        if self.waiting.len() == 1 {
            self.under_way += 1;
            return Some(self.waiting.drain(..).collect());
        }
        let (mut next, mut dirs) = (Vec::new(), HashSet::new());
        let mut later = VecDeque::new();
        for call in self.waiting.drain(..) {
            match next.len() < MOST && dirs.insert(call.dir().to_owned()) {
                true => next.push(call),
                false => later.push_back(call),
            }
        }
        self.waiting = later;
        self.under_way += next.len();
        Some(next)
    }

    /// Takes the calls whose queues match.
    pub(super) fn take(&mut self, is: impl Fn(&str) -> bool) -> Vec<C> {
        if !self.waiting.iter().any(|call| is(call.dir())) {
            return Vec::new();
        }
        let (taken, rest): (Vec<_>, _) = self.waiting.drain(..).partition(|call| is(call.dir()));
        self.waiting = rest.into();
        taken
    }

    /// Returns all calls that were not sent.
    pub(super) fn unsent(self) -> impl Iterator<Item = C> {
        self.waiting.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Call for String {
        fn dir(&self) -> &str {
            self.split('.').next().unwrap_or_default()
        }
    }

    fn lane(calls: &[&str]) -> Lane<String> {
        let mut lane = Lane::default();
        calls.iter().for_each(|call| lane.push((*call).to_owned()));
        lane
    }

    #[test]
    fn few_calls_are_sent_at_once() {
        let mut lane = Lane::default();
        for at in 0..FEW {
            lane.push(at.to_string());
            assert_eq!(lane.next().unwrap(), [at.to_string()]);
        }
        lane.push("a".to_owned());
        lane.push("b".to_owned());
        assert_eq!(lane.next(), None);
        lane.ended(1);
        assert_eq!(lane.next().unwrap(), ["a", "b"], "what has come meanwhile");
        assert_eq!(lane.next(), None);
    }

    #[test]
    fn batch_is_bounded_with_one_call_per_queue() {
        let mut lane = lane(&["a.1", "b.1", "a.2", "a.3"]);
        assert_eq!(lane.next().unwrap(), ["a.1", "b.1"]);
        assert_eq!(lane.next().unwrap(), ["a.2"]);
        assert_eq!(lane.next().unwrap(), ["a.3"]);
        lane.ended(4);
        (0..=MOST).for_each(|number| lane.push(number.to_string()));
        assert_eq!(lane.next().unwrap().len(), MOST);
        assert_eq!(lane.unsent().collect::<Vec<_>>(), [MOST.to_string()]);
    }

    #[test]
    fn calls_of_given_queues_are_removed_from_lane() {
        let mut lane = lane(&["a.1", "b.1", "a.2"]);
        assert_eq!(lane.take(|dir| dir == "c"), [""; 0]);
        assert_eq!(lane.take(|dir| dir == "a"), ["a.1", "a.2"]);
        assert_eq!(lane.next().unwrap(), ["b.1"]);
    }
}
