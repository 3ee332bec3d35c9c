//! The plan of a history, drawn from its seed: plain data, so that parts of it can be left out.

use std::time::Duration;

use crate::{
    claims,
    menu::{Menu, Tempo},
    server::Contract,
};

/// How long faults occur at most.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) contract: Contract,
    pub(crate) processes: usize,
    pub(crate) ttl: Duration,
    pub(crate) request_timeout: Duration,
    /// Per 1,000 requests.
    pub(crate) faults: u32,
    pub(crate) callers: Vec<Caller>,
    pub(crate) strikes: Vec<(Duration, Strike)>,
    /// A client that is closed while it is in use.
    pub(crate) closing: Option<(usize, Duration)>,
    /// The counters of directories overflow.
    pub(crate) worn: bool,
    /// The server flushes confirmed writes every second, not at once.
    pub(crate) everysec: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) process: usize,
    pub(crate) steps: Vec<Step>,
}

/// One call, and what is done with its result.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) pause: Duration,
    pub(crate) what: What,
    pub(crate) how: How,
    pub(crate) end: End,
    pub(crate) hold: Duration,
    pub(crate) inside: Inside,
    pub(crate) unlocks: bool,
    /// An operator deletes the key just before its release.
    pub(crate) evicted: bool,
    /// How long after the grant the key of a holder that waits for its loss is deleted.
    pub(crate) evicted_after: Duration,
    /// How long the caller is not polled after the call has started.
    pub(crate) neglected: Duration,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Mutex(usize),
    Read(usize),
    Write(usize),
    /// The name, the permits wanted, and the permits of the semaphore.
    Permits(usize, u32, u32),
    Election(usize),
    All(Vec<usize>),
    RequestRelease(usize),
    Queue(usize),
    WatchQueue(usize),
    Leader(usize),
    Observe(usize),
    SetPermits(usize, u32),
    /// An uncontended lock.
    Uncontended,
    /// Several uncontended locks, each polled once and then abandoned.
    Crowd(usize),
}

impl What {
    pub(crate) const KINDS: usize = 13;
    /// The number of locks that other callers request, too; they come first.
    pub(crate) const LOCKS: usize = 6;

    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::Mutex(_) => 0,
            Self::Read(_) => 1,
            Self::Write(_) => 2,
            Self::Permits(..) => 3,
            Self::Election(_) => 4,
            Self::All(_) => 5,
            Self::Uncontended | Self::Crowd(_) => 6,
            Self::RequestRelease(_) => 7,
            Self::Queue(_) => 8,
            Self::WatchQueue(_) => 9,
            Self::Leader(_) => 10,
            Self::Observe(_) => 11,
            Self::SetPermits(..) => 12,
        }
    }

    pub(crate) fn draw(dice: &mut fastrand::Rng, agreed: bool, names: usize) -> Self {
        let name = dice.usize(..names);
        match dice.u32(..100) {
            0..27 => Self::Mutex(name),
            27..39 => Self::Read(name % 2),
            39..49 => Self::Write(name % 2),
            49..61 => {
                let named = if agreed { 3 } else { dice.u32(2..=4) };
                Self::Permits(name % 2, dice.u32(1..=3), named)
            }
            61..69 => Self::Election(name % 2),
            69..75 => {
                let mut names: Vec<_> = (0..3).collect();
                dice.shuffle(&mut names);
                names.truncate(dice.usize(2..=3));
                Self::All(names)
            }
            75..77 => Self::Uncontended,
            77..81 => Self::RequestRelease(name),
            81..85 => Self::Queue(name),
            85..89 => Self::WatchQueue(name),
            89..92 => Self::Leader(name % 2),
            92..95 => Self::Observe(name % 2),
            _ if agreed => Self::SetPermits(name % 2, dice.u32(2..=4)),
            _ => Self::Queue(name),
        }
    }

    /// Returns the one queue that decides the call. (Permits have two.)
    pub(crate) fn dir(&self) -> Option<String> {
        let (name, kind) = match self {
            Self::Mutex(name) => (name, ""),
            Self::Read(name) | Self::Write(name) => (name, "!rw"),
            Self::Election(name) => (name, "!election"),
            _ => return None,
        };
        Some(format!("/sim/{}{kind}", claims::named(*name)))
    }

    /// Returns `true` if the call acquires a guard.
    pub(crate) fn is_lock(&self) -> bool {
        matches!(
            self,
            Self::Mutex(_)
                | Self::Read(_)
                | Self::Write(_)
                | Self::Permits(..)
                | Self::Election(_)
                | Self::All(_)
                | Self::Uncontended
        )
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Wait,
    Try,
    For(Duration),
}

/// What happens to the call's future.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Finished,
    DroppedAfter(u32),
    /// It is kept, but not polled again.
    AbandonedAfter(u32),
}

/// What a holder does while it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    Nothing,
    Put,
    Downgrade,
    Proclaim,
    WaitForLoss,
    Run,
    WaitForRequest,
}

