//! How many permits a semaphore has, as far as anybody can know.

use std::time::Duration;

use crate::{error::Error, scheduler};

/// How long a change whose caller was told that it failed may still come.
const DOUBT: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(crate) struct Setting {
    begun: u32,
    done: u32,
    /// Until when one that failed may still come.
    doubtful: Duration,
    /// The last change began when no other was under way.
    alone: bool,
    /// What the last change made it, if that is known, and no other was under way beside it.
    number: Option<u32>,
}

/// A number, and how many changes had begun by then.
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

/// Who names the number that was set may have as many as that.
pub(crate) fn check(name: usize, before: Known, (wanted, named): (u32, u32), error: &Error) {
    if let Error::InvalidArgument { argument: "permits", .. } = error
        && before == known(name)
        && before.is_some_and(|(number, _)| number == named && wanted <= number)
        && !scheduler::with(|world| world.forgets)
    {
        let what = format!("{before:?} was set, and yet {error}");
        scheduler::with(|world| world.history.violated(what));
    }
}
