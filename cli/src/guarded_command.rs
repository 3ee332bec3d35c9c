//! A command under a guardian, as `distlock` sees it.

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
    process_group::{Ended, adopt, kill_all},
    protocol::{self, Lines, Order, Report},
};

/// A command under a guardian. If this process ends in any way, the guardian kills the command; if
/// the guardian ends, this process can.
pub(crate) struct GuardedCommand {
    guardian: Child,
    stream: UnixStream,
    /// The same, for orders: they go out at once, whatever the runtime knows of the socket.
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
        // Itself, even if its file was replaced meanwhile.
        let guardian = Command::new("/proc/self/exe")
            .arg0("distlock")
            .args(guardian::arguments(&limits, command))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(OwnedFd::from(other)))
            // What the terminal sends to this process's group is not for the guardian.
            .process_group(0)
            .spawn()?;
        let (orders, stream) = (own.try_clone()?, UnixStream::from_std(own)?);
        let guarded_command =
            Self { guardian, stream, orders, lines: Lines::default(), leader: None };
        guarded_command.pass_input()?;
        Ok(guarded_command)
    }

    /// Hands over what the command is to read.
    fn pass_input(&self) -> io::Result<()> {
        let input = stdin();
        let rights = [input.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&rights));
        sendmsg(&self.orders, &[IoSlice::new(b"\n")], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Whether it went out. A guardian that does not listen is stopped or dead: `next` tells of the
    /// one, and before the deadline of the other this process kills the command itself.
    fn order(&self, order: Order) -> bool {
        let line = protocol::encoded(&order);
        (&self.orders).write(line.as_bytes()).is_ok_and(|written| written == line.len())
    }

    /// The lock is certain until then. Whether the guardian was told.
    pub(crate) fn deadline(&self, at: Duration) -> bool {
        self.order(Order::Deadline(at))
    }

    /// Passes a signal on.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = self.order(Order::Signal(signal.as_raw()));
    }

    /// The lock is lost.
    pub(crate) fn kill(&self) {
        let _ = self.order(Order::Kill);
    }

    /// What the guardian has to say next. `None`: it is dead. Can be dropped at any time.
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

    /// Waits for the guardian, which has reported the end.
    pub(crate) fn finish(mut self) {
        drop((self.stream, self.orders));
        let _ = self.guardian.wait();
    }

    /// Kills everything without the guardian's help. With how the command has ended.
    pub(crate) fn kill_all(mut self) -> Ended {
        // First, so that it reaps nothing any more.
        let _ = self.guardian.kill();
        let _ = self.guardian.wait();
        kill_all(self.leader).unwrap_or(Ended::Signal(Signal::KILL.as_raw()))
    }
}
