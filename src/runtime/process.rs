//! The seam to the process. A fork copies all that a client is made of, but none of the threads
//! that work for it, and its connections stay its parent's.

/// A process, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn current() -> Self {
        Self(std::process::id())
    }

    /// `false` in a child that was forked since: what is another process's is neither used nor
    /// dropped there, as either may write to its connections.
    pub(crate) fn is_current(self) -> bool {
        self == Self::current()
    }
}

/// The process that was the first to use what a fork breaks for its children.
#[cfg(any(feature = "sqlite", feature = "zookeeper"))]
#[derive(Debug)]
pub(crate) struct FirstUse(std::sync::OnceLock<Process>);

#[cfg(any(feature = "sqlite", feature = "zookeeper"))]
impl FirstUse {
    pub(crate) const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// `false` in a child that was forked after the first use.
    pub(crate) fn is_ours(&self) -> bool {
        self.0.get_or_init(Process::current).is_current()
    }
}
