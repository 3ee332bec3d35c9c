//! A mutex without poisoning.

pub(crate) use std::sync::MutexGuard;
use std::sync::{Mutex as StdMutex, PoisonError};

/// The standard mutex, ignoring poisoning.
///
/// The library's code neither panics nor calls the user's code while it holds a lock, and each
/// statement leaves the protected value consistent.
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
