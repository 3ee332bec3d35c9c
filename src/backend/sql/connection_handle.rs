//! Connects a session to its server: one task owns the connection, and reconnects when it is lost.
//!
//! Callers may drop their futures at any moment, or stop polling them. The task never does.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use super::{
    asking::{Request, Verdict},
    outcome::Outcome,
};
use crate::{
    backend::{Result, StoreError, stage::Stage},
    runtime::{
        backoff,
        clock::{Instant, sleep, timeout},
        executor::Executor,
        inline::Inline,
    },
};

/// The number of attempts for a transaction that the server keeps rolling back, if time permits.
const TIMES: u32 = 8;

/// The session's handle to the task, which ends with the last clone.
#[derive(Debug)]
pub(crate) struct ConnectionHandle<M> {
    orders: mpsc::UnboundedSender<Order<M>>,
    patience: Duration,
    /// With many pending requests, the library's thread sends them together.
    requests: Weak<()>,
}

#[derive(Debug)]
pub(crate) enum Order<M> {
    Ask(Request<M>),
    /// A message whose reply nothing waits for.
    Do(M),
}

impl<M> Order<M> {
    /// Fails an order that was not sent.
    fn refuse(self, error: &Arc<StoreError>) {
        if let Self::Ask(request) = self {
            request.refuse(error);
        }
    }
}

/// Why the task stopped using a connection.
pub(crate) enum Over {
    /// All handles were dropped.
    Closed,
    Lost,
    /// The server does not reply, or has become read-only.
    Useless,
}

/// The orders, including those that arrived while there was no connection.
pub(crate) struct Inbox<M> {
    orders: mpsc::UnboundedReceiver<Order<M>>,
    pub(crate) waiting: VecDeque<Order<M>>,
}

/// One kind of connection.
pub(crate) trait Served: Send + 'static {
    type Message: Clone + Send + 'static;
    type Link: Send + 'static;

    /// Connects to the server that the session continues on.
    fn connect(&self) -> impl Future<Output = Result<Self::Link>> + Send;

    /// Serves the orders for as long as the connection lasts.
    fn serve(
        &mut self,
        link: Self::Link,
        inbox: &mut Inbox<Self::Message>,
    ) -> impl Future<Output = Over> + Send;

    /// Records that the connection was lost. `useless`: try another server first.
    fn lost(&self, useless: bool);
}

impl<M: Clone + Send + 'static> ConnectionHandle<M> {
    pub(crate) fn start<S: Served<Message = M>>(
        served: S,
        link: S::Link,
        patience: Duration,
    ) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        // The caller's own thread writes its requests.
        let inline = Inline::new(Executor::here());
        let requests = inline.requests();
        inline.spawn(run(served, link, Inbox { orders: inbox, waiting: VecDeque::new() }));
        Self { orders, patience, requests }
    }

    /// Runs one transaction.
    pub(crate) async fn ask(&self, operation: &'static str, message: M) -> Result<Vec<Outcome>> {
        let (mut tries, began) = (0, Instant::now());
        loop {
            match self.ask_once(operation, message.clone()).await {
                Ok(outcomes) => return Ok(outcomes),
                Err(Verdict::Failed(error)) => return Err(error),
                Err(Verdict::Again(reason))
                    if tries + 1 == TIMES || began.elapsed() > self.patience =>
                {
                    return Err(StoreError::Unavailable(reason.into()));
                }
                Err(Verdict::Again(_)) => sleep(backoff(tries) / 4).await,
            }
            tries += 1;
        }
    }

    async fn ask_once(&self, operation: &'static str, message: M) -> Result<Vec<Outcome>, Verdict> {
        let (reply, answer) = oneshot::channel();
        let stage = Arc::<Stage>::default();
        let _counted = self.requests.upgrade();
        let request = Request { operation, message, stage: Arc::clone(&stage), reply, _counted };
        // If the task has ended, the reply is dropped, and the wait below fails.
        drop(self.orders.send(Order::Ask(request)));
        // The task limits the time of requests that it has sent. This limit is for the others.
        let answered = timeout(self.patience * 2, answer).await;
        Err(Verdict::Failed(match answered {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) | Err(_) if stage.give_up() => StoreError::Unavailable(
                "the request was not sent: the client is not connected to the server, or earlier \
                 requests are still in progress"
                    .into(),
            ),
            Ok(Err(_)) => StoreError::Unknown("the connection was lost".into()),
            Err(late) => StoreError::Unknown(late.into()),
        }))
    }

    /// Returns the time limit of one request.
    #[cfg(feature = "postgres")]
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Starts a request in the background if there is a connection.
    pub(crate) fn order(&self, message: M) {
        // Fails only if the task has ended, and with it the session.
        drop(self.orders.send(Order::Do(message)));
    }
}

