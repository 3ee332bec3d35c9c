//! Faults that seldom meet by chance, and hurt when they do: some histories have them together.

use std::time::Duration;

use crate::{
    plan::{Inside, Plan, Strike, What},
    server::Contract,
};

/// Where nothing is lost, nothing comes of some of them.
const FAULTS: u32 = 40;

/// A holder's own key is watched by then.
const WATCHED: Duration = Duration::from_millis(450);

impl Plan {
    /// Drawn apart from the rest of the plan, which stays as it is.
    pub(crate) fn with_coincidences(mut self) -> Self {
        let mut dice = fastrand::Rng::with_seed(self.seed ^ 0xc01_0c1de);
        match (dice.u32(..16), self.contract) {
            (0 | 1, _) => self.rob_the_watched(&mut dice),
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

    /// The server crashes, loses what it has not brought to its disk, and has its clock set.
    fn trouble_the_server(&mut self, dice: &mut fastrand::Rng) {
        self.everysec = dice.u32(..4) == 0;
        if dice.bool() {
            self.want_one_lock(dice);
        }
        for _ in 0..[0, 0, 1, 3][dice.usize(..4)] {
            let time = Duration::from_millis(dice.u64(1..3000));
            self.strike(Duration::from_millis(dice.u64(..6000)), Strike::Crash(time));
        }
        // Not the other way round: what a crash loses then is not known, see docs/ops/README.md.
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

    /// Operators delete the keys of those who have held for a while and go on, and events are lost.
    fn rob_the_watched(&mut self, dice: &mut fastrand::Rng) {
        self.faults = self.faults.max(FAULTS);
        for caller in &mut self.callers {
            let step = dice.usize(..caller.steps.len());
            if let Some(step) = caller.steps.get_mut(step).filter(|step| step.what.is_lock()) {
                step.inside = Inside::WaitForLoss;
                step.robbed = true;
                step.robbed_after = WATCHED + Duration::from_millis(dice.u64(..1000));
            }
        }
    }

    /// A process stands still, and when it goes on its server is cut off before that has reported
    /// what it hears then.
    fn stall(&mut self, dice: &mut fastrand::Rng) {
        self.want_one_lock(dice);
        for at in self.moments(dice) {
            let process = dice.usize(..self.processes);
            let time = self.ttl * dice.u32(20..95) / 100;
            // Servers report what they have heard four times in a session.
            let end = at + time + self.ttl * dice.u32(..25) / 100;
            self.strike(at, Strike::Stop(process, time));
            self.strike(end, Strike::CutOff(process, self.ttl * dice.u32(50..150) / 100));
        }
    }

    /// A process loses its session, and stands still while it is given another one, for almost as
    /// long as that lasts.
    fn stall_while_opening(&mut self, dice: &mut fastrand::Rng) {
        self.want_one_lock(dice);
        for at in self.moments(dice) {
            let process = dice.usize(..self.processes);
            let time = self.ttl * dice.u32(70..100) / 100;
            self.strike(at, Strike::StopAtOpening(process, time));
            self.strike(at, Strike::Revoke(process, Duration::ZERO));
        }
    }

    /// Most callers want the same lock, and many hold it until they would have lost it.
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
