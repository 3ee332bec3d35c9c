//! Random requests.

use etcd_client::{
    Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    WatchFilterType, WatchOptions,
};
use fastrand::Rng;

/// A request to a server.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Get(String, GetOptions),
    Put(String, &'static str, PutOptions),
    Delete(String, DeleteOptions),
    Txn(Txn),
    Compact(i64),
    Grant { id: i64, ttl: i64 },
    Revoke(i64),
    KeepAlive(i64),
    TimeToLive { id: i64, keys: bool },
    Leases,
    Watch(String, WatchOptions),
    Cancel(i64),
}

impl Request {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Get(..) => "Get",
            Self::Put(..) => "Put",
            Self::Delete(..) => "Delete",
            Self::Txn(_) => "Txn",
            Self::Compact(_) => "Compact",
            Self::Grant { .. } => "Grant",
            Self::Revoke(_) => "Revoke",
            Self::KeepAlive(_) => "KeepAlive",
            Self::TimeToLive { .. } => "TimeToLive",
            Self::Leases => "Leases",
            Self::Watch(..) => "Watch",
            Self::Cancel(_) => "Cancel",
        }
    }
}

/// A source of random requests.
pub(super) struct Dice {
    pub(super) rng: Rng,
    /// The prefix of all keys of the sequence.
    pub(super) run: String,
    /// The newest known revision.
    pub(super) revision: i64,
}

