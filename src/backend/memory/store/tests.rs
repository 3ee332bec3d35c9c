use std::{
    sync::mpsc,
    task::{Context, Wake, Waker},
    thread,
};

use super::*;
use crate::backend::Ticket;

const TTL: Duration = Duration::from_secs(60);

/// An executor may poll a task as it wakes it, and the task may use the store.
#[test]
fn waker_may_use_the_store() {
    struct Reads(Space, mpsc::Sender<usize>);
    impl Wake for Reads {
        fn wake(self: Arc<Self>) {
            let _ = self.1.send(self.0.keys().len());
        }
    }
    async fn run(change: &str, woken: mpsc::Sender<usize>) {
        let space = Space::named(&format!("waker-uses-it-{change}"));
        let memory = Memory { space: space.clone(), request_timeout: TTL };
        let (_, store) = memory.open(TTL).await.unwrap();
        let (queue, ticket) = (Queue::new("/ns", "a").unwrap(), Ticket::random());
        let joiner = Joiner { queue: &queue, ticket };
        let joined = store.enqueue(joiner, b"", Join::Always).await.unwrap();
        let Joined::Queued { entry, .. } = joined else { panic!("it has joined") };
        let mut watch = store.watch(&entry, true).await.unwrap().unwrap();
        let ask = Ask { watch: true, ..Ask::default() };
        let mut list = store.list(&queue, ask).await.unwrap().watch.unwrap();
        let waker = Waker::from(Arc::new(Reads(space.clone(), woken)));
        let mut context = Context::from_waker(&waker);
        assert!(watch.as_mut().poll(&mut context).is_pending());
        assert!(list.as_mut().poll(&mut context).is_pending());
        match change {
            "delete" => assert!(space.delete(&entry.key)),
            "expire" => assert!(space.expire_session(&entry.key)),
            "advance" => space.advance(TTL),
            "relabel" => {
                let to = queue.labelled("r");
                let to = Joiner { queue: &to, ticket };
                assert!(store.relabel(to, &entry, b"").await.unwrap().is_some());
            }
            _ => store.close().await.unwrap(),
        }
    }
    for change in ["delete", "expire", "advance", "relabel", "close"] {
        let (woken, wakes) = mpsc::channel();
        let (sender, done) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            runtime.unwrap().block_on(run(change, woken));
            sender.send(()).unwrap();
        });
        let ended = done.recv_timeout(Duration::from_secs(20));
        ended.unwrap_or_else(|error| panic!("{change}: {error}"));
        // Both watches have ended. The key still exists if it only has another name.
        let keys = usize::from(change == "relabel");
        assert_eq!(wakes.try_iter().take(2).collect::<Vec<_>>(), [keys, keys], "{change}");
    }
}
