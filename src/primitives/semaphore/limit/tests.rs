//! The notes on the number of permits, and which attempts they admit.

use super::*;
use crate::backend::Entry;

#[test]
fn limit_records_round_trip() {
    for limit in [
        Limit { number: 5, replaced: vec![], generation: 1 },
        Limit { number: 1, replaced: vec![5, 3], generation: u64::MAX },
    ] {
        assert_eq!(Limit::noted(&limit.note()), Some(limit));
    }
    // Notes of builds without generations, and for them: such builds read up to the first character
    // that is not a digit.
    assert_eq!(
        Limit::noted("limit=5+2"),
        Some(Limit { number: 5, replaced: vec![2], generation: 0 })
    );
    let note = Limit { number: 5, replaced: vec![2, 3], generation: 7 }.note();
    assert_eq!(note, "limit=5+2+3+@7");
    for junk in
        ["limit=", "limit=0", "limit=x", "lim", "limit=-1", "limit=@1", "limit=+@1", "limit=0+@1"]
    {
        assert_eq!(Limit::noted(junk), None, "{junk}");
    }
    assert_eq!(claimed("2of10"), Some((2, 10)));
    for junk in ["", "r", "of", "2of", "of10", "-1of2", "1of0"] {
        assert_eq!(claimed(junk), None, "{junk}");
    }
}

#[test]
fn latest_limit_record_counts() {
    for (notes, number) in [
        (&["limit=3+@2", "limit=5+2+@1"][..], 3),
        (&["limit=3+@1", "limit=5+2+@2"], 5),
        (&["limit=3", "limit=5+3+@1"], 5),
        (&["limit=3+5+@9", "limit=5+3+@10"], 5),
        (&["limit=5+@1", "limit=3+@1", "limit=4+@1"], 3),
        (&["limit=5", "limit=3"], 3),
        (&["limit=0+@9", "limit=4+@1", "else"], 4),
    ] {
        let mut notes: Vec<Box<str>> = notes.iter().map(|note| (*note).into()).collect();
        for _ in 0..notes.len() {
            assert_eq!(Limit::latest(&notes).map(|limit| limit.number), Some(number), "{notes:?}");
            notes.rotate_left(1);
        }
    }
    assert_eq!(Limit::latest(&[]), None);
}