impl Dice {
    fn seldom(&mut self, one_in: u8) -> bool {
        self.rng.u8(..one_in) == 0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.usize(..all.len())]
    }

    fn below(&mut self, names: &[&str]) -> String {
        let name = self.one_of(names);
        [&self.run, name].concat()
    }

    fn key(&mut self) -> String {
        match self.rng.u8(..40) {
            0 => String::new(),
            _ => self.below(&["a", "b", "bb", "c", "d"]),
        }
    }

    /// The end of a range of keys. It may be less than their start.
    fn end(&mut self) -> String {
        self.below(&["a", "b", "c", "d", "e"])
    }

    fn lease(&mut self) -> i64 {
        self.rng.i64(1..5)
    }

    /// Returns a revision, possibly compacted or in the future.
    fn some_revision(&mut self) -> i64 {
        self.revision + self.rng.i64(-12..3)
    }

    fn get(&mut self) -> GetOptions {
        let mut options = GetOptions::new();
        options = match self.rng.u8(..8) {
            0..3 => options,
            3..5 => options.with_prefix(),
            5 => options.with_from_key(),
            _ => options.with_range(self.end()),
        };
        if self.seldom(4) {
            options = options.with_limit(self.rng.i64(-1..4));
        }
        if self.seldom(5) {
            options = options.with_revision(self.some_revision());
        }
        if self.seldom(3) {
            let targets = [
                SortTarget::Key,
                SortTarget::Version,
                SortTarget::Create,
                SortTarget::Mod,
                SortTarget::Value,
            ];
            let orders = [SortOrder::None, SortOrder::Ascend, SortOrder::Descend];
            options = options.with_sort(self.one_of(&targets), self.one_of(&orders));
        }
        if self.seldom(8) {
            options = options.with_min_mod_revision(self.some_revision());
        }
        if self.seldom(8) {
            options = options.with_max_mod_revision(self.some_revision());
        }
        if self.seldom(8) {
            options = options.with_min_create_revision(self.some_revision());
        }
        if self.seldom(8) {
            options = options.with_max_create_revision(self.some_revision());
        }
        options = if self.seldom(4) { options.with_keys_only() } else { options };
        options = if self.seldom(8) { options.with_count_only() } else { options };
        if self.seldom(3) { options.with_serializable() } else { options }
    }

    fn put(&mut self) -> PutOptions {
        let mut options = PutOptions::new();
        if self.seldom(3) {
            options = options.with_lease(self.lease());
        }
        options = if self.seldom(4) { options.with_prev_key() } else { options };
        options = if self.seldom(8) { options.with_ignore_value() } else { options };
        if self.seldom(8) { options.with_ignore_lease() } else { options }
    }

    fn value(&mut self) -> &'static str {
        self.one_of(&["", "", "1", "2", "x y"])
    }

    fn delete(&mut self) -> DeleteOptions {
        let options = match self.rng.u8(..6) {
            0..4 => DeleteOptions::new(),
            4 => DeleteOptions::new().with_prefix(),
            _ => DeleteOptions::new().with_range(self.end()),
        };
        if self.seldom(2) { options.with_prev_key() } else { options }
    }

    fn compare(&mut self) -> Compare {
        let operators =
            [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less];
        let (key, operator) = (self.key(), self.one_of(&operators));
        let revision = if self.seldom(2) { 0 } else { self.some_revision() };
        let compare = match self.rng.u8(..5) {
            0 => Compare::version(key, operator, self.rng.i64(0..3)),
            1 => Compare::create_revision(key, operator, revision),
            2 => Compare::mod_revision(key, operator, revision),
            3 => Compare::value(key, operator, self.value()),
            _ => Compare::lease(key, operator, self.rng.i64(0..5)),
        };
        match self.rng.u8(..6) {
            0 => compare.with_prefix(),
            1 => compare.with_range(self.end()),
            _ => compare,
        }
    }

    /// `depth` is the number of levels that transactions may nest.
    fn txn(&mut self, depth: u8) -> Txn {
        let compares: Vec<_> = (0..self.rng.u8(..3)).map(|_| self.compare()).collect();
        let mut branch = || {
            // Rarely exceed the server's limit of operations.
            let most = if self.seldom(12) { 6 } else { 3 };
            (0..self.rng.u8(..=most)).map(|_| self.operation(depth)).collect::<Vec<_>>()
        };
        let (success, failure) = (branch(), branch());
        Txn::new().when(compares).and_then(success).or_else(failure)
    }

    fn operation(&mut self, depth: u8) -> TxnOp {
        match self.rng.u8(..8) {
            0..3 => TxnOp::get(self.key(), Some(self.get())),
            3..6 => TxnOp::put(self.key(), self.value(), Some(self.put())),
            6 if depth > 0 => TxnOp::txn(self.txn(depth - 1)),
            _ => TxnOp::delete(self.key(), Some(self.delete())),
        }
    }

    fn watch(&mut self) -> WatchOptions {
        let mut options = WatchOptions::new();
        options = match self.rng.u8(..5) {
            0 => options.with_prefix(),
            1 => options.with_range(self.end()),
            2 => options.with_from_key(),
            _ => options,
        };
        if self.seldom(2) {
            options = options.with_watch_id(self.rng.i64(1..4));
        }
        if self.seldom(4) {
            options = options.with_start_revision(self.some_revision());
        }
        options = if self.seldom(2) { options.with_prev_key() } else { options };
        match self.rng.u8(..6) {
            0 => options.with_filters([WatchFilterType::NoPut]),
            1 => options.with_filters([WatchFilterType::NoDelete]),
            _ => options,
        }
    }

    pub(super) fn request(&mut self) -> Request {
        match self.rng.u8(..40) {
            0..8 => Request::Get(self.key(), self.get()),
            8..16 => Request::Put(self.key(), self.value(), self.put()),
            16..20 => Request::Delete(self.key(), self.delete()),
            20..30 => Request::Txn(self.txn(2)),
            30 => Request::Compact(self.some_revision()),
            31..33 => Request::Grant { id: self.lease(), ttl: self.one_of(&TTLS) },
            33 => Request::Revoke(self.lease()),
            34 => Request::KeepAlive(self.rng.i64(0..5)),
            35 => Request::TimeToLive { id: self.lease(), keys: self.seldom(2) },
            36 => Request::Leases,
            37..39 => Request::Watch(self.key(), self.watch()),
            _ => Request::Cancel(self.rng.i64(0..4)),
        }
    }
}

/// No lease expires within a sequence.
const TTLS: [i64; 5] = [500, 1000, 9_000_000_000, 9_000_000_001, i64::MAX];
