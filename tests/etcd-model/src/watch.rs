//! Watches, and the messages of their streams.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use etcd_client::{
    EventType, WatchFilterType,
    proto::{PbEvent, PbWatchRequest, PbWatchRequestUnion, PbWatchResponse},
};

use crate::{
    Model,
    keys::{Keys, Span},
};

/// How often the server serves watches from a past revision (`syncWatchersLoop`).
pub(crate) const SYNC_INTERVAL: Duration = Duration::from_millis(100);
/// The id that is no watch (`clientv3.InvalidWatchID`).
const NO_WATCH: i64 = -1;
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It receives new events.
    Synced,
    /// It has not received all past events yet.
    Behind,
    /// It was canceled, because pending events were compacted. Its id stays in use.
    Compacted,
}

#[derive(Clone, Debug)]
struct Watch {
    span: Span,
    /// Its first revision.
    start: i64,
    state: State,
    filters: BTreeSet<i32>,
    prev_kv: bool,
}

impl Watch {
    fn wants(&self, event: &PbEvent) -> bool {
        let Some(kv) = &event.kv else { return false };
        let filter = match event.r#type() {
            EventType::Put => WatchFilterType::NoPut,
            EventType::Delete => WatchFilterType::NoDelete,
        };
        let is_filtered = self.filters.contains(&(filter as i32));
        kv.mod_revision >= self.start && self.span.contains(&kv.key) && !is_filtered
    }

    /// Returns the messages that it receives for these events.
    fn sent(&self, keys: &Keys, events: &[PbEvent]) -> Vec<PbEvent> {
        let mut wanted: Vec<_> = events.iter().filter(|event| self.wants(event)).cloned().collect();
        if self.prev_kv {
            for event in &mut wanted {
                let Some(kv) = &event.kv else { continue };
                let before = kv.mod_revision - 1;
                if before >= keys.compacted {
                    event.prev_kv = keys.one(&kv.key, before).cloned();
                }
            }
        }
        wanted
    }
}

#[derive(Clone, Debug, Default)]
struct Stream {
    watches: BTreeMap<i64, Watch>,
    /// Where the search for a free id begins.
    next_id: i64,
}

impl Stream {
    /// Adds a watch; returns its id or the reason for a refusal. With id 0 the server chooses one.
    fn add(&mut self, id: i64, watch: Watch) -> Result<i64, &'static str> {
        if watch.span.is_empty() {
            return Err(EMPTY_RANGE);
        }
        let id = if id == 0 {
            while self.watches.contains_key(&self.next_id) {
                self.next_id += 1;
            }
            self.next_id += 1;
            self.next_id - 1
        } else if self.watches.contains_key(&id) {
            return Err(DUPLICATE_ID);
        } else {
            id
        };
        self.watches.insert(id, watch);
        Ok(id)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    streams: BTreeMap<u64, Stream>,
    /// Messages to send, in order.
    sent: Vec<(u64, PbWatchResponse)>,
}

impl Model {
    /// Ends a stream with all its watches.
    pub fn close_stream(&mut self, stream: u64) {
        self.watches.streams.remove(&stream);
    }

    /// Removes and returns the messages of the streams, in order.
    pub fn take_sent(&mut self) -> Vec<(u64, PbWatchResponse)> {
        mem::take(&mut self.watches.sent)
    }

    /// Executes a request of a stream's client. The reply, if any, is among the messages. A stream
    /// may have any number, and begins with its first request.
    pub fn watch(&mut self, stream: u64, request: PbWatchRequest) {
        let revision = self.keys.revision;
        let header = self.header(revision);
        let numbers_watches = self.settings.numbers_watches;
        let known = self.watches.streams.entry(stream).or_default();
        let mut response =
            PbWatchResponse { header, watch_id: NO_WATCH, ..PbWatchResponse::default() };
        match request.request_union {
            Some(PbWatchRequestUnion::CreateRequest(create)) => {
                let key = if create.key.is_empty() { vec![0] } else { create.key };
                let start = match create.start_revision {
                    0 => revision + 1,
                    start => start,
                };
                let watch = Watch {
                    span: Span::new(&key, &create.range_end),
                    start,
                    state: if start > revision { State::Synced } else { State::Behind },
                    filters: create.filters.into_iter().collect(),
                    prev_kv: create.prev_kv,
                };
                response.created = true;
                let id = if numbers_watches { 0 } else { create.watch_id };
                match known.add(id, watch) {
                    Ok(id) => response.watch_id = id,
                    Err(reason) => {
                        response.canceled = true;
                        reason.clone_into(&mut response.cancel_reason);
                    }
                }
            }
            Some(PbWatchRequestUnion::CancelRequest(cancel)) => {
                if known.watches.remove(&cancel.watch_id).is_none() {
                    return;
                }
                response.watch_id = cancel.watch_id;
                response.canceled = true;
            }
            // For all of its watches at once.
            Some(PbWatchRequestUnion::ProgressRequest(_)) => {
                let all_synced = known.watches.values().all(|watch| watch.state == State::Synced);
                if known.watches.is_empty() || !all_synced {
                    return;
                }
            }
            None => return,
        }
        self.watches.sent.push((stream, response));
    }

    /// Sends the changes of one revision to the synced watches.
    pub(crate) fn notify(&mut self, events: &[PbEvent]) {
        let header = self.header(self.keys.revision);
        for (stream, known) in &self.watches.streams {
            for (id, watch) in &known.watches {
                if watch.state != State::Synced {
                    continue;
                }
                let events = watch.sent(&self.keys, events);
                if !events.is_empty() {
                    let response = PbWatchResponse {
                        header,
                        watch_id: *id,
                        events,
                        ..PbWatchResponse::default()
                    };
                    self.watches.sent.push((*stream, response));
                }
            }
        }
    }

    /// Sends past events to the watches that are behind.
    pub(crate) fn sync_watches(&mut self) {
        let (header, compacted) = (self.header(self.keys.revision), self.keys.compacted);
        let canceled = self.header(0);
        for (stream, known) in &mut self.watches.streams {
            for (id, watch) in &mut known.watches {
                if watch.state != State::Behind {
                    continue;
                }
                let mut response =
                    PbWatchResponse { header, watch_id: *id, ..PbWatchResponse::default() };
                if watch.start < compacted {
                    watch.state = State::Compacted;
                    response.header = canceled;
                    response.canceled = true;
                    response.compact_revision = compacted;
                } else {
                    watch.state = State::Synced;
                    let events = self.keys.events_since(&watch.span, watch.start);
                    response.events = watch.sent(&self.keys, &events);
                    watch.start = self.keys.revision + 1;
                    if response.events.is_empty() {
                        continue;
                    }
                }
                self.watches.sent.push((*stream, response));
            }
        }
    }
}
