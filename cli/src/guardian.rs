//! The guardian: a second copy of `distlock`, the parent of the command. It receives each new
//! deadline of the lock, and kills the command before that deadline, or when `distlock` ends.
//!
//! The guardian does not connect to the store. It has one thread, and one timer of the kernel, on
//! the clock that continues while the machine is suspended.

use std::{
    ffi::OsString,
    io::{self, IoSliceMut, Read, Write, stderr, stdin},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::Signal,
    thread::set_name,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use crate::{
    clock, exit,
    limits::Limits,
    process_group::{Ended, ProcessGroup, adopt, kill_all},
    protocol::{self, Cause, Lines, Order, Report},
    signals::Signals,
};

/// How often the guardian checks whether the processes that the command left behind have ended.
const LOOK: Duration = Duration::from_millis(10);

/// The first argument of a guardian.
const GUARDIAN: &str = "__guardian";

/// Returns the arguments that start a guardian with these limits for this command.
pub(crate) fn arguments(limits: &Limits, command: &[OsString]) -> Vec<OsString> {
    let limits = (limits.kill_signal.as_raw(), limits.kill_after, limits.margin);
    let own = [GUARDIAN.to_owned(), protocol::encoded(&limits)].map(OsString::from);
    own.into_iter().chain(command.iter().cloned()).collect()
}

/// Parses a program's arguments, if they are those of a guardian.
pub(crate) fn read(arguments: &[OsString]) -> Option<(Limits, &[OsString])> {
    let [guardian, limits, command @ ..] = arguments else { return None };
    if guardian != GUARDIAN {
        return None;
    }
    let (signal, kill_after, margin) = protocol::decoded(limits.to_str()?)?;
    let kill_signal = Signal::from_named_raw(signal)?;
    Some((Limits { kill_signal, kill_after, margin }, command))
}

/// Starts the command, and returns when the command and all processes that it started are dead.
/// Standard input is the connection to `distlock`, which first sends the command's own standard
/// input.
pub(crate) fn guard(limits: Limits, command: &[OsString]) -> io::Result<()> {
    // Not "distlock", so that `pkill distlock` does not kill the guardian, too.
    set_name(c"lock-guardian")?;
    // Signals must not end the guardian, not even those that are sent to a whole container.
    // `distlock` forwards them to the command.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let _caught = Signals::catch()?;
    adopt()?;
    let mut link = Link::open()?;
    let Some((deadline, early)) = link.first_deadline()? else { return Ok(()) };
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    if let Some(cause) = prevented(&limits, deadline, &early) {
        link.report(&Report::Ended(Ended::Signal(Signal::KILL.as_raw()), cause));
        return Ok(());
    }
    // Before the command starts, so that no command runs without it.
    let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
    let input = link.input.take().map_or_else(Stdio::null, Stdio::from);
    let started = ProcessGroup::start(Command::new(program).args(arguments).stdin(input));
    let process_group = match started {
        Ok(process_group) => process_group,
        Err(error) => {
            let (code, what) = exit::not_started(&error);
            let text = format!("{}: {what}", program.to_string_lossy()).replace('\n', " ");
            link.report(&Report::Failed(code, text));
            return Ok(());
        }
    };
    link.report(&Report::Started(process_group.leader().as_raw_nonzero().get()));
    let mut watch = Watch { limits, link, process_group, deadline, ending: None, timer };
    early.into_iter().for_each(|order| watch.obey(order));
    watch.watch().inspect_err(|_| {
        kill_all(None);
    })
}

/// Returns why the command must not be started, if the lock is lost or its deadline is too near.
fn prevented(limits: &Limits, deadline: Duration, early: &[Order]) -> Option<Cause> {
    if early.contains(&Order::Kill) {
        return Some(Cause::Ordered);
    }
    (clock::now() >= limits.ended_at(deadline)).then_some(Cause::Deadline)
}

/// The connection to `distlock`.
struct Link {
    stream: UnixStream,
    lines: Lines,
    /// `distlock` has ended.
    closed: bool,
    /// The command's standard input.
    input: Option<OwnedFd>,
}

impl Link {
    fn open() -> io::Result<Self> {
        let stream = UnixStream::from(stdin().as_fd().try_clone_to_owned()?);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 1];
        let mut buffer = [IoSliceMut::new(&mut bytes)];
        recvmsg(&stream, &mut buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let rights = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        stream.set_nonblocking(true)?;
        Ok(Self { stream, lines: Lines::default(), closed: false, input: rights })
    }

    /// Reads the bytes that have arrived.
    fn receive(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(count) => {
                    self.lines.push(&bytes[..count]);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => self.closed = true,
            }
            return;
        }
    }

    fn orders(&mut self) -> Vec<Order> {
        self.receive();
        std::iter::from_fn(|| self.lines.next())
            .filter_map(|line| protocol::decoded(&line))
            .collect()
    }

    /// Waits for the first deadline, without which the command is not started. Returns the deadline
    /// and the other orders that have arrived, or `None` if `distlock` has ended.
    fn first_deadline(&mut self) -> io::Result<Option<(Duration, Vec<Order>)>> {
        let mut others = Vec::new();
        loop {
            let mut first = None;
            for order in self.orders() {
                match order {
                    Order::Deadline(deadline) => first = Some(deadline),
                    order => others.push(order),
                }
            }
            if self.closed {
                return Ok(None);
            }
            if let Some(deadline) = first {
                return Ok(Some((deadline, others)));
            }
            wait(&mut [PollFd::new(&self.stream, PollFlags::IN)])?;
        }
    }

    fn report(&mut self, report: &Report) {
        // A failure means that `distlock` has ended, which the next read notices.
        let _ = self.stream.write_all(protocol::encoded(report).as_bytes());
    }
}

