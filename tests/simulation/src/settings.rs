//! The number of permits of a semaphore, as far as it can be known.

use std::time::Duration;

use crate::{error::Error, scheduler};

/// How long a change that failed may still be applied.
const DOUBT: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(crate) struct Setting {
    begun: u32,
    done: u32,
    /// Until when a failed change may still be applied.
    doubtful: Duration,
    /// The last change began while no other was under way.
    alone: bool,
    /// The number that the last change set, if it is known and no other change overlapped.
    number: Option<u32>,
}

/// A number, and how many changes had begun when it was read.
pub(crate) type Known = Option<(u32, u32)>;

pub(crate) fn known(name: usize) -> Known {
    scheduler::with(|world| {
        let setting = world.settings.get(&name)?;
        setting.number.map(|number| (number, setting.begun))
    })
}

pub(crate) fn begin(name: usize) -> u32 {
    scheduler::with(|world| {
        let now = world.now();
        let setting = world.settings.entry(name).or_default();
        setting.number = None;
        setting.alone = setting.begun == setting.done && setting.doubtful < now;
        setting.begun += 1;
        setting.begun
    })
}

pub(crate) fn end(name: usize, change: u32, number: Option<u32>) {
    scheduler::with(|world| {
        let now = world.now();
        let setting = world.settings.entry(name).or_default();
        setting.done += 1;
        if number.is_none() {
            setting.doubtful = now + DOUBT;
        }
        if setting.alone && setting.begun == change && setting.done == change {
            setting.number = number;
        }
    });
}

/// Checks that a caller that names the current number may acquire up to that many permits.
pub(crate) fn check(name: usize, before: Known, (wanted, named): (u32, u32), error: &Error) {
    if let Error::InvalidArgument { argument: "permits", .. } = error
        && before == known(name)
        && before.is_some_and(|(number, _)| number == named && wanted <= number)
        && !scheduler::with(|world| world.forgets)
    {
        let what = format!("{before:?} was set, but the error is {error}");
        scheduler::with(|world| world.history.violated(what));
    }
}
