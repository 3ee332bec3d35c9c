//! Scheduled events, ordered by time.

use std::{cmp::Reverse, collections::BinaryHeap, task::Waker, time::Duration};

use crate::world::World;

/// An action that happens at a given time.
pub(crate) type Deed = Box<dyn FnOnce(&mut World)>;

pub(crate) enum Event {
    Timer(Waker),
    Deed(Deed),
}

/// The identity of an event. Its place may be reused by a later event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    /// The time and the number of the event: events at the same time happen in the order in which
    /// they were added. A single value, because it is compared often.
    order: u128,
    place: usize,
}

/// The lowest bits of `order`, which are the number; the time has the rest.
const NUMBER: u32 = 34;

struct Arranged {
    id: EventId,
    at: Duration,
    event: Event,
}

/// Most timers are cancelled before they fire. They stay in the heap, because only its first
/// element is inspected.
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

    /// Returns the time of the next event.
    pub(crate) fn due(&mut self) -> Option<Duration> {
        while let Some(Reverse(first)) = self.heap.peek().copied() {
            if let Some(Some(there)) = self.place(first) {
                return Some(there.at);
            }
            self.heap.pop();
        }
        None
    }

    /// Removes and returns the next event, which `due` reported.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        let Reverse(first) = self.heap.pop()?;
        self.remove(first)
    }
}
