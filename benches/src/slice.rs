//! The results of a subject's process.

use serde::{Deserialize, Serialize};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::Result;

/// Times are in nanoseconds, memory in KiB.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Slice {
    /// Pairs of a lock and an unlock within the measured time.
    pub(crate) pairs: u64,
    /// The measured time.
    pub(crate) time: u64,
    /// All pairs since the work began: the divisor of the counters.
    pub(crate) all_pairs: u64,
    /// The processor time of all pairs.
    pub(crate) cpu: u64,
    /// Requests that the subject has counted itself, because no server does.
    #[serde(default)]
    pub(crate) asked: u64,
    pub(crate) lock: Vec<u64>,
    pub(crate) unlock: Vec<u64>,
    /// The longest wait, in the measured time or after it.
    #[serde(default)]
    pub(crate) longest: u64,
    /// From the start of an unlock to the return of another contender's lock.
    pub(crate) gap: Vec<u64>,
    pub(crate) raw_write: Vec<u64>,
    pub(crate) stamps: Vec<Stamp>,
    pub(crate) rss: u64,
    pub(crate) rss_peak: u64,
    /// Connected, but without locks and waiters.
    pub(crate) rss_before: u64,
    /// To acquire all locks, and to release them.
    pub(crate) take: u64,
    pub(crate) release: u64,
    pub(crate) errors: u64,
    /// One of the errors.
    pub(crate) error: Option<String>,
}

/// One holder's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) granted: u64,
    pub(crate) released: u64,
    pub(crate) token: Option<u64>,
    /// Within a measurement.
    #[serde(default)]
    pub(crate) process: usize,
    /// Within its process.
    #[serde(default)]
    pub(crate) task: usize,
}

/// Returns the time between turns, each with the two turns, or an error if turns overlap.
pub(crate) fn gaps(stamps: &mut [Stamp]) -> Result<Vec<(u64, [Stamp; 2])>> {
    stamps.sort_unstable();
    let mut gaps = Vec::new();
    for pair in stamps.windows(2) {
        let (one, next) = (pair[0], pair[1]);
        if one.token.is_some() && one.token >= next.token {
            return Err(format!("the token {:?} came after {:?}", next.token, one.token).into());
        }
        let gap =
            next.granted.checked_sub(one.released).ok_or("two clients held the lock at once")?;
        gaps.push((gap, [one, next]));
    }
    Ok(gaps)
}

impl Slice {
    /// Adds the results of another task or process.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.pairs += other.pairs;
        self.time = self.time.max(other.time);
        self.all_pairs += other.all_pairs;
        self.cpu += other.cpu;
        self.asked += other.asked;
        self.lock.extend(other.lock);
        self.unlock.extend(other.unlock);
        self.gap.extend(other.gap);
        self.raw_write.extend(other.raw_write);
        self.longest = self.longest.max(other.longest);
        self.stamps.extend(other.stamps);
        self.rss = self.rss.max(other.rss);
        self.rss_peak = self.rss_peak.max(other.rss_peak);
        self.errors += other.errors;
        self.error = self.error.take().or(other.error);
    }

    /// Adds the results of tasks until a deadline; unfinished tasks are aborted, and count as an
    /// error.
    pub(crate) async fn gather(&mut self, mut tasks: JoinSet<Self>, deadline: Instant) {
        loop {
            match timeout_at(deadline, tasks.join_next()).await {
                Ok(Some(Ok(seen))) => self.absorb(seen),
                Ok(Some(Err(error))) => self.failed(error),
                Ok(None) => return,
                Err(_) => break,
            }
        }
        self.failed(format!("{} tasks did not finish in time", tasks.len()));
        tasks.abort_all();
    }

    pub(crate) fn failed(&mut self, error: impl ToString) {
        self.errors += 1;
        self.error.get_or_insert_with(|| error.to_string());
    }
}
