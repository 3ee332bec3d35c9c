//! Which calls a history contains, and their speed: fewer kinds of calls interact more often.

use std::time::Duration;

use crate::plan::What;

/// The kinds of calls of a history's callers.
pub(crate) struct Menu {
    kinds: [bool; What::KINDS],
    names: usize,
    pub(crate) tempo: Tempo,
}

/// How long callers hold their locks, and pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tempo {
    Usual,
    /// Everything within one or two milliseconds.
    Hasty,
    /// Seconds: sessions idle, and lost events are noticed late.
    Slow,
}

impl Menu {
    pub(crate) fn draw(dice: &mut fastrand::Rng) -> Self {
        let mut kinds = [true; What::KINDS];
        match dice.u32(..8) {
            0..4 => {}
            // Always includes a call that waits.
            4..7 => {
                kinds.iter_mut().for_each(|kind| *kind = dice.bool());
                kinds[dice.usize(..What::LOCKS)] = true;
            }
            // One lock, and possibly other kinds.
            _ => {
                kinds = [false; What::KINDS];
                kinds[dice.usize(..What::LOCKS)] = true;
                (0..2).for_each(|_| kinds[dice.usize(..What::KINDS)] = true);
            }
        }
        let tempo = match dice.u32(..24) {
            0 => Tempo::Slow,
            1..4 => Tempo::Hasty,
            _ => Tempo::Usual,
        };
        Self { kinds, names: dice.usize(1..=3), tempo }
    }

    pub(crate) fn what(&self, dice: &mut fastrand::Rng, agreed: bool) -> What {
        loop {
            let what = What::draw(dice, agreed, self.names);
            if self.kinds[what.kind()] {
                return what;
            }
        }
    }
}

impl Tempo {
    pub(crate) fn hold(self, dice: &mut fastrand::Rng) -> Duration {
        self.time(dice, 20, 3000, 20)
    }

    pub(crate) fn pause(self, dice: &mut fastrand::Rng) -> Duration {
        self.time(dice, 60, 5000, 30)
    }

    /// One value in `of` is long.
    fn time(self, dice: &mut fastrand::Rng, of: u32, long: u64, usual: u64) -> Duration {
        let longest = match (self, dice.u32(..of)) {
            (Self::Slow, count) if count < of / 3 => long,
            (Self::Usual, 0) => long,
            (Self::Hasty, 0) => long / 10,
            (Self::Hasty, _) => 2,
            _ => usual,
        };
        Duration::from_millis(dice.u64(..longest))
    }
}