/// A running command, and when to end it.
struct Watch {
    limits: Limits,
    link: Link,
    process_group: ProcessGroup,
    deadline: Duration,
    /// Why the command must end, and when the guardian kills it.
    ending: Option<(Cause, Duration)>,
    timer: OwnedFd,
}

impl Watch {
    fn watch(mut self) -> io::Result<()> {
        loop {
            for order in self.link.orders() {
                self.obey(order);
            }
            let (now, ended) = (clock::now(), self.process_group.has_ended());
            let others = self.process_group.has_others();
            let cause = if ended && now < self.deadline {
                Some(Cause::Itself)
            } else if now >= self.limits.ended_at(self.deadline) {
                Some(Cause::Deadline)
            } else {
                self.link.closed.then_some(Cause::Abandoned)
            };
            if let (None, Some(cause)) = (self.ending, cause) {
                self.end(cause, now, !ended || others);
            }
            if let Some((cause, at)) = self.ending
                && (now >= at || ended && !others)
            {
                let ended = self.process_group.kill();
                self.link.report(&Report::Ended(ended, cause));
                if cause == Cause::Abandoned {
                    // Only now, because standard error may block.
                    let text = "distlock: distlock was killed; the guardian ended the command\n";
                    let _ = stderr().write_all(text.as_bytes());
                }
                return Ok(());
            }
            self.sleep(now, ended)?;
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Deadline(deadline) => self.deadline = deadline,
            Order::Signal(signal) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.process_group.signal(signal);
                }
            }
            Order::Kill => self.ending = Some((Cause::Ordered, Duration::ZERO)),
        }
    }

    /// Sends the signal that asks the command to end.
    fn end(&mut self, cause: Cause, now: Duration, lives: bool) {
        if lives {
            self.process_group.signal(self.limits.kill_signal);
            // A stopped process handles no signal until it continues.
            self.process_group.signal(Signal::CONT);
        }
        let at = self.limits.killed_at(self.deadline).min(now + self.limits.kill_after);
        self.ending = Some((cause, at));
    }

    /// Sleeps until the next event or deadline.
    fn sleep(&self, now: Duration, ended: bool) -> io::Result<()> {
        let next = match self.ending {
            None => self.limits.ended_at(self.deadline),
            Some((_, at)) => at.min(now + LOOK),
        };
        // A time of zero would turn the timer off.
        let next = next.max(Duration::from_nanos(1));
        let value = Timespec {
            tv_sec: i64::try_from(next.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: next.subsec_nanos().into(),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        let mut fds = vec![PollFd::new(&self.timer, PollFlags::IN)];
        if !self.link.closed {
            fds.push(PollFd::new(&self.link.stream, PollFlags::IN));
        }
        if !ended {
            fds.push(PollFd::new(&self.process_group.pidfd, PollFlags::IN));
        }
        wait(&mut fds)
    }
}

fn wait(fds: &mut [PollFd<'_>]) -> io::Result<()> {
    match poll(fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guardian_arguments_round_trip() {
        let [kill_after, margin] = [1500, 80].map(Duration::from_millis);
        let limits = Limits { kill_signal: Signal::INT, kill_after, margin };
        let command = ["ls", "-l"].map(OsString::from);
        assert_eq!(read(&arguments(&limits, &command)), Some((limits, &command[..])));
        assert_eq!(read(&command), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn no_command_is_started_once_its_lock_is_lost() {
        let [kill_after, margin] = [1500, 80].map(Duration::from_millis);
        let limits = Limits { kill_signal: Signal::INT, kill_after, margin };
        let (near, far) = (clock::now(), clock::now() + Duration::from_secs(600));
        let signal = Order::Signal(Signal::USR1.as_raw());
        for (deadline, early, cause) in [
            (far, &[][..], None),
            (far, &[signal], None),
            (far, &[signal, Order::Kill], Some(Cause::Ordered)),
            (near, &[signal], Some(Cause::Deadline)),
        ] {
            assert_eq!(prevented(&limits, deadline, early), cause, "{early:?}");
        }
    }
}
