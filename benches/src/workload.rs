//! What the benchmark can measure.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Workload {
    /// One task, one name.
    W1,
    /// 64 tasks, 64 names, one client.
    W2,
    /// Contenders of one name.
    W3,
    /// A long queue, drained.
    W4,
    /// W1 and W3 through a proxy that delays.
    W5,
    /// Many held locks.
    W6,
    /// W1 and W3 on three nodes.
    W7,
    /// Contenders of one name in one client that hands over within itself.
    LH,
}

impl Workload {
    pub(crate) const ALL: [Self; 8] =
        [Self::W1, Self::W2, Self::W3, Self::W4, Self::W5, Self::W6, Self::W7, Self::LH];

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::W1 => "one task, one name",
            Self::W2 => "64 tasks, 64 names, one client",
            Self::W3 => "N contenders of one name",
            Self::W4 => "N waiters of one name in one process, drained",
            Self::W5 => "through a proxy that adds 5 ms each way",
            Self::W6 => "N locks of different names held by one client",
            Self::W7 => "three nodes",
            Self::LH => "N contenders of one name in one client, with local hand-over",
        }
    }
}
