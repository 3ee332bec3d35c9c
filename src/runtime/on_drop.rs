//! What is done at the end of a scope, whichever way it ends.

/// Does its work when it is dropped.
#[must_use]
pub(crate) struct OnDrop<F: Fn()>(pub(crate) F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
