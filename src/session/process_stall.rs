//! The stalls of a session's process, and how much renewals count after them.
//!
//! This matters for stores whose servers forward a renewal to the deciding server only with their
//! next report (`Facts::relays_renewals`). Times are given in units of the session timeout T. For a
//! process that never stalls, see `renewed_for` in `backend/zookeeper/renewal.rs`.
//!
//! After a stall, the last report that the leader certainly received is older. It covers the
//! requests that were sent until the stall began, or until at most T/8 before that. It reached the
//! leader before the write that has returned.
//!
//! The module is here and not in the ZooKeeper backend because the deadline of every session uses
//! it.

use std::time::Duration;

use super::timing::Timing;

/// The stalls of one session. Without forwarded renewals, none are recorded.
#[derive(Debug)]
pub(crate) struct ProcessStalls {
    timing: Timing,
    /// When the session's keeper last ran.
    beat: Duration,
    recent: Vec<ProcessStall>,
}

#[derive(Clone, Copy, Debug)]
struct ProcessStall {
    from: Duration,
    until: Duration,
}

/// How long a renewal counts, for guards (`deadline`) and requests in flight (`ends`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) deadline: Duration,
    pub(crate) ends: Duration,
}

impl ProcessStalls {
    pub(crate) fn new(timing: Timing, now: Duration) -> Self {
        Self { timing, beat: now, recent: Vec::new() }
    }

    /// Records that the keeper runs.
    pub(crate) fn beat(&mut self, now: Duration) {
        self.listen(now);
        self.beat = now;
    }

    /// Records a stall, if there was one.
    ///
    /// Tasks other than the keeper call this, because they may wake up first.
    pub(crate) fn listen(&mut self, now: Duration) {
        if !self.timing.relayed || now.saturating_sub(self.beat) <= self.timing.longest_pause() {
            return;
        }
        match self.recent.last_mut() {
            Some(last) if last.from == self.beat => last.until = now,
            _ => {
                // Older stalls no longer affect any renewal that still counts.
                self.recent.retain(|silence| silence.until + self.timing.forgotten() > now);
                self.recent.push(ProcessStall { from: self.beat, until: now });
            }
        }
    }

    /// Returns how long a renewal counts that was sent at `sent`.
    pub(crate) fn limit(&self, sent: Duration, proof: Proof) -> Proof {
        let touched =
            self.recent.iter().filter(|silence| silence.from < sent && sent < self.over(**silence));
        touched.fold(proof, |proof, silence| Proof {
            deadline: proof.deadline.min(silence.from + self.timing.certainly_kept()),
            ends: proof.ends.min(silence.from + self.timing.kept()),
        })
    }

    /// Returns when renewals count in full again, if that is in the future.
    pub(crate) fn counts_from(&self, now: Duration) -> Option<Duration> {
        self.recent.iter().map(|silence| self.over(*silence)).max().filter(|at| *at > now)
    }

    fn over(&self, silence: ProcessStall) -> Duration {
        silence.until + self.timing.stutter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(8000);

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(100_000 + milliseconds)
    }

    /// Returns how many milliseconds after `sent` a renewal counts, of at most 0.6 T.
    fn worth(process_stalls: &ProcessStalls, sent: Duration) -> i128 {
        let whole = Proof { deadline: sent + TTL * 6 / 10, ends: sent + TTL * 2 / 3 };
        let deadline = process_stalls.limit(sent, whole).deadline;
        deadline.as_millis() as i128 - sent.as_millis() as i128
    }

    #[test]
    fn running_process_is_trusted() {
        let mut process_stalls = ProcessStalls::new(Timing { ttl: TTL, relayed: true }, at(0));
        for beat in (0..20_000).step_by(1000) {
            process_stalls.beat(at(beat));
            process_stalls.listen(at(beat + 500));
            assert_eq!(worth(&process_stalls, at(beat + 600)), 4800);
            assert_eq!(process_stalls.counts_from(at(beat)), None);
        }
    }

    #[test]
    fn renewal_across_stall_counts_from_before_it() {
        // (stall, time of sending after its end, milliseconds)
        for (silence, sent, worth_of) in [
            (1001, 0, 4800),
            (1001, 2900, 6200 - 1001 - 2900),
            (4000, 0, 2200),
            (4000, 2900, -700),
            (8500, 1, -2301),
            (8500, 2999, 6200 - 8500 - 2999),
            // By then a report has covered requests sent since the stall.
            (8500, 3000, 4800),
            (4000, 3001, 4800),
        ] {
            let mut process_stalls = ProcessStalls::new(Timing { ttl: TTL, relayed: true }, at(0));
            process_stalls.beat(at(silence));
            assert_eq!(worth(&process_stalls, at(silence + sent)), worth_of, "{silence} {sent}");
            if sent < 3000 {
                // Requests in flight may be applied for a tenth of the TTL longer.
                let whole = Proof { deadline: at(90_000), ends: at(90_000) };
                let Proof { deadline, ends } = process_stalls.limit(at(silence + sent), whole);
                assert_eq!((deadline, ends), (at(6200), at(7000)), "{silence} {sent}");
            }
            assert_eq!(process_stalls.counts_from(at(silence)), Some(at(silence + 3000)));
            assert_eq!(process_stalls.counts_from(at(silence + 3000)), None);
        }
    }

    #[test]
    fn request_sent_before_stall_keeps_its_worth() {
        let mut process_stalls = ProcessStalls::new(Timing { ttl: TTL, relayed: true }, at(0));
        process_stalls.beat(at(500));
        process_stalls.beat(at(9000));
        assert_eq!(worth(&process_stalls, at(500)), 4800);
        assert!(worth(&process_stalls, at(501)) < 6300 && worth(&process_stalls, at(8999)) < 0);
    }

    /// The caller's own write returns before the keeper has woken up.
    #[test]
    fn first_caller_notices_the_stall() {
        let mut process_stalls = ProcessStalls::new(Timing { ttl: TTL, relayed: true }, at(0));
        process_stalls.listen(at(8200));
        assert!(worth(&process_stalls, at(8199)) < 0);
        process_stalls.listen(at(8300));
        assert_eq!(process_stalls.recent.len(), 1, "it is one silence");
        process_stalls.beat(at(8400));
        assert_eq!(process_stalls.counts_from(at(8400)), Some(at(11_400)));
        // A second stall does not cancel the first.
        process_stalls.beat(at(10_000));
        assert!(worth(&process_stalls, at(8500)) < 0);
        assert_eq!(process_stalls.recent.len(), 2);
        process_stalls.beat(at(100_000));
        assert_eq!(process_stalls.recent.len(), 1);
        // Two TTLs after the end of the first stall.
        process_stalls.beat(at(100_500));
        for (at_last, remembered) in [(115_999, 2), (116_000, 1)] {
            let mut process_stalls =
                ProcessStalls { recent: process_stalls.recent.clone(), ..process_stalls };
            process_stalls.beat(at(at_last));
            assert_eq!(process_stalls.recent.len(), remembered, "{at_last}");
        }
    }
}
