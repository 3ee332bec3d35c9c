//! The workers' processes.

use std::{
    io,
    path::PathBuf,
    process::ExitStatus,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock_testkit::child::Child;
use tokio::time::{sleep, timeout};

use crate::{
    event::{Event, Journal},
    primitive::Primitive,
    store::Store,
    worker::{Order, SERVED, STOPPING, WENT_ON},
};

/// What all workers of a run are told.
#[derive(Clone, Debug)]
pub(crate) struct Brief {
    pub(crate) folder: PathBuf,
    pub(crate) namespace: String,
    /// The TTL of each worker, by its number.
    pub(crate) ttls: Vec<Duration>,
    pub(crate) telemetry: bool,
    pub(crate) store: Store,
    pub(crate) primitive: Primitive,
    pub(crate) register: String,
    pub(crate) journal: Journal,
}

/// One worker; when it is killed another one takes its place.
#[derive(Debug)]
pub(crate) struct Place {
    brief: Brief,
    number: usize,
    url: String,
    incarnation: u64,
    running: Running,
}

#[derive(Debug)]
struct Running {
    name: String,
    child: Child,
    said: Arc<Said>,
}

/// How often it has said what.
#[derive(Debug, Default)]
struct Said {
    /// That all who waited were served.
    served: AtomicU64,
    stopping: AtomicU64,
    went_on: AtomicU64,
}

impl Place {
    pub(crate) fn start(brief: Brief, number: usize, url: String) -> io::Result<Self> {
        let running = Running::start(&brief, number, 0, &url)?;
        Ok(Self { brief, number, url, incarnation: 0, running })
    }

    pub(crate) fn name(&self) -> &str {
        &self.running.name
    }

    pub(crate) async fn order(&mut self, order: Order) -> io::Result<()> {
        self.running.child.order(&order.line()).await
    }

    /// Counts the times that it said so.
    pub(crate) fn served(&self) -> u64 {
        self.running.said.served.load(SeqCst)
    }

    /// Lets it stop itself for so long, at the moment that the order names, if that comes within
    /// `patience`.
    pub(crate) async fn stop_itself(
        &mut self,
        order: impl FnOnce(u64) -> Order,
        time: Duration,
        patience: Duration,
    ) -> io::Result<()> {
        let said = Arc::clone(&self.running.said);
        let (stopping, went_on) = (said.stopping.load(SeqCst), said.went_on.load(SeqCst));
        self.order(order(patience.as_millis() as u64)).await?;
        while said.stopping.load(SeqCst) == stopping {
            if said.went_on.load(SeqCst) > went_on {
                return Ok(());
            }
            self.check_lives()?;
            sleep(Duration::from_millis(1)).await;
        }
        self.running.child.stopped().await?;
        self.brief.journal.tell(Event::Stopped { worker: self.name().to_owned() });
        sleep(time).await;
        self.go_on()?;
        while said.went_on.load(SeqCst) == went_on {
            self.check_lives()?;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    fn check_lives(&mut self) -> io::Result<()> {
        match self.running.child.ended()? {
            Some(status) => {
                Err(io::Error::other(format!("{} has ended by itself: {status}", self.name())))
            }
            None => Ok(()),
        }
    }

    pub(crate) async fn stop(&self) -> io::Result<()> {
        self.brief.journal.tell(Event::Stopped { worker: self.name().to_owned() });
        self.running.child.stop().await
    }

    pub(crate) fn go_on(&self) -> io::Result<()> {
        self.running.child.go_on()?;
        self.brief.journal.tell(Event::Continued { worker: self.name().to_owned() });
        Ok(())
    }

    /// Kills it, and waits until nothing of it runs any more.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        if self.running.child.ended()?.is_some() {
            return Err(io::Error::other(format!("{} has ended by itself", self.name())));
        }
        self.running.child.kill().await?;
        self.brief.journal.tell(Event::Exited {
            worker: self.name().to_owned(),
            killed: true,
            clean: true,
        });
        Ok(())
    }

    pub(crate) fn restart(&mut self) -> io::Result<()> {
        self.incarnation += 1;
        self.running = Running::start(&self.brief, self.number, self.incarnation, &self.url)?;
        Ok(())
    }

    /// Lets it finish; kills it if it takes too long.
    pub(crate) async fn finish(mut self, limit: Duration) -> io::Result<()> {
        let _ = self.order(Order::Finish).await;
        let (mut killed, mut clean) = (false, false);
        match timeout(limit, self.running.child.wait()).await {
            Ok(status) => clean = status.as_ref().is_ok_and(ExitStatus::success),
            Err(_) => {
                killed = true;
                self.running.child.kill().await?;
            }
        }
        self.brief.journal.tell(Event::Exited { worker: self.name().to_owned(), killed, clean });
        Ok(())
    }
}

impl Running {
    fn start(brief: &Brief, number: usize, incarnation: u64, url: &str) -> io::Result<Self> {
        let name = format!("worker{number}.{incarnation}");
        let ttl = brief.ttls.get(number).copied().unwrap_or_default();
        let number = ((number as u64 + 1) << 16) + incarnation;
        let errors = std::fs::File::create(brief.folder.join(format!("{name}.stderr")))?;
        let mut command = Child::again()?;
        command
            .arg("--worker")
            .arg(&brief.folder)
            .args([&name, &number.to_string(), url, &brief.namespace])
            .args([&ttl.as_millis().to_string(), &brief.register, &fastrand::u64(..).to_string()])
            .arg(brief.primitive.to_string())
            .args([brief.telemetry.to_string(), brief.store.to_string()])
            .env("RUST_BACKTRACE", "1")
            .stderr(errors);
        let mut child = Child::start(&mut command)?;
        let said = Arc::<Said>::default();
        let counts = Arc::clone(&said);
        child.listen(move |line| {
            let count = match line {
                SERVED => &counts.served,
                STOPPING => &counts.stopping,
                WENT_ON => &counts.went_on,
                _ => return Ok(()),
            };
            count.fetch_add(1, SeqCst);
            Ok(())
        });
        brief.journal.tell(Event::Spawned { worker: name.clone() });
        Ok(Self { name, child, said })
    }
}
