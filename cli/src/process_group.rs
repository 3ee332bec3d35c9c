//! A command and all processes that it started, which can be signalled and killed together.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::Command,
};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process,
        kill_process_group, pidfd_open, set_child_subreaper, wait, waitid, waitpid,
    },
};
use serde::{Deserialize, Serialize};

use crate::signals::{self, Signals};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ended {
    /// It exited with this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

impl Ended {
    /// The exit code that a shell would report.
    pub(crate) fn exit_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// Makes this process the parent of all orphaned descendants. No process that a child starts can
/// escape, even if it leaves the process group.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// A command in a process group of its own, started by a process that [adopts](adopt).
pub(crate) struct ProcessGroup {
    leader: Pid,
    /// Becomes readable when the leader ends.
    pub(crate) pidfd: OwnedFd,
}

impl ProcessGroup {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let leader = leader.ok_or_else(|| io::Error::other("the command has no process ID"))?;
        let pidfd = pidfd_open(leader, PidfdFlags::empty()).inspect_err(|_| {
            kill_all(Some(leader));
        })?;
        Ok(Self { leader, pidfd })
    }

    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Sends a signal to the whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        // The leader is reaped last, so that the group's ID cannot be reused before.
        let _ = kill_process_group(self.leader, signal);
    }

    /// Whether the command itself has ended. Does not reap it.
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.leader), options), Ok(None))
    }

    /// Whether other processes of the command live that are children of this process. Once the
    /// leader has ended, these are all of them. Reaps those that have ended.
    pub(crate) fn has_others(&self) -> bool {
        let lives = |pid: &Pid| {
            *pid != self.leader && matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None))
        };
        children().iter().filter(|pid| lives(pid)).count() > 0
    }

    /// Kills all processes of the command, and returns when they are dead and reaped.
    pub(crate) fn kill(self) -> Ended {
        kill_all(Some(self.leader)).unwrap_or(Ended::Signal(Signal::KILL.as_raw()))
    }
}

/// Kills and reaps all descendants of this process. Returns how the leader ended.
pub(crate) fn kill_all(leader: Option<Pid>) -> Option<Ended> {
    let mut ended = None;
    // Once the leader is reaped, a group of other processes may have its ID.
    let leads = |leader: &Pid| children().contains(leader);
    if let Some(leader) = leader.filter(leads) {
        // The whole group at once: if they were killed one by one, they could start others.
        let _ = kill_process_group(leader, Signal::KILL);
    }
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        // Orphans become children of this process before their parent can be reaped, so each
        // iteration sees all orphans that the last one caused.
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == leader => {
                let code = status.exit_status().map(Ended::Code);
                ended = code.or_else(|| status.terminating_signal().map(Ended::Signal));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return ended,
        }
    }
}

/// Continues a child that a signal has stopped.
pub(crate) fn wake(child: Pid) {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    if matches!(waitid(WaitId::Pid(child), options), Ok(Some(_))) {
        let _ = kill_process(child, Signal::CONT);
    }
}

/// Runs a program to its end, in a process group of its own that receives the forwarded signals.
pub(crate) async fn run(mut command: Command, signals: &mut Signals) -> io::Result<()> {
    // Earlier signals were for a command that has ended, for example the second HUP of a terminal.
    signals.discard();
    command.process_group(0);
    let mut child = tokio::process::Command::from(command).spawn()?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    loop {
        tokio::select! {
            biased;
            ended = child.wait() => return ended.map(drop),
            signal = signals.next() => {
                // The leader is not reaped yet, so that the group's ID is not reused.
                let _ = group.map(|group| kill_process_group(group, signal));
                if signal == Signal::TSTP {
                    signals::stop();
                }
            }
        }
    }
}

/// Lists the children of this process, including those that have ended.
fn children() -> Vec<Pid> {
    let listed = |task: io::Result<fs::DirEntry>| {
        fs::read_to_string(task.ok()?.path().join("children")).ok()
    };
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let lists: Vec<_> = tasks.filter_map(listed).collect();
    if lists.is_empty() {
        return children_by_stat();
    }
    lists.iter().flat_map(|list| list.split_whitespace()).filter_map(pid).collect()
}

