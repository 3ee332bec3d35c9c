//! Tests of the checker: a correct history passes, and a history with a fault does not.

mod primitives;
mod stores;

use super::*;
use crate::event::Promise;
use Invariant::{Call, FencedWrites, GuardedWrites, Order, Orphan, Overlap, Token, Unserved};

const SECOND: u64 = 1_000_000;

fn run() -> Run {
    Run { processes: 2, seconds: 10, ttl_ms: 2000, seed: 1, ..Run::default() }
}

fn record(at: u64, by: &str, event: Event) -> Record {
    Record { at, by: by.to_owned(), event }
}

fn called(at: u64, by: &str, call: u64, manner: Manner, limit: Option<u64>) -> Record {
    record(at, by, Event::Called { call, wish: call, lock: "red".to_owned(), manner, limit })
}

fn granted(at: u64, by: &str, call: u64, token: u64, until: u64) -> Vec<Record> {
    let (lock, key, mode) = ("red".to_owned(), format!("/red/{token}"), Mode::Exclusive);
    let granted = Event::Granted { call, lock, token, key, until, mode };
    let returned = Event::Returned { call, outcome: Outcome::Done };
    vec![record(at, by, granted), record(at, by, returned)]
}

fn releasing(at: u64, by: &str, token: u64) -> Vec<Record> {
    let releasing = Event::Releasing { lock: "red".to_owned(), token, limit: Some(SECOND) };
    let outcome = Outcome::Done;
    let released = Event::Released { lock: "red".to_owned(), token, outcome };
    vec![record(at, by, releasing), record(at + 10, by, released)]
}

fn lost(at: u64, by: &str, token: u64) -> Record {
    record(at, by, Event::Lost { lock: "red".to_owned(), token, reason: String::new() })
}

/// The operator deleted a key.
fn deleted(since: u64, at: u64, key: &str) -> Record {
    record(at, "coordinator", Event::KeyDeleted { key: key.to_owned(), since })
}

/// A fault and its end.
fn struck(kind: &str, target: &str, [from, to]: [u64; 2]) -> [Record; 2] {
    let (kind, target) = (kind.to_owned(), target.to_owned());
    let began = record(from, "coordinator", Event::FaultBegan { fault: 1, kind, target });
    [began, record(to, "coordinator", Event::FaultEnded { fault: 1 })]
}

fn wrote(at: u64, token: Option<u64>, value: u64, after: u64, accepted: bool) -> Record {
    record(at, "registers", Event::Wrote { lock: "red".to_owned(), token, value, after, accepted })
}

/// Grants to A and then to B, and nothing is left.
fn good() -> Vec<Record> {
    let mut records = vec![
        called(100, "a", 1, Manner::Lock, None),
        record(150, "coordinator", Event::KeySeen { key: "/red/5".to_owned(), created: 0 }),
        called(250, "b", 1, Manner::Lock, None),
    ];
    records.extend(granted(200, "a", 1, 5, 2000));
    records.extend(releasing(500, "a", 5));
    records.extend(granted(600, "b", 1, 6, 3000));
    records.extend(releasing(700, "b", 6));
    records.extend([
        wrote(300, Some(5), 1, 0, true),
        wrote(650, Some(6), 2, 1, true),
        wrote(301, None, 1, 0, true),
        wrote(651, None, 2, 1, true),
        record(20 * SECOND, "coordinator", Event::Left { what: Vec::new() }),
    ]);
    records
}

/// Returns the invariants that are violated in the good history with these additional records.
fn violated(more: impl IntoIterator<Item = Record>) -> Vec<Invariant> {
    let mut records = good();
    records.extend(more);
    judged(records)
}

fn judged(records: Vec<Record>) -> Vec<Invariant> {
    judged_of(Store::Etcd, records)
}

fn judged_of(backend: Store, mut records: Vec<Record>) -> Vec<Invariant> {
    records.sort_by_key(|record| record.at);
    let report = check(&Run { backend, ..run() }, &records);
    println!("{:?}", report.violations);
    report.violations.into_keys().collect()
}

#[test]
fn a_history_in_good_order_passes() {
    assert_eq!(violated([]), []);
}

