//! A mutex that counts its locks: a task that needs one must not be woken while it is locked.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::{Mutex as StdMutex, MutexGuard as StdGuard, PoisonError},
};

thread_local! {
    static LOCKED: Cell<u32> = const { Cell::new(0) };
}

/// Returns `true` if any mutex is locked at this moment.
pub(crate) fn any_locked() -> bool {
    LOCKED.get() > 0
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(StdMutex<T>);

pub(crate) struct MutexGuard<'a, T>(StdGuard<'a, T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(StdMutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        LOCKED.set(LOCKED.get() + 1);
        MutexGuard(guard)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        LOCKED.set(LOCKED.get() - 1);
    }
}
