//! Values that may change while a client lives: credentials and certificates.

use std::{
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use crate::runtime::{clock, executor::aside, mutex::Mutex};

/// How long a value counts as current, so that most requests read no file.
const FRESH: Duration = Duration::from_secs(1);

type Read<T> = Arc<dyn Fn() -> io::Result<T> + Send + Sync>;

/// The origin of a value: fixed, or read again and again from files or the program.
#[derive(Clone)]
pub(crate) enum Origin<T> {
    Fixed(T),
    Changing(Read<T>),
}

impl<T> Origin<T> {
    pub(crate) fn changing(read: impl Fn() -> io::Result<T> + Send + Sync + 'static) -> Self {
        Self::Changing(Arc::new(read))
    }
}

impl<T: fmt::Debug> fmt::Debug for Origin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(value) => value.fmt(f),
            Self::Changing(_) => f.write_str("changing"),
        }
    }
}

/// The current version of a value. Clones share the same source.
pub(crate) struct Source<T>(Arc<Inner<T>>);

struct Inner<T> {
    /// `None` if the value never changes.
    read: Option<Read<T>>,
    known: Mutex<Known<T>>,
}

struct Known<T> {
    newest: Arc<T>,
    read_at: Duration,
    /// The number of reads that have begun.
    begun: u64,
    /// The number of the read that returned `newest`.
    read: u64,
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Hides the value, which may be secret.
impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.read.is_some() { "Source(changing)" } else { "Source(fixed)" })
    }
}

impl<T: PartialEq> Source<T> {
    /// Reads the value for the first time. Fails if that is not possible.
    pub(crate) fn open(origin: Origin<T>) -> io::Result<Self> {
        Ok(match origin {
            Origin::Fixed(value) => Self::of(None, value),
            Origin::Changing(read) => {
                let first = call(&read)?;
                Self::of(Some(read), first)
            }
        })
    }

    fn of(read: Option<Read<T>>, value: T) -> Self {
        let newest = Arc::new(value);
        let known = Known { newest, read_at: clock::now(), begun: 0, read: 0 };
        Self(Arc::new(Inner { read, known: Mutex::new(known) }))
    }

    /// Returns the current value, as the same `Arc` as long as it does not change. It may be out of
    /// date by up to [`FRESH`]. If it cannot be read, perhaps because it is being replaced, the
    /// last value is returned.
    #[cfg_attr(not(feature = "_network"), allow(dead_code))]
    pub(crate) fn newest(&self) -> Arc<T> {
        let now = clock::now();
        if let Some(read) = &self.0.read {
            let due = {
                let mut known = self.0.known.lock();
                let due = now.saturating_sub(known.read_at) >= FRESH;
                due.then(|| {
                    // Other callers use the last value in the time of the read.
                    known.read_at = now;
                    known.begun += 1;
                    known.begun
                })
            };
            // Read without the lock, as this may be the program's code.
            if let Some(number) = due
                && let Ok(newest) = call(read)
            {
                let mut known = self.0.known.lock();
                // A later read may have ended first.
                if number > known.read {
                    known.read = number;
                    if newest != *known.newest {
                        known.newest = Arc::new(newest);
                    }
                }
            }
        }
        Arc::clone(&self.0.known.lock().newest)
    }

    /// Makes the next call of `newest` read the value again. The last value may have been rejected.
    #[cfg_attr(not(feature = "_network"), allow(dead_code))]
    pub(crate) fn expire(&self) {
        self.0.known.lock().read_at = Duration::ZERO;
    }
}

/// Calls the program's code. A panic becomes an error, and does not end a task of the library.
fn call<T>(read: &Read<T>) -> io::Result<T> {
    aside(|| catch_unwind(AssertUnwindSafe(|| read())))
        .unwrap_or_else(|_| Err(io::Error::other("the callback panicked")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    #[test]
    fn changing_source_is_reread_periodically() {
        let value = Arc::new(AtomicU32::new(1));
        let calls = Arc::new(AtomicU32::new(0));
        let (read, counted) = (Arc::clone(&value), Arc::clone(&calls));
        let source = Source::open(Origin::changing(move || {
            counted.fetch_add(1, SeqCst);
            match read.load(SeqCst) {
                0 => Err(io::Error::other("not now")),
                13 => panic!("thirteen"),
                value => Ok(value),
            }
        }));
        let source = source.unwrap();
        let first = source.newest();
        value.store(2, SeqCst);
        assert!(Arc::ptr_eq(&first, &source.newest()));
        assert_eq!(calls.load(SeqCst), 1);
        source.expire();
        assert_eq!(*source.newest(), 2);
        for unreadable in [0, 13] {
            value.store(unreadable, SeqCst);
            source.expire();
            assert_eq!(*source.newest(), 2, "the last one is kept");
        }
        value.store(2, SeqCst);
        source.expire();
        let before = source.newest();
        source.expire();
        assert!(Arc::ptr_eq(&before, &source.newest()), "the same is the same");
        let refused = Origin::<u32>::changing(|| Err(io::Error::other("no")));
        assert!(Source::open(refused).is_err());
        assert!(Source::<u32>::open(Origin::changing(|| panic!("no"))).is_err());
    }

    #[test]
    fn fixed_source_is_never_reread() {
        let source = Source::open(Origin::Fixed(1)).unwrap();
        source.expire();
        assert!(Arc::ptr_eq(&source.newest(), &source.clone().newest()));
    }
}
