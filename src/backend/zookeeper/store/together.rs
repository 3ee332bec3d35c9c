//! One list of a queue for all waiters of a session that need one at the same time.
//!
//! Readers behind a writer all list the queue when they join and when the writer leaves. Separate
//! lists would be as many as the names in each of them, and would precede the session's keepalive
//! on the same connection.
//!
//! No caller owns a list. Any waiter that is polled drives it, so a caller that is not polled does
//! not delay the others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};

use super::ZooKeeperStore;
use crate::{
    backend::{Ask, Listing, Member, Result},
    runtime::mutex::Mutex,
};

/// How many queues are remembered before those with finished lists are forgotten.
const REMEMBERED: usize = 64;

/// The pending lists, by directory.
#[derive(Debug, Default)]
pub(super) struct Lists(Mutex<HashMap<Box<str>, Flight>>);

/// A list that is pending, or waits for the previous one. Only its waiters keep it alive.
#[derive(Debug)]
struct Flight {
    /// Whether it may have been requested.
    begun: Arc<AtomicBool>,
    list: WeakShared<Request>,
}

type Request = BoxFuture<'static, Listed>;

/// The result of a list. `None`: it failed, and each waiter must find out why.
type Listed = Option<Arc<(Vec<Member>, Vec<Box<str>>)>>;

impl Lists {
    /// Returns the list of this directory that is requested after this call.
    fn next(&self, dir: &str, list: impl FnOnce() -> Request) -> Shared<Request> {
        let mut lists = self.0.lock();
        let before =
            lists.get(dir).and_then(|Flight { begun, list }| Some((begun, list.upgrade()?)));
        let before = match before {
            Some((begun, list)) if !begun.load(Ordering::SeqCst) => return list,
            before => before.map(|(_, list)| list),
        };
        if lists.len() >= REMEMBERED {
            lists.retain(|_, flight| flight.list.upgrade().is_some());
        }
        let (begun, list) = (Arc::new(AtomicBool::new(false)), list());
        let beginning = Arc::clone(&begun);
        let list = async move {
            if let Some(before) = before {
                before.await;
            }
            beginning.store(true, Ordering::SeqCst);
            list.await
        };
        let list = list.boxed().shared();
        if let Some(weak) = list.downgrade() {
            lists.insert(dir.into(), Flight { begun, list: weak });
        }
        list
    }
}

impl ZooKeeperStore {
    /// Returns a list that is requested after this call, perhaps by another caller. So it has every
    /// own key that the caller knows, which an earlier list might lack.
    pub(super) async fn listed(&self, dir: &str) -> Result<Listing> {
        let list = || {
            let (this, dir) = (Weak::clone(&self.this), dir.to_owned());
            async move {
                let listing = this.upgrade()?.listing(&dir, Ask::default()).await.ok()?;
                Some(Arc::new((listing.members, listing.notes)))
            }
            .boxed()
        };
        let list = self.lists.next(dir, list);
        // The previous list may take as long as a request.
        let listed = self.reply_within(self.request_timeout * 2, list).await?;
        let Some(listed) = listed else { return self.listing(dir, Ask::default()).await };
        let (members, notes) = &*listed;
        let (members, notes) = (members.clone(), notes.clone());
        Ok(Listing { members, notes, ..Listing::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::ready,
        pin::pin,
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        task::{Context, Waker},
        time::Duration,
    };

    use futures_util::future::join_all;
    use tokio::task::yield_now;

    use super::*;
    use crate::{
        backend::zookeeper::tests::script::{Answer, GET_CHILDREN2, Server},
        runtime::clock,
    };

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn waiters_share_a_list_requested_after_theirs() {
        // The first list gets no reply before the others have requested theirs: it may lack their
        // keys.
        let (lists, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
        let (counted, waited) = (Arc::clone(&lists), Arc::clone(&asked));
        let server = Server::start(move |kind| {
            if kind == GET_CHILDREN2 && counted.fetch_add(1, SeqCst) == 0 {
                waited.wait();
            }
            Answer::Nothing
        })
        .await;
        let backend = server.backend();
        let client = backend.connect(Duration::from_secs(10)).await.unwrap();
        let store = ZooKeeperStore::new(&backend, client, clock::now());
        let mut listing = pin!(join_all((0..10).map(|_| store.listed("/ns/a"))));
        tokio::select! {
            biased;
            _ = &mut listing => panic!("the first list is not answered yet"),
            () = ready(()) => {}
        }
        asked.wait();
        for listing in listing.await {
            assert!(listing.unwrap().members.is_empty());
        }
        assert_eq!(lists.load(SeqCst), 2);
        for number in 0..REMEMBERED * 2 {
            drop(store.lists.next(&format!("/ns/{number}"), || ready(None).boxed()));
        }
        assert!(store.lists.0.lock().len() <= REMEMBERED, "lists that are done are forgotten");
    }

    #[test]
    fn callers_that_are_not_polled_hold_up_no_other() {
        let (lists, requests) = (Lists::default(), Arc::new(AtomicUsize::new(0)));
        let poll = |list: &mut Shared<Request>| {
            list.poll_unpin(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        // Each request takes two polls.
        let request = || {
            let requests = Arc::clone(&requests);
            async move {
                requests.fetch_add(1, SeqCst);
                yield_now().await;
                None
            }
            .boxed()
        };
        let mut left = lists.next("/ns/a", request);
        assert!(!poll(&mut left), "it is requested, and then left alone");
        let mut second = lists.next("/ns/a", request);
        let mut third = lists.next("/ns/a", request);
        let polls = (0..4).position(|_| poll(&mut second));
        assert!(polls.is_some(), "the one that is polled drives the list before its own");
        assert!(poll(&mut third) && requests.load(SeqCst) == 2, "two shared the second list");
        drop((left, second, third));
        assert!(
            !poll(&mut lists.next("/ns/a", request)),
            "a list that is done serves no later call"
        );
        assert_eq!(requests.load(SeqCst), 3);
    }
}