/// A fault of a process, a server or a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Strike {
    Stop(usize, Duration),
    /// The process stops when it next opens a session.
    StopAtOpening(usize, Duration),
    Block(usize, Duration),
    Kill(usize),
    Cut(usize, Duration),
    /// Cuts off the server that this process is connected to.
    CutOff(usize, Duration),
    /// An operator ends its sessions, and it gets no new one for the given time.
    Revoke(usize, Duration),
    /// It may not delete keys for the given time.
    Deny(usize, Duration),
    DeleteKey,
    WriteKey,
    /// A waiter of another library joins, and leaves after the given time.
    Stranger(Duration),
    /// A Redis server stops, and restarts after the given time.
    Crash(Duration),
    /// Its clock is changed by this number of seconds.
    SetClock(i64),
    /// It flushes at once what it confirms from now on.
    SetSync,
}

impl Plan {
    pub(crate) fn draw(seed: u64, contract: Contract) -> Self {
        let mut dice = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let processes = dice.usize(1..=5);
        let faults = [0, 10, 40, 120][dice.usize(..4)];
        let agreed = dice.bool();
        let menu = Menu::draw(&mut dice);
        let slow = menu.tempo == Tempo::Slow;
        let count = dice.usize(if slow { 6 } else { 1 }..=12);
        let calls = 116 / count + 1;
        let mut caller = |_| {
            let steps = (0..calls).map(|_| Step::draw(&mut dice, agreed, &menu)).collect();
            Caller { process: dice.usize(..processes), steps }
        };
        let mut callers: Vec<_> = (0..count).map(&mut caller).collect();
        if dice.u32(..60) == 0 {
            let steps = &mut callers[0].steps;
            steps[dice.usize(..5)].what = What::Crowd(dice.usize(120..150));
        }
        let ttl = Duration::from_secs(dice.u64(1..=3));
        let (most, last) = if slow { (24, 40_000) } else { (8, 6000) };
        let mut strikes: Vec<_> = (0..dice.usize(..most))
            .map(|_| (millis(&mut dice, 0, last), Strike::draw(&mut dice, processes, ttl)))
            .collect();
        strikes.sort_by_key(|(at, _)| *at);
        let closing =
            (dice.u32(..8) == 0).then(|| (dice.usize(..processes), millis(&mut dice, 0, 3000)));
        let request_timeout = Duration::from_millis([300, 800, 1500][dice.usize(..3)]);
        Self {
            seed,
            contract,
            processes,
            ttl,
            request_timeout,
            faults,
            callers,
            strikes,
            closing,
            worn: false,
            everysec: false,
        }
        .with_coincidences()
    }
}

fn millis(dice: &mut fastrand::Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(dice.u64(from..to))
}

impl Step {
    fn draw(dice: &mut fastrand::Rng, agreed: bool, menu: &Menu) -> Self {
        let what = menu.what(dice, agreed);
        let how = match dice.u32(..10) {
            0..2 => How::Try,
            2..4 => How::For(millis(dice, 1, 800)),
            _ => How::Wait,
        };
        let end = match dice.u32(..20) {
            0..3 => End::DroppedAfter(dice.u32(1..12)),
            3 => End::AbandonedAfter(dice.u32(1..8)),
            _ => End::Finished,
        };
        let hold = menu.tempo.hold(dice);
        let inside = match dice.u32(..20) {
            0..3 => Inside::Put,
            3..7 => Inside::Downgrade,
            7..10 => Inside::Proclaim,
            10 => Inside::WaitForLoss,
            11..13 => Inside::WaitForRequest,
            13..15 => Inside::Run,
            _ => Inside::Nothing,
        };
        let neglected = match dice.u32(..40) {
            0 => millis(dice, 100, 6000),
            _ => Duration::ZERO,
        };
        let pause = menu.tempo.pause(dice);
        let (unlocks, evicted) = (dice.u32(..4) > 0, dice.u32(..40) == 0);
        let evicted_after = Duration::ZERO;
        Self { pause, what, how, end, hold, inside, unlocks, evicted, evicted_after, neglected }
    }
}

impl Strike {
    fn draw(dice: &mut fastrand::Rng, processes: usize, ttl: Duration) -> Self {
        let process = dice.usize(..processes);
        match dice.u32(..20) {
            16 => Self::Revoke(process, millis(dice, 1000, 15_000)),
            17 => Self::Deny(process, millis(dice, 100, 5000)),
            // About as long as a session's TTL.
            18..20 => Self::Stop(process, ttl * dice.u32(60..130) / 100),
            0..3 => Self::Stop(process, millis(dice, 100, 5000)),
            3..7 => Self::Block(process, millis(dice, 50, 5000)),
            7 => Self::Kill(process),
            8..11 => Self::Cut(dice.usize(..3), millis(dice, 50, 3000)),
            11..13 => Self::DeleteKey,
            13 => Self::WriteKey,
            _ => Self::Stranger(millis(dice, 1, 2000)),
        }
    }
}
