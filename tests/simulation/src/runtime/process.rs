//! To the library there is one process, which does not fork.

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