impl<M> Clone for ConnectionHandle<M> {
    fn clone(&self) -> Self {
        let (orders, requests) = (self.orders.clone(), Weak::clone(&self.requests));
        Self { orders, patience: self.patience, requests }
    }
}

impl<M> Inbox<M> {
    /// Returns the next order, or `None` if all handles were dropped.
    pub(crate) async fn next(&mut self) -> Option<Order<M>> {
        self.orders.recv().await
    }

    /// Collects the orders that have arrived.
    pub(crate) fn collect(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.waiting.push_back(order);
        }
    }

    /// Runs `work` and keeps the orders that arrive during it. `None`: all handles were dropped.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                order = self.orders.recv() => self.waiting.push_back(order?),
            }
        }
    }

    /// Fails all requests with `error` until the next attempt to connect. `false`: all handles were
    /// dropped.
    async fn pause(&mut self, time: Duration, error: &Arc<StoreError>) -> bool {
        self.waiting.drain(..).for_each(|order| order.refuse(error));
        let mut over = pin!(sleep(time));
        loop {
            tokio::select! {
                biased;
                () = &mut over => return true,
                order = self.orders.recv() => match order {
                    None => return false,
                    Some(order) => order.refuse(error),
                }
            }
        }
    }
}

async fn run<S: Served>(mut served: S, link: S::Link, mut inbox: Inbox<S::Message>) {
    let (mut link, mut failures) = (Some(link), 0);
    loop {
        let connected = match link.take() {
            Some(link) => Ok(link),
            None => match inbox.during(served.connect()).await {
                Some(connected) => connected,
                None => return,
            },
        };
        match connected {
            Ok(connected) => {
                failures = 0;
                let over = served.serve(connected, &mut inbox).await;
                if matches!(over, Over::Closed) {
                    return;
                }
                served.lost(matches!(over, Over::Useless));
            }
            Err(error) => {
                if !inbox.pause(backoff(failures), &Arc::new(error)).await {
                    return;
                }
                failures += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc as std_mpsc, thread::ThreadId};

    use super::*;
    use crate::runtime::Runtime;

    /// Answers requests, and reports the thread that took each one.
    struct Telling(std_mpsc::Sender<ThreadId>);

    impl Served for Telling {
        type Message = ();
        type Link = ();

        async fn connect(&self) -> Result<()> {
            Ok(())
        }

        async fn serve(&mut self, (): (), inbox: &mut Inbox<()>) -> Over {
            while let Some(order) = inbox.next().await {
                let Order::Ask(request) = order else { continue };
                let _ = self.0.send(std::thread::current().id());
                request.answer(Ok(Vec::new()));
            }
            Over::Closed
        }

        fn lost(&self, _: bool) {}
    }

    #[tokio::test]
    async fn request_is_written_on_the_callers_thread() {
        let (sender, receiver) = std_mpsc::channel();
        let (runtime, patience) = (Runtime::own().unwrap(), Duration::from_secs(20));
        let asked = runtime.within(async {
            let handle = ConnectionHandle::start(Telling(sender), (), patience);
            // The task has begun by then.
            tokio::task::yield_now().await;
            for _ in 0..3 {
                handle.ask("test", ()).await.unwrap();
            }
            Ok(())
        });
        asked.await.unwrap();
        let by: Vec<_> = receiver.try_iter().collect();
        assert_eq!(by, [std::thread::current().id(); 3]);
    }
}
