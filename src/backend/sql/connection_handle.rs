//! How a session talks to its server: by a connection that one task owns, and makes again when it
//! is lost.
//!
//! Callers may drop what they wait for at any moment, or leave it unpolled; the task never does.

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

/// How often a transaction that the server undid for others' sake is asked for, if there is time.
const TIMES: u32 = 8;

/// The session's end of it. The task ends with the last clone.
#[derive(Debug)]
pub(crate) struct ConnectionHandle<M> {
    orders: mpsc::UnboundedSender<Order<M>>,
    patience: Duration,
    /// With many requests under way, the library's thread sends them together.
    requests: Weak<()>,
}

#[derive(Debug)]
pub(crate) enum Order<M> {
    Ask(Request<M>),
    /// Of which nobody wants to hear.
    Do(M),
}

impl<M> Order<M> {
    /// It was not sent.
    fn refuse(self, error: &Arc<StoreError>) {
        if let Self::Ask(request) = self {
            request.refuse(error);
        }
    }
}

/// Why a connection is not used any more.
pub(crate) enum Over {
    /// Nobody has anything to ask any more.
    Closed,
    Lost,
    /// The server has fallen silent, or has become one that cannot be written to.
    Useless,
}

/// What is asked for, and what has come while there was no connection.
pub(crate) struct Inbox<M> {
    orders: mpsc::UnboundedReceiver<Order<M>>,
    pub(crate) waiting: VecDeque<Order<M>>,
}

/// One kind of connection.
pub(crate) trait Served: Send + 'static {
    type Message: Clone + Send + 'static;
    type Link: Send + 'static;

    /// To the server that the session is to go on with.
    fn connect(&self) -> impl Future<Output = Result<Self::Link>> + Send;

    /// Does what is asked, as long as the connection lasts.
    fn serve(
        &mut self,
        link: Self::Link,
        inbox: &mut Inbox<Self::Message>,
    ) -> impl Future<Output = Over> + Send;

    /// The connection is gone. `useless`: begin with another server.
    fn lost(&self, useless: bool);
}

impl<M: Clone + Send + 'static> ConnectionHandle<M> {
    pub(crate) fn start<S: Served<Message = M>>(
        served: S,
        link: S::Link,
        patience: Duration,
    ) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        // What a caller asks for is written by its own thread.
        let inline = Inline::new(Executor::here());
        let requests = inline.requests();
        inline.spawn(run(served, link, Inbox { orders: inbox, waiting: VecDeque::new() }));
        Self { orders, patience, requests }
    }

    /// Asks for one transaction.
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
        // Should the task be gone, the reply is dropped, which is noticed below.
        drop(self.orders.send(Order::Ask(request)));
        // What is sent is given its time by the task: this is for what is not.
        let answered = timeout(self.patience * 2, answer).await;
        Err(Verdict::Failed(match answered {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) | Err(_) if stage.give_up() => {
                StoreError::Unavailable("there is no connection".into())
            }
            Ok(Err(_)) => StoreError::Unknown("the connection was lost".into()),
            Err(late) => StoreError::Unknown(late.into()),
        }))
    }

    /// How long one request may take.
    #[cfg(feature = "postgres")]
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Has something done in the background, if there is a connection.
    pub(crate) fn order(&self, message: M) {
        // The task has gone only if nothing is to be done any more.
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
    /// `None`: nobody asks any more.
    pub(crate) async fn next(&mut self) -> Option<Order<M>> {
        self.orders.recv().await
    }

    /// All that has come.
    pub(crate) fn collect(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.waiting.push_back(order);
        }
    }

    /// Does this, and keeps what is asked meanwhile. `None`: nobody asks any more.
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

    /// Until the next attempt to connect, those who ask are told why there is no connection.
    /// `false`: nobody asks any more.
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

    /// Tells which thread has taken a request, and answers it.
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
    async fn request_is_sent_by_its_callers_thread() {
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
