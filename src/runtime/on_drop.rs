//! Work that runs at the end of a scope, however the scope ends.

/// Runs the function when it is dropped.
#[must_use]
pub(crate) struct OnDrop<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
