//! The workers of a rollout.

use std::{path::Path, time::Duration};

use distlock_testkit::{Result, child::Child, clock::now};
use tokio::{
    process::Command,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    args::Task,
    check::{History, Origin, Stage},
    told::Told,
};

/// Until somebody is granted something, or a worker has finished; killed ones keep the others out
/// for some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Fleet<'a> {
    task: &'a Task,
    workers: Vec<Worker>,
    sender: UnboundedSender<(usize, Told)>,
    receiver: UnboundedReceiver<(usize, Told)>,
    pub(crate) history: History,
}

struct Worker {
    number: usize,
    child: Child,
    reader: JoinHandle<Result<()>>,
}

impl<'a> Fleet<'a> {
    pub(crate) fn new(task: &'a Task) -> Self {
        let (sender, receiver) = unbounded_channel();
        Self { task, workers: Vec::new(), sender, receiver, history: History::default() }
    }

    pub(crate) fn start(&mut self, program: &Path, new: bool) -> Result<()> {
        let Task { url, namespace, primitive } = self.task;
        let arguments = [url, "--worker", namespace, "--primitive", primitive.name()];
        let mut child = Child::start(Command::new(program).args(arguments))?;
        let number = self.history.workers.len();
        self.history.workers.push(Origin { new, killed: None });
        let sender = self.sender.clone();
        let reader = child.listen(move |line| {
            let told = Told::parse(line).ok_or_else(|| format!("worker {number} said {line:?}"))?;
            Ok(sender.send((number, told))?)
        });
        self.workers.push(Worker { number, child, reader });
        Ok(())
    }

    /// The next grant's worker.
    async fn grant(&mut self) -> Result<usize> {
        loop {
            let (worker, told) = timeout(PATIENCE, self.receiver.recv())
                .await
                .map_err(|_| format!("nobody did anything for {PATIENCE:?}"))?
                .ok_or("all have gone")?;
            let granted = matches!(told, Told::Grant { .. });
            self.history.told.push((worker, told));
            if granted {
                return Ok(worker);
            }
        }
    }

    /// Waits until each worker has been granted something.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        let mut missing: Vec<_> = self.workers.iter().map(|worker| worker.number).collect();
        while !missing.is_empty() {
            let worker = self.grant().await?;
            missing.retain(|number| *number != worker);
        }
        Ok(())
    }

    /// Lets them be for so many grants.
    pub(crate) async fn stay(&mut self, grants: usize) -> Result<()> {
        let new =
            self.workers.iter().filter(|worker| self.history.workers[worker.number].new).count();
        let begin = now();
        for _ in 0..grants {
            self.grant().await?;
        }
        self.history.stages.push(Stage { begin, end: now(), old: self.workers.len() - new, new });
        Ok(())
    }

    /// Lets the oldest one finish.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        let mut worker = self.workers.remove(0);
        worker.child.hang_up();
        let ended = timeout(PATIENCE, worker.child.wait()).await;
        let status = ended.map_err(|_| format!("worker {} does not finish", worker.number))??;
        worker.reader.await??;
        if status.success() {
            Ok(())
        } else {
            Err(format!("worker {}: {status}", worker.number).into())
        }
    }

    /// Kills the oldest one, once it has been granted something.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        let mut worker = self.workers.remove(0);
        while self.grant().await? != worker.number {}
        self.history.workers[worker.number].killed = Some(now());
        worker.child.kill().await?;
        worker.reader.await?
    }

    /// Lets all finish, one after the other.
    pub(crate) async fn end(&mut self) -> Result<()> {
        while !self.workers.is_empty() {
            self.finish().await?;
        }
        while let Ok(told) = self.receiver.try_recv() {
            self.history.told.push(told);
        }
        Ok(())
    }
}
