//! The side of `distlock` in its connection to the guardian.

use std::{
    ffi::OsString,
    io::{self, IoSlice, Write, stdin},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream as StdStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{Pid, Signal},
};
use tokio::{io::AsyncReadExt, net::UnixStream};

use crate::{
    guardian,
    limits::Limits,
    process_group::{Ended, adopt, kill_all, wake},
    protocol::{self, Lines, Order, Report},
};

/// A command under a guardian. If this process ends, for whatever reason, the guardian kills the
/// command. If the guardian ends, this process can kill the command.
pub(crate) struct GuardedCommand {
    guardian: Child,
    stream: UnixStream,
    /// The same socket, for orders. They are written at once, without waiting until the runtime
    /// reports the socket as writable.
    orders: StdStream,
    lines: Lines,
    leader: Option<Pid>,
}

impl GuardedCommand {
    /// Starts the guardian, which starts the command as soon as it knows a deadline.
    pub(crate) fn start(
        limits: Limits,
        command: &[OsString],
        environment: &[(&str, String)],
    ) -> io::Result<Self> {
        // If the guardian is killed, the command becomes a child of this process.
        adopt()?;
        let (own, other) = StdStream::pair()?;
        own.set_nonblocking(true)?;
        // The running program, even if its file has been replaced.
        let guardian = Command::new("/proc/self/exe")
            .arg0("distlock")
            .args(guardian::arguments(&limits, command))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(other)))
            // The terminal's signals to this process's group must not reach the guardian.
            .process_group(0)
            .spawn()
            .map_err(|error| {
                let text = format!("cannot start the guardian (/proc/self/exe): {error}");
                io::Error::new(error.kind(), text)
            })?;
        let (orders, stream) = (own.try_clone()?, UnixStream::from_std(own)?);
        let guarded_command =
            Self { guardian, stream, orders, lines: Lines::default(), leader: None };
        guarded_command.pass_input()?;
        Ok(guarded_command)
    }

    /// Passes this process's standard input to the guardian, for the command.
    fn pass_input(&self) -> io::Result<()> {
        let input = stdin();
        let rights = [input.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&rights));
        sendmsg(&self.orders, &[IoSlice::new(b"\n")], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Sends an order, and returns whether it was sent. If it was not, the guardian is dead, which
    /// `next` reports, or stopped: see `wake`.
    fn order(&self, order: Order) -> bool {
        let line = protocol::encoded(&order);
        (&self.orders).write(line.as_bytes()).is_ok_and(|written| written == line.len())
    }

    /// Sends the time until which the lock is held, and returns whether it was sent.
    pub(crate) fn deadline(&self, at: Duration) -> bool {
        self.order(Order::Deadline(at))
    }

    /// Forwards a signal to the command.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = self.order(Order::Signal(signal.as_raw()));
    }

    /// Orders the guardian to kill the command at once, because the lock is lost.
    pub(crate) fn kill(&self) {
        let _ = self.order(Order::Kill);
    }

    /// Continues the guardian if a signal has stopped it.
    pub(crate) fn wake(&self) {
        wake(Pid::from_child(&self.guardian));
    }

    /// Waits for the guardian's next report. Returns `None` if the guardian is dead. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Report> {
        loop {
            while let Some(line) = self.lines.next() {
                if let Some(report) = protocol::decoded(&line) {
                    if let Report::Started(pid) = report {
                        self.leader = Pid::from_raw(pid);
                    }
                    return Some(report);
                }
            }
            let mut bytes = [0; 1024];
            match self.stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.lines.push(&bytes[..count]),
            }
        }
    }

    /// Waits until the guardian, which has reported the end of the command, has exited.
    pub(crate) fn finish(mut self) {
        drop((self.stream, self.orders));
        let _ = self.guardian.wait();
    }

    /// Kills the guardian, the command, and all processes that the command started. Returns how
    /// the command ended.
    pub(crate) fn kill_all(mut self) -> Ended {
        // First, because the guardian would otherwise reap the command.
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        kill_all(self.leader).unwrap_or(Ended::Signal(Signal::KILL.as_raw()))
    }
}