/// Lists the children on kernels that were built without the lists in `/proc`.
fn children_by_stat() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let child = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let pid = pid(entry.file_name().to_str()?)?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // `pid (name) state parent`, where the name may contain any character.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned();
        (parent == own).then_some(pid)
    };
    fs::read_dir("/proc").into_iter().flatten().filter_map(child).collect()
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        io::{BufRead, BufReader, Write},
        process::Stdio,
        thread::sleep,
        time::{Duration, Instant},
    };

    use rustix::process::getpgid;
    use tokio::time::timeout;

    use super::*;

    /// Set in a copy of a test. The copy is a separate process: [`kill_all`] kills all children.
    const COPY: &str = "DISTLOCK_TEST_COPY";

    /// Runs a copy of a test under a program that starts it. Returns `true` in the copy.
    fn is_copy(test: &str, starter: &[&str]) -> bool {
        if env::var_os(COPY).is_some() {
            return true;
        }
        let program = env::current_exe().expect("this program");
        let mut copy = Command::new("env");
        copy.args(starter).arg(program).env(COPY, "yes");
        let path = format!("process_group::tests::{test}");
        copy.args([path.as_str(), "--exact", "--nocapture"]);
        let output = copy.output().expect("the copy starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
        false
    }

    fn until(what: &str, is: impl Fn() -> bool) {
        let start = Instant::now();
        while !is() {
            assert!(start.elapsed() < Duration::from_secs(30), "never: {what}");
            sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn exit_code_is_known_if_child_signals_were_ignored() {
        let test = "exit_code_is_known_if_child_signals_were_ignored";
        if !is_copy(test, &["--ignore-signal=CHLD"]) {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.expect("a runtime");
        let _entered = runtime.enter();
        let _caught = Signals::catch().expect("signals can be caught");
        let group = ProcessGroup::start(Command::new("sh").args(["-c", "exit 3"]));
        let group = group.expect("the command starts");
        until("the command ends", || group.has_ended());
        assert_eq!(group.kill(), Ended::Code(3));
    }

    #[test]
    fn stopped_child_is_continued() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("the child starts");
        let pid = Pid::from_child(&child);
        let is_stopped = || {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()));
            stat.expect("the child lives").rsplit_once(") ").is_some_and(|it| it.1.starts_with('T'))
        };
        for _ in 0..2 {
            kill_process(pid, Signal::STOP).expect("the process is a child");
            until("the child is stopped", is_stopped);
            wake(pid);
            until("the child continues", || !is_stopped());
        }
        child.kill().expect("the process is a child");
        child.wait().expect("the process is a child");
    }

    #[test]
    fn signal_reaches_a_program_that_hangs() {
        if !is_copy("signal_reaches_a_program_that_hangs", &["--default-signal=TERM"]) {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut signals = Signals::catch().expect("signals can be caught");
            let mut command = Command::new("sh");
            command.args(["-c", "kill -TERM $PPID; exec sleep 60"]);
            let ran = timeout(Duration::from_secs(30), run(command, &mut signals)).await;
            ran.expect("the signal ends the program").expect("the program starts");
        });
    }

    #[test]
    fn earlier_signal_does_not_reach_a_program() {
        if !is_copy("earlier_signal_does_not_reach_a_program", &["--default-signal=TERM"]) {
            return;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let catch = || Signals::catch().expect("signals can be caught");
            let (mut signals, mut others) = (catch(), catch());
            kill_process(getpid(), Signal::TERM).expect("it is this process");
            assert_eq!(others.next().await, Signal::TERM);
            let mut command = Command::new("sh");
            // A signal that is forwarded ends the program before.
            command.args(["-c", "sleep 0.5 && kill -USR1 $PPID"]);
            run(command, &mut signals).await.expect("the program starts");
            let last = timeout(Duration::from_secs(30), others.next()).await;
            assert_eq!(last.expect("the program was ended early"), Signal::USR1);
        });
    }

    /// The ID of a leader that was reaped can be that of another group.
    #[test]
    fn group_of_other_processes_is_not_killed() {
        if !is_copy("group_of_other_processes_is_not_killed", &[]) {
            return;
        }
        let script = "exec 3<&0; setsid cat <&3 & echo $!";
        let mut parent = Command::new("sh");
        parent.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut parent = parent.spawn().expect("the parent starts");
        let mut input = parent.stdin.take().expect("the stream is piped");
        let mut output = BufReader::new(parent.stdout.take().expect("the stream is piped"));
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).expect("the output is read");
            line
        };
        let other = pid(line().trim()).expect("a process ID");
        // Without its parent, it is not a descendant of this process.
        parent.wait().expect("the parent is a child");
        until("it leads a group", || getpgid(Some(other)) == Ok(other));
        assert_eq!(kill_all(Some(other)), None);
        let _ = input.write_all(b"alive\n");
        assert_eq!(line(), "alive\n", "another group was killed");
    }
}