#[test]
fn writes_out_of_the_order_of_tokens_are_reported() {
    assert_eq!(violated([wrote(800, Some(5), 3, 2, true)]), [FencedWrites]);
    assert_eq!(violated([wrote(800, Some(5), 3, 2, false)]), []);
    // The register must not refuse writes in order.
    assert_eq!(violated([wrote(800, Some(7), 3, 2, false)]), [FencedWrites]);
}

#[test]
fn lost_writes_are_counted_and_reported_where_they_were_fenced() {
    let mut records = good();
    records.extend([wrote(800, None, 3, 1, true), wrote(900, Some(7), 3, 1, true)]);
    records.sort_by_key(|record| record.at);
    let report = check(&run(), &records);
    assert_eq!(
        (report.lost_acknowledged_writes.unfenced, report.lost_acknowledged_writes.fenced),
        (1, 1)
    );
    assert_eq!(report.violations.into_keys().collect::<Vec<_>>(), [FencedWrites]);
    assert_eq!(violated([wrote(800, None, 3, 1, true)]), []);
}

#[test]
fn guards_that_are_valid_at_once_are_reported() {
    assert_eq!(violated(granted(650, "c", 1, 7, 3000)), [Overlap]);
    // It extended its validity before it was overtaken, or afterwards.
    let extended = Event::Extended { lock: "red".to_owned(), token: 7, until: 3000 };
    let mut late = granted(640, "c", 1, 7, 645);
    late.extend(granted(690, "d", 1, 8, 691));
    assert_eq!(violated(late.clone()), [Overlap]);
    let mut after = granted(800, "c", 1, 7, 850);
    after.extend(granted(900, "d", 1, 8, 950));
    assert_eq!(violated(after.clone()), []);
    after.push(record(820, "c", extended));
    assert_eq!(violated(after.clone()), [Overlap]);
    // A guard that was lost no longer counts.
    after.push(lost(890, "c", 7));
    assert_eq!(violated(after), []);
    // A guard that was never valid was never held.
    assert_eq!(violated(granted(650, "c", 1, 7, 0)), []);
}

#[test]
fn eviction_allows_a_short_overlap() {
    let mut overlapping = granted(SECOND, "c", 1, 7, 3 * SECOND);
    overlapping.extend(granted(SECOND + 200_000, "d", 1, 8, SECOND + 300_000));
    assert_eq!(violated(overlapping.clone()), [Overlap]);
    let of =
        |since, at, key| violated([vec![deleted(since, at, key)], overlapping.clone()].concat());
    assert_eq!(of(SECOND + 100, SECOND + 200, "/red/7"), []);
    // With another label.
    assert_eq!(of(SECOND + 100, SECOND + 200, "/red/7.r"), []);
    // Another key, or a deletion afterwards.
    assert_eq!(of(SECOND + 100, SECOND + 200, "/red/77"), [Overlap]);
    assert_eq!(of(SECOND + 250_000, SECOND + 250_001, "/red/7"), [Overlap]);
    // For a moment only.
    overlapping.extend(granted(SECOND + 400_000, "e", 1, 9, 2 * SECOND));
    let early = deleted(SECOND + 100, SECOND + 200, "/red/7");
    assert_eq!(violated([vec![early.clone()], overlapping.clone()].concat()), [Overlap]);
    // A holder that is cut off cannot be notified.
    for (target, excused) in [("c", true), ("etcd2", true), ("b", false)] {
        let cut = struck("delay", target, [SECOND, 2 * SECOND]);
        let violated = violated([&cut[..], std::slice::from_ref(&early), &overlapping].concat());
        assert_eq!(violated.is_empty(), excused);
    }
    // Nor can a holder whose event was lost, until its next recheck.
    for (kind, until, excused) in [
        ("drop", 2, true),
        ("late-requests", 2, true),
        ("delay", 2, false),
        ("drop", 9, false),
        ("late-requests", 9, false),
    ] {
        let mut records = struck(kind, "c", [SECOND, SECOND + 200]).to_vec();
        records.push(deleted(SECOND + 100, SECOND + 200, "/red/7"));
        records.extend(granted(SECOND, "c", 1, 7, until * SECOND));
        records.extend(granted(SECOND + 400_000, "e", 1, 9, until * SECOND));
        assert_eq!(violated(records).is_empty(), excused, "{kind} {until}");
    }
}

