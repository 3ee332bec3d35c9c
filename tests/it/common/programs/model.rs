//! Computes the outcome of each call: a pure function of the calls before it.
//!
//! All calls queue in order of arrival. A mutex belongs to the first entry. Readers share the lock,
//! and a writer is alone: a reader waits for the writers ahead of it, a writer for all entries
//! ahead of it. Permits are granted in order. A granted entry stays granted.

use std::collections::BTreeMap;

use super::call::{Call, LOCKS, Lock, PERMITS, Want};

/// One entry of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: usize,
    pub(super) client: usize,
    pub(super) want: Want,
    pub(super) is_in: bool,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The call has no target.
    Nothing,
    /// The call is granted at once.
    Granted {
        id: usize,
        client: usize,
        want: Want,
    },
    /// A try, or a call with a short timeout, that is not granted.
    Refused {
        client: usize,
        want: Want,
        tries: bool,
    },
    Waits {
        id: usize,
        client: usize,
        want: Want,
    },
    Cancelled {
        id: usize,
    },
    Unlocked {
        id: usize,
    },
    Dropped {
        id: usize,
    },
    Downgraded {
        id: usize,
    },
    /// The entry with this index is evicted.
    Evicted {
        by: usize,
        lock: Lock,
        index: usize,
        id: usize,
        was_in: bool,
    },
    PermitsSet {
        by: usize,
        permits: u32,
    },
    Put {
        id: usize,
        lock: Lock,
        value: u8,
    },
    Got {
        id: usize,
        lock: Lock,
        value: Option<u8>,
    },
    Listed {
        by: usize,
        lock: Lock,
    },
    /// The client is closed, with the guards and waiting calls that it had.
    Closed {
        client: usize,
        held: Vec<usize>,
        waiting: Vec<usize>,
    },
}

pub(super) struct Model {
    queues: BTreeMap<Lock, Vec<Place>>,
    permits: u32,
    values: BTreeMap<Lock, u8>,
    next: usize,
}

impl Model {
    pub(super) fn new() -> Self {
        let queues = LOCKS.into_iter().map(|lock| (lock, Vec::new())).collect();
        Self { queues, permits: *PERMITS.start(), values: BTreeMap::new(), next: 0 }
    }

    pub(super) fn queue(&self, lock: Lock) -> &[Place] {
        &self.queues[&lock]
    }

    /// Returns the number of permits of the semaphore.
    pub(super) fn permits(&self) -> u32 {
        self.permits
    }

    /// Returns the granted entries, or the waiting ones, that want this.
    fn entries(&self, is_in: bool, want: impl Fn(Want) -> bool) -> Vec<(Lock, usize)> {
        let places = self.queues.iter().flat_map(|(lock, queue)| {
            queue
                .iter()
                .filter(|place| place.is_in == is_in && want(place.want))
                .map(|place| (*lock, place.id))
        });
        places.collect()
    }

    fn pick(of: &[(Lock, usize)], number: usize) -> Option<(Lock, usize)> {
        (!of.is_empty()).then(|| of[number % of.len()])
    }

    pub(super) fn step(&mut self, call: Call) -> Outcome {
        let held = self.entries(true, |_| true);
        match call {
            Call::Try(client, want) => self.arrive(client, want, true, false),
            Call::TimeOut(client, want) => self.arrive(client, want, false, false),
            Call::Wait(client, want) => self.arrive(client, want, false, true),
            Call::Cancel(number) => match Self::pick(&self.entries(false, |_| true), number) {
                Some((lock, id)) => {
                    self.leave(lock, id);
                    Outcome::Cancelled { id }
                }
                None => Outcome::Nothing,
            },
            Call::Unlock(number) | Call::Drop(number) => match Self::pick(&held, number) {
                Some((lock, id)) => {
                    self.leave(lock, id);
                    match call {
                        Call::Unlock(_) => Outcome::Unlocked { id },
                        _ => Outcome::Dropped { id },
                    }
                }
                None => Outcome::Nothing,
            },
            Call::Downgrade(number) => {
                match Self::pick(&self.entries(true, |want| want == Want::Write), number) {
                    Some((lock, id)) => {
                        let queue = self.queues.get_mut(&lock).into_iter().flatten();
                        queue
                            .filter(|place| place.id == id)
                            .for_each(|place| place.want = Want::Read);
                        self.grant(lock);
                        Outcome::Downgraded { id }
                    }
                    None => Outcome::Nothing,
                }
            }
            Call::Evict(by, lock, number) => {
                let queue = self.queue(lock);
                if queue.is_empty() {
                    return Outcome::Nothing;
                }
                let index = number % queue.len();
                let Place { id, is_in: was_in, .. } = queue[index];
                self.leave(lock, id);
                Outcome::Evicted { by, lock, index, id, was_in }
            }
            Call::SetPermits(by, permits) => {
                self.permits = permits;
                self.grant(Lock::Semaphore);
                Outcome::PermitsSet { by, permits }
            }
            Call::Put(number, value) => match Self::pick(&held, number) {
                Some((lock, id)) => {
                    self.values.insert(lock, value);
                    Outcome::Put { id, lock, value }
                }
                None => Outcome::Nothing,
            },
            Call::Get(number) => match Self::pick(&held, number) {
                Some((lock, id)) => {
                    Outcome::Got { id, lock, value: self.values.get(&lock).copied() }
                }
                None => Outcome::Nothing,
            },
            Call::List(by, lock) => Outcome::Listed { by, lock },
            Call::Close(client) => self.close(client),
        }
    }

    fn arrive(&mut self, client: usize, want: Want, tries: bool, waits: bool) -> Outcome {
        let (lock, id) = (want.lock(), self.next);
        self.next += 1;
        self.queues.entry(lock).or_default().push(Place { id, client, want, is_in: false });
        self.grant(lock);
        let is_in = self.queue(lock).iter().any(|place| place.id == id && place.is_in);
        match (is_in, waits) {
            (true, _) => Outcome::Granted { id, client, want },
            (false, true) => Outcome::Waits { id, client, want },
            (false, false) => {
                self.leave(lock, id);
                Outcome::Refused { client, want, tries }
            }
        }
    }

    fn leave(&mut self, lock: Lock, id: usize) {
        self.queues.entry(lock).or_default().retain(|place| place.id != id);
        self.grant(lock);
    }

    fn close(&mut self, client: usize) -> Outcome {
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for lock in LOCKS {
            let queue = self.queues.entry(lock).or_default();
            for place in queue.iter().filter(|place| place.client == client) {
                let ended = if place.is_in { &mut held } else { &mut waiting };
                ended.push(place.id);
            }
            queue.retain(|place| place.client != client);
            self.grant(lock);
        }
        Outcome::Closed { client, held, waiting }
    }

    /// Grants every entry that may be granted now.
    fn grant(&mut self, lock: Lock) {
        let permits = self.permits;
        let queue = self.queues.entry(lock).or_default();
        for index in 0..queue.len() {
            let (ahead, rest) = queue.split_at_mut(index);
            let taken: u32 = ahead.iter().map(|place| place.permits()).sum();
            let place = &mut rest[0];
            place.is_in |= match place.want {
                Want::Mutex(_) | Want::Write => ahead.is_empty(),
                Want::Read => ahead.iter().all(|place| place.want == Want::Read),
                Want::Permits(wanted) => {
                    ahead.iter().all(|place| place.is_in) && taken + wanted <= permits
                }
            };
        }
    }
}

impl Place {
    fn permits(&self) -> u32 {
        match self.want {
            Want::Permits(permits) => permits,
            _ => 0,
        }
    }
}
