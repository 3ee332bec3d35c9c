//! There is one process as far as the library sees, and it does not fork.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process;

impl Process {
    pub(crate) fn current() -> Self {
        Self
    }

    pub(crate) fn is_current(self) -> bool {
        true
    }
}
