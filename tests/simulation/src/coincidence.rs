//! Faults that rarely coincide by chance: some histories combine them on purpose.

use std::time::Duration;

use crate::{
    plan::{Inside, Plan, Strike, What},
    server::Contract,
};

/// Some combinations have no effect unless messages are lost.
const FAULTS: u32 = 40;

/// By this time a holder's own key is watched.
const WATCHED: Duration = Duration::from_millis(450);

impl Plan {
    /// Adds coincidences from a generator of its own, so that the rest of the plan is unchanged.
    pub(crate) fn with_coincidences(mut self) -> Self {
        let mut dice = fastrand::Rng::with_seed(self.seed ^ 0xc01_0c1de);
        match (dice.u32(..16), self.contract) {
            (0 | 1, _) => self.evict_watched_holders(&mut dice),
            (2, Contract::ZooKeeper) => self.stall(&mut dice),
            (3, Contract::ZooKeeper) => self.stall_while_opening(&mut dice),
            (4, Contract::ZooKeeper) => self.worn = true,
            _ => {}
        }
        if self.contract == Contract::Redis {
            self.trouble_the_server(&mut dice);
        }
        self
    }

    /// The server crashes, loses writes that it has not flushed, and has its clock changed.
    fn trouble_the_server(&mut self, dice: &mut fastrand::Rng) {
        self.everysec = dice.u32(..4) == 0;
        if dice.bool() {
            self.want_one_lock(dice);
        }
        for _ in 0..[0, 0, 1, 3][dice.usize(..4)] {
            let time = Duration::from_millis(dice.u64(1..3000));
            self.strike(Duration::from_millis(dice.u64(..6000)), Strike::Crash(time));
        }
        // Only towards the safer setting: what a crash loses after a change in the other direction
        // is unknown, see docs/stores/redis.md.
        if dice.u32(..4) == 0 {
            self.strike(Duration::from_millis(dice.u64(..6000)), Strike::SetSync);
        }
        for _ in 0..[0, 0, 1, 4][dice.usize(..4)] {
            let by = match dice.u32(..3) {
                0 => dice.i64(-5..=5),
                1 => dice.i64(-60..=60),
                _ => dice.i64(-7200..=7200),
            };
            self.strike(Duration::from_millis(dice.u64(..6000)), Strike::SetClock(by));
        }
    }

    /// Operators delete keys of long-standing holders, and events are lost.
    fn evict_watched_holders(&mut self, dice: &mut fastrand::Rng) {
        self.faults = self.faults.max(FAULTS);
        for caller in &mut self.callers {
            let step = dice.usize(..caller.steps.len());
            if let Some(step) = caller.steps.get_mut(step).filter(|step| step.what.is_lock()) {
                step.inside = Inside::WaitForLoss;
                step.evicted = true;
                step.evicted_after = WATCHED + Duration::from_millis(dice.u64(..1000));
            }
        }
    }

    /// A process stalls. When it resumes, its server is cut off before it has reported that it
    /// heard from the process.
    fn stall(&mut self, dice: &mut fastrand::Rng) {
        self.want_one_lock(dice);
        for at in self.moments(dice) {
            let process = dice.usize(..self.processes);
            let time = self.ttl * dice.u32(20..95) / 100;
            // Servers report the sessions that they heard from four times per TTL.
            let end = at + time + self.ttl * dice.u32(..25) / 100;
            self.strike(at, Strike::Stop(process, time));
            self.strike(end, Strike::CutOff(process, self.ttl * dice.u32(50..150) / 100));
        }
    }

    /// A process loses its session and stalls while it opens a new one, for almost one TTL.
    fn stall_while_opening(&mut self, dice: &mut fastrand::Rng) {
        self.want_one_lock(dice);
        for at in self.moments(dice) {
            let process = dice.usize(..self.processes);
            let time = self.ttl * dice.u32(70..100) / 100;
            self.strike(at, Strike::StopAtOpening(process, time));
            self.strike(at, Strike::Revoke(process, Duration::ZERO));
        }
    }

    /// Most callers request the same lock, and many hold it almost until it expires.
    fn want_one_lock(&mut self, dice: &mut fastrand::Rng) {
        let steps = self.callers.iter_mut().flat_map(|caller| &mut caller.steps);
        for step in steps.filter(|step| step.what.is_lock()) {
            if dice.bool() {
                step.what = What::Mutex(0);
                step.hold = self.ttl * dice.u32(..80) / 100;
            }
        }
    }

    fn moments(&self, dice: &mut fastrand::Rng) -> Vec<Duration> {
        (0..dice.u32(4..16)).map(|_| self.ttl * dice.u32(..1500) / 100).collect()
    }

    fn strike(&mut self, at: Duration, strike: Strike) {
        let place = self.strikes.partition_point(|(other, _)| *other <= at);
        self.strikes.insert(place, (at, strike));
    }
}
