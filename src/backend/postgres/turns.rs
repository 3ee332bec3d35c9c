//! One request at a time: renewals first, then calls, and background work last.
//!
//! A pooler may take the first reply for the end of all requests, lend the server's connection to
//! other clients, and lose the other replies (<https://github.com/pgbouncer/pgbouncer/issues/759>).

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

use crate::runtime::mutex::Mutex;

#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    taken: bool,
    /// The waiting requests by rank.
    waiting: [VecDeque<oneshot::Sender<Turn>>; 3],
}

/// The order of precedence among waiting requests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rank {
    Renewal,
    Call,
    Background,
}

/// The right to send a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(Turns);

impl Turns {
    pub(super) async fn take(&self, rank: Rank) -> Turn {
        let waiting = {
            let mut state = self.0.lock();
            if !state.taken {
                state.taken = true;
                return Turn(self.clone());
            }
            let (sender, waiting) = oneshot::channel();
            state.waiting[rank as usize].push_back(sender);
            waiting
        };
        // No sender is dropped before it has sent.
        waiting.await.unwrap_or_else(|_| Turn(self.clone()))
    }

    fn next(&self) -> Option<oneshot::Sender<Turn>> {
        let mut state = self.0.lock();
        let next = state.waiting.iter_mut().find_map(VecDeque::pop_front);
        state.taken = next.is_some();
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(next) = self.0.next() {
            // A request that no longer waits drops its turn.
            drop(next.send(Turn(self.0.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn turns_are_ordered_by_rank_then_arrival() {
        use Rank::{Background, Call, Renewal};
        let turns = Turns::default();
        let turn = turns.take(Call).now_or_never().expect("nothing is under way");
        let [mut last, mut gives_up, mut one, mut renewal, mut other] =
            [Background, Call, Call, Renewal, Call].map(|rank| Box::pin(turns.take(rank)));
        for waiting in [&mut last, &mut gives_up, &mut one, &mut renewal, &mut other] {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(turn);
        let turn = renewal.now_or_never().expect("it is the first");
        assert!(gives_up.as_mut().now_or_never().is_none());
        drop((turn, gives_up));
        assert!(other.as_mut().now_or_never().is_none());
        let turn = one.now_or_never().expect("it came before the other");
        drop(turn);
        drop(other.now_or_never().expect("it is a call"));
        drop(last.now_or_never().expect("it is the last"));
        assert!(turns.take(Background).now_or_never().is_some());
    }
}
