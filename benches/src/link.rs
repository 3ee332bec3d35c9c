//! The messages between a process and the one that started it: lines in turn.

use std::path::Path;

use distlock_testkit::{
    child::Child,
    clock::now,
    orders::{next_order, say},
};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::{Result, slice::Slice, task::Role};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// The process has reached this mark, and waits.
    Mark(String),
    Done(Box<Slice>),
    Failed(String),
}

/// Sends a line, and waits for the reply.
pub(crate) async fn tell(line: Line) -> Result<String> {
    say(&serde_json::to_string(&line)?)?;
    next_order().await?.ok_or_else(|| "the conducting process does not reply".into())
}

pub(crate) async fn mark(name: &str) -> Result<String> {
    tell(Line::Mark(name.to_owned())).await
}

/// What a process runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program<'a> {
    /// A build of this program.
    Build(&'a Path),
    /// Another program with the same protocol, in a container.
    Contained { container: &'a str, name: &'a str },
}

/// A process that was started for a role.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(role: &Role) -> Result<Self> {
        Self::of(Program::Build(&std::env::current_exe()?), role)
    }

    pub(crate) fn of(program: Program<'_>, role: &Role) -> Result<Self> {
        let role = serde_json::to_string(role)?;
        let mut command = match program {
            Program::Build(path) => Command::new(path),
            Program::Contained { container, name } => {
                let mut command = Command::new("docker");
                command.args(["exec", "--interactive", container, name]);
                command
            }
        };
        Ok(Self(Child::start(command.args(["--role", &role]))?))
    }

    async fn line(&mut self) -> Result<Line> {
        let line = self.0.line().await?.ok_or("the process has ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Its next mark.
    pub(crate) async fn mark(&mut self) -> Result<String> {
        match self.line().await? {
            Line::Mark(name) => Ok(name),
            Line::Failed(error) => Err(error.into()),
            Line::Done(_) => Err("done too early".into()),
        }
    }

    pub(crate) async fn done(&mut self) -> Result<Slice> {
        match self.line().await? {
            Line::Done(slice) => Ok(*slice),
            Line::Failed(error) => Err(error.into()),
            Line::Mark(name) => Err(format!("still at {name}").into()),
        }
    }

    pub(crate) async fn answer(&mut self, answer: &str) -> Result<()> {
        Ok(self.0.order(answer).await?)
    }

    /// Lets it close its connections, and waits for that.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.answer("finish").await?;
        self.0.wait().await?;
        Ok(())
    }
}

/// Several processes of one kind, in turn with the conducting one.
#[derive(Debug)]
pub(crate) struct Together(Vec<Process>);

/// Until all processes of a measurement have received the order to begin.
const NOTICE: u64 = 20_000_000;

impl Together {
    /// Waits until all are ready.
    pub(crate) async fn start(program: Program<'_>, roles: &[Role]) -> Result<Self> {
        let mut processes = Vec::new();
        for role in roles {
            processes.push(Process::of(program, role)?);
        }
        for process in &mut processes {
            process.mark().await?;
        }
        Ok(Self(processes))
    }

    /// Lets all begin at the same time, a moment later; returns that time.
    pub(crate) async fn begin(&mut self) -> Result<u64> {
        let start = now() + NOTICE;
        for process in &mut self.0 {
            process.answer(&start.to_string()).await?;
        }
        Ok(start)
    }

    /// The results of all of them.
    pub(crate) async fn done(&mut self) -> Result<Slice> {
        let mut whole = Slice::default();
        for (place, process) in self.0.iter_mut().enumerate() {
            let mut slice = process.done().await?;
            slice.stamps.iter_mut().for_each(|stamp| stamp.process = place);
            whole.absorb(slice);
        }
        Ok(whole)
    }

    pub(crate) async fn finish(self) -> Result<()> {
        for process in self.0 {
            process.finish().await?;
        }
        Ok(())
    }
}