/// The connection that late requests block is given up within a TTL after the fault.
#[test]
fn late_requests_cut_a_holder_off_for_a_ttl() {
    for (since_fault, excused) in [(SECOND, true), (3 * SECOND, false)] {
        let mut records = struck("late-requests", "c", [SECOND, SECOND + 200]).to_vec();
        records.extend(granted(SECOND, "c", 1, 7, 9 * SECOND));
        let at = SECOND + since_fault;
        records.push(deleted(at, at + 100, "/red/7"));
        records.extend(granted(at + 200, "e", 1, 9, at + SECOND));
        assert_eq!(violated(records).is_empty(), excused, "{since_fault}");
    }
}

#[test]
fn holder_on_mysql_notices_eviction_by_polling() {
    for (store, excused) in [(Store::Etcd, false), (Store::Mysql, true)] {
        let mut records = good();
        records.extend(granted(SECOND, "c", 1, 7, 4 * SECOND));
        records.push(deleted(SECOND + 100, SECOND + 200, "/red/7"));
        records.extend(granted(2 * SECOND, "d", 1, 8, 2 * SECOND + 200_000));
        records.sort_by_key(|record| record.at);
        let report = check(&Run { backend: store, ..run() }, &records);
        assert_eq!(report.overlap_violations == 0, excused, "{:?}", report.violations);
    }
}

#[test]
fn grant_of_an_evicted_key_may_return_late() {
    let mut records = granted(SECOND, "d", 1, 8, SECOND + 100);
    records.extend(granted(SECOND + 200, "c", 1, 7, SECOND + 300));
    assert_eq!(violated(records.clone()), [Token]);
    records.push(deleted(SECOND - 100, SECOND - 50, "/red/7"));
    assert_eq!(violated(records), []);
}

#[test]
fn a_stranger_counts_as_a_holder() {
    let called = called(800, "strangers", 1, Manner::Foreign, None);
    let holds = granted(900, "strangers", 1, 7, 950);
    assert_eq!(violated([vec![called.clone()], holds.clone()].concat()), []);
    assert_eq!(violated([vec![called], holds, granted(920, "c", 1, 8, 3000)].concat()), [Overlap]);
}

#[test]
fn guards_that_become_valid_again_are_reported() {
    let revived = Event::Revived { lock: "red".to_owned(), token: 5 };
    assert_eq!(violated([record(400, "a", revived)]), [Overlap]);
}

#[test]
fn loss_notice_lead_is_measured() {
    let mut records = good();
    records.extend(granted(800, "c", 1, 7, 850));
    records.extend(granted(4850, "d", 1, 8, 5000));
    records.extend(releasing(4900, "d", 8));
    // It was stopped, and noticed the loss only after it resumed.
    records.push(lost(4860, "c", 7));
    records.sort_by_key(|record| record.at);
    let report = check(&run(), &records);
    assert_eq!(report.loss_notice_lead_ms.map(|lead| (lead.count, lead.min)), Some((1, 4.0)));
}

#[test]
fn tokens_that_do_not_rise_are_reported() {
    assert_eq!(violated(granted(800, "c", 1, 4, 900)), [Token]);
    assert_eq!(violated(granted(800, "c", 1, 6, 900)), [Token]);
}

#[test]
fn waiters_that_are_passed_are_reported() {
    let key_seen = |at, created| {
        record(at, "coordinator", Event::KeySeen { key: "/red/9".to_owned(), created })
    };
    let seen = |at| key_seen(at, 9);
    let mut records =
        vec![called(800, "c", 1, Manner::Lock, None), called(850, "d", 1, Manner::Lock, None)];
    records.extend(granted(900, "d", 1, 8, 950));
    records.extend(granted(1000, "c", 1, 9, 1050));
    assert_eq!(violated(records.clone()), []);
    // Its entry was in the queue before the other call started.
    assert_eq!(violated([vec![seen(840)], records.clone()].concat()), [Order]);
    let mut overtaken = records[..4].to_vec();
    overtaken.extend(granted(1000, "c", 1, 9, 0));
    assert_eq!(violated([vec![seen(840)], overtaken].concat()), []);
    // Its name had belonged to another entry before.
    assert_eq!(violated([vec![key_seen(840, 5), seen(860)], records.clone()].concat()), []);
    assert_eq!(violated([vec![key_seen(840, 0)], records].concat()), [Order]);
}

