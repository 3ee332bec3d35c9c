//! What a process and the one that started it say to each other: a line each, in turn.

use std::{
    io::{BufRead, Write, stdin, stdout},
    path::Path,
    process::Stdio,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout, Command},
    task::spawn_blocking,
};

use crate::{Result, slice::Slice, task::Role};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    /// So far it is, and waits.
    Mark(String),
    Done(Box<Slice>),
    Failed(String),
}

/// Tells a line, and waits for the answer.
pub(crate) async fn tell(line: Line) -> Result<String> {
    let mut text = serde_json::to_string(&line)?;
    text.push('\n');
    stdout().write_all(text.as_bytes())?;
    stdout().flush()?;
    let answer = spawn_blocking(|| {
        let mut answer = String::new();
        stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await??;
    // The process that started this has ended.
    if answer.is_empty() { Err("nobody answers".into()) } else { Ok(answer.trim().to_owned()) }
}

pub(crate) async fn mark(name: &str) -> Result<String> {
    tell(Line::Mark(name.to_owned())).await
}

/// A process that was started for a role.
#[derive(Debug)]
pub(crate) struct Process {
    child: tokio::process::Child,
    orders: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub(crate) fn start(role: &Role) -> Result<Self> {
        Self::of(&std::env::current_exe()?, role)
    }

    /// Of another build of this program.
    pub(crate) fn of(program: &Path, role: &Role) -> Result<Self> {
        let mut child = Command::new(program)
            .arg("--role")
            .arg(serde_json::to_string(role)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = child.stdin.take().ok_or("no pipe")?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        Ok(Self { child, orders, lines })
    }

    async fn line(&mut self) -> Result<Line> {
        let line = self.lines.next_line().await?.ok_or("the process has ended")?;
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
        Ok(self.orders.write_all(format!("{answer}\n").as_bytes()).await?)
    }

    /// Lets it close what it has open, and waits for that.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.answer("finish").await?;
        self.child.wait().await?;
        Ok(())
    }
}
