//! A mutex that knows no poison.

pub(crate) use std::sync::MutexGuard;
use std::sync::{Mutex as StdMutex, PoisonError};

/// The standard library's, without its memory of panics: no code of ours panics while it holds one,
/// nor does it call the user's, and each statement leaves what is locked whole.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(StdMutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(StdMutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
