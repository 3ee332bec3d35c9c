//! The workers of a rollout.

use std::path::Path;

use distlock_testkit::{
    Result,
    clock::now,
    fleet::{Fleet, Worker},
    history::Log,
};
use tokio::process::Command;

use crate::{args::Task, check::Stage};

pub(crate) struct Contest<'a> {
    task: &'a Task,
    workers: Vec<Worker>,
    retired: Vec<Worker>,
    fleet: Fleet,
    /// How much of the log has been read.
    heard: usize,
    pub(crate) seen: Seen,
}

/// Everything that was seen in a rollout.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) log: Log,
    /// The workers' names, by number.
    pub(crate) names: Vec<String>,
    /// Whether each worker is built against the new library.
    pub(crate) new: Vec<bool>,
    pub(crate) stages: Vec<Stage>,
}

impl<'a> Contest<'a> {
    pub(crate) fn new(task: &'a Task) -> Self {
        let (fleet, seen) = (Fleet::default(), Seen::default());
        Self { task, workers: Vec::new(), retired: Vec::new(), fleet, heard: 0, seen }
    }

    pub(crate) fn start(&mut self, program: &Path, new: bool) -> Result<()> {
        let Task { url, namespace, primitive, hold } = self.task;
        let (primitive, hold) = (primitive.to_string(), hold.to_string());
        let arguments = [url, "--worker", namespace, "--primitive", &primitive, "--hold", &hold];
        let name = format!("worker {}", self.seen.new.len());
        self.seen.new.push(new);
        self.workers.push(self.fleet.start(&name, Command::new(program).args(arguments))?);
        Ok(())
    }

    /// Returns the worker of the next grant.
    async fn grant(&mut self) -> Result<usize> {
        let (worker, heard) = self.fleet.next("grant", self.heard).await?;
        self.heard = heard;
        Ok(worker)
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

    /// Waits for a number of grants.
    pub(crate) async fn stay(&mut self, grants: usize) -> Result<()> {
        let new = self.workers.iter().filter(|worker| self.seen.new[worker.number]).count();
        let begin = now();
        for _ in 0..grants {
            self.grant().await?;
        }
        self.seen.stages.push(Stage { begin, end: now(), old: self.workers.len() - new, new });
        Ok(())
    }

    /// Lets the oldest worker finish.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        self.workers.remove(0).end().await
    }

    /// Kills the oldest worker, once it has been granted a lock.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        let worker = self.workers.remove(0);
        while self.grant().await? != worker.number {}
        worker.kill().await.map(drop)
    }

    /// Expects no more grants of the present workers.
    pub(crate) fn retire(&mut self) {
        self.retired.append(&mut self.workers);
    }

    /// Lets all workers finish, one after the other.
    pub(crate) async fn end(mut self) -> Result<Seen> {
        self.workers.append(&mut self.retired);
        while !self.workers.is_empty() {
            self.finish().await?;
        }
        let Fleet { names, .. } = &self.fleet;
        Ok(Seen { log: self.fleet.log(), names: names.clone(), ..self.seen })
    }
}
