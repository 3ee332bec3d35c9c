//! Describes a history: each step, and the queue after it.

use std::{collections::BTreeMap, rc::Rc};

use crate::{
    bits::value_name,
    search::Search,
    system::{Step, System},
};

const NAMES: [char; 3] = ['A', 'B', 'C'];

/// A state of a history, as numbers: the values of each function at all of its arguments.
pub(crate) struct Snapshot {
    values: BTreeMap<Rc<str>, Vec<u64>>,
    stages: Vec<Rc<str>>,
}

/// A step of a history.
pub(crate) struct Taken<'a> {
    pub(crate) step: &'a Step,
    pub(crate) args: BTreeMap<Rc<str>, u64>,
    pub(crate) after: Snapshot,
}

impl Snapshot {
    pub(crate) fn read(
        search: &mut Search<'_>,
        system: &System,
        at: usize,
    ) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for name in ["born", "gone", "owner", "session", "by", "stage", "over", "now", "clock"] {
            let (function, varies) =
                system.function(name).ok_or_else(|| format!("unknown function {name}"))?;
            let at = if varies { at.to_string() } else { String::new() };
            let mut all = Vec::new();
            for point in search.points(&function.domain) {
                all.push(search.number(&value_name(name, &at, &point))?);
            }
            values.insert(name.into(), all);
        }
        let stages = system.enums.get("Stage").cloned().unwrap_or_default();
        Ok(Self { values, stages })
    }

    fn value(&self, name: &str, index: u64) -> u64 {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        self.values.get(name).and_then(|all| all.get(index)).copied().unwrap_or_default()
    }

    fn attempt(&self, index: u64) -> char {
        usize::try_from(index).ok().and_then(|index| NAMES.get(index)).copied().unwrap_or('?')
    }

    fn session(&self, session: u64) -> String {
        let attempts = (0..).zip(NAMES).filter(|(a, _)| self.value("session", *a) == session);
        let names: Vec<_> = attempts.map(|(_, name)| name.to_string()).collect();
        if names.is_empty() {
            "an idle session".into()
        } else {
            format!("{}'s session", names.join(" and "))
        }
    }

    fn queue(&self) -> String {
        let keys = self.values.get("born").map_or(0, Vec::len) as u64;
        let mut queue: Vec<_> = (0..keys)
            .filter(|key| self.value("born", *key) > 0 && self.value("gone", *key) == 0)
            .map(|key| (self.value("born", key), self.attempt(self.value("owner", key))))
            .collect();
        queue.sort_unstable();
        let queue: Vec<_> = queue.iter().map(|(n, attempt)| format!("{attempt}{n}")).collect();
        format!("[{}]", queue.join(" "))
    }

    fn holding(&self) -> Vec<u64> {
        let holds = |attempt: &u64| {
            let stage = usize::try_from(self.value("stage", *attempt)).unwrap_or(usize::MAX);
            self.stages.get(stage).is_some_and(|stage| &**stage == "Holding")
                && self.value("over", self.value("session", *attempt)) == 0
        };
        let attempts = self.values.get("stage").map_or(0, Vec::len) as u64;
        (0..attempts).filter(holds).collect()
    }

    fn holders(&self) -> String {
        let holding = self.holding().into_iter();
        let names: Vec<_> = holding.map(|attempt| self.attempt(attempt).to_string()).collect();
        if names.is_empty() { String::new() } else { format!("held by {}", names.join(" and ")) }
    }

    /// Returns the time in the store and of the holders.
    fn clocks(&self) -> String {
        let mut clocks = format!("it is {} in the store", self.value("now", 0));
        for attempt in self.holding() {
            let clock = self.value("clock", self.value("session", attempt));
            clocks += &format!(" and {clock} for {}", self.attempt(attempt));
        }
        clocks
    }
}

impl Taken<'_> {
    pub(crate) fn describe(&self) -> String {
        let Self { step, args, after } = self;
        let subject = match step.params.first() {
            None => String::new(),
            Some((name, sort)) => {
                let index = args.get(name).copied().unwrap_or_default();
                match &**sort {
                    "Attempt" => after.attempt(index).to_string(),
                    "Key" => format!("key {}", after.value("born", index)),
                    "Session" => after.session(index),
                    _ => format!("a keepalive of {}", after.session(after.value("by", index))),
                }
            }
        };
        let gap = if subject.is_empty() || step.text.starts_with('\'') { "" } else { " " };
        let mut text = format!("{subject}{gap}{}", step.text);
        for (name, sort) in step.params.iter().skip(1) {
            let value = args.get(name).copied().unwrap_or_default();
            match (&**name, &**sort) {
                ("k", _) => text += &format!("; its key is {}", after.value("born", value)),
                ("p", _) if value > 0 => {
                    text += &format!(", behind {}", after.value("born", value))
                }
                ("r", _) => text += &format!(", at revision {value}"),
                _ => {}
            }
        }
        if step.params.is_empty() {
            text += &format!(": {}", after.clocks());
        }
        format!("{text:68} {:10} {}", after.queue(), after.holders()).trim_end().to_owned()
    }
}
