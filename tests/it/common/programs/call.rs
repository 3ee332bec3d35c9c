//! The calls that a program is made of, and how one is drawn.

use fastrand::Rng;

/// How many clients there are.
pub(super) const CLIENTS: usize = 3;
/// How many calls a program has, at least and at most.
const CALLS: std::ops::RangeInclusive<usize> = 5..=25;
/// The numbers of permits that there may be. Nobody wants more than the least.
pub(super) const PERMITS: std::ops::RangeInclusive<u32> = 2..=4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Mutex(u8),
    ReadWrite,
    Semaphore,
}

pub(super) const LOCKS: [Lock; 4] =
    [Lock::Mutex(0), Lock::Mutex(1), Lock::ReadWrite, Lock::Semaphore];

/// What one wants of a lock.
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

/// One call. Who is meant is told by numbers that any program has: of those who hold or wait at
/// that moment, the one with this number modulo how many there are. So a program without some of
/// its calls is a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Try(usize, Want),
    /// Waits for a moment at most.
    TimeOut(usize, Want),
    /// Waits for as long as it takes; the program goes on.
    Wait(usize, Want),
    /// Drops one that waits.
    Cancel(usize),
    Unlock(usize),
    Drop(usize),
    Downgrade(usize),
    /// A client deletes one of the places in a lock's queue.
    Evict(usize, Lock, usize),
    SetPermits(usize, u32),
    /// Writes this under a lock that is held.
    Put(usize, u8),
    Get(usize),
    List(usize, Lock),
    /// Another client takes its place.
    Close(usize),
}

/// The program of this seed.
pub(crate) fn program(seed: u64) -> Vec<Call> {
    let mut rng = Rng::with_seed(seed);
    // Half of the programs are about one lock.
    let only = rng.bool().then(|| LOCKS[rng.usize(..LOCKS.len())]);
    (0..rng.usize(CALLS)).map(|_| call(&mut rng, only)).collect()
}

fn call(rng: &mut Rng, only: Option<Lock>) -> Call {
    let (client, who) = (rng.usize(..CLIENTS), rng.usize(..64));
    let lock = only.unwrap_or_else(|| LOCKS[rng.usize(..LOCKS.len())]);
    let want = match lock {
        Lock::Mutex(number) => Want::Mutex(number),
        Lock::ReadWrite if rng.bool() => Want::Read,
        Lock::ReadWrite => Want::Write,
        Lock::Semaphore => Want::Permits(rng.u32(1..=*PERMITS.start())),
    };
    match rng.u32(..100) {
        0..14 => Call::Try(client, want),
        14..19 => Call::TimeOut(client, want),
        19..43 => Call::Wait(client, want),
        43..49 => Call::Cancel(who),
        49..62 => Call::Unlock(who),
        62..67 => Call::Drop(who),
        67..72 => Call::Downgrade(who),
        72..77 => Call::Evict(client, lock, who),
        77..88 if lock == Lock::Semaphore => Call::SetPermits(client, rng.u32(PERMITS)),
        77..91 => Call::Put(who, rng.u8(..)),
        91..96 => Call::Get(who),
        96..98 => Call::List(client, lock),
        _ => Call::Close(client),
    }
}
