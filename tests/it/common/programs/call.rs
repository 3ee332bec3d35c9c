//! The calls of a program, and their random generation.

use fastrand::Rng;

/// The number of clients.
pub(super) const CLIENTS: usize = 3;
/// The number of calls of a program.
const CALLS: std::ops::RangeInclusive<usize> = 5..=25;
/// The possible numbers of permits. No call acquires more than the smallest of them.
pub(super) const PERMITS: std::ops::RangeInclusive<u32> = 2..=4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Mutex(u8),
    ReadWrite,
    Semaphore,
}

pub(super) const LOCKS: [Lock; 4] =
    [Lock::Mutex(0), Lock::Mutex(1), Lock::ReadWrite, Lock::Semaphore];

/// What a call acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    Mutex(u8),
    Read,
    Write,
    Permits(u32),
}

impl Want {
    pub(super) fn lock(self) -> Lock {
        match self {
            Self::Mutex(number) => Lock::Mutex(number),
            Self::Read | Self::Write => Lock::ReadWrite,
            Self::Permits(_) => Lock::Semaphore,
        }
    }
}

/// One call. Numbers that are valid in any program select a guard or a waiter: the one with this
/// index modulo the current count. So a program that lacks some of its calls is still a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Try(usize, Want),
    /// Waits for a short time at most.
    TimeOut(usize, Want),
    /// Waits without limit, while the program continues.
    Wait(usize, Want),
    /// Drops a waiting call.
    Cancel(usize),
    Unlock(usize),
    Drop(usize),
    Downgrade(usize),
    /// A client evicts an entry of a lock's queue.
    Evict(usize, Lock, usize),
    SetPermits(usize, u32),
    /// Writes a value under a held lock.
    Put(usize, u8),
    Get(usize),
    List(usize, Lock),
    /// Closes a client, which a new one replaces.
    Close(usize),
}

/// Returns the program of a seed.
pub(crate) fn program(seed: u64) -> Vec<Call> {
    let mut rng = Rng::with_seed(seed);
    // Half of the programs use only one lock.
    let only = rng.bool().then(|| LOCKS[rng.usize(..LOCKS.len())]);
    (0..rng.usize(CALLS)).map(|_| call(&mut rng, only)).collect()
}

fn call(rng: &mut Rng, only: Option<Lock>) -> Call {
    let (client, number) = (rng.usize(..CLIENTS), rng.usize(..64));
    let lock = only.unwrap_or_else(|| LOCKS[rng.usize(..LOCKS.len())]);
    let want = match lock {
        Lock::Mutex(mutex) => Want::Mutex(mutex),
        Lock::ReadWrite if rng.bool() => Want::Read,
        Lock::ReadWrite => Want::Write,
        Lock::Semaphore => Want::Permits(rng.u32(1..=*PERMITS.start())),
    };
    match rng.u32(..100) {
        0..14 => Call::Try(client, want),
        14..19 => Call::TimeOut(client, want),
        19..43 => Call::Wait(client, want),
        43..49 => Call::Cancel(number),
        49..62 => Call::Unlock(number),
        62..67 => Call::Drop(number),
        67..72 => Call::Downgrade(number),
        72..77 => Call::Evict(client, lock, number),
        77..88 if lock == Lock::Semaphore => Call::SetPermits(client, rng.u32(PERMITS)),
        77..91 => Call::Put(number, rng.u8(..)),
        91..96 => Call::Get(number),
        96..98 => Call::List(client, lock),
        _ => Call::Close(client),
    }
}
