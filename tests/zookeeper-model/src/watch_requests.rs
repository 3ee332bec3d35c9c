//! Requests about watches (`FinalRequestProcessor`, `DataTree.setWatches`, `removeWatch`).

use crate::{
    connection::Request,
    jute::{Malformed, Reader, Writer},
    requests::{code, kind},
    state::{Event, State},
    watches::Mode,
};

/// The zxid of an event if the server does not know it.
const NO_ZXID: i64 = -1;

/// `Watcher.WatcherType`.
#[derive(Clone, Copy, Debug)]
enum Which {
    Children,
    Data,
    Any,
    Persistent,
    Recursive,
}

impl Which {
    fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.int()? {
            1 => Self::Children,
            2 => Self::Data,
            3 => Self::Any,
            4 => Self::Persistent,
            5 => Self::Recursive,
            _ => return Err(Malformed),
        })
    }
}

impl State {
    pub(crate) fn watch_request(
        &mut self,
        from: u64,
        request: &mut Request<'_>,
    ) -> Result<Writer, i32> {
        let body = &mut request.body;
        let found = match request.kind {
            kind::SET_WATCHES | kind::SET_WATCHES2 => {
                self.set_watches(from, request.kind, body).map(|()| true)
            }
            kind::ADD_WATCH => return self.add_watch(from, body).map_err(malformed),
            kind::CHECK_WATCHES => self.check_watch(from, body),
            _ => self.remove_watch(from, body),
        };
        found.map_err(malformed)?.then(Writer::default).ok_or(code::NO_WATCHER)
    }

    /// Restores the watches of a former connection, and notifies the client of missed changes.
    fn set_watches(
        &mut self,
        from: u64,
        kind: i32,
        body: &mut Reader<'_>,
    ) -> Result<(), Malformed> {
        let since = body.long()?;
        let mut lists = [const { Vec::new() }; 5];
        let count = if kind == kind::SET_WATCHES2 { 5 } else { 3 };
        for list in &mut lists[..count] {
            *list = body.list(Reader::text)?;
        }
        let [data, exist, children, persistent, recursive] = lists;
        for path in data {
            match self.tree.get(&path).map(|node| node.stored.mzxid > since) {
                None => self.notify(from, Event::Deleted, &path, NO_ZXID),
                Some(true) => self.notify(from, Event::Data, &path, NO_ZXID),
                Some(false) => self.data_watches.add(&path, from, Mode::Standard),
            }
        }
        for path in exist {
            match self.tree.get(&path) {
                Some(_) => self.notify(from, Event::Created, &path, NO_ZXID),
                None => self.data_watches.add(&path, from, Mode::Standard),
            }
        }
        for path in children {
            match self.tree.get(&path).map(|node| node.stored.pzxid > since) {
                None => self.notify(from, Event::Deleted, &path, NO_ZXID),
                Some(true) => self.notify(from, Event::Children, &path, NO_ZXID),
                Some(false) => self.child_watches.add(&path, from, Mode::Standard),
            }
        }
        for path in persistent {
            self.add_persistent_watch(&path, from, Mode::Persistent);
        }
        for path in recursive {
            self.add_persistent_watch(&path, from, Mode::Recursive);
        }
        Ok(())
    }

    /// Adds a persistent watch. A recursive one needs no separate watch on children.
    fn add_persistent_watch(&mut self, path: &str, from: u64, mode: Mode) {
        self.data_watches.add(path, from, mode);
        if mode != Mode::Recursive {
            self.child_watches.add(path, from, mode);
        }
    }

    fn add_watch(&mut self, from: u64, body: &mut Reader<'_>) -> Result<Writer, Malformed> {
        let path = body.text()?;
        let mode = match body.int()? {
            0 => Mode::Persistent,
            1 => Mode::Recursive,
            _ => return Err(Malformed),
        };
        self.add_persistent_watch(&path, from, mode);
        let mut reply = Writer::default();
        reply.int(0);
        Ok(reply)
    }

    fn check_watch(&self, from: u64, body: &mut Reader<'_>) -> Result<bool, Malformed> {
        let (path, which) = (body.text()?, Which::read(body)?);
        let (data, children) = (&self.data_watches, &self.child_watches);
        Ok(match which {
            Which::Children => children.has(&path, from, Some(Mode::Standard)),
            Which::Data => data.has(&path, from, Some(Mode::Standard)),
            Which::Persistent => data.has(&path, from, Some(Mode::Persistent)),
            Which::Recursive => data.has(&path, from, Some(Mode::Recursive)),
            Which::Any => children.has(&path, from, None) || data.has(&path, from, None),
        })
    }

    fn remove_watch(&mut self, from: u64, body: &mut Reader<'_>) -> Result<bool, Malformed> {
        let (path, which) = (body.text()?, Which::read(body)?);
        let (data, children) = (&mut self.data_watches, &mut self.child_watches);
        Ok(match which {
            Which::Children => children.remove(&path, from, Some(Mode::Standard)),
            Which::Data => data.remove(&path, from, Some(Mode::Standard)),
            Which::Persistent => {
                let mode = Some(Mode::Persistent);
                children.remove(&path, from, mode) | data.remove(&path, from, mode)
            }
            Which::Recursive => data.remove(&path, from, Some(Mode::Recursive)),
            Which::Any => children.remove(&path, from, None) | data.remove(&path, from, None),
        })
    }
}

fn malformed(_: Malformed) -> i32 {
    code::MARSHALLING_ERROR
}
