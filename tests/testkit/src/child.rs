//! Child processes, most of them copies of this program.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{self, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::sleep,
};

use crate::Result;

/// The interval between checks of a process that is about to stop.
const INTERVAL: Duration = Duration::from_millis(1);

/// A process that writes lines and reads lines. It is killed on drop. If this process is killed
/// first, the child reads the end of its orders.
#[derive(Debug)]
pub struct Child {
    process: process::Child,
    orders: Option<ChildStdin>,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Child {
    /// Returns the command that starts this program again.
    pub fn again() -> io::Result<Command> {
        Ok(Command::new(std::env::current_exe()?))
    }

    /// Starts a program, with its standard input and output piped.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.kill_on_drop(true).spawn()?;
        let (orders, output) = (process.stdin.take(), process.stdout.take());
        Ok(Self { process, orders, lines: output.map(|output| BufReader::new(output).lines()) })
    }

    /// Sends an order, one line.
    pub async fn order(&mut self, order: &str) -> io::Result<()> {
        let orders = self.orders.as_mut().ok_or_else(|| io::Error::other("its input is closed"))?;
        orders.write_all(format!("{order}\n").as_bytes()).await
    }

    /// Closes the input: there are no more orders.
    pub fn hang_up(&mut self) {
        self.orders = None;
    }

    /// Returns the next line, or `None` at the end of the output.
    pub async fn line(&mut self) -> io::Result<Option<String>> {
        let lines =
            self.lines.as_mut().ok_or_else(|| io::Error::other("its output has another reader"))?;
        lines.next_line().await
    }

    /// Returns the first result of `read` on the lines.
    pub async fn until<T>(&mut self, mut read: impl FnMut(&str) -> Option<T>) -> Result<T> {
        while let Some(line) = self.line().await? {
            if let Some(found) = read(&line) {
                return Ok(found);
            }
        }
        Err("the process has ended".into())
    }

    /// Passes all further lines to `hear`, up to the end of the output or the first error.
    pub fn listen(
        &mut self,
        mut hear: impl FnMut(&str) -> Result<()> + Send + 'static,
    ) -> JoinHandle<Result<()>> {
        let lines = self.lines.take();
        tokio::spawn(async move {
            let mut lines = lines.ok_or("its output has another reader")?;
            while let Some(line) = lines.next_line().await? {
                hear(&line)?;
            }
            Ok(())
        })
    }

    /// Returns the process id. Fails if the process has ended.
    pub fn id(&self) -> io::Result<Pid> {
        let id = self.process.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        id.ok_or_else(ended)
    }

    /// Stops the process, and returns when none of its threads runs.
    pub async fn stop(&self) -> io::Result<()> {
        kill_process(self.id()?, Signal::STOP)?;
        self.stopped().await
    }

    /// Waits until the process is stopped and none of its threads runs.
    pub async fn stopped(&self) -> io::Result<()> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED;
        // Only peeks, so that the process can still be waited for.
        let options = options | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        loop {
            match waitid(WaitId::Pid(self.id()?), options)? {
                Some(status) if status.stopped() => return Ok(()),
                Some(_) => return Err(ended()),
                None => sleep(INTERVAL).await,
            }
        }
    }

    /// Resumes the process after a stop.
    pub fn go_on(&self) -> io::Result<()> {
        Ok(kill_process(self.id()?, Signal::CONT)?)
    }

    /// Returns the exit status if the process has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    /// Waits until the process has ended. It may still get orders until then.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Kills the process, and returns when nothing of it runs.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.process.kill().await
    }
}

fn ended() -> io::Error {
    io::Error::other("the process has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Child::start(Command::new("sh").args(["-c", script])).expect("there is a shell")
    }

    #[tokio::test]
    async fn child_replies_to_orders() {
        let mut child = shell("while read -r order; do echo \"heard $order\"; done; echo end");
        child.order("one").await.expect("the child reads");
        assert_eq!(child.line().await.expect("a line").as_deref(), Some("heard one"));
        child.order("two").await.expect("the child reads");
        child.hang_up();
        assert!(child.order("three").await.is_err());
        let said = child.until(|line| line.strip_prefix("e").map(str::to_owned)).await;
        assert_eq!(said.expect("a line"), "nd");
        assert!(child.until(|_| Some(())).await.is_err(), "the child has ended");
        assert!(child.wait().await.expect("the child ends").success());
    }

    #[tokio::test]
    async fn lines_are_passed_on_up_to_the_first_error() {
        let mut child = shell("echo 1; echo 2; echo x; echo 4");
        let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let hearing = child.listen(move |line| Ok(sender.send(line.parse::<u8>()?)?));
        assert!(hearing.await.expect("no panic").is_err());
        assert_eq!([heard.recv().await, heard.recv().await], [Some(1), Some(2)]);
        assert_eq!(heard.recv().await, None);
        assert!(child.line().await.is_err(), "the output has another reader");
    }

    #[tokio::test]
    async fn process_stops_and_resumes() {
        let mut child = shell("read -r order; echo \"$order\"");
        for _ in 0..2 {
            child.stop().await.expect("stopped");
            child.go_on().expect("resumed");
        }
        child.order("go").await.expect("the child reads");
        assert_eq!(child.line().await.expect("a line").as_deref(), Some("go"));
        while child.ended().expect("a status").is_none() {
            sleep(INTERVAL).await;
        }
        assert!(child.stop().await.is_err(), "the child has ended");
    }
}
