//! A command and all that it has started: told a signal together, and killed to the last of it.

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

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    /// As shells have it.
    pub(crate) fn exit_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

/// From now on what this process's children leave behind becomes its own children: nothing that
/// they start escapes, not even what has left their process group.
pub(crate) fn adopt() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// A command in a process group of its own, started by a process that [adopts](adopt).
pub(crate) struct ProcessGroup {
    leader: Pid,
    /// Readable once the leader has ended.
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

    /// Tells all of the group.
    pub(crate) fn signal(&self, signal: Signal) {
        // The leader is not reaped before the end, so that the number is not another group's.
        let _ = kill_process_group(self.leader, signal);
    }

    /// Whether the command itself has ended. It is not reaped.
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(self.leader), options), Ok(None))
    }

    /// Whether anything else of it lives that this process can see: all, once the leader has ended.
    /// Reaps what has ended.
    pub(crate) fn has_others(&self) -> bool {
        let lives = |pid: &Pid| {
            *pid != self.leader && matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None))
        };
        children().iter().filter(|pid| lives(pid)).count() > 0
    }

    /// Kills what lives of it. All is dead and gone when this returns.
    pub(crate) fn kill(self) -> Ended {
        kill_all(Some(self.leader)).unwrap_or(Ended::Signal(Signal::KILL.as_raw()))
    }
}

/// Kills all children of this process, and theirs, and reaps them. With how that one has ended.
pub(crate) fn kill_all(leader: Option<Pid>) -> Option<Ended> {
    let mut ended = None;
    if let Some(leader) = leader {
        // All of them at once: one by one they could start others meanwhile.
        let _ = kill_process_group(leader, Signal::KILL);
    }
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        // What a child leaves behind is this process's before the child can be reaped, so each
        // turn of the loop sees all that came by the last one.
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

/// The children of this process, those that have ended among them.
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

/// The same where the kernel was built without those lists.
fn children_by_stat() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let child = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let pid = pid(entry.file_name().to_str()?)?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // `pid (name) state parent`; a name may have anything in it.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.to_owned();
        (parent == own).then_some(pid)
    };
    fs::read_dir("/proc").into_iter().flatten().filter_map(child).collect()
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}
