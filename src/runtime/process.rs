//! The seam to the process. A fork copies all data of a client but none of its threads, and its
//! connections still belong to the parent.

/// A process, identified by its ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// Returns `false` in a child that was forked since.
    ///
    /// A child neither uses nor drops the parent's clients, because either may write to their
    /// connections.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }
}

/// The first process to use a resource that is unusable in forked children.
#[cfg(any(feature = "sqlite", feature = "zookeeper"))]
#[derive(Debug)]
pub(crate) struct FirstUse(std::sync::OnceLock<Process>);

#[cfg(any(feature = "sqlite", feature = "zookeeper"))]
impl FirstUse {
    pub(crate) const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// Returns `false` in a child that was forked after the first use.
    pub(crate) fn is_ours(&self) -> bool {
        self.0.get_or_init(Process::current).is_current()
    }
}
