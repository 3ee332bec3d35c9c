//! What is to happen, by its time.

use std::{cmp::Reverse, collections::BinaryHeap, task::Waker, time::Duration};

use crate::world::World;

/// What happens at a time.
pub(crate) type Deed = Box<dyn FnOnce(&mut World)>;

pub(crate) enum Event {
    Timer(Waker),
    Deed(Deed),
}

/// An event; its place may be another's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    /// Its time and its number, as of those at one time the first to be arranged is first: one
    /// value, which is compared all the time.
    order: u128,
    place: usize,
}

/// So many bits of that are the number: the longest time takes the others.
const NUMBER: u32 = 34;

struct Arranged {
    id: EventId,
    at: Duration,
    event: Event,
}

/// Most timers are taken back before their time. They are left in the heap, as nothing but the
/// first there is ever looked at.
#[derive(Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<EventId>>,
    places: Vec<Option<Arranged>>,
    free: Vec<usize>,
    count: u64,
}

impl Events {
    pub(crate) fn add(&mut self, at: Duration, event: Event) -> EventId {
        self.count += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let id = EventId { order: at.as_nanos() << NUMBER | u128::from(self.count), place };
        self.places[place] = Some(Arranged { id, at, event });
        self.heap.push(Reverse(id));
        id
    }

    fn place(&mut self, id: EventId) -> Option<&mut Option<Arranged>> {
        let place = self.places.get_mut(id.place)?;
        place.as_ref().is_some_and(|there| there.id == id).then_some(place)
    }

    pub(crate) fn get_mut(&mut self, id: EventId) -> Option<&mut Event> {
        self.place(id)?.as_mut().map(|there| &mut there.event)
    }

    pub(crate) fn remove(&mut self, id: EventId) -> Option<Event> {
        let there = self.place(id)?.take();
        self.free.push(id.place);
        there.map(|there| there.event)
    }

    /// When the next event is.
    pub(crate) fn due(&mut self) -> Option<Duration> {
        while let Some(Reverse(first)) = self.heap.peek().copied() {
            if let Some(Some(there)) = self.place(first) {
                return Some(there.at);
            }
            self.heap.pop();
        }
        None
    }

    /// The next event, of which `due` has told.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let Reverse(first) = self.heap.pop()?;
        self.remove(first)
    }
}
