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

/// The right to send a request, until it is dropped. `None`: it was passed on.
#[derive(Debug)]
pub(super) struct Turn(Option<Turns>);

impl Turns {
    pub(super) async fn take(&self, rank: Rank) -> Turn {
        let waiting = {
            let mut state = self.0.lock();
            if !state.taken {
                state.taken = true;
                return Turn(Some(self.clone()));
            }
            let (sender, waiting) = oneshot::channel();
            state.waiting[rank as usize].push_back(sender);
            waiting
        };
        // No sender is dropped before it has sent.
        waiting.await.unwrap_or_else(|_| Turn(Some(self.clone())))
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
        let Some(turns) = self.0.take() else { return };
        // Not by recursion: a lost connection drops thousands of waiting requests.
        while let Some(next) = turns.next() {
            match next.send(Self(Some(turns.clone()))) {
                Ok(()) => return,
                // The request no longer waits.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Wake, Waker},
    };

    use futures_util::FutureExt;

    use super::*;

    /// Counts the references to the state when it is woken. Each turn has one.
    struct Counting {
        turns: Turns,
        counted: AtomicUsize,
    }

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.counted.store(Arc::strong_count(&self.turns.0), Ordering::Relaxed);
        }
    }

    /// A lost connection drops the newest request first, and the request that has the turn last.
    #[test]
    fn dropped_requests_pass_the_turn_on_without_recursion() {
        let turns = Turns::default();
        let turn = turns.take(Rank::Call).now_or_never().expect("nothing is under way");
        let mut dropped: Vec<_> = (0..100).map(|_| Box::pin(turns.take(Rank::Call))).collect();
        for request in &mut dropped {
            assert!(request.as_mut().now_or_never().is_none());
        }
        let counting = Counting { turns: turns.clone(), counted: AtomicUsize::new(0) };
        let counting = Arc::new(counting);
        let waker = Waker::from(Arc::clone(&counting));
        let mut last = Box::pin(turns.take(Rank::Call));
        assert!(last.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(dropped);
        drop(turn);
        let counted = counting.counted.load(Ordering::Relaxed);
        assert!((1..10).contains(&counted), "{counted}");
        assert!(last.now_or_never().is_some());
    }

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
