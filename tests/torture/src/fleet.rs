//! The workers' processes.

use std::{process::ExitStatus, time::Duration};

use distlock_testkit::{
    Result,
    child::Child,
    fleet::{Fleet, Worker},
};
use tokio::time::{sleep, timeout};

use crate::{
    event::{Event, Journal},
    worker::{Order, SERVED, STOPPING, Task, WENT_ON},
};

/// The place of a worker. When the worker is killed, another one replaces it.
#[derive(Debug)]
pub(crate) struct Place {
    task: Task,
    journal: Journal,
    running: Worker,
}

impl Place {
    pub(crate) fn start(task: Task, journal: Journal) -> Result<Self> {
        let running = start(&task, &journal)?;
        Ok(Self { task, journal, running })
    }

    pub(crate) fn name(&self) -> &str {
        &self.running.name
    }

    pub(crate) async fn order(&mut self, order: Order) -> Result<()> {
        self.running.tell(&serde_json::to_string(&order)?).await
    }

    /// Returns how often the worker has reported this.
    pub(crate) fn served(&self) -> usize {
        self.running.count(SERVED)
    }

    /// Makes the worker stop itself for `time` at the event that the order names, if that happens
    /// within `time_limit`.
    pub(crate) async fn stop_itself(
        &mut self,
        order: impl FnOnce(u64) -> Order,
        time: Duration,
        time_limit: Duration,
    ) -> Result<()> {
        self.order(order(time_limit.as_millis() as u64)).await?;
        if self.running.until_one(&[STOPPING, WENT_ON]).await?.word == WENT_ON {
            return Ok(());
        }
        self.running.child.stopped().await?;
        self.journal.record(Event::Stopped { worker: self.name().to_owned() });
        sleep(time).await;
        self.go_on()?;
        self.running.until(WENT_ON).await.map(drop)
    }

    pub(crate) async fn stop(&self) -> Result<()> {
        self.journal.record(Event::Stopped { worker: self.name().to_owned() });
        Ok(self.running.child.stop().await?)
    }

    pub(crate) fn go_on(&self) -> Result<()> {
        self.running.child.go_on()?;
        self.journal.record(Event::Continued { worker: self.name().to_owned() });
        Ok(())
    }

    /// Kills the worker, and waits until nothing of it runs.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        if self.running.child.ended()?.is_some() {
            return Err(format!("{} has ended by itself", self.name()).into());
        }
        self.running.child.kill().await?;
        self.exited(true, true);
        Ok(())
    }

    pub(crate) fn restart(&mut self) -> Result<()> {
        (self.task.number, self.task.seed) = (self.task.number + 1, fastrand::u64(..));
        self.running = start(&self.task, &self.journal)?;
        Ok(())
    }

    /// Lets the worker finish. Kills it if it takes longer than `limit`.
    pub(crate) async fn finish(mut self, limit: Duration) -> Result<()> {
        let _ = self.order(Order::Finish).await;
        let (mut killed, mut clean) = (false, false);
        match timeout(limit, self.running.child.wait()).await {
            Ok(status) => clean = status.as_ref().is_ok_and(ExitStatus::success),
            Err(_) => {
                killed = true;
                self.running.child.kill().await?;
            }
        }
        self.exited(killed, clean);
        Ok(())
    }

    fn exited(&self, killed: bool, clean: bool) {
        self.journal.record(Event::Exited { worker: self.name().to_owned(), killed, clean });
    }
}

fn start(task: &Task, journal: &Journal) -> Result<Worker> {
    let name = task.name();
    let errors = std::fs::File::create(task.folder.join(format!("{name}.stderr")))?;
    let mut command = Child::again()?;
    command.args(["--worker", &serde_json::to_string(task)?]);
    let worker =
        Fleet::default().start(&name, command.env("RUST_BACKTRACE", "1").stderr(errors))?;
    journal.record(Event::Spawned { worker: name });
    Ok(worker)
}
