//! The standard library as the library's sources see it in the interleaving tests.
//!
//! Before each operation on an atomic, a `OnceLock` or a channel, another thread may run.

#![allow(missing_docs)] // of the standard library

pub use std::*;

pub mod sync {
    pub use std::sync::*;

    /// The atomics and the channels of the scheduler's threads.
    pub use shuttle::sync::{atomic, mpsc};

    /// Lets another thread run.
    fn interrupt() {
        shuttle::thread::sleep(std::time::Duration::ZERO);
    }

    /// The standard library's `OnceLock`. Each call takes effect at one moment.
    #[derive(Clone, Debug)]
    pub struct OnceLock<T>(std::sync::OnceLock<T>);

    impl<T> OnceLock<T> {
        #[must_use]
        pub const fn new() -> Self {
            Self(std::sync::OnceLock::new())
        }

        pub fn get(&self) -> Option<&T> {
            interrupt();
            self.0.get()
        }

        pub fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            interrupt();
            self.0.get_or_init(init)
        }

        pub fn set(&self, value: T) -> Result<(), T> {
            interrupt();
            self.0.set(value)
        }
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            Self::new()
        }
    }
}