#[test]
fn waiters_that_are_never_granted_are_reported() {
    let bound = micros(run().bound());
    let healed = || record(800, "coordinator", Event::Healed);
    let waits = || called(750, "c", 1, Manner::Lock, None);
    assert_eq!(violated([waits(), healed()]), [Unserved]);
    let in_time = granted(800 + bound, "c", 1, 7, 900 + bound);
    assert_eq!(violated([vec![waits(), healed()], in_time].concat()), []);
    let late = granted(801 + bound, "c", 1, 7, 900 + bound);
    assert_eq!(violated([vec![waits(), healed()], late].concat()), [Unserved]);
    // It was refused once, and repeats the call.
    let refused =
        record(790, "c", Event::Returned { call: 1, outcome: Outcome::Refused(String::new()) });
    let mut again = called(795, "c", 2, Manner::Lock, None);
    if let Event::Called { wish, .. } = &mut again.event {
        *wish = 1;
    }
    let served = granted(900, "c", 2, 7, 950);
    assert_eq!(
        violated([vec![waits(), healed(), refused.clone(), again.clone()], served].concat()),
        []
    );
    assert_eq!(violated([waits(), healed(), refused, again]), [Unserved]);
}

#[test]
fn leftovers_are_reported() {
    let mut records = good();
    records.pop();
    assert_eq!(judged(records.clone()), [Invariant::Run]);
    let what = vec!["/red/5".to_owned(), "lease 7".to_owned()];
    records.push(record(20 * SECOND, "coordinator", Event::Left { what }));
    assert_eq!(judged(records), [Orphan]);
}

#[test]
fn calls_that_return_late_or_never_are_reported() {
    let call = || called(SECOND, "c", 1, Manner::TryLock, Some(SECOND));
    let returned = |at| record(at, "c", Event::Returned { call: 1, outcome: Outcome::Nothing });
    assert_eq!(violated([call(), returned(2 * SECOND)]), []);
    assert_eq!(violated([call(), returned(4 * SECOND)]), [Call]);
    assert_eq!(violated([call()]), [Call]);
    // The time during which the process was stopped, or blocked by its own program, does not count.
    let stopped = record(SECOND, "coordinator", Event::Stopped { worker: "c".to_owned() });
    let continued = record(3 * SECOND, "coordinator", Event::Continued { worker: "c".to_owned() });
    assert_eq!(violated([call(), stopped, continued, returned(4 * SECOND)]), []);
    let blocking = record(SECOND, "c", Event::Blocking { micros: 2 * SECOND });
    assert_eq!(violated([call(), blocking, returned(4 * SECOND)]), []);
    let exited = |killed, clean| Event::Exited { worker: "c".to_owned(), killed, clean };
    assert_eq!(violated([call(), record(2 * SECOND, "coordinator", exited(true, true))]), []);
    assert_eq!(violated([record(2 * SECOND, "coordinator", exited(false, false))]), [Call]);
}

#[test]
fn wrong_or_late_releases_are_reported() {
    let mut records = granted(SECOND, "c", 1, 7, 2 * SECOND);
    records.push(lost(SECOND + 5, "c", 7));
    records.extend(releasing(SECOND + 10, "c", 7));
    assert_eq!(violated(records), [Call]);
    let mut records = granted(SECOND, "c", 1, 7, 2 * SECOND);
    records.push(releasing(SECOND, "c", 7).swap_remove(0));
    assert_eq!(violated(records), [Call]);
}

#[test]
fn panics_and_unexpected_errors_are_reported() {
    let panicked = Event::Panicked { message: "no".to_owned() };
    assert_eq!(violated([record(800, "c", panicked)]), [Call]);
    let failed = Event::Returned { call: 1, outcome: Outcome::Failed("no".to_owned()) };
    assert_eq!(violated([record(800, "c", failed)]), [Call]);
}