/// Judges an attempt for `wanted` of `named` permits, behind these labels and with this note.
fn judged(ahead: &[&str], note: Option<&str>, wanted: u32, named: u32) -> String {
    let member = |(place, label): (usize, &&str)| Member {
        entry: Entry { key: format!("key-{place}").into(), revision: 0, token: 0, crowded: false },
        label: (!label.is_empty()).then(|| (*label).into()),
        detail: None,
    };
    let members: Vec<_> = ahead.iter().enumerate().map(member).collect();
    let notes: Vec<Box<str>> = note.into_iter().map(Into::into).collect();
    match (Limited { name: "a", named, wanted }).judge(&members, &notes) {
        Admission::In => "in".into(),
        Admission::Full => "full".into(),
        Admission::Refused(error) => error.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn larger_limit_does_not_admit_beyond_other_limits() {
    for (ahead, wanted, named, verdict) in [
        (&[][..], 3, 3, "in"),
        (&["1of3", "1of3"], 1, 3, "in"),
        (&["1of3", "1of3"], 2, 3, "full"),
        (&["1of3", "1of3", "1of3"], 1, 3, "full"),
        // While one number replaces another, the smaller one counts.
        (&["1of4"], 1, 3, "in"),
        (&["1of4", "1of4"], 2, 3, "full"),
        (&["1of3", "1of4"], 1, 4, "in"),
        (&["1of3", "1of4"], 2, 4, "full"),
        // The entries that name less will leave, so the attempt waits.
        (&["1of3"], 4, 4, "full"),
        (&[], 4, 3, "4 permits were requested, but it has only 3"),
        // A key that names another number takes its place...
        (&["1of3", "1of4"], 1, 3, "in"),
        (&["1of3", "2of4"], 1, 3, "full"),
        (&["", "1of3"], 1, 3, "in"),
        (&["", "1of3", "x"], 1, 3, "full"),
        (&["1of0", "1of3"], 1, 3, "in"),
        // ... but its number admits no other attempt.
        (&["1of5", "1of3"], 1, 5, "in"),
        (&["1of5", "1of3", "1of5"], 1, 5, "full"),
        (&["1of5", "1of3"], 4, 5, "full"),
        (&["1of5", "1of5", "1of5"], 1, 5, "in"),
        (&["1of3", "1of2"], 1, 3, "full"),
    ] {
        let verdict_now = judged(ahead, None, wanted, named);
        let shown = verdict_now.split(": request").next().unwrap();
        assert!(shown.ends_with(verdict), "{wanted} of {named} behind {ahead:?}: {verdict_now}");
    }
    // The note applies to all attempts.
    for (ahead, wanted, named, verdict) in [
        (&["1of5", "1of3", "1of5"][..], 1, 3, "in"),
        (&["1of5", "1of3", "1of5"], 2, 5, "in"),
        (&["1of5", "1of3", "1of5"], 3, 5, "full"),
        (&[], 5, 3, "in"),
        // The note has not replaced these numbers, so the smaller one counts.
        (&["1of4"], 3, 4, "in"),
        (&["1of4"], 4, 4, "full"),
        (&["1of4"], 4, 5, "full"),
        (&["1of9"], 4, 5, "in"),
        (&["1of9"], 5, 9, "full"),
        (&[], 9, 9, "9 permits were requested, but it has only 5"),
    ] {
        let verdict_now = judged(ahead, Some("limit=5+3+@2"), wanted, named);
        let shown = verdict_now.split(": request").next().unwrap();
        assert!(shown.ends_with(verdict), "{wanted} of {named} behind {ahead:?}: {verdict_now}");
    }
}

/// After a failover, the holders whose keys are gone may still have permits.
#[test]
fn entry_of_nobody_admits_no_client() {
    for ahead in [&["nobody"][..], &["1of9", "nobody"], &["nobody", "1of9"]] {
        assert_eq!(judged(ahead, None, 1, 9), "full", "{ahead:?}");
        assert_eq!(judged(ahead, Some("limit=5+9+@2"), 1, 9), "full", "{ahead:?}");
    }
}

#[test]
fn limit_record_replaces_named_limits() {
    let notes = |notes: &[&str]| notes.iter().map(|note| (*note).into()).collect::<Vec<Box<str>>>();
    for (old, named, number, new) in [
        (&[][..], &[3][..], 5, "limit=5+3+@1"),
        (&[], &[5], 5, "limit=5+@1"),
        (&["limit=5+3+@1"], &[5, 7, 7], 3, "limit=3+5+7+@2"),
        (&["limit=5+3+@1", "limit=4+@2"], &[4], 6, "limit=6+4+@3"),
        (&["limit=9+8+7+6+5+4+3+2+1+@1"], &[10], 11, "limit=11+10+9+8+7+6+5+4+3+@2"),
    ] {
        let limit = Limit::next(&notes(old), named.iter().copied(), number);
        assert_eq!(limit.note(), new, "{old:?} {named:?} {number}");
    }
}

#[test]
fn permit_holders_are_no_waiters() {
    let member = |label: &str| Member {
        entry: Entry { key: label.into(), revision: 0, token: 0, crowded: false },
        label: Some(label.into()),
        detail: None,
    };
    for (labels, note, waits, count) in [
        (&[][..], None, true, 0),
        (&["1of2", "1of2", "1of2"], None, true, 2),
        (&["2of2", "1of2"], None, true, 1),
        (&["1of3", "1of2", "1of3"], None, true, 2),
        (&["x", "1of2", "1of2"], None, true, 2),
        (&["1of2", "1of2", "1of2"], Some("limit=3+2+@1"), true, 3),
        // There were four permits.
        (&["2of4", "2of4"], Some("limit=2+4+@1"), false, 2),
        (&["2of4", "2of4", "1of4"], Some("limit=2+4+@1"), true, 2),
    ] {
        let members: Vec<_> = labels.iter().map(|label| member(label)).collect();
        let notes: Vec<Box<str>> = note.into_iter().map(Into::into).collect();
        assert_eq!(holding(&members, &notes, waits), count, "{labels:?} {note:?}");
    }
}

/// Four attempts once had permits, although one of them had named three: it was admitted behind an
/// attempt that had named more and was about to be refused. In every order of events, no holder has
/// more permits beside it than it named.
#[test]
fn permits_in_use_never_exceed_any_holders_limit() {
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        // Label, number, permits, and whether the attempt is admitted, in the order of joining.
        let mut queue: Vec<(String, u32, u32, bool)> = Vec::new();
        for _ in 0..60 {
            match random.u32(..5) {
                0 | 1 => {
                    let named = random.u32(3..6);
                    let wanted = random.u32(1..3);
                    queue.push((format!("{wanted}of{named}"), named, wanted, false));
                }
                // An attempt leaves, or was refused long ago.
                2 if !queue.is_empty() => drop(queue.remove(random.usize(..queue.len()))),
                _ if !queue.is_empty() => {
                    let own_key = random.usize(..queue.len());
                    let ahead: Vec<_> =
                        queue[..own_key].iter().map(|(label, ..)| label.as_str()).collect();
                    let (_, named, wanted, _) = queue[own_key];
                    queue[own_key].3 |= judged(&ahead, None, wanted, named) == "in";
                }
                _ => {}
            }
            let out: u32 =
                queue.iter().filter(|(.., is_in)| *is_in).map(|(_, _, wanted, _)| wanted).sum();
            let least =
                queue.iter().filter(|(.., is_in)| *is_in).map(|(_, named, ..)| *named).min();
            assert!(
                least.is_none_or(|least| out <= least),
                "{out} are out: {queue:?}, seed {seed}"
            );
        }
    }
}
