//! A mutex at which the scheduler may switch to another thread.

pub(crate) use shuttle::sync::MutexGuard;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("the thread did not panic")
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("the thread did not panic")
    }
}