#[test]
fn a_full_disk_is_an_error_that_is_expected() {
    let failed = |at| {
        let outcome = Outcome::Failed("no room".to_owned());
        record(at, "a", Event::Returned { call: 9, outcome })
    };
    let full = |kind: &str| struck(kind, "sqlite", [10 * SECOND, 12 * SECOND]);
    // The store may have reported it shortly before the end.
    for at in [11 * SECOND, 13 * SECOND] {
        assert_eq!(violated([&full("disk-full")[..], &[failed(at)]].concat()), []);
        assert_eq!(violated([&full("clock")[..], &[failed(at)]].concat()), [Call]);
    }
    for at in [9 * SECOND, 14 * SECOND] {
        let records = [&full("disk-full")[..], &[failed(at)]].concat();
        assert_eq!(violated(records), [Call]);
    }
    // A process that was stopped records it late.
    let [stopped, resumed] = [11, 16].map(|second| second * SECOND);
    let worker = || "a".to_owned();
    let paused = [
        record(stopped, "coordinator", Event::Stopped { worker: worker() }),
        record(resumed, "coordinator", Event::Continued { worker: worker() }),
    ];
    let after = |at| violated([&full("disk-full")[..], &paused, &[failed(at)]].concat());
    assert_eq!(after(resumed - SECOND / 1000), []);
    assert_eq!(after(resumed + SECOND), []);
    assert_eq!(after(resumed + 2 * SECOND), [Call]);
}

#[test]
fn violations_are_judged_by_the_guarantees_of_the_store() {
    let judge_of = |backend, exclusive, more: Vec<Record>| {
        let (failover, reasons) = ("maylosegrants".to_owned(), Vec::new());
        let promise = Promise { exclusive, failover, reasons };
        let mut records = good();
        records.push(record(0, "coordinator", Event::Promised(promise)));
        records.extend(more);
        records.sort_by_key(|record| record.at);
        check(&Run { backend, ..run() }, &records)
    };
    let judge = |exclusive, more| {
        judge_of(if exclusive { Store::Etcd } else { Store::RedisAsync }, exclusive, more)
    };
    let lost = || vec![wrote(800, Some(5), 3, 2, true)];
    let left = || vec![record(801, "coordinator", Event::Left { what: vec!["/red/7".to_owned()] })];
    let forgets = judge(false, lost());
    assert_eq!(forgets.violations.keys().collect::<Vec<_>>(), [&FencedWrites]);
    assert!(forgets.is_good() && forgets.durability.is_some_and(|promise| !promise.exclusive));
    assert!(!judge(true, lost()).is_good());
    // It must clean up nevertheless.
    assert!(!judge(false, left()).is_good());
    assert!(judge(true, Vec::new()).is_good());
    // A store that loses nothing must say so, even if nothing happened.
    let denied = judge_of(Store::Etcd, false, Vec::new());
    assert_eq!(denied.violations.keys().collect::<Vec<_>>(), [&Invariant::Run]);
    assert!(!denied.is_good());
}

#[test]
fn a_run_in_which_nothing_happens_proves_nothing() {
    let left = record(20 * SECOND, "coordinator", Event::Left { what: Vec::new() });
    assert_eq!(judged(vec![left]), [Invariant::Run]);
}

#[test]
fn a_run_without_guarded_writes_or_entries_proves_nothing() {
    let exited = Event::Exited { worker: "c".to_owned(), killed: false, clean: true };
    let mut grants = vec![
        record(19 * SECOND, "coordinator", exited),
        record(20 * SECOND, "coordinator", Event::Left { what: Vec::new() }),
    ];
    for number in 0..ENOUGH as u64 {
        let at = SECOND + number * 1000;
        grants.extend(granted(at, "c", number, 10 + number, at + 500));
        grants.extend(releasing(at + 400, "c", 10 + number));
    }
    let wrong = |more: &[Record]| {
        let mut records = [&grants[..], more].concat();
        records.sort_by_key(|record| record.at);
        let mut report = check(&run(), &records);
        let wrong = report.violations.remove(&Invariant::Run).unwrap_or_default();
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        wrong
    };
    let of = |wrong: &[String], what: &str| wrong.len() == 1 && wrong[0].contains(what);
    let seen = Event::KeySeen { key: "/red/10".to_owned(), created: 10 };
    let seen = vec![record(SECOND - 1, "coordinator", seen)];
    let written = primitives::guarded(SECOND + 100, "c", 1_000_000, 10, Some(Outcome::Done));
    assert_eq!(wrong(&[]).len(), 2);
    assert!(of(&wrong(&seen), "guarded write"));
    assert!(of(&wrong(&written), "never seen in a queue"));
    assert_eq!(wrong(&[seen, written].concat()), [""; 0]);
    // A few grants prove little either way.
    grants.truncate(2 + 4 * (ENOUGH - 1));
    let mut report = check(&run(), &grants);
    assert_eq!(report.violations.remove(&Invariant::Run), None);
}
